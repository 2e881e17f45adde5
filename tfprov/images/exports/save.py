"""Streams a whole image out of an engine, as `docker save` does."""

from collections.abc import Callable, Iterator
from typing import IO, cast

from tfprov.hosts.base import OnProgress
from tfprov.hosts.docker.engine import Engine
from tfprov.images.archive import load
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage

_CHUNK = 128 * 1024


def save(  # noqa: PLR0913, PLR0917
    engine: Engine, image_id: str, size: int, layout: Layout, name: str, on_progress: OnProgress
) -> OciImage:
    """Stream an image of `engine`, unpacked `size` bytes, into `layout` as `name`."""
    with engine.errors():
        pieces = engine.api.get_image(image_id, chunk_size=_CHUNK)
        stream = cast("IO[bytes]", _Stream(engine, pieces, lambda come: on_progress(come, max(come, size))))
        return load(layout, stream, name, where=f"the image from {engine.host}")


class _Stream:
    """A response stream of the engine as a file; errors are HostError."""

    def __init__(self, engine: Engine, pieces: Iterator[bytes], on_progress: Callable[[int], None]) -> None:
        self._engine, self._pieces, self._on_progress = engine, pieces, on_progress
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
                self._on_progress(self._size)
            chunks.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(chunks[-1])
        return b"".join(chunks)
