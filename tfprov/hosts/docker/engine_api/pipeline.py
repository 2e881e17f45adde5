"""Sends several questions to an engine at once, and reads the answers in order: HTTP/1.1 pipelining (RFC 9112, 9.3.2).

What `plan`, `status` and an `up` with nothing to do ask of a host takes one round trip on one connection, and no SDK.
Only GET is sent, so that questions without an answer can be repeated on another connection.
"""

import io
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, cast

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.bounds import AnswerTooLong
from tfprov.hosts.docker.engine_api.answers import MalformedAnswer
from tfprov.hosts.docker.engine_api.dial import EngineTimeouts
from tfprov.hosts.ssh.errors import TimedOut
from tfprov.hosts.trace import traced

REQUEST = "GET {} HTTP/1.1\r\nHost: engine\r\nUser-Agent: tfprov\r\nAccept-Encoding: identity\r\n\r\n"
"""What is sent for a path."""
_AT_ONCE = 50
"""Questions sent before the first answer is read: some 10 kB, which any socket takes while its other end writes."""


@dataclass(frozen=True)
class Answer:
    """An engine's answer to the question for `path`; `body` is the beginning if `status` is an error."""

    path: str
    status: int
    body: bytes


class Pipeline:
    """Asks the engine of `host`, to which each socket of `dial` is connected. Thread-safe.

    A connection is kept for the next questions, or until `take`.
    """

    def __init__(self, host: str, dial: Callable[[], Any], timeouts: EngineTimeouts) -> None:
        self._host, self._dial, self._timeouts = host, dial, timeouts
        self._lock = threading.Lock()
        self._idle: Any = None

    def ask(self, paths: Sequence[str]) -> list[Answer]:
        """Return the answers, in the order of `paths`. Raises MalformedAnswer, AnswerTooLong, HTTPException and OSError."""
        result: list[Answer] = []
        while len(result) < len(paths):
            batch = paths[len(result) : len(result) + _AT_ONCE]
            with traced(self._host, f"engine: GET {', '.join(map(short_path, batch))}", asks=True):
                result += self._ask_some(batch)
        return result

    def take(self) -> Any:
        """Return the idle connection, which then belongs to the caller; None if there is none."""
        with self._lock:
            idle, self._idle = self._idle, None
        return idle

    def close(self) -> None:
        """Close the idle connection."""
        if (idle := self.take()) is not None:
            idle.close()

    def _ask_some(self, paths: Sequence[str]) -> list[Answer]:
        """Return the answers that one connection gives: at least one, fewer than `paths` if the engine closes it."""
        if (kept := self.take()) is not None:
            try:
                return self._ask_on(kept, paths)
            except TimeoutError:
                raise
            except (HTTPException, OSError, EOFError, HostError):
                # An engine may have closed it meanwhile. Questions change nothing, so that asking twice is safe.
                return self._ask_on(self._dial(), paths)
        return self._ask_on(self._dial(), paths)

    def _ask_on(self, sock: Any, paths: Sequence[str]) -> list[Answer]:
        result: list[Answer] = []
        try:
            sock.settimeout(self._timeouts.query)
            reader = Reader(sock, lambda: self._allow_busy(sock))
            sock.sendall("".join(map(REQUEST.format, paths)).encode())
            for answer, stays_open in self._answers(sock, reader, paths):
                result.append(answer)
                if not stays_open:
                    sock.close()
                    return result
        except BaseException as error:
            sock.close()
            # What closes a connection after an answer also resets it, for the questions that it did not read.
            if result and isinstance(error, HTTPException | OSError | EOFError) and not isinstance(error, TimeoutError):
                return result
            raise
        self.keep(sock)
        return result

    def _answers(self, sock: Any, reader: "Reader", paths: Sequence[str]) -> Iterator[tuple[Answer, bool]]:
        """Yield each answer, and whether another may follow."""
        for path in paths:
            sock.deadline = time.monotonic() + bounds.TOTAL_FACTOR * self._timeouts.query
            response = HTTPResponse(cast(Any, reader), method="GET")
            response.begin()
            body = read_body(response)
            sock.deadline = None
            yield Answer(path, response.status, body), response.isclosed() and not response.will_close

    def keep(self, sock: Any) -> None:
        """Keep a connection, on which nothing is left to read, for the next questions."""
        with self._lock:
            spare, self._idle = self._idle, sock
        if spare is not None:
            spare.close()

    def _allow_busy(self, sock: Any) -> bool:
        """Whether a silent engine answers a ping on another connection, and so gets more time; see engine_api.client."""
        try:
            ping = self._dial()
        except (HostError, OSError):
            return False
        try:
            ping.settimeout(self._timeouts.ping)
            ping.deadline = time.monotonic() + self._timeouts.ping
            ping.sendall(REQUEST.format("/_ping").encode())
            response = HTTPResponse(cast(Any, Reader(ping, lambda: False)), method="GET")
            response.begin()
        except (HTTPException, OSError, HostError):
            return False
        finally:
            ping.close()
        sock.settimeout(self._timeouts.busy)
        sock.deadline = time.monotonic() + bounds.TOTAL_FACTOR * self._timeouts.busy
        return response.status == 200


def short_path(path: str) -> str:
    """Return a path for `-vv`: without the version of the API and the filters."""
    return re.sub(r"^/v[0-9.]+|\?.*", "", path)


class Reader:
    """What one connection sends, for the responses that follow one another; none of them closes it."""

    def __init__(self, sock: Any, is_busy: Callable[[], bool]) -> None:
        buffered = io.BufferedReader(_Raw(sock, is_busy), bounds.CHUNK)
        self.read, self.read1, self.readline = buffered.read, buffered.read1, buffered.readline
        self.readinto = buffered.readinto

    def makefile(self, *_: Any) -> "Reader":
        """Return this: HTTPResponse takes it for a socket."""
        return self

    def close(self) -> None:
        """Keep it open."""

    def flush(self) -> None:
        """Do nothing. HTTPResponse calls it at its end, and Python 3.13 prints an error if it is missing."""


class _Raw(io.RawIOBase):
    """`is_busy` is called once, at the first silence: if it returns True, the connection has got more time."""

    def __init__(self, sock: Any, is_busy: Callable[[], bool]) -> None:
        self._sock, self._is_busy = sock, is_busy

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._receive(len(view))
        view[: len(data)] = data
        return len(data)

    def _receive(self, size: int) -> bytes:
        try:
            data: bytes = self._sock.recv(size)
        except (TimeoutError, TimedOut):
            is_busy, self._is_busy = self._is_busy, lambda: False
            if not is_busy():
                raise TimeoutError from None
            return self._receive(size)
        return data


def read_body(response: HTTPResponse) -> bytes:
    """Return the body; of an error, its beginning. Raises MalformedAnswer, AnswerTooLong, and EOFError for one cut off."""
    if 300 <= response.status < 400:
        raise MalformedAnswer(f"a redirect (status {response.status})")
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise MalformedAnswer("a compressed answer")
    if response.status >= 400:
        return b"".join(bounds.read_chunks(response.read, bounds.ENGINE_COMPLAINT))
    buffer = bounds.BoundedBuffer(
        bounds.ENGINE_ANSWER, lambda limit: AnswerTooLong(f"an answer longer than {bounds.format_size(limit)}")
    )
    for piece in bounds.read_chunks(response.read):
        buffer.append(piece)
    if response.length:
        raise EOFError("an answer that is cut off")
    return bytes(buffer)
