"""The layers that tfprov adds to an image, made without an engine: its runtime, and the training program above it.

Everything that could differ between two machines is fixed: owners, times, the order of names and of JSON keys. The same
code on the same image gives the same image id everywhere, and an edit changes one small layer.
"""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from tfprov.errors import DeliveryError, printable
from tfprov.images.blobs import CHUNK
from tfprov.images.code import Code
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, Image, encode, layer_type, write_manifest
from tfprov.paths import PACKAGE

MODULES = ("__init__.py", "atomic_write.py", "formats/__init__.py", "formats/checkpoint.py", "runtime", "wiring.py")
"""`tfprov.runtime` and all that it imports of ours; a test follows the imports."""


@cache
def runtime() -> Code:
    """Return these modules below `tfprov/`: a directory to put on PYTHONPATH.

    The digest is the same on every machine that has this version; no mode or time of an installed file is in it.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(_files(PACKAGE)):
            data = path.read_bytes()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    data = buffer.getvalue()
    return Code("tfprov", f"sha256:{hashlib.sha256(data).hexdigest()}", data)


def _files(package: Path) -> Iterator[tuple[str, Path]]:
    for module in MODULES:
        path = package / module
        for file in path.rglob("*.py") if path.is_dir() else (path,):
            yield f"tfprov/{file.relative_to(package).as_posix()}", file


DIRECTORY = "/code"
RUNTIME_DIRECTORY = "/tfprov"
"""Where the runtime lies, and what PYTHONPATH says. Not below /opt: see _PLACE."""
LABEL = "tfprov.code"
"""Label of an image: the digest of the code in its top layer."""
RUNTIME_LABEL = "tfprov.runtime"
"""Label of an image: the digest of tfprov's runtime in it."""

