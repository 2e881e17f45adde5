"""An image built by a Docker engine, and brought from there into the controller's layout.

What is built is the recipe's context and arguments. How it is built (certificates, package index, proxies) belongs to the
machine, and neither changes the recipe's key nor stays in the image.
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

from tfprov.errors import HostError, InvalidInput, Position, Problem, one_line, printable
from tfprov.hosts.base import OnProgress, ignore_progress
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.archive import load
from tfprov.images.code import archived, check_directory
from tfprov.images.engine_images import inspected
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Image

KEY = "image.build"
"""The setting that names the directory."""
OURS = ".tfprov"
"""Directory in the context for this machine's certificates and package index; it is added while sending."""


@dataclass(frozen=True)
class BuildContext:
    """A packed build context; `archive` is an uncompressed tar, `digest` its sha256, `dockerfile` a name in it."""

    source: str
    digest: str
    archive: bytes
    dockerfile: str


def pack_context(directory: Path, at: Position, dockerfile: str = "Dockerfile") -> BuildContext:
    """Read `directory` as code is read; the Dockerfile is there even where .dockerignore names it.

    Directories without a file are left out. InvalidInput, at `at`, when there is no such directory or Dockerfile, or
    more than 512 MiB.
    """
    check_directory(directory, at, KEY, "the Dockerfile")
    name = os.path.normpath(dockerfile)
    if os.path.isabs(name) or name.split("/")[0] == ".." or not (directory / name).is_file():  # noqa: PTH117 a mere name
        fix = "add it, or name another file of that directory with `image.dockerfile`"
        raise InvalidInput([Problem(at, f"`{KEY}`: {directory} has no {printable(dockerfile)}", fix)])
    archive = archived(directory, at, KEY, left_out=(OURS,), kept=(name,))
    return BuildContext(str(directory), f"sha256:{hashlib.sha256(archive).hexdigest()}", archive, name)


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")


@dataclass(frozen=True)
class Recipe:
    """What an image is built from: a context and build arguments.

    `ca_bundle` (certificates in PEM) and `pip_conf` are in the context as `.tfprov/ca.crt` and `.tfprov/pip.conf`;
    `proxies` are arguments that every build may use, and that engines leave out of the image.
    """

    context: BuildContext
    args: Mapping[str, str]
    ca_bundle: bytes | None = None
    pip_conf: bytes | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The sha256, in hex, of what decides the image's content: equal keys need no second build."""
        return hashlib.sha256(_encoded([self.context.digest, self.context.dockerfile, dict(self.args)])).hexdigest()


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy settings of an environment, in capitals and in small letters, as build arguments."""
    names = [name for pair in zip(_PROXIES, map(str.lower, _PROXIES), strict=True) for name in pair]
    return {name: environ[name] for name in names if environ.get(name)}


def _encoded(parts: Any) -> bytes:
    return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()


LABEL = "tfprov.image"
"""Label of a built image: the recipe's key."""
SHOWN = 20
"""How many last lines of a failed step's output are shown."""
SILENCE = 3600
"""Seconds an engine may say nothing: a step installs packages, or a large image is gathered before it is handed out."""

_PIECE = 128 * 1024
_STEP = re.compile(r"Step (?P<number>\d+/\d+) : (?P<instruction>.*)")
_FAILED = re.compile(r"The command '.*' returned a non-zero code: (?P<code>\d+)", re.DOTALL)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NOT_OUTPUT = (" ---> ", "Removing intermediate container ")


def build(engine: Engine, recipe: Recipe, label: str, say: Callable[[str], None]) -> str:
    """Build the image and return its id; it stays on `engine`, whose cache makes the next build fast.

    The image is labelled with `label`. `say` is told each step as it begins: `Step 2/5 : RUN …`. HostError with the
    step that failed and the last lines it printed.
    """
    progress = _Progress(engine.host, say)
    with engine.errors():
        lines = engine.api.build(
            fileobj=cast("IO[bytes]", sent(recipe)),
            custom_context=True,
            dockerfile=recipe.context.dockerfile,
            buildargs={**recipe.proxies, **recipe.args},
            labels={LABEL: label},
            rm=True,
            forcerm=True,
            timeout=SILENCE,
            decode=True,
        )
        for line in lines:
            progress.take(line)
    if progress.failure is not None:
        raise progress.failure
    if progress.image is None:
        raise HostError(engine.host, "its Docker engine did not say what it built", "run this again")
    return progress.image


