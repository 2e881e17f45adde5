"""Several questions to an engine at once: from a scripted engine on a socket."""

import fcntl
import json
import re
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from typing import Any, cast

import pytest

from tests.support.hostile import CONTAINER, ID, LISTED, answered, recorded
from tests.support.waiting import LONG
from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.dial import DeadlineSocket, EngineTimeouts
from tfprov.hosts.docker.engine_api.events import EngineChanges
from tfprov.hosts.docker.engine_api.pipeline import Reader
from tfprov.hosts.docker.runtime import DockerRuntime

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
Respond = Callable[[str], bytes]


class Scripted:
    """An engine that keeps its connections open; `connections` has the paths asked on each, and `trips` the reads."""

    def __init__(self, respond: Respond, requests_per_connection: int = 1_000) -> None:
        self.connections: list[list[str]] = []
        self.trips: list[int] = []
        self.sockets: list[socket.socket] = []
        self._respond, self._most = respond, requests_per_connection
        self._stack = ExitStack()

    @property
    def engine(self) -> Engine:
        return Engine.from_dial("h1", self._dial, EngineTimeouts())

    def close(self) -> None:
        self._stack.close()

    def _dial(self) -> DeadlineSocket:
        near, far = socket.socketpair()
        asked: list[str] = []
        self.connections.append(asked)
        self.sockets.append(far)
        thread = threading.Thread(target=self._serve, args=(far, asked))
        thread.start()
        self._stack.callback(thread.join)
        connection = self._stack.enter_context(DeadlineSocket(fileno=near.detach()))
        connection.settimeout(LONG)
        return connection

    def _serve(self, far: socket.socket, asked: list[str]) -> None:
        with far, suppress(ConnectionError):  # a client that has seen enough closes it
            rest = b""
            while len(asked) < self._most and (data := far.recv(65_536)):
                *requests, rest = (rest + data).split(b"\r\n\r\n")
                self.trips.append(len(requests))
                for request in requests[: self._most - len(asked)]:
                    path = request.decode().split()[1]
                    asked.append(path.partition("?")[0])
                    far.sendall(self._respond(path).replace(b"Connection: close\r\n", b""))


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    with ExitStack() as stack:

        def start(*arguments: Any) -> Scripted:
            made = Scripted(*arguments)
            stack.callback(made.close)
            return made

        yield start


def runtime(engine: Engine) -> DockerRuntime:
    return DockerRuntime(engine, "lab", lambda *_: False, lambda _: (0, ""), fetches=True)


def without_restarts(path: str) -> bytes:
    """The recorded container has been restarted, about which the engine's history is asked."""
    return recorded(path).replace(b'"RestartCount": 1', b'"RestartCount": 0')


def test_a_host_is_observed_in_two_trips_on_one_connection_and_then_in_one(scripted: Callable[..., Scripted]) -> None:
    host = scripted(without_restarts)
    observing = runtime(host.engine)
    state = observing.observe()
    assert [container.task for container in state.containers] == ["ps/0"]
    assert state.delivered == {"tfprov/lab:1"}
    assert host.trips == [4, 1]
    assert observing.observe() == state
    assert host.trips == [4, 1, 4], "the details of the containers that were there come with the list"
    first = ["/version", "/containers/json", "/images/json", "/volumes", f"/v1.41/containers/{ID}/json"]
    again = ["/v1.41/containers/json", "/v1.41/images/json", "/v1.41/volumes", f"/v1.41/containers/{ID}/json"]
    assert host.connections == [[*first, *again]]


def test_a_container_in_place_of_the_one_that_was_there_is_asked_for(scripted: Callable[..., Scripted]) -> None:
    now = {"id": ID}

    def respond(path: str) -> bytes:
        name = re.fullmatch(r"(?:/v1.41)?/containers/(\w{64})/json", path)
        if name is not None and name[1] != now["id"]:
            return answered(b'{"message": "No such container: x"}', 404)
        return without_restarts(path.replace(now["id"], ID)).replace(ID.encode(), now["id"].encode())

    host = scripted(respond)
    observing = runtime(host.engine)
    assert [container.id for container in observing.observe().containers] == [ID[:12]]
    now["id"] = "b" * 64
    assert [container.id for container in observing.observe().containers] == ["b" * 12]
    assert host.trips == [4, 1, 4, 1]
    observing.observe()
    assert host.trips == [4, 1, 4, 1, 4]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_questions_that_an_engine_left_unanswered_are_asked_on_another_connection(
    scripted: Callable[..., Scripted], most: int
) -> None:
    host = scripted(without_restarts, most)
    assert runtime(host.engine).observe().delivered == {"tfprov/lab:1"}
    asked = [path for connection in host.connections for path in connection]
    assert len(asked) == 5
    assert len(host.connections) == -(-5 // most)


def test_an_engine_that_wants_a_version_in_each_path_is_asked_again(scripted: Callable[..., Scripted]) -> None:
    def respond(path: str) -> bytes:
        known = path.startswith("/v1.41/") or path == "/version"
        return without_restarts(path) if known else answered(b'{"message": "page not found"}', 404)

    assert runtime(scripted(respond).engine).observe().delivered == {"tfprov/lab:1"}


def test_an_engine_is_asked_in_an_earlier_version_for_what_later_ones_leave_out(
    scripted: Callable[..., Scripted],
) -> None:
    host = scripted(without_restarts)
    host.engine.ask("/volumes", newest="1.40")
    host.engine.ask("/volumes", newest="1.44")
    asked = [path for connection in host.connections for path in connection if path.endswith("/volumes")]
    assert asked == ["/v1.40/volumes", "/v1.41/volumes"]


def test_a_list_that_is_not_there_is_an_error_and_a_container_is_not(scripted: Callable[..., Scripted]) -> None:
    missing = "/containers/json"

    def respond(path: str) -> bytes:
        gone = answered(b'{"message": "No such container: x"}', 404)
        return gone if path.partition("?")[0].removeprefix("/v1.41") == missing else without_restarts(path)

    engine = scripted(respond).engine
    with pytest.raises(HostError, match=r"^h1: No such container: x$"):
        runtime(engine).observe()
    missing = f"/containers/{ID}/json"
    assert runtime(engine).observe().containers == ()
    missing = ""
    known = runtime(engine)
    known.observe()
    for path in ("/containers/json", "/images/json", "/volumes"):
        missing = path
        with pytest.raises(HostError, match=r"^h1: No such container: x$"):
            known.observe()
    missing = f"/containers/{ID}/json"
    assert known.observe().containers == (), "removed after the engine listed it"


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        (b"X-A: 1\r\n" * 101, "got more than 100 headers"),
        (b"X-A: " + b"1" * 70_000 + b"\r\n", "got more than 65536 bytes when reading header line"),
    ],
    ids=["many", "long"],
)
def test_too_many_headers_are_an_error_of_the_host(
    scripted: Callable[..., Scripted], headers: bytes, problem: str
) -> None:
    engine = scripted(lambda _path: b"HTTP/1.1 200 OK\r\n" + headers + b"Content-Length: 2\r\n\r\n{}").engine
    with pytest.raises(HostError, match=rf"^h1: .*{problem}"):
        runtime(engine).observe()


