"""Brings an image from the engine that built it into the layout: the layers that the layout lacks, or all of them."""

from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from tfprov.errors import HostError, printable
from tfprov.hosts.base import OnProgress, ignore_progress
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import stores_in_containerd
from tfprov.hosts.machine import Machine
from tfprov.images.archive import load
from tfprov.images.engine_images import inspect_image
from tfprov.images.exports.content_upload import upload_content
from tfprov.images.exports.upload import WholeImageNeeded, upload_layers
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage

_CHUNK = 128 * 1024


def export(  # noqa: PLR0913, PLR0917
    machine: Machine,
    image_id: str,
    layout: Layout,
    name: str,
    on_progress: OnProgress = ignore_progress,
    note: Callable[[str], None] = lambda text: None,
) -> OciImage:
    """Store an image of the engine of `machine` in `layout` as `name`; DeliveryError when it arrives incomplete.

    `on_progress` is called with the bytes received and an estimate of the total: the engine reports the unpacked size.
    `note` is called with the reason when the whole image is exported although most of it is in the layout.
    """
    facts = inspect_image(machine.engine, image_id)
    if facts is None:
        raise HostError(machine.host, f"the image {printable(image_id)} is not there", "build it again")
    with machine.engine.errors():
        info: dict[str, Any] = machine.engine.api.info()
    upload = upload_content if stores_in_containerd(info) else upload_layers
    try:
        return upload(machine, facts, layout, name, on_progress)
    except WholeImageNeeded as error:
        if str(error):
            note(f"the whole image is exported, which is slower: {error}")
    return _save(machine.engine, image_id, facts.get("Size") or 0, layout, name, on_progress)


def _save(  # noqa: PLR0913, PLR0917
    engine: Engine, image_id: str, size: int, layout: Layout, name: str, on_progress: OnProgress
) -> OciImage:
    """Stream an image of `engine`, unpacked `size` bytes, into `layout` as `name`, as `docker save` does."""
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
