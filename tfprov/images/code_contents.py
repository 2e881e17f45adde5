"""Inspects packed code without unpacking it: its files, whether they are executable, whether they import TensorFlow."""

import io
import posixpath
import re
import tarfile
from functools import cached_property

from tfprov.images.code import Code

_TENSORFLOW = re.compile(
    rb"^[ \t]*(?:(?:import|from)[ \t]+(?:tensorflow|keras|tf_keras|tfprov\.runtime)\b|from[ \t]+tfprov[ \t]+import\b)",
    re.MULTILINE,
)
_RUNTIME = re.compile(
    rb"^[ \t]*(?:(?:import|from)[ \t]+tfprov\.runtime\b|from[ \t]+tfprov[ \t]+import[ \t(]+runtime\b)", re.MULTILINE
)
_MAX_LINE = 256
"""Bytes of a script's first line; the kernel reads no more of a `#!` line."""


class CodeContents:
    """The files of `code`, by name."""

    def __init__(self, code: Code) -> None:
        self.source = code.source
        self._code = code

    @cached_property
    def _tar(self) -> tarfile.TarFile:
        return tarfile.open(fileobj=io.BytesIO(self._code.archive))

    @cached_property
    def _entries(self) -> dict[str, tarfile.TarInfo]:
        return {entry.name: entry for entry in self._tar.getmembers()}

    @property
    def names(self) -> list[str]:
        """Return the names of all files."""
        return list(self._entries)

    def has(self, name: str) -> bool:
        """Whether `name` is a file or a directory with `__main__.py`; True for a name behind a link, which is unknown."""
        name = posixpath.normpath(name)
        parents = [name[:at] for at, letter in enumerate(name) if letter == "/"]
        linked = any(parent in self._entries and self._entries[parent].issym() for parent in parents)
        return linked or name in self._entries or posixpath.join(name, "__main__.py") in self._entries

    def is_executable(self, name: str) -> bool:
        """Whether the file is executable."""
        entry = self._entries.get(posixpath.normpath(name))
        return entry is None or entry.issym() or bool(entry.mode & 0o100)

    def first_line(self, name: str) -> bytes | None:
        """Return the first line of a file without its line end; None if it is not a regular file."""
        entry = self._entries.get(posixpath.normpath(name))
        file = self._tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return None if file is None else file.readline(_MAX_LINE).rstrip(b"\n")

    @cached_property
    def imports_tensorflow(self) -> bool:
        """Whether one of its Python files imports TensorFlow, Keras or `tfprov.runtime`."""
        return any(_TENSORFLOW.search(self.read(name)) for name in self._entries if name.endswith(".py"))

    def imports_runtime(self, name: str) -> bool:
        """Whether the file `name` imports `tfprov.runtime` by itself."""
        return _RUNTIME.search(self.read(name)) is not None

    def read(self, name: str) -> bytes:
        """Return a file; nothing if it is not a regular file."""
        entry = self._entries.get(posixpath.normpath(name))
        file = self._tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return b"" if file is None else file.read()


def names_tensorflow(text: str) -> bool:
    """Whether a program on a command line imports TensorFlow."""
    return re.search(r"\b(?:import|from)\s+(?:tensorflow|keras|tf_keras|tfprov)\b", text) is not None