def test_headers_in_any_case_and_an_interim_answer_are_understood(scripted: Callable[..., Scripted]) -> None:
    def respond(path: str) -> bytes:
        answer = without_restarts(path).replace(b"Content-Length: ", b"CONTENT-LENGTH:\t")
        return b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + answer

    host = scripted(respond)
    assert runtime(host.engine).observe().delivered == {"tfprov/lab:1"}
    assert len(host.connections) == 1


def test_an_old_engine_is_refused(scripted: Callable[..., Scripted]) -> None:
    def respond(path: str) -> bytes:
        return recorded(path).replace(b'"ApiVersion": "1.41"', b'"ApiVersion": "1.39"')

    with pytest.raises(HostError, match=r"^h1: its Docker engine is too old \(API `?1\.39`?, 1\.40 is needed\)"):
        runtime(scripted(respond).engine).observe()


def test_many_containers_are_asked_for_in_bounded_batches(scripted: Callable[..., Scripted]) -> None:
    names = [f"c{number}" for number in range(120)]

    def respond(path: str) -> bytes:
        if path.partition("?")[0].endswith("/containers/json"):
            return answered(json.dumps([LISTED[0] | {"Id": name} for name in names]).encode())
        if path.endswith("/json") and "/containers/" in path:
            name = path.split("/")[-2]
            config: Any = CONTAINER["Config"]
            config = {**config, "Labels": {**config["Labels"], "tfprov.task": name}}
            return answered(json.dumps({**CONTAINER, "Id": name, "RestartCount": 0, "Config": config}).encode())
        return recorded(path)

    host = scripted(respond)
    assert [container.id for container in runtime(host.engine).observe().containers] == names
    assert host.connections[1:] == []


def test_the_changes_of_an_engine_are_noticed_without_waiting(scripted: Callable[..., Scripted]) -> None:
    host = scripted(lambda path: EVENTS if "/events" in path else recorded(path))
    changes = host.engine.changes("tfprov.cluster=lab")
    assert host.connections == [["/version"], ["/v1.41/events"]]
    assert not changes.happened()
    host.sockets[1].sendall(b'7\r\n{"a":1}\r\n')
    assert [changes.happened(), changes.happened(), changes.is_open] == [True, False, True]
    host.sockets[1].shutdown(socket.SHUT_WR)
    assert [changes.happened(), changes.is_open] == [True, False]
    assert changes.happened(), "until somebody looks without it"
    changes.close()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2_048:
        pytest.skip("this account may not open as many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2_048, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
def test_changes_are_noticed_beside_a_thousand_other_connections() -> None:
    near, far = socket.socketpair()
    with near, far:
        far.sendall(EVENTS)
        high = DeadlineSocket(fileno=fcntl.fcntl(near.fileno(), fcntl.F_DUPFD_CLOEXEC, 1_100))
        changes = EngineChanges("h1", high, "/events", EngineTimeouts())
        assert not changes.happened()
        far.sendall(b'7\r\n{"a":1}\r\n')
        assert changes.happened()
        changes.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answered(b'{"message": "page not found"}', 404), "its Docker engine does not report events (status 404)"),
        (b"SSH-2.0-x\r\n\r\n", "its Docker engine closed the connection, outcome unknown: SSH-2.0-x"),
    ],
)
def test_an_engine_without_events_is_an_error(scripted: Callable[..., Scripted], answer: bytes, reason: str) -> None:
    engine = scripted(lambda path: answer if "/events" in path else recorded(path)).engine
    with pytest.raises(HostError) as raised:
        engine.changes("tfprov.cluster=lab")
    assert raised.value.reason.startswith(reason)


def test_a_response_that_is_forgotten_unread_is_closed_without_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nun")
        response = HTTPResponse(cast(Any, Reader(ours, lambda: False)))
        response.begin()
        response.flush()  # by the finalizer, whose errors Python 3.13 prints
        response.close()
