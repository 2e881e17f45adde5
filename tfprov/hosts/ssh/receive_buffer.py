"""The receive buffer of a channel: paramiko's copies every packet three times and moves what is left at every read."""

import threading
import time
from collections import deque
from typing import Protocol

from paramiko.buffered_pipe import PipeTimeout


class Event(Protocol):
    """A threading.Event, or what paramiko uses in its place."""

    def set(self) -> None:
        """Set it."""

    def clear(self) -> None:
        """Clear it."""


class ReceiveBuffer:
    """Keeps packets as they arrive, in place of paramiko's BufferedPipe; one thread feeds, others read."""

    def __init__(self) -> None:
        self._packets: deque[bytes] = deque()
        self._size, self._ended = 0, False
        self._changed = threading.Condition(threading.Lock())
        self._event: Event | None = None

    def set_event(self, event: Event) -> None:
        """Set `event` whenever a read would return at once, and clear it otherwise: for polling a channel."""
        with self._changed:
            self._event = event
            self._update_event()

    def _update_event(self) -> None:
        if self._event is None:
            return
        if self._packets or self._ended:
            self._event.set()
        else:
            self._event.clear()

    def feed(self, data: bytes) -> None:
        """Add a packet."""
        with self._changed:
            self._packets.append(data)
            self._size += len(data)
            self._update_event()
            self._changed.notify_all()

    def read_ready(self) -> bool:
        """Whether a read would return data at once."""
        return self._size > 0

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """Return 1 to `nbytes` bytes; b"" at the end. Raises PipeTimeout after `timeout` seconds without any."""
        with self._changed:
            deadline = None if timeout is None else time.monotonic() + timeout
            while not self._packets and not self._ended:
                left = None if deadline is None else deadline - time.monotonic()
                if (left is not None and left <= 0) or not self._changed.wait(left):
                    raise PipeTimeout
            return self._take(nbytes)

    def _take(self, size: int) -> bytes:
        pieces = []
        while size and self._packets:
            piece = self._packets.popleft()
            if len(piece) > size:
                self._packets.appendleft(piece[size:])
                piece = piece[:size]
            size -= len(piece)
            self._size -= len(piece)
            pieces.append(piece)
        self._update_event()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def empty(self) -> bytes:
        """Return everything that is there."""
        with self._changed:
            return self._take(self._size)

    def close(self) -> None:
        """End the data: readers get what is there, then b""."""
        with self._changed:
            self._ended = True
            self._update_event()
            self._changed.notify_all()

    def __len__(self) -> int:
        return self._size
