"""An engine over SSH, on scripted channels: what it answers before a request is sent, and after a silence."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.hostile import ID, INFO, answered, recorded
from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.dial import DialStream, EngineStream, EngineTimeouts
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.hosts.ssh.stream import Stream

FULL = answered(b'{"message": "write /checkpoints/model: no space left on device"}', 500)
READ = 256 * 1024
"""Bytes that an engine with a full disk reads."""


class Channel:
    """A channel to an engine, which closes it after READ bytes; `answer` has what it answers to a method and a path."""

    closed = eof_received = False

    def __init__(self, answer: Callable[[str, str], Iterator[bytes]]) -> None:
        self._answer = answer
        self._sent, self._left = b"", b""
        self._pieces: Iterator[bytes] | None = None

    def send(self, piece: bytes) -> int:
        if len(self._sent) >= READ:
            self.closed = True
            return 0
        self._sent += piece
        return len(piece)

    def recv(self, size: int) -> bytes:
        if self._pieces is None:
            method, path = self._sent.decode("latin-1").split(" ", 2)[:2]
            self._pieces = self._answer(method, path)
        self._left = self._left or next(self._pieces, b"")
        data, self._left = self._left[:size], self._left[size:]
        return data

    def settimeout(self, _seconds: float | None) -> None:
        """Nothing here waits."""

    def gettimeout(self) -> float:
        return 1.0

    def close(self) -> None:
        self.closed = True


def stream(channel: Channel, *, alive: bool) -> Stream:
    def channel_error(action: str) -> HostError:
        return HostError("h1", f"the host closed the channel: {action}") if alive else ConnectionLost("h1", "lost")

    carrier: Any = SimpleNamespace(host="h1", alive=alive, channel_error=channel_error)
    return Stream(carrier, channel, "the connection to its Docker engine", lambda: None)


def dialled(channel: Channel, *, alive: bool) -> DialStream:
    ssh: Any = SimpleNamespace(
        host="h1", target=SimpleNamespace(become=False), stream=lambda *_, **_options: stream(channel, alive=alive),
        receive_first=lambda _stream, receive: receive(),
    )  # fmt: skip
    return DialStream(ssh, ["docker", "system", "dial-stdio"])


def forwarded(channel: Channel, *, alive: bool) -> EngineStream:
    return EngineStream(stream(channel, alive=alive))


def full_disk(method: str, path: str) -> Iterator[bytes]:
    yield FULL if method == "PUT" else recorded(path)


@pytest.mark.parametrize("dial", [dialled, forwarded])
def test_an_engine_whose_disk_is_full_says_so_before_it_has_read_all(dial: Callable[..., Any]) -> None:
    engine = Engine.from_dial("h1", lambda: dial(Channel(full_disk), alive=True), EngineTimeouts())
    with pytest.raises(HostError, match="no space left on its disk"), engine.errors():
        engine.api.put_archive(ID, "/checkpoints", iter([bytes(100_000)] * 20))


@pytest.mark.parametrize("dial", [dialled, forwarded])
def test_a_connection_that_is_lost_while_a_request_is_sent_is_no_answer_of_the_engine(dial: Callable[..., Any]) -> None:
    engine = Engine.from_dial("h1", lambda: dial(Channel(full_disk), alive=False), EngineTimeouts())
    with pytest.raises(ConnectionLost), engine.errors():
        engine.api.put_archive(ID, "/checkpoints", iter([bytes(100_000)] * 20))


def test_a_host_without_docker_has_that_reason_also_when_the_answer_is_read() -> None:
    texts = iter(["sh: docker: not found"])  # what is read once is gone
    ended: Any = SimpleNamespace(
        sendall=lambda _data: channel_closed(), recv=lambda _size: b"", wait=lambda _seconds: 127,
        error_text=lambda: next(texts, ""), close=lambda: None, settimeout=lambda _seconds: None,
        gettimeout=lambda: 1.0, connected=True,
    )  # fmt: skip

    def channel_closed() -> None:
        raise HostError("h1", "the host closed the channel")

    ssh: Any = SimpleNamespace(
        host="h1", user="trainer", target=SimpleNamespace(become=False), stream=lambda *_, **_options: ended,
        receive_first=lambda _stream, receive: receive(), explain=lambda error: error,
    )  # fmt: skip
    engine = Engine.from_dial("h1", lambda: DialStream(ssh, ["docker"]), EngineTimeouts())
    with pytest.raises(HostError, match="Docker is not installed"), engine.errors():
        engine.api.info()


@pytest.mark.parametrize("responds", [True, False])
def test_a_silent_engine_that_responds_to_a_ping_gets_more_time(responds: bool) -> None:
    asked: list[str] = []

    def busy(_method: str, path: str) -> Iterator[bytes]:
        asked.append(path.removeprefix("/v1.41"))
        if asked[-1] == "/info" and "/_ping" not in asked:
            raise TimeoutError
        if asked[-1] == "/_ping":
            if not responds:
                raise TimeoutError
            yield answered(b"OK")
        yield recorded(path)

    engine = Engine.from_dial("h1", lambda: forwarded(Channel(busy), alive=True), EngineTimeouts())
    if responds:
        assert engine.api.info()["ID"] == INFO["ID"]
        assert asked[-3:] == ["/info", "/_ping", "/info"]
    else:
        with pytest.raises(HostError, match="no answer in time"), engine.errors():
            engine.api.info()
        assert asked[-2:] == ["/info", "/_ping"]
