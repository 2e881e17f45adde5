"""Compresses layers of the layout, each once for all deliveries of a run, while earlier layers are being sent."""

import hashlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from tfprov.errors import DeliveryError
from tfprov.images.blobs import disk_errors
from tfprov.images.compression.decision import MAX_RATIO
from tfprov.images.compression.gzip_member import gzip_pieces, sample_ratio
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, layer_type

_GZIP = layer_type("gzip")


class Compressor:
    """Thread-safe. `cores` compress at the same time; default: all of this process."""

    def __init__(self, layout: Layout, cores: int | None = None) -> None:
        self.cores = cores or len(os.sched_getaffinity(0))
        self._layout = layout
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Descriptor]] = {}
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def form(self, layer: Descriptor) -> Descriptor:
        """Return the compressed form of `layer`, making it if the layout lacks it; `layer` itself if it does not shrink.

        Whoever asks first compresses, and the others wait. DeliveryError on disk errors, for a layer that is damaged, and
        after `close`.
        """
        return self._form(layer, self._stopped)

    def _form(self, layer: Descriptor, stopped: threading.Event) -> Descriptor:
        with self._lock:
            if not self._layout.variants.may_shrink(layer):
                return layer
            if variant := self._layout.variants.find(layer):
                return variant
            future = self._under_way.get(layer.digest)
            is_first = future is None
            future = self._under_way.setdefault(layer.digest, future or Future())
        if is_first:
            self._make(layer, future, stopped)
        return future.result()

    def begin(self, layers: Sequence[Descriptor]) -> None:
        """Compress `layers` in a thread, in their order."""
        thread = threading.Thread(target=self._compress_all, args=(layers, self._stopped), daemon=True)
        with self._lock:
            self._threads = [it for it in self._threads if it.is_alive()] + [thread]
            thread.start()

    def close(self) -> None:
        """End what is under way; nothing half-written stays. Idempotent."""
        with self._lock:
            self._stopped.set()
            threads, self._threads = self._threads, []
            self._stopped = threading.Event()
        for thread in threads:
            thread.join()

    def _compress_all(self, layers: Sequence[Descriptor], stopped: threading.Event) -> None:
        with suppress(DeliveryError):  # whoever needs the layer gets the error
            for layer in layers:
                if not stopped.is_set():
                    self._form(layer, stopped)

    def _make(self, layer: Descriptor, future: "Future[Descriptor]", stopped: threading.Event) -> None:
        try:
            with self._layout.in_use():
                made = self._compress(layer, stopped)
                self._layout.variants.record(layer, made)
            future.set_result(made or layer)
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                self._under_way.pop(layer.digest, None)

    def _compress(self, layer: Descriptor, stopped: threading.Event) -> Descriptor | None:
        """Return the stored compressed form of `layer`; None when it does not shrink."""
        content = hashlib.sha256()
        blobs = self._layout.blobs
        errors = disk_errors(blobs.path(layer.digest))
        with errors, blobs.open(layer) as source, blobs.receive() as blob, ThreadPoolExecutor(self.cores) as pool:
            if sample_ratio(source, layer.size) > MAX_RATIO:
                return None
            for piece in gzip_pieces(source, pool, self.cores + 1, content.update):
                blob.write(piece)
                if stopped.is_set():
                    raise DeliveryError("the layers are compressed no further: the deliveries have ended")
            if f"sha256:{content.hexdigest()}" != layer.digest:
                fix = "remove it: images are made again when they are needed"
                raise DeliveryError(f"{blobs.path(layer.digest)} is damaged", fix)
            return blob.keep(_GZIP) if blob.size <= MAX_RATIO * layer.size else None
