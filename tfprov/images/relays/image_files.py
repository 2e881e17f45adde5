"""The files of an image, read from its layers: what a container of it would see."""

import posixpath
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack

from tfprov.errors import DeliveryError
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, compression

_MAX_LINKS = 40
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


class ImageFiles:
    """The files of the layers added so far, the lowest first. A context: the layers stay open until its end."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._members: dict[str, tuple[tarfile.TarFile, tarfile.TarInfo]] = {}
        self._open = ExitStack()

    def __enter__(self) -> "ImageFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, layer: Descriptor) -> None:
        """Put a layer above the others. Raises DeliveryError for one that is damaged, or in a form that is not read."""
        if compression(layer) not in ("", "gzip"):
            raise DeliveryError(f"layer {layer.digest} is compressed with {compression(layer)}")
        try:
            archive = tarfile.open(self._layout.blobs.path(layer.digest))  # noqa: SIM115
            members = self._open.enter_context(archive).getmembers()
        except (tarfile.TarError, OSError, EOFError) as error:
            raise DeliveryError(f"layer {layer.digest} cannot be read: {error}") from None
        for member in members:
            if posixpath.basename(member.name).startswith(_WHITEOUT):
                self._remove(_plain(member.name))
        for member in members:
            self._members[_plain(member.name)] = archive, member

    def _remove(self, whiteout: str) -> None:
        directory, name = posixpath.split(whiteout)
        gone = posixpath.join(directory, name.removeprefix(_WHITEOUT))
        below = f"{directory if name == _OPAQUE else gone}/"
        for path in [path for path in self._members if path.startswith(below) or path == gone]:
            del self._members[path]

    def resolve(self, path: str) -> str | None:
        """Return the path of a regular file without symbolic links; None when there is none at `path`."""
        rest, resolved, links = [part for part in path.split("/") if part], "", 0
        while rest:
            part = rest.pop(0)
            if part == "..":
                resolved = posixpath.dirname(resolved)
                continue
            here = posixpath.join(resolved, part)
            member = self._members.get(here)
            if member is None or not member[1].issym():
                resolved = here
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            target = member[1].linkname
            resolved = "" if target.startswith("/") else resolved
            rest = [*(it for it in target.split("/") if it and it != "."), *rest]
        member = self._members.get(resolved)
        return resolved if member and (member[1].isreg() or member[1].islnk()) else None

    def read(self, path: str) -> bytes:
        """Return the content of a regular file."""
        archive, member = self._members[path]
        try:
            file = archive.extractfile(member)
            return file.read() if file else b""
        except (tarfile.TarError, OSError, EOFError, KeyError) as error:
            raise DeliveryError(f"/{path} in the image cannot be read: {error}") from None

    def matching(self, pattern: re.Pattern[str]) -> Iterator[str]:
        """Yield the paths that `pattern` matches, of files and links."""
        return (path for path in self._members if pattern.match(path))


def _plain(name: str) -> str:
    return posixpath.normpath(name).strip("/")
