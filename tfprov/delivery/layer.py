"""The training program as the top layer of an image, made without an engine.

Everything that could differ between two machines is fixed: owners, times, the order of names and of JSON keys. The same
code on the same image gives the same image id everywhere, and an edit changes one small layer.
"""

import io
import json
import re
import tarfile
from pathlib import PurePosixPath
from typing import IO, Any, cast

from tfprov.delivery.blobs import CHUNK, Incoming
from tfprov.delivery.code import Code
from tfprov.delivery.layout import Layout
from tfprov.delivery.oci import DeliveryError, Descriptor, Image, encode, layer_type, write_manifest
from tfprov.errors import shown

DIRECTORY = "/code"
LABEL = "tfprov.code"
"""On the image: the digest of the code in its top layer."""

_WHITEOUT = ".wh."
_MADE_BY = "tfprov code "
_EPOCH = "1970-01-01T00:00:00Z"
# One level below the root: a layer would have to name the directories between, and so change those of the image.
_PLACE = re.compile(r"/[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


def append(layout: Layout, base: Image, code: Code, name: str, directory: str = DIRECTORY) -> Image:
    """Put `code` under `directory` of `base`, in place of the code it may have there, and return it as image `name`.

    The image starts in `directory`. DeliveryError when the code holds what a layer cannot say.
    """
    if not _PLACE.match(directory):
        raise DeliveryError(f"code cannot be put at {shown(directory)}", f"give a directory such as {DIRECTORY}")
    with layout.in_use():
        layout.use(base)
        config = json.loads(layout.blobs.read(base.config))
        layers = base.layers[:-1] if _take_off(config, base) else base.layers
        with layout.blobs.receive() as blob:
            _write_layer(blob, code, directory)
            layer = blob.keep(layer_type(""))
        _put_on(config, layer, code, directory)
        image = _store(layout, config, base.config.media_type, (*layers, layer))
        layout.name(name, image)
    return image


def _store(layout: Layout, config: dict[str, Any], config_type: str, layers: tuple[Descriptor, ...]) -> Image:
    settings = layout.blobs.write(encode(config), config_type)
    manifest, document = write_manifest(settings, layers)
    layout.blobs.write(document, manifest.media_type)
    return layout.image(manifest)


def _take_off(config: dict[str, Any], image: Image) -> bool:
    """Remove what an earlier `append` added. An image built upon that one has the label too, but not the last word."""
    history = config.get("history") or []
    earlier = image.labels.get(LABEL)
    if not earlier or not history or history[-1].get("created_by") != f"{_MADE_BY}{earlier}":
        return False
    config["history"].pop()
    config["rootfs"]["diff_ids"].pop()
    return True


def _put_on(config: dict[str, Any], layer: Descriptor, code: Code, directory: str) -> None:
    settings = config["config"] = config.get("config") or {}
    settings["WorkingDir"] = directory
    settings["Labels"] = (settings.get("Labels") or {}) | {LABEL: code.digest}
    config["rootfs"]["diff_ids"].append(layer.digest)
    entry = {"created": _EPOCH, "created_by": f"{_MADE_BY}{code.digest}"}
    config["history"] = [*(config.get("history") or []), entry]


def _write_layer(blob: Incoming, code: Code, directory: str) -> None:
    root = directory.removeprefix("/")
    made = {root}
    with (
        tarfile.open(fileobj=io.BytesIO(code.archive)) as files,
        tarfile.open(fileobj=cast("IO[bytes]", blob), mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as layer,
    ):
        layer.addfile(_folder(root))
        for entry in files:
            if not entry.isdir():  # folders are made from the names, so that their modes are ours
                _add_folders(layer, f"{root}/{entry.name}", made)
                layer.addfile(_plain(entry, root, code), files.extractfile(entry) if entry.isreg() else None)


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
        raise DeliveryError(f"{code.source}: {shown(entry.name)} cannot be put into an image")
    if path.name.startswith(_WHITEOUT):
        what = f"{code.source}: {shown(entry.name)}: in an image such a name removes a file"
        raise DeliveryError(what, "rename it, or leave it out with a .dockerignore file")
    info = tarfile.TarInfo(f"{root}/{entry.name}")
    info.type, info.linkname, info.size, info.mode = entry.type, entry.linkname, entry.size, entry.mode
    return info
