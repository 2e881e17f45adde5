"""The controller's end of the line to a relay: what it answers, and what ends it."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.support.waiting import LONG
from tests.support.wire import Wire
from tfprov.images.relays.line import Answers, Line
from tfprov.images.relays.sources import Peer

DIGEST = "sha256:" + "0" * 64


class Relay:
    """The relay's end of a line that is served by a thread; `calls` are those of the line."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        answers = Answers(self._note("ready"), self._want, self._note("received"), self._note("ended"))
        self.line = Line(7, answers)
        self.socket, served = socket.socketpair()
        self.socket.settimeout(LONG)
        self._thread = threading.Thread(target=self.line.serve, args=(served,))
        self._thread.start()
        self._file = self.socket.makefile("rb")

    def _note(self, name: str) -> Callable[..., None]:
        return lambda *values: self.calls.append((name, *values))

    def _want(self, number: int, digest: str, failed: list[tuple[int, str]]) -> Peer | None:
        self.calls.append(("want", number, digest, failed))
        return Peer(3, "node3", "10.0.0.3", 4000) if not failed else None

    def send(self, data: bytes) -> bytes:
        """Return the answer; nothing when the line has ended."""
        with suppress(ConnectionError):
            self.socket.sendall(data)
            return self._file.readline()
        return b""

    def say(self, **message: Any) -> Any:
        return json.loads(self.send(json.dumps(message).encode() + b"\n"))

    def close(self) -> None:
        self._file.close()
        self.socket.close()
        self._thread.join(LONG)
        assert not self._thread.is_alive()


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    yield made
    made.close()


def test_a_relay_comes_forward_and_asks_for_sources(relay: Relay) -> None:
    assert relay.say(token=relay.line.token) == {}
    assert not relay.line.is_ready.is_set()
    assert relay.say(ready={"engine_port": 5000, "peer_port": 6000, "reason": ""}) == {}
    assert relay.line.is_ready.is_set()
    assert relay.line.port == 5000
    answer = relay.say(want=DIGEST, failed=[])
    assert answer == {"want": DIGEST, "peer": {"number": 3, "address": "10.0.0.3", "port": 4000}}
    assert relay.say(want=DIGEST, failed=[[3, "refused"]]) == {"want": DIGEST, "peer": None}
    assert relay.say(**{"received": 100, "from": 3}) == {}
    assert relay.say() == {}
    relay.line.end()
    assert relay.send(b"{}\n") == b""
    assert relay.line.has_ended.wait(LONG)
    relay.close()
    assert relay.calls == [
        ("ready", 7, 6000), ("want", 7, DIGEST, []), ("want", 7, DIGEST, [(3, "refused")]), ("received", 7, 3, 100),
        ("ended", 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data", [b"{}\n", b'{"token": "guessed"}\n', b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\n", b"x" * 70_000, b"\n"]
)
def test_who_has_no_token_is_disconnected_and_ends_no_relay(relay: Relay, data: bytes) -> None:
    assert relay.send(data) == b""
    assert relay.calls == []
    assert not relay.line.has_ended.is_set()


@pytest.mark.parametrize(
    "data",
    [
        b'{"received": -1}\n',
        b'{"ready": {"engine_port": 0, "peer_port": 1, "reason": ""}}\n',
        b'{"want": 3}\n',
        b'{"unknown": 1}\n',
        b'{"want": "x", "failed": [[1]]}\n',
        b"[]\n",
        b"\xff\n",
    ],
)
def test_a_relay_that_sends_no_message_is_given_up(relay: Relay, data: bytes) -> None:
    relay.say(token=relay.line.token)
    assert relay.send(data) == b""
    assert relay.line.is_ready.wait(LONG), "nobody waits for it"
    assert relay.line.has_ended.is_set()
    relay.close()
    assert relay.calls == [("ended", 7)]


def served(*messages: bytes) -> tuple[list[str], list[tuple[Any, ...]], Wire]:
    """Return the answers to messages of a relay with the token, and the calls, the first and the last left out."""
    calls: list[tuple[Any, ...]] = []
    line = Line(
        7, Answers(*(lambda *values, n=name: calls.append((n, *values)) for name in ("ready", "want", "got", "ended")))
    )
    assert (len(line.token), line.port, line.reason) == (43, 0, "")
    wire = Wire(json.dumps({"token": line.token}).encode() + b"\n", *messages)
    line.serve(wire)
    assert wire.is_closed
    assert calls.pop() == ("ended", 7)
    return wire.sent.decode().split("\n")[1:-1], calls, wire


def failures(number: int) -> bytes:
    return json.dumps({"want": DIGEST, "failed": [[3, "refused"]] * number}).encode() + b"\n"


def ports(engine: int, peer: int) -> bytes:
    return json.dumps({"ready": {"engine_port": engine, "peer_port": peer, "reason": "x"}}).encode() + b"\n"


ASKED = json.dumps({"want": DIGEST, "peer": None})


@pytest.mark.parametrize(
    ("messages", "answers"),
    [
        ([failures(100)], [ASKED]),
        ([failures(101)], []),
        ([ports(1, 0), ports(65_535, 65_535)], ["{}", "{}"]),
        ([ports(0, 0)], []),
        ([ports(65_536, 0)], []),
        ([ports(1, -1)], []),
        ([ports(1, 65_536)], []),
        ([b'{"received": 0, "from": 1}\n'], ["{}"]),
        ([b'{"received": "0", "from": 1}\n'], []),
        ([b"{", b" " * 65_535, b"}\n"], ["{}"]),
        ([b"{", b" " * 65_536, b"}\n"], []),
    ],
    ids=[str(number) for number in range(11)],
)
def test_a_message_has_all_of_a_limit_and_no_more(messages: list[bytes], answers: list[str]) -> None:
    answered, _, wire = served(*messages)
    assert answered == answers
    assert wire.seconds == [45.0], "a relay is silent for ten seconds at most"
