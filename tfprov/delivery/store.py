"""Packed code on the controller: a directory of archives named by their digest."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfprov.delivery.code import Code
from tfprov.files import private_directory, replace

KEEP = 20
"""Archives kept; the ones unused for longest go first. They are made again from the `code:` directory when needed."""


class CodeStore:
    """The archives under `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _path(self, digest: str) -> Path:
        return self.directory / f"{digest.removeprefix('sha256:')}.tar"

    def digests(self) -> frozenset[str]:
        """Return the digests of everything stored."""
        return frozenset(f"sha256:{path.stem}" for path in self.directory.glob("*.tar"))

    def put(self, code: Code) -> None:
        """Store `code`, and drop what has not been used for longest."""
        private_directory(self.directory)
        with self._held():
            replace(self._path(code.digest), code.archive, mode=0o600)
            by_age = sorted(self.directory.glob("*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in by_age[KEEP:]:
                path.unlink()

    def get(self, digest: str) -> bytes:
        """Return the archive of `digest`."""
        path = self._path(digest)
        with self._held():
            archive = path.read_bytes()
            path.touch()
        return archive

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other runs out: those of other clusters have the same store, and maybe the same code."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
