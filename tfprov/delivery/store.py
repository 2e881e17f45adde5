"""Packed code on the controller: a directory of archives named by their digest."""

from pathlib import Path

from tfprov.delivery.code import Code
from tfprov.files import replace

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
        self.directory.mkdir(parents=True, exist_ok=True)
        replace(self._path(code.digest), code.archive)
        by_age = sorted(self.directory.glob("*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in by_age[KEEP:]:
            path.unlink(missing_ok=True)

    def get(self, digest: str) -> bytes:
        """Return the archive of `digest`."""
        path = self._path(digest)
        path.touch()
        return path.read_bytes()
