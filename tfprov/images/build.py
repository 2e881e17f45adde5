"""Builds an image with a Docker engine.

The recipe's key covers the context and the arguments. Certificates, package index and proxies belong to the machine: they
neither change the key nor stay in the image.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from tfprov.errors import HostError, InvalidInput, Position, Problem, printable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.buildkit import IN_DOCKERFILE, BuildKitProgress, build_error, needs_buildkit
from tfprov.images.code import archive_directory, check_directory
from tfprov.images.engine_images import pull_image

KEY = "image.build"
"""The setting with the directory's path."""
HOST_FILES = ".tfprov"
"""Directory in the context for this machine's certificates and package index; it is added while sending."""


@dataclass(frozen=True)
class BuildContext:
    """A packed build context; `archive` is an uncompressed tar, `digest` its sha256, `dockerfile` a name in it."""

    source: str
    digest: str
    archive: bytes
    dockerfile: str
    needs_buildkit: bool = False


def pack_context(directory: Path, at: Position, dockerfile: str = "Dockerfile") -> BuildContext:
    """Pack `directory` as `code` is packed, with the Dockerfile even where .dockerignore names it.

    Empty directories are left out. InvalidInput, at `at`, when the directory or the Dockerfile is missing, or the context
    is larger than 512 MiB.
    """
    check_directory(directory, at, KEY, "the Dockerfile")
    name = os.path.normpath(dockerfile)
    if os.path.isabs(name) or name.split("/")[0] == ".." or not (directory / name).is_file():  # noqa: PTH117 a mere name
        fix = "add it, or name another file of that directory with `image.dockerfile`"
        raise InvalidInput([Problem(at, f"`{KEY}`: {directory} has no {printable(dockerfile)}", fix)])
    archive = archive_directory(directory, at, KEY, left_out=(HOST_FILES,), kept=(name,))
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    return BuildContext(str(directory), digest, archive, name, needs_buildkit(_text_in(archive, name)))


def _text_in(archive: bytes, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        try:
            file = files.extractfile(name)
        except KeyError:  # a link to one that .dockerignore leaves out: the build reports it
            return ""
        return file.read().decode("utf-8", errors="replace") if file else ""


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")


@dataclass(frozen=True)
class Recipe:
    """A build context and its build arguments.

    `builder` is the host that builds it; empty for the controller, whose machine may be of another architecture.
    `ca_bundle` (certificates in PEM) and `pip_conf` are in the context as `.tfprov/ca.crt` and `.tfprov/pip.conf`;
    `proxies` are Docker's predefined build arguments, which engines leave out of the image.
    """

    context: BuildContext
    args: Mapping[str, str]
    ca_bundle: bytes | None = None
    pip_conf: bytes | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)
    builder: str = ""

    @property
    def key(self) -> str:
        """The sha256, in hex, of context, arguments and builder: an image with the same key need not be built again."""
        builder = [self.builder] if self.builder else []
        parts = [self.context.digest, self.context.dockerfile, dict(self.args), *builder]
        return hashlib.sha256(_encode(parts)).hexdigest()


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy variables of an environment, upper and lower case, as build arguments."""
    names = [name for pair in zip(_PROXIES, map(str.lower, _PROXIES), strict=True) for name in pair]
    return {name: environ[name] for name in names if environ.get(name)}


def _encode(parts: Any) -> bytes:
    return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()


LABEL = "tfprov.image"
"""Label of a built image: the recipe's key."""
MAX_ERROR_LINES = 20
"""Lines of a failed step's output in the error, the last ones."""
READ_TIMEOUT = 3600
"""Seconds without a byte from the engine: a step may install packages."""

_CHUNK = 128 * 1024
_STEP = re.compile(r"Step (?P<number>\d+/\d+) : (?P<instruction>.*)")
_FAILED = re.compile(r"The command '.*' returned a non-zero code: (?P<code>\d+)", re.DOTALL)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NOT_OUTPUT = (" ---> ", "Removing intermediate container ")