def export(engine: Engine, image_id: str, layout: Layout, name: str, sent: OnProgress = ignore_progress) -> Image:
    """Bring an image of `engine` into `layout` as `name`, as a stream; DeliveryError when it does not arrive whole.

    `sent` is told the bytes that have come, and about how many there are: an engine knows what it unpacks to.
    """
    if (facts := inspected(engine, image_id)) is None:
        raise HostError(engine.host, f"the image {printable(image_id)} is not there", "build it again")
    with engine.errors():
        api = engine.api
        usual, api.timeout = api.timeout, SILENCE  # `get_image` has no such argument
        try:
            pieces = api.get_image(image_id, chunk_size=_PIECE)
        finally:
            api.timeout = usual
        stream = cast("IO[bytes]", _Stream(engine, pieces, lambda come: sent(come, max(come, facts.get("Size") or 0))))
        return load(layout, stream, name, where=f"the image from {engine.host}")


class _Stream:
    """The stream of an engine as a file; errors are HostError."""

    def __init__(self, engine: Engine, pieces: Iterator[bytes], come: Callable[[int], None]) -> None:
        self._engine, self._pieces, self._come = engine, pieces, come
        self._size = 0
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, and fewer only at the end."""
        chunks = []
        while size:
            if not self._rest:
                with self._engine.errors():
                    self._rest = memoryview(next(self._pieces, b""))
                if not self._rest:
                    break
                self._size += len(self._rest)
                self._come(self._size)
            chunks.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(chunks[-1])
        return b"".join(chunks)


def sent(recipe: Recipe) -> Iterator[bytes]:
    """Yield the context with what is ours in front: a tar may be followed by another when it has no end of its own."""
    ours = {"ca.crt": recipe.ca_bundle, "pip.conf": recipe.pip_conf}
    for name, data in ours.items():
        if data is not None:
            info = tarfile.TarInfo(f"{OURS}/{name}")
            info.size, info.mode = len(data), 0o644
            yield info.tobuf() + data + bytes(-len(data) % tarfile.BLOCKSIZE)
    archive = io.BytesIO(recipe.context.archive)
    yield from iter(lambda: archive.read(_PIECE), b"")


class _Progress:
    """The progress messages of a build."""

    def __init__(self, host: str, say: Callable[[str], None]) -> None:
        self.image: str | None = None
        self.failure: HostError | None = None
        self._host, self._say = host, say
        self._number, self._step = "", ""
        self._output: deque[str] = deque(maxlen=SHOWN)
        self._rest = ""

    def take(self, line: Mapping[str, Any]) -> None:
        """Process the next message."""
        if "error" in line:
            self.failure = self._failure(str(line["error"]))
        self.image = (line.get("aux") or {}).get("ID") or self.image
        said = str(line.get("stream", ""))
        if said.startswith(("Step ", *_NOT_OUTPUT)) and self._rest:  # the step's output had no last newline
            said = f"\n{said}"
        *whole, self._rest = (self._rest + said).split("\n")
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
        how, fix = (f"exit code {failure['code']}", "correct the Dockerfile") if failure else explain(error)
        step = f"step {self._number}, `{printable(one_line(self._step))}`: " if self._number else ""
        what = "; ".join(filter(None, (f"the image cannot be built: {step}{how}", fix)))
        return HostError(self._host, what + "".join(f"\n  build | {line}" for line in self._output))


def _clean(text: str) -> str:
    """Return a line as a terminal would leave it: without colours, and of a bar that was redrawn only its last state."""
    last = _COLOURS.sub("", text).rstrip("\r").rpartition("\r")[2].expandtabs()
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in last).rstrip()
