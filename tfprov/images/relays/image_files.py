"""The files of an image, read from its layers: what a container of it would see."""

import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from tfprov.errors import DeliveryError
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, compression

_MAX_LINKS = 40
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_DAMAGED = (tarfile.TarError, zlib.error, OSError, EOFError, ValueError)
"""What tarfile and gzip raise for a damaged layer."""


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
        except _DAMAGED as error:
            raise DeliveryError(f"layer {layer.digest} cannot be read: {error}") from None
        self._hide(_plain(member.name) for member in members)
        for member in members:
            self._members[_plain(member.name)] = archive, member

    def _hide(self, names: Iterable[str]) -> None:
        """Remove what the whiteouts among the `names` of the next layer hide."""
        removed, emptied = set(), set()
        for directory, name in map(posixpath.split, names):
            if name == _OPAQUE:
                emptied.add(directory)
            elif name.startswith(_WHITEOUT):
                removed.add(posixpath.join(directory, name.removeprefix(_WHITEOUT)))
        hiding = removed | emptied
        if hiding:
            self._members = {
                path: member
                for path, member in self._members.items()
                if path not in removed and hiding.isdisjoint(_directories_of(path))
            }

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
        """Return the content of the regular file at a path without symbolic links."""
        archive, member = self._members[path]
        try:
            file = archive.extractfile(member)
            return file.read() if file else b""
        except (*_DAMAGED, KeyError) as error:
            raise DeliveryError(f"/{path} in the image cannot be read: {error}") from None

    def read_all(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of regular files by path. Links are followed, and those to no file are left out.

        They are read as they follow one another: a step back in a compressed layer unpacks it anew from its beginning.
        """
        resolved = [(real, path) for path in set(paths) if (real := self.resolve(path))]
        return {path: self.read(real) for real, path in sorted(resolved, key=self._position)}

    def _position(self, file: tuple[str, str]) -> tuple[int, int]:
        archive, member = self._members[file[0]]
        return id(archive), member.offset_data

    def matching(self, pattern: re.Pattern[str]) -> Iterator[str]:
        """Yield the paths that `pattern` matches, of files and links."""
        return (path for path in self._members if pattern.match(path))


def _directories_of(path: str) -> Iterator[str]:
    return (path[:at] for at, letter in enumerate(path) if letter == "/")


def _plain(name: str) -> str:
    return posixpath.normpath(name).strip("/")