_WHITEOUT = ".wh."
_PATH = "PYTHONPATH"
_EPOCH = "1970-01-01T00:00:00Z"
# One level below the root: a layer would have to name the directories between, and so change those of the image.
_PLACE = re.compile(r"/[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def append(layout: Layout, base: Image, code: Code, name: str, directory: str = DIRECTORY) -> Image:
    """Put `code` under `directory` of `base`, in place of the code it may have there, and return it as image `name`.

    The image starts in `directory`. DeliveryError when the code holds what a layer cannot say.
    """
    if not _PLACE.match(directory):
        raise DeliveryError(f"code cannot be put at {printable(directory)}", f"give a directory such as {DIRECTORY}")
    with layout.in_use():
        draft = _Draft(layout, base)
        draft.put_code(code, directory)
        return draft.store(name)


def append_runtime(layout: Layout, base: Image, name: str) -> Image:
    """Put tfprov's runtime on `base`, in place of the one it may have, and return it as image `name`.

    Code that tfprov put on `base` stays, above the runtime. Every Python in the image finds it through PYTHONPATH.
    """
    with layout.in_use():
        draft = _Draft(layout, base)
        draft.put_runtime()
        return draft.store(name)


def compose(layout: Layout, base: Image, code: Code | None, name: str) -> Image:
    """Put the runtime on `base`, and `code` on that, and return it as image `name`; see the two above."""
    with layout.in_use():
        draft = _Draft(layout, base)
        draft.put_runtime()
        if code is not None:
            draft.put_code(code, DIRECTORY)
        return draft.store(name)


def runtime_digest() -> str:
    """Return the digest of the runtime that `append_runtime` puts on an image: the same with the same tfprov."""
    return runtime().digest


def code_archive(code: Code) -> bytes:
    """Return the runtime and `code` as a tar to be put at `/` of a container whose image has neither.

    Where the code has no `tfprov` of its own, a link beside it lets it find the runtime without a PYTHONPATH.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _write(archive, runtime(), RUNTIME_DIRECTORY)
        if "tfprov" not in _write(archive, code, DIRECTORY):
            link = tarfile.TarInfo(f"{DIRECTORY}/tfprov".removeprefix("/"))
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, f"{RUNTIME_DIRECTORY}/tfprov", 0o777
            archive.addfile(link)
    return buffer.getvalue()


@dataclass(frozen=True)
class _Part:
    """A layer of ours, known again by its `label`, which has its digest, and by the words it has in the history."""

    label: str
    made_by: str


@dataclass(frozen=True)
class _Layer:
    """A layer as it is stored, perhaps compressed, and the digest of what is in it."""

    blob: Descriptor
    diff_id: str


_CODE = _Part(LABEL, "tfprov code ")
_RUNTIME = _Part(RUNTIME_LABEL, "tfprov runtime ")


class _Draft:
    """An image in the making: `base`, with other layers at its top."""

    def __init__(self, layout: Layout, base: Image) -> None:
        layout.use(base)
        self._layout, self._base = layout, base
        self._layers = list(base.layers)
        self._config: dict[str, Any] = json.loads(layout.blobs.read(base.config))

    @property
    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = self._config.get("config") or {}
        self._config["config"] = settings
        return settings

    @property
    def _labels(self) -> dict[str, str]:
        return self._settings.get("Labels") or {}

    def put_code(self, code: Code, directory: str) -> None:
        """Put `code` at the top, in place of the code that is there."""
        self._take_off(_CODE)
        self._put_on(_CODE, self._layer(code, directory), code.digest)
        self._settings["WorkingDir"] = directory

    def put_runtime(self) -> None:
        """Put the runtime at the top, or below the code that is there, in place of the runtime that is there."""
        code, digest = self._take_off(_CODE), self._labels.get(LABEL, "")
        self._take_off(_RUNTIME)
        self._put_on(_RUNTIME, self._layer(runtime(), RUNTIME_DIRECTORY), runtime().digest)
        if code is not None:
            self._put_on(_CODE, code, digest)
        self._settings["Env"] = _with_path(self._settings.get("Env") or [], RUNTIME_DIRECTORY)

    def _layer(self, code: Code, directory: str) -> _Layer:
        with self._layout.blobs.receive() as blob:
            target = cast("IO[bytes]", blob)
            with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as layer:
                _write(layer, code, directory)
            kept = blob.keep(layer_type(""))
        return _Layer(kept, kept.digest)

    def _take_off(self, part: _Part) -> _Layer | None:
        """Remove the top layer when it is this part; an image built upon one with it has the label, not the last word."""
        history = self._config.get("history") or []
        digest = self._labels.get(part.label)
        if not digest or not history or history[-1].get("created_by") != f"{part.made_by}{digest}":
            return None
        history.pop()
        return _Layer(self._layers.pop(), self._config["rootfs"]["diff_ids"].pop())

    def _put_on(self, part: _Part, layer: _Layer, digest: str) -> None:
        self._settings["Labels"] = self._labels | {part.label: digest}
        self._layers.append(layer.blob)
        self._config["rootfs"]["diff_ids"].append(layer.diff_id)
        entry = {"created": _EPOCH, "created_by": f"{part.made_by}{digest}"}
        self._config["history"] = [*(self._config.get("history") or []), entry]

    def store(self, name: str) -> Image:
        """Keep the image, and let `name` mean it."""
        blobs = self._layout.blobs
        settings = blobs.write(encode(self._config), self._base.config.media_type)
        manifest, document = write_manifest(settings, tuple(self._layers))
        blobs.write(document, manifest.media_type)
        image = self._layout.image(manifest)
        self._layout.name(name, image)
        return image


def _with_path(environment: Collection[str], directory: str) -> list[str]:
    """Return the variables with `directory` in PYTHONPATH; an empty part of it would mean the working directory."""
    path = next((it.partition("=")[2] for it in environment if it.startswith(f"{_PATH}=")), "")
    parts = [directory, *(part for part in path.split(":") if part and part != directory)]
    others = [it for it in environment if not it.startswith(f"{_PATH}=")]
    return [*others, f"{_PATH}={':'.join(parts)}"]


def _write(layer: tarfile.TarFile, code: Code, directory: str) -> set[str]:
    """Add the files of `code`, and the directories they lie in, below `directory`; return what lies directly in it."""
    root = directory.removeprefix("/")
    made = {root}
    layer.addfile(_folder(root))
    with tarfile.open(fileobj=io.BytesIO(code.archive)) as files:
        for entry in files:
            if not entry.isdir():  # folders are made from the names, so that their modes are ours
                _add_folders(layer, f"{root}/{entry.name}", made)
                layer.addfile(_plain(entry, root, code), files.extractfile(entry) if entry.isreg() else None)
        return {name.partition("/")[0] for name in files.getnames()}


def _add_folders(layer: tarfile.TarFile, name: str, made: set[str]) -> None:
    for parent in reversed(PurePosixPath(name).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))
            layer.addfile(_folder(str(parent)))


def _folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info


def _plain(entry: tarfile.TarInfo, root: str, code: Code) -> tarfile.TarInfo:
    """Return the header of a file or a link: of root, with no time, and the rest as it was packed."""
    path = PurePosixPath(entry.name)
    if path.is_absolute() or ".." in path.parts or not (entry.isreg() or entry.issym()):
        raise DeliveryError(f"{code.source}: {printable(entry.name)} cannot be put into an image")
    if path.name.startswith(_WHITEOUT):
        what = f"{code.source}: {printable(entry.name)}: in an image such a name removes a file"
        raise DeliveryError(what, "rename it, or leave it out with a .dockerignore file")
    info = tarfile.TarInfo(f"{root}/{entry.name}")
    info.type, info.linkname, info.size, info.mode = entry.type, entry.linkname, entry.size, entry.mode
    return info
