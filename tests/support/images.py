"""The images of the tests, built from Debian packages without a registry.

Each is named `tfprov-test/NAME:KEY`, where the key is a hash of all it is made from, so one that exists is right. Made
once, they stay in the engine's store; those of earlier keys are removed.
"""

import fcntl
import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from random import Random

import docker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.engine import Engine
from tests.support.network_settings import ca_bundle, pip_conf, proxies
from tests.support.paths import ROOT, STANDIN
from tfprov.images.code_layer import runtime

REPOSITORY = "tfprov-test"
CONTAINERD = b"""
ARG BASE
FROM ${BASE}
RUN mkdir -p /etc/docker && echo '{"features": {"containerd-snapshotter": true}}' >/etc/docker/daemon.json
"""
File = tuple[bytes, int]
"""The content and the mode of a file in a build context."""
SUITE, PACKAGES = "bookworm", ("ca-certificates", "python3", "python3-venv")
NEWER_SUITE = "trixie"
"""Debian 13, with engine 26.1. That of Debian 12 is 20.10, the oldest that is supported in practice."""
LEFT_OUT = ("var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*")

# Busybox is the smallest thing that has a shell, and Debian's static one runs without any other file.
TINY = b"""
ARG BASE
FROM ${BASE} AS box
RUN apt-get update -q && apt-get install -y -q --no-install-recommends busybox-static \\
    && mkdir -p /box/bin /box/etc /box/tmp && cp /bin/busybox /box/bin \\
    && for name in $(busybox --list | grep -vx busybox); do ln -sf busybox "/box/bin/$name"; done \\
    && echo 'trainer:x:1000:1000::/:/bin/sh' >/box/etc/passwd && echo 'trainer:x:1000:' >/box/etc/group
COPY task.sh /box/bin/task
FROM scratch
COPY --from=box /box /
RUN mkdir -p /checkpoints /code && chown 1000:1000 /checkpoints && chmod 1777 /tmp
USER trainer
WORKDIR /code
CMD ["task"]
"""

# The part of the standard library that programs of tests and tfprov's own need, compiled: without its sources it is a
# third as large, and nothing is compiled at each start by a user who may not write there.
PYTHON = b"""
ARG BASE
FROM ${BASE} AS box
RUN apt-get update -q && apt-get install -y -q --no-install-recommends busybox-static \\
    && mkdir -p /box/bin /box/etc /box/tmp /box/usr/bin && cp /bin/busybox /box/bin \\
    && for name in $(busybox --list | grep -vx busybox); do ln -sf busybox "/box/bin/$name"; done \\
    && echo 'root:x:0:0::/:/bin/sh' >/box/etc/passwd && echo 'root:x:0:' >/box/etc/group && chmod 1777 /box/tmp
RUN cp -L /usr/bin/python3 /box/usr/bin \\
    && library=$(python3 -c 'import os; print(os.path.dirname(os.__file__))') && mkdir -p "/box$library" \\
    && cd "$library" && tar --create EXCLUDED . | tar --extract -C "/box$library" \\
    && cd "/box$library" && python3 -I -m compileall -b -o 2 -q . && find . -name '*.py' -delete \\
    && for file in /box/usr/bin/python3 lib-dynload/*; do ldd "$file"; done | grep -o '/[^ ]*' | grep -v '^/box' \\
        | sort -u | while read -r path; do mkdir -p "/box${path%/*}" && cp -L "$path" "/box$path"; done
FROM scratch
COPY --from=box /box /
CMD ["python3"]
"""
S3 = b"""
ARG BASE
FROM ${BASE}
COPY Dockerfile .tfprov* /opt/build/
ARG CONSTRAINTS
RUN python3 -m venv /opt/venv && cd /opt/build \\
    && if [ -f ca.crt ]; then export PIP_CERT=/opt/build/ca.crt; fi \\
    && if [ -f pip.conf ]; then export PIP_CONFIG_FILE=/opt/build/pip.conf; fi \\
    && printf '%s\\n' ${CONSTRAINTS} >constraints.txt \\
    && /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt s3fs \\
    && rm -rf /opt/build && useradd --uid 1000 trainer && mkdir /checkpoints /code && chown trainer /checkpoints
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
USER trainer
WORKDIR /code
"""
NOT_NEEDED = (
    "__pycache__", "./_pydecimal.py", "./_pyio.py", "./asyncio", "./config-*", "./ctypes", "./curses", "./dbm",
    "./distutils", "./doctest.py", "./ensurepip", "./ftplib.py", "./idlelib", "./imaplib.py", "./lib2to3", "./mailbox.py",
    "./multiprocessing", "./nntplib.py", "./pdb.py", "./pickletools.py", "./pydoc*", "./smtplib.py", "./sqlite3", "./test",
    "./tkinter", "./turtle*", "./unittest", "./venv", "./wsgiref", "./xml", "./xmlrpc", "./zoneinfo",
    "*/_codecs_*", "*/_crypt*", "*/_ctypes*", "*/_curses*", "*/_*dbm*", "*/_decimal*", "*/_sqlite3*", "*/_test*",
    "*/_zoneinfo*", "*/nis*", "*/readline*",
)  # fmt: skip
"""Patterns below the directory of the standard library; of a module in C goes what only it needs, too."""


