"""Counts the bytes of one delivery, as they are sent by several threads."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tfprov.images.oci_spec import Descriptor


class SentBytes:
    """`progress` is called with the bytes sent and the total, from several threads but one at a time.

    `sent` are all bytes, `from_hosts` those that other hosts sent, by their names.
    """

    def __init__(self, progress: Callable[[int, int], None]) -> None:
        self.sent, self.from_hosts = 0, Counter[str]()
        self._total = 0
        self._progress = progress
        self._lock = threading.Lock()

    def expect(self, blobs: Iterable[Descriptor]) -> None:
        """Set the total to the bytes sent so far and those of `blobs`."""
        with self._lock:
            self._total = self.sent + sum({it.digest: it.size for it in blobs}.values())

    def expect_less(self, size: int) -> None:
        """Lower the total by `size` bytes: layers were compressed."""
        with self._lock:
            self._total -= size

    def add(self, size: int) -> None:
        """Count `size` bytes that were sent."""
        with self._lock:
            self.sent += size
            self._total = max(self._total, self.sent)
            self._progress(self.sent, self._total)

    def add_from(self, host: str, size: int) -> None:
        """Count `size` bytes that another host sent."""
        with self._lock:
            self.from_hosts[host] += size
        self.add(size)

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield `pieces`, and count them."""
        for piece in pieces:
            self.add(len(piece))
            yield piece
