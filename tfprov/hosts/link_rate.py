"""Measures how fast a host receives, with a few megabytes that it discards.

The window of the channel tells what the program has read, so that neither the buffers of this machine nor a round trip
count; the first half, in which TCP speeds up, does not either.
"""

import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.ssh.host import SSHHost

SECONDS = 0.3
"""Longest time of a measurement."""
LIMIT = 4 * 1024 * 1024
"""Bytes of the longest measurement."""

_DISCARD = ("sh", "-c", "exec cat >/dev/null")
_PIECE = 32 * 1024
_IN_FLIGHT = 256 * 1024
"""Bytes that may be under way at first: OpenSSH's sshd reports what was read after 96 KiB. More would delay the delivery
over a slow link."""
_LOOK = 0.001
"""Seconds between two looks at the window."""

Sample = tuple[float, int]
"""A time in seconds, and the bytes that the program had read by then."""


class Sink(Protocol):
    """A program that reads: a Stream."""

    @property
    def window(self) -> int: ...  # noqa: D102
    @property
    def is_open(self) -> bool: ...  # noqa: D102
    def sendall(self, data: bytes, /) -> None: ...  # noqa: D102
    def settimeout(self, seconds: float | None, /) -> None: ...  # noqa: D102


def measure_link(ssh: SSHHost) -> float | None:
    """Return the bytes a second that the host receives; None for an account that does not run the program.

    Raises Unreachable when the connection is lost.
    """
    try:
        with ssh.stream(_DISCARD) as stream:
            samples = send_samples(stream)
    except Unreachable:
        raise
    except HostError:
        return None
    return rate_of(samples)


def send_samples(
    sink: Sink, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> Sequence[Sample]:
    """Send to `sink` until SECONDS have passed or LIMIT bytes were read; return when how much was read.

    Raises HostError when it ends.
    """
    data = _harmless_bytes()
    sink.settimeout(SECONDS)
    begin, first, sent = now(), sink.window, 0
    samples = [(begin, 0)]
    while samples[-1][1] < LIMIT - _IN_FLIGHT and now() - begin < SECONDS:
        if not sink.is_open:
            raise HostError("", "the program ended")
        read = sent + sink.window - first
        if read > samples[-1][1]:
            samples.append((now(), read))
        # As TCP does: with each byte that was read, one more may be under way.
        if sent < LIMIT and sent - read + _PIECE <= _IN_FLIGHT + read and sink.window >= _PIECE:
            sink.sendall(data[sent : sent + _PIECE])
            sent += _PIECE
        else:
            sleep(_LOOK)
    return [*samples, (now(), samples[-1][1])] if len(samples) == 1 else samples


def rate_of(samples: Sequence[Sample]) -> float:
    """Return the bytes a second of the later half of what was read; 0 when nothing was read.

    A busy host reads at once what had come while its sshd waited for a processor. So the longest pause in which nothing was
    read counts, and all of the time where little more was read than may be under way at first; else the start of the
    program does not.
    """
    end, total = samples[-1]
    half = next(number for number, (_, read) in enumerate(samples) if 2 * read >= total)
    pauses = [(later - earlier, number) for number, ((earlier, _), (later, _)) in enumerate(pairwise(samples[1:]), 1)]
    begin, before = samples[min(half, max(pauses)[1]) if pauses else half]
    if total == before or total <= 2 * _IN_FLIGHT:
        begin, before = samples[0]
    return (total - before) / max(end - begin, _LOOK)


def _harmless_bytes() -> bytes:
    """Return LIMIT bytes that hardly compress, and do nothing in a shell that reads them in place of the program."""
    return b": " + urlsafe_b64encode(os.urandom(LIMIT * 3 // 4 - 2))