class Images:
    """What is asked for is built now, unless the engine has it; every method but one returns the image's name.

    `directory` is for archives of them.
    """

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.engine, self.directory = engine, directory
        self.built = 0
        self._archives: dict[str, Path] = {}
        if engine.is_ours:  # what others of this session are building is not left over
            self._remove({tag for image in engine.client.images.list() for tag in image.tags if not _is_ours(tag)})

    def base(self) -> str:
        """Debian, minimal, with Python: 124 MB; 45 s for the first time."""
        return self._once("base", [SUITE, *PACKAGES, *LEFT_OUT], self._bootstrap)

    def host(self) -> str:
        """A test host: sshd and dockerd."""
        return self._build("host", directory(ROOT / "images" / "host"), {"BASE": self.base()})

    def containerd_host(self) -> str:
        """One whose engine is newer and stores images in containerd, as engines do by default from Docker 29 on."""
        packages = PACKAGES[:1]  # a host needs no Python
        base = self._once(
            f"base-{NEWER_SUITE}",
            [NEWER_SUITE, *packages, *LEFT_OUT],
            lambda tag: self._bootstrap(tag, NEWER_SUITE, packages),
        )
        host = self._build("newer-host", directory(ROOT / "images" / "host"), {"BASE": base})
        return self._build("containerd-host", {"Dockerfile": (CONTAINERD, 0o644)}, {"BASE": host})

    def tiny(self) -> str:
        """A few MB, with a shell and the stand-in for a training program: for all that does not need TensorFlow."""
        context = {"Dockerfile": (TINY, 0o644), "task.sh": ((STANDIN / "task.sh").read_bytes(), 0o755)}
        return self._build("tiny", context, {"BASE": self.base()})

    def python(self) -> str:
        """About 20 MB in one layer, with a shell, Python and root as its user: for all that needs a program in Python."""
        text = PYTHON.replace(b"EXCLUDED", " ".join(f"--exclude='{pattern}'" for pattern in NOT_NEEDED).encode())
        return self._build("python", {"Dockerfile": (text, 0o644)}, {"BASE": self.base()})

    def bulky(self) -> str:
        """The same with two layers of random bytes, 8 MB in all: for deliveries that must be worth something."""
        random = Random(22)
        context = {name: (random.randbytes(4_000_000), 0o644) for name in ("first", "second")}
        text = b"ARG BASE\nFROM ${BASE}\nCOPY first /data/\nCOPY second /data/\n"
        return self._build("bulky", {**context, "Dockerfile": (text, 0o644)}, {"BASE": self.python()})

    def s3(self) -> str:
        """Debian's Python with the client of S3, without TensorFlow; half a minute for the first time."""
        arguments = {"BASE": self.base(), "CONSTRAINTS": " ".join(constraints("s3fs"))}
        return self._build("s3", {"Dockerfile": (S3, 0o644)}, arguments)

    def s3_with_runtime(self) -> str:
        """The same with tfprov's runtime, as in images that tfprov makes."""
        with tarfile.open(fileobj=io.BytesIO(runtime().archive)) as files:
            members = {name: files.extractfile(name) for name in files.getnames()}
            context: dict[str, File] = {name: (it.read(), 0o644) for name, it in members.items() if it is not None}
        text = b"ARG BASE\nFROM ${BASE}\nCOPY tfprov /tfprov/tfprov\nENV PYTHONPATH=/tfprov\n"
        return self._build("s3-runtime", {**context, "Dockerfile": (text, 0o644)}, {"BASE": self.s3()})

    def train(self) -> str:
        """The image of `images/train`, with TensorFlow and a client of S3 in our versions: 1.1 GB; two minutes."""
        # The first stage keeps a name, so that tfprov's own build of this directory finds it made.
        arguments = self.train_arguments()
        self._build("train-packages", train_context(), arguments, stage="packages")
        return self._build("train", train_context(), arguments)

    def archive(self, image: str) -> Path:
        """Return an image as `docker save` writes it, in a file that is made once and only read."""
        if image not in self._archives:
            path = self.directory / f"{len(self._archives)}.tar"
            with path.open("wb") as file:
                file.writelines(self.engine.client.images.get(image).save(named=image))
            self._archives[image] = path
        return self._archives[image]

    def train_arguments(self) -> dict[str, str]:
        """Return the build arguments of `train`; a build of the same directory with them finds every layer made."""
        versions = " ".join(constraints("tensorflow-cpu", "tensorboard", "s3fs"))
        return {"BASE": self.base(), "CLIENTS": "s3fs", "CONSTRAINTS": versions}

    def _build(
        self, name: str, context: Mapping[str, File], arguments: Mapping[str, str], stage: str | None = None
    ) -> str:
        parts = [f"{path} {mode:o} {hashlib.sha256(data).hexdigest()}" for path, (data, mode) in context.items()]
        key = [*sorted(parts), *sorted(map(str, arguments.items()))]
        return self._once(name, key, lambda tag: self._build_as(tag, context, arguments, stage))

    def _build_as(self, tag: str, context: Mapping[str, File], arguments: Mapping[str, str], stage: str | None) -> None:
        added = {".tfprov/ca.crt": ca_bundle(), ".tfprov/pip.conf": pip_conf()}
        archive = tar({**context, **{path: (data, 0o644) for path, data in added.items() if data}})
        try:
            self.engine.client.images.build(
                fileobj=archive, custom_context=True, tag=tag, target=stage, buildargs={**arguments, **proxies()},
                rm=True, forcerm=True,
            )  # fmt: skip
        except docker.errors.BuildError as error:
            log = "".join(str(line.get("stream", "")) for line in error.build_log)
            raise RuntimeError(f"building {tag} failed: {error}\n{log[-2000:]}") from None

    def _once(self, name: str, parts: list[str], make: Callable[[str], None]) -> str:
        tag = f"{REPOSITORY}/{name}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"
        with (self.engine.store / "building").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.engine.client.images.list(name=tag):
                make(tag)
                self.built += 1
                # Nobody asks for an old key again.
                named = self.engine.client.images.list(name=f"{REPOSITORY}/{name}")
                self._remove({old for image in named for old in image.tags} - {tag})
        return tag

    def _remove(self, tags: set[str]) -> None:
        # Those without a name are left to Engine.clean: a test in another process may have just built one of them.
        for tag in tags:
            self.engine.client.images.remove(tag, force=True)

    def _bootstrap(self, tag: str, suite: str = SUITE, packages: Sequence[str] = PACKAGES) -> None:
        repository, version = tag.split(":")
        with tempfile.TemporaryDirectory(dir=self.engine.store) as folder:
            root = Path(folder, "root")
            # In namespaces of its own, so that what debootstrap mounts and starts ends with it.
            command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "debootstrap"]
            command += ["--variant=minbase", f"--include={','.join(packages)}", suite, str(root)]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"debootstrap failed:\n{done.stdout[-2000:]}")
            pack = ["tar", "--directory", str(root), "--one-file-system", "--numeric-owner", "--create"]
            pack += [*(f"--exclude=./{pattern}" for pattern in LEFT_OUT), "."]
            archive = Path(folder, "root.tar")
            with archive.open("wb") as file:
                subprocess.run(pack, stdout=file, check=True)
            self.engine.client.api.import_image_from_file(str(archive), repository=repository, tag=version)


def constraints(*packages: str) -> list[str]:
    """Return the lines of constraints.txt for packages and all that they need: no other line calls for a new image."""
    needed: set[str] = set()
    left = [canonicalize_name(package) for package in packages]
    while left:
        if (name := left.pop()) not in needed:
            needed.add(name)
            required = [Requirement(text) for text in metadata.requires(name) or []]
            left += [canonicalize_name(each.name) for each in required if not each.marker or each.marker.evaluate()]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if canonicalize_name(line.partition("==")[0]) in needed]


def _is_ours(tag: str) -> bool:
    return tag.startswith(f"{REPOSITORY}/")


def directory(path: Path) -> dict[str, File]:
    """Return the files directly in `path` with their modes, as a build context."""
    files = [file for file in sorted(path.iterdir()) if file.is_file()]
    return {file.name: (file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644) for file in files}


def train_context() -> dict[str, File]:
    """Return what the train image is built from: its programs are not part of it."""
    return directory(ROOT / "images" / "train")


def tar(files: Mapping[str, File]) -> io.BytesIO:
    """Return an archive of `files`: their content and mode by path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (data, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            archive.addfile(info, io.BytesIO(data))
    buffer.seek(0)
    return buffer
