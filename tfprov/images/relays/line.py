"""The controller's end of the line to one relay."""

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tfprov.errors import HostError
from tfprov.images.registry_server import ByteStream
from tfprov.images.relays.sources import Peer

SILENCE = 45.0
"""Seconds without a line after which a relay counts as ended; it sends one every ten."""
_MAX_LINE = 64 * 1024


class Connection(ByteStream, Protocol):
    """What sockets and forwarded connections share."""

    def shutdown(self, how: int, /) -> None: ...  # noqa: D102


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Ready(_Message):
    engine_port: Annotated[int, Field(ge=1, le=65535)]
    peer_port: Annotated[int, Field(ge=0, le=65535)]
    reason: str


class _Line(_Message):
    """A line of a relay: each has one of the first four, or nothing; `received` has `source` with it."""

    token: str | None = None
    ready: _Ready | None = None
    want: str | None = None
    received: Annotated[int, Field(ge=0)] | None = None
    failed: Annotated[list[tuple[int, str]], Field(strict=False, max_length=100)] = []
    source: Annotated[int | None, Field(alias="from")] = None


@dataclass(frozen=True)
class Answers:
    """What a line calls, in its own thread: each with the number of its relay."""

    ready: Callable[[int, int], None]
    """With the port for others, or 0."""
    want: Callable[[int, str, list[tuple[int, str]]], Peer | None]
    """With the digest, and the relays that did not send it with the reasons; returns who should, or None."""
    received: Callable[[int, int, int], None]
    """With the number of the sender, and bytes."""
    ended: Callable[[int], None]


class Line:
    """One relay's line. `is_ready` is set when the relay listens, and when it has ended; `port` is the engine's."""

    def __init__(self, number: int, answers: Answers) -> None:
        self.number = number
        self.token = secrets.token_urlsafe(32)
        self.is_ready, self.has_ended = threading.Event(), threading.Event()
        self.port, self.reason = 0, ""
        self._answers = answers
        self._connection: Connection | None = None

    def end(self) -> None:
        """End the line, and with it the relay."""
        if self._connection is not None:
            with suppress(HostError, OSError):  # it has ended already
                self._connection.shutdown(2)

    def serve(self, connection: Connection) -> None:
        """Answer a relay until it ends, is silent, or sends what is no message. Others at that port lack the token."""
        begun = False
        try:
            connection.settimeout(SILENCE)
            for line in _lines(connection):
                message = _Line.model_validate_json(line)
                if not begun and not hmac.compare_digest((message.token or "").encode(), self.token.encode()):
                    return
                begun, self._connection = True, connection
                connection.sendall(json.dumps(self._answer(message)).encode() + b"\n")
        except (HostError, OSError, ValidationError):  # it ended
            pass
        finally:
            connection.close()
            if begun:
                self.has_ended.set()
                self.is_ready.set()
                self._answers.ended(self.number)

    def _answer(self, message: _Line) -> dict[str, object]:
        if message.ready is not None:
            self.port, self.reason = message.ready.engine_port, message.ready.reason
            self._answers.ready(self.number, message.ready.peer_port)
            self.is_ready.set()
        if message.received is not None and message.source is not None:
            self._answers.received(self.number, message.source, message.received)
        if message.want is None:
            return {}
        peer = self._answers.want(self.number, message.want, message.failed)
        where = {"number": peer.number, "address": peer.address, "port": peer.port} if peer else None
        return {"want": message.want, "peer": where}


def _lines(connection: ByteStream) -> Iterator[bytes]:
    data = b""
    while piece := connection.recv(4096):
        *lines, data = (data + piece).split(b"\n")
        yield from lines
        if len(data) > _MAX_LINE:
            return
