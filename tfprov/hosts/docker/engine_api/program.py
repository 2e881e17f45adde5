"""Programs in running containers, over connections of our own: listing a directory or `tfprov exec` loads no SDK.

Two requests on one connection, which then carries the program's input and output (Engine API, ContainerExec and ExecStart).
"""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any, cast

from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_api.answers import parse_answer
from tfprov.hosts.docker.engine_api.dial import EngineTimeouts
from tfprov.hosts.docker.engine_api.paths import program_path, programs_path
from tfprov.hosts.docker.engine_api.pipeline import Answer, Reader, read_body, short_path
from tfprov.hosts.trace import traced

_REQUEST = (
    "POST {} HTTP/1.1\r\nHost: engine\r\nUser-Agent: tfprov\r\nAccept-Encoding: identity\r\n{}"
    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n"
)
_UPGRADE = "Connection: Upgrade\r\nUpgrade: tcp\r\n"
"""Makes the connection the program's own, as the `docker` command asks for."""
_HEADER = struct.Struct(">BxxxL")

Check = Callable[[Answer], Any]
"""Returns the value of an answer; raises Refused for an error status."""


class Poster:
    """Sends requests with a body over a connection of `dial`, a new one where the engine has closed the last.

    Raises HTTPException and OSError, and HostError of a connection over SSH.
    """

    def __init__(self, host: str, dial: Callable[[], Any], timeouts: EngineTimeouts) -> None:
        self._host, self._dial, self._limit = host, dial, timeouts.action
        self._connect()

    def _connect(self) -> None:
        self.sock = self._dial()
        self.reader, self._has_ended = Reader(self.sock, lambda: False), False

    def post(self, path: str, value: Mapping[str, Any] | None = None) -> Answer:
        """Send `value` as JSON, and return the answer."""
        response = self._send(path, value, "")
        answer = Answer(path, response.status, read_body(response))
        self._has_ended = response.will_close
        return answer

    def upgrade(self, path: str, value: Mapping[str, Any]) -> Answer:
        """Send `value`, and leave the connection to what follows the answer, unless that is an error."""
        response = self._send(path, value, _UPGRADE)
        answer = Answer(path, response.status, read_body(response) if response.status >= 300 else b"")
        self.sock.deadline = None
        return answer

    def _send(self, path: str, value: Mapping[str, Any] | None, headers: str) -> HTTPResponse:
        body = b"" if value is None else json.dumps(value).encode()
        with traced(self._host, f"engine: POST {short_path(path)}"):
            if self._has_ended:
                self.sock.close()
                self._connect()
            self.sock.settimeout(self._limit)
            self.sock.deadline = time.monotonic() + bounds.TOTAL_FACTOR * self._limit
            self.sock.sendall(_REQUEST.format(path, headers, len(body)).encode() + body)
            response = HTTPResponse(cast(Any, self.reader), method="POST")
            response.begin()
        return response


class Program:
    """A program that `poster`'s engine starts in a container with `options` of the Engine API; `id` is the engine's for it.

    `prefix` is the version of the API. Close it: the connection is its own. Raises what `check` and `poster` raise.
    """

    def __init__(self, poster: Poster, prefix: str, container: str, options: Mapping[str, Any], check: Check) -> None:
        self._poster, self._has_terminal = poster, bool(options.get("Tty"))
        try:
            created = poster.post(f"{prefix}{programs_path(container)}", options)
            check(created)
            self.id = str(parse_answer("POST", created.path, created.body)["Id"])
            start = {"Detach": False, "Tty": self._has_terminal}
            check(poster.upgrade(f"{prefix}{program_path(self.id, 'start')}", start))
            # Before a thread sends: a change of the limit fails what is being sent at that moment (CPython's sendall).
            poster.sock.settimeout(None)
        except BaseException:
            self.close()
            raise

    def output(self, silence: float | None) -> Iterator[tuple[int, bytes]]:
        """Yield the output as (descriptor, bytes); of a terminal, which has one output, as descriptor 1.

        `silence` limits the seconds without output, of a program that gets no input; None for no limit.
        """
        if silence is not None:
            self._poster.sock.settimeout(silence)
        reader = self._poster.reader
        if not self._has_terminal:
            yield from read_frames(reader)
            return
        while data := reader.read1(bounds.CHUNK):
            yield 1, data

    def send(self, data: bytes) -> None:
        """Send input."""
        self._poster.sock.sendall(data)

    def end_input(self) -> None:
        """End the input, unless the program has ended; the other half of the connection stays open for the output."""
        with suppress(OSError):
            self._poster.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self._poster.sock.close()


def read_frames(file: Any) -> Iterator[tuple[int, bytes]]:
    """Yield what an engine sends in frames: 8 bytes of descriptor and length, then the data."""
    while header := file.read(_HEADER.size):
        descriptor, remaining = _HEADER.unpack(header)
        while remaining and (data := file.read1(min(remaining, bounds.CHUNK))):
            remaining -= len(data)
            yield descriptor, data
        if remaining:
            raise EOFError("the output ended within a frame")
