"""The receive buffer of a channel: paramiko's copies every packet three times and moves what is left at every read."""

import threading
import time
from collections import deque
from typing import Any, Protocol

from paramiko.buffered_pipe import PipeTimeout
from paramiko.ssh_exception import SSHException

WINDOW = 4 * 1024 * 1024
"""Bytes that a host may send on a channel before they are read; twice paramiko's and OpenSSH's, for links with latency."""
_LIMIT = 2 * WINDOW
"""Bytes that are kept: no host may send more than the window, which paramiko announces and does not enforce."""
PACKET = 128 * 1024
"""Bytes of a packet that a host may send on a channel: four times what paramiko and OpenSSH's client allow. OpenSSH's sshd
makes use of it when the link is busy, and each packet is work in Python."""
_LARGE_READ = 128 * 1024
"""Bytes from which a read waits for more than one packet, while large packets follow one another."""
_LARGE_PACKET = 16 * 1024
_PATIENCE = 0.004
"""Seconds that such a read waits at most. Many packets have 32 KiB: waking the reader for each took a tenth of the CPU time
of a gather over 1 Gbit/s (measured)."""


class Event(Protocol):
    """A threading.Event, or what paramiko uses in its place."""

    def set(self) -> None:
        """Set it."""

    def clear(self) -> None:
        """Clear it."""


class ReceiveBuffer:
    """Keeps packets as they arrive, in place of paramiko's BufferedPipe; one thread feeds, others read.

    `patience` are the seconds for which a large read waits for what follows a large packet. Of a host that sends more than
    `limit` bytes that nobody has read, nothing is kept.
    """

    def __init__(self, patience: float = _PATIENCE, limit: int = _LIMIT) -> None:
        self._patience, self._limit = patience, limit
        self._packets: deque[bytes] = deque()
        self._size, self._ended, self._flooded = 0, False, False
        self._enough, self._last = 1, 0
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
        if self._packets or self._ended or self._flooded:
            self._event.set()
        else:
            self._event.clear()

    def feed(self, data: bytes) -> None:
        """Add a packet; one without content is none: a read that returned it would be taken for the end."""
        if not data:
            return
        with self._changed:
            if self._flooded or self._size + len(data) > self._limit:
                self._packets.clear()
                self._size, self._flooded = 0, True
                self._update_event()
                self._changed.notify_all()
                return
            self._packets.append(data)
            self._size += len(data)
            self._last = len(data)
            self._update_event()
            if self._size >= self._enough or self._last < _LARGE_PACKET:
                self._changed.notify_all()

    def read_ready(self) -> bool:
        """Whether a read would return data at once."""
        return self._size > 0 or self._flooded

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """Return 1 to `nbytes` bytes; b"" at the end. Raises PipeTimeout after `timeout` seconds without any.

        Raises SSHException for a host that has sent more than it may.
        """
        with self._changed:
            deadline = None if timeout is None else time.monotonic() + timeout
            while not self._packets and not self._ended and not self._flooded:
                left = None if deadline is None else deadline - time.monotonic()
                if (left is not None and left <= 0) or not self._changed.wait(left):
                    raise PipeTimeout
            if self._flooded:
                raise SSHException("the host sends more than its window allows")
            if nbytes >= _LARGE_READ and self._last >= _LARGE_PACKET:
                self._wait_for_more(nbytes)
            return self._take(nbytes)

    def _wait_for_more(self, size: int) -> None:
        deadline = time.monotonic() + self._patience
        self._enough = size
        try:
            while self._size < size and not self._ended and self._last >= _LARGE_PACKET:
                if not self._changed.wait(deadline - time.monotonic()):
                    return
        finally:
            self._enough = 1

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


def receiving(channel: Any) -> Any:
    """Give a new channel, on which nothing arrives before the first request, this buffer; return it.

    The host is allowed to send more after every quarter of the window, where paramiko has a tenth: each is a message.
    """
    channel.in_window_threshold = WINDOW // 4
    return bounded(channel)


def bounded(channel: Any) -> Any:
    """Give a new channel buffers that keep no more than a host may send; return it."""
    channel.in_buffer, channel.in_stderr_buffer = ReceiveBuffer(), ReceiveBuffer()
    return channel
