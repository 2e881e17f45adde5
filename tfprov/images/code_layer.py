"""Adds layers to an image without an engine: tfprov's runtime, and the training program above it.

Owners, times, the order of names and of JSON keys are fixed. The same code on the same image gives the same image id on
every machine, and an edit changes one small layer.
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
from tfprov.images.oci_spec import Descriptor, OciImage, encode, layer_type, write_manifest
from tfprov.paths import PACKAGE

MODULES = (
    *("__init__.py", "atomic_write.py", "filesystems", "formats/__init__.py", "formats/checkpoint.py"),
    *("runtime", "wiring.py"),
)
"""`tfprov.runtime` and all tfprov modules that it imports; a test follows the imports."""


@cache
def runtime() -> Code:
    """Return MODULES below `tfprov/`: a directory for PYTHONPATH.

    The digest depends on this version of tfprov alone, not on modes or times of the installed files.
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
"""The runtime's directory, on PYTHONPATH. Not below /opt: see _TARGET."""
LABEL = "tfprov.code"
"""Label of an image: the digest of the code in its top layer."""
RUNTIME_LABEL = "tfprov.runtime"
"""Label of an image: the digest of tfprov's runtime in it."""

_WHITEOUT = ".wh."
_PATH = "PYTHONPATH"
_EPOCH = "1970-01-01T00:00:00Z"
# One level below the root: a layer with a deeper path has entries for its parents, which would change the image's own.
_TARGET = re.compile(r"/[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def append(layout: Layout, base: OciImage, code: Code, name: str, directory: str = DIRECTORY) -> OciImage:
    """Add `code` at `directory` to `base`, replacing the code layer it may have, and return it as image `name`.

    The working directory becomes `directory`. DeliveryError when the code has a file that a layer cannot hold.
    """
    if not _TARGET.match(directory):
        raise DeliveryError(f"code cannot be added at {printable(directory)}", f"give a directory such as {DIRECTORY}")
    with layout.in_use():
        draft = _Draft(layout, base)
        draft.put_code(code, directory)
        return draft.store(name)


def append_runtime(layout: Layout, base: OciImage, name: str) -> OciImage:
    """Add tfprov's runtime to `base`, replacing the one it may have, and return it as image `name`.

    A code layer of tfprov's on `base` stays, above the runtime. Every Python in the image finds it through PYTHONPATH.
    """
    with layout.in_use():
        draft = _Draft(layout, base)
        draft.put_runtime()
        return draft.store(name)


def compose(layout: Layout, base: OciImage, code: Code | None, name: str) -> OciImage:
    """Add the runtime to `base`, then `code`, and return it as image `name`; see `append` and `append_runtime`."""
    with layout.in_use():
        draft = _Draft(layout, base)
        draft.put_runtime()
        if code is not None:
            draft.put_code(code, DIRECTORY)
        return draft.store(name)


def code_archive(code: Code) -> bytes:
    """Return the runtime and `code` as a tar to extract at `/` of a container whose image has neither.

    Unless the code has a `tfprov` of its own, a link beside it makes the runtime importable without PYTHONPATH.
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
    """A kind of layer of tfprov's, recognised by its label (the content's digest) and its `created_by` in the history."""

    label: str
    made_by: str


@dataclass(frozen=True)
class _Layer:
    """A layer as it is stored, compressed or not, and the digest of its uncompressed content."""

    blob: Descriptor
    diff_id: str


_CODE = _Part(LABEL, "tfprov code ")
_RUNTIME = _Part(RUNTIME_LABEL, "tfprov runtime ")


class _Draft:
    """`base` with other layers at its top, before it is stored."""

    def __init__(self, layout: Layout, base: OciImage) -> None:
        layout.mark_used(base)
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
        """Replace the top code layer, if there is one, by `code`."""
        self._take_off(_CODE)
        self._put_on(_CODE, self._layer(code, directory), code.digest)
        self._settings["WorkingDir"] = directory

    def put_runtime(self) -> None:
        """Replace the runtime layer, if there is one; the runtime comes below the code layer."""
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
            descriptor = blob.keep(layer_type(""))
        return _Layer(descriptor, descriptor.digest)

    def _take_off(self, part: _Part) -> _Layer | None:
        """Remove and return the top layer if it is `part`: an image built upon it has the label, but another last step."""
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

    def store(self, name: str) -> OciImage:
        """Store the image under `name`."""
        blobs = self._layout.blobs
        settings = blobs.write(encode(self._config), self._base.config.media_type)
        manifest, document = write_manifest(settings, tuple(self._layers))
        blobs.write(document, manifest.media_type)
        image = self._layout.image(manifest)
        self._layout.name(name, image)
        return image


def _with_path(environment: Collection[str], directory: str) -> list[str]:
    """Return the variables with `directory` first in PYTHONPATH, without empty parts: they mean the working directory."""
    path = next((it.partition("=")[2] for it in environment if it.startswith(f"{_PATH}=")), "")
    parts = [directory, *(part for part in path.split(":") if part and part != directory)]
    others = [it for it in environment if not it.startswith(f"{_PATH}=")]
    return [*others, f"{_PATH}={':'.join(parts)}"]


def _write(layer: tarfile.TarFile, code: Code, directory: str) -> set[str]:
    """Add the files of `code` and their directories below `directory`; return the names at its top level."""
    root = directory.removeprefix("/")
    added = {root}
    layer.addfile(_folder(root))
    with tarfile.open(fileobj=io.BytesIO(code.archive)) as members:
        for entry in members:
            if not entry.isdir():  # folders are added from the file names, with fixed modes
                _add_folders(layer, f"{root}/{entry.name}", added)
                layer.addfile(_normalize(entry, root, code), members.extractfile(entry) if entry.isreg() else None)
        return {name.partition("/")[0] for name in members.getnames()}


def _add_folders(layer: tarfile.TarFile, name: str, added: set[str]) -> None:
    for parent in reversed(PurePosixPath(name).parents[:-1]):
        if str(parent) not in added:
            added.add(str(parent))
            layer.addfile(_folder(str(parent)))


def _folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info


def _normalize(entry: tarfile.TarInfo, root: str, code: Code) -> tarfile.TarInfo:
    """Return the tar header of a file or a link, owned by root and without a time."""
    path = PurePosixPath(entry.name)
    if path.is_absolute() or ".." in path.parts or not (entry.isreg() or entry.issym()):
        raise DeliveryError(f"{code.source}: {printable(entry.name)} cannot be in an image")
    if path.name.startswith(_WHITEOUT):
        what = f"{code.source}: {printable(entry.name)}: in an image layer this name removes a file"
        raise DeliveryError(what, "rename it, or leave it out with a .dockerignore file")
    info = tarfile.TarInfo(f"{root}/{entry.name}")
    info.type, info.linkname, info.size, info.mode = entry.type, entry.linkname, entry.size, entry.mode
    return info