def build(engine: Engine, recipe: Recipe, label: str, say: Callable[[str], None]) -> str:
    """Build the image and return its id; it stays on `engine`, whose cache makes the next build fast.

    The image gets the label `label`. `say` is called with each step when it begins: `Step 2/5 : RUN …`. BuildKit builds a
    Dockerfile that needs it. HostError with the failed step and its last lines of output.
    """
    if recipe.context.needs_buildkit:
        return _build_with_buildkit(engine, recipe, label, say)
    progress = _Progress(engine.host, say)
    with engine.errors():
        lines = engine.api.build(
            fileobj=cast("IO[bytes]", context_chunks(recipe)),
            custom_context=True,
            dockerfile=recipe.context.dockerfile,
            buildargs={**recipe.proxies, **recipe.args},
            labels={LABEL: label},
            rm=True,
            forcerm=True,
            timeout=READ_TIMEOUT,
            decode=True,
        )
        for line in lines:
            progress.take(line)
    return _built(engine, progress)


def _build_with_buildkit(engine: Engine, recipe: Recipe, label: str, say: Callable[[str], None]) -> str:
    """Build the image; one that BuildKit cannot look up without a login is pulled, after which BuildKit has it."""
    params = {
        "dockerfile": recipe.context.dockerfile,
        "buildargs": json.dumps({**recipe.proxies, **recipe.args}),
        "labels": json.dumps({LABEL: label}),
    }
    pulled: set[str] = set()
    while True:
        progress = BuildKitProgress(engine.host, say, _clean, MAX_ERROR_LINES)
        with engine.errors():
            api: Any = engine.api  # the SDK's type, which knows the classic builder only
            for line in api.build_with_buildkit(context_chunks(recipe), params, READ_TIMEOUT):
                progress.take(line)
        if progress.wanted is None or progress.wanted in pulled:
            return _built(engine, progress)
        say(f"pulling {printable(progress.wanted)}")
        pull_image(engine, progress.wanted, IN_DOCKERFILE)
        pulled.add(progress.wanted)


def _built(engine: Engine, progress: "_Progress | BuildKitProgress") -> str:
    """Return the image's id; raise HostError if the build failed."""
    if progress.failure is not None:
        raise progress.failure
    if progress.image is None:
        raise HostError(engine.host, "its Docker engine returned no image id", "run this again")
    return progress.image


def context_chunks(recipe: Recipe) -> Iterator[bytes]:
    """Yield the context, with `.tfprov/` in front: tar entries without an end-of-archive block can be prepended."""
    host_files = {"ca.crt": recipe.ca_bundle, "pip.conf": recipe.pip_conf}
    for name, data in host_files.items():
        if data is not None:
            info = tarfile.TarInfo(f"{HOST_FILES}/{name}")
            info.size, info.mode = len(data), 0o644
            yield info.tobuf() + data + bytes(-len(data) % tarfile.BLOCKSIZE)
    archive = io.BytesIO(recipe.context.archive)
    yield from iter(lambda: archive.read(_CHUNK), b"")


class _Progress:
    """The progress messages of a build."""

    def __init__(self, host: str, say: Callable[[str], None]) -> None:
        self.image: str | None = None
        self.failure: HostError | None = None
        self._host, self._say = host, say
        self._number, self._step = "", ""
        self._output: deque[str] = deque(maxlen=MAX_ERROR_LINES)
        self._rest = ""

    def take(self, line: Mapping[str, Any]) -> None:
        """Process the next message."""
        if "error" in line:
            self.failure = self._failure(str(line["error"]))
        extra = line.get("aux")
        self.image = (extra.get("ID") if isinstance(extra, dict) else None) or self.image
        output = str(line.get("stream", ""))
        if output.startswith(("Step ", *_NOT_OUTPUT)) and self._rest:  # the step's output had no last newline
            output = f"\n{output}"
        *whole, self._rest = (self._rest + output).split("\n")
        for text in whole:
            self._line(text)

    def _line(self, text: str) -> None:
        if step := _STEP.match(text):
            self._number, self._step = step["number"], step["instruction"]
            self._output.clear()
            self._say(text)
        elif (clean := _clean(text)) and not clean.startswith(_NOT_OUTPUT):
            self._output.append(clean)

    def _failure(self, error: str) -> HostError:
        self._line(self._rest)
        failure = _FAILED.search(error)
        cause = (f"exit code {failure['code']}", "correct the Dockerfile") if failure else explain(error)
        step = (self._number, self._step) if self._number else None
        return build_error(self._host, step, cause, self._output)


def _clean(text: str) -> str:
    """Return a line without colours and control characters; of a redrawn progress bar, the last state."""
    last = _COLOURS.sub("", text).rstrip("\r").rpartition("\r")[2].expandtabs()
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in last).rstrip()
