"""The compressed layers that each engine has pulled, by digest.

An engine recognises a layer in a pull by the digest of what it received. A later manifest must name the same digest, or the
engine asks for the layer again. A lost record costs one failed pull.
"""

import hashlib
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from tfprov.atomic_write import private_directory, replace_shared
from tfprov.images.blobs import disk_errors


@dataclass(frozen=True)
class EngineDigests:
    """The records in `directory`, a file for each engine, by the engine's id."""

    directory: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, engine_id: str) -> set[str]:
        """Return the digests of compressed layers by which the engine knows layers; empty when nothing is recorded."""
        return _read(self._path(engine_id)) if engine_id else set()

    def update(self, engine_id: str, added: Collection[str], removed: Collection[str]) -> None:
        """Record the digests that the engine knows now, and those that it does not know."""
        if not engine_id:
            return
        path = self._path(engine_id)
        with self._lock, disk_errors(path):
            before = _read(path)
            after = before.difference(removed).union(added)
            if after != before:
                private_directory(path.parent)
                _write(path, after)

    def prune(self, kept: Collection[str]) -> None:
        """Forget all digests but `kept`."""
        with self._lock, disk_errors(self.directory):
            for path in self.directory.iterdir() if self.directory.is_dir() else ():
                before = _read(path)
                after = before.intersection(kept)
                if not after:
                    path.unlink(missing_ok=True)
                elif after != before:
                    _write(path, after)

    def _path(self, engine_id: str) -> Path:
        return self.directory / hashlib.sha256(engine_id.encode()).hexdigest()[:32]


def _write(path: Path, digests: Collection[str]) -> None:
    replace_shared(path, "".join(f"{digest}\n" for digest in sorted(digests)).encode())


def _read(path: Path) -> set[str]:
    try:
        return set(path.read_text().split())
    except (OSError, ValueError):
        return set()
