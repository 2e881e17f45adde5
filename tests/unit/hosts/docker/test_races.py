"""Answers of an engine at an awkward moment, from a scripted engine on a socket."""

import io
import json
import os
import re
import socketserver
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.support.hostile import CONTAINER, LISTED, framed
from tfprov.errors import HostError
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker import listing
from tfprov.hosts.docker import logs as docker_logs
from tfprov.hosts.docker.copy_in import put_into
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.answers import parse_time
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.hosts.docker.state import ExitHistory, LastRun, parse_container
from tfprov.hosts.log_lines import LogTimes
from tfprov.model.state import State

Answer = tuple[int, bytes]
Responses = Callable[[str], Answer]
"""The engine's answer to a path without the version."""


@pytest.fixture
def sent() -> list[bytes]:
    """The bodies of the requests to the engine."""
    return []


@pytest.fixture
def engine(tmp_path: Path, sent: list[bytes]) -> Iterator[Callable[[Responses], Engine]]:
    """Return the function that starts an engine of answers, each sent in one piece with its headers."""
    servers: list[tuple[socketserver.BaseServer, threading.Thread]] = []

    def start(respond: Responses) -> Engine:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sent.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                path = self.path.removeprefix("/v1.44")
                code, body = (200, b'{"ApiVersion": "1.44"}') if path.endswith("/version") else respond(path)
                head = f"HTTP/1.1 {code} -\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
                self.wfile.write(head.encode() + body)

            def do_POST(self) -> None:
                self.do_GET()

            def do_PUT(self) -> None:
                archive = b""
                while size := int(self.rfile.readline() or b"0", 16):  # in chunks
                    archive += self.rfile.read(size + 2)[:size]
                sent.append(archive)
                self.do_GET()

            def do_DELETE(self) -> None:
                self.do_GET()

            def address_string(self) -> str:
                return ""

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        path = tmp_path / f"engine{len(servers)}.sock"
        server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        servers.append((server, thread))
        thread.start()
        return Engine.local("h1", path)

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def inspect_answer(status: str) -> dict[str, Any]:
    never = "0001-01-01T00:00:00Z"
    state = {"Status": status, "Running": status == "running", "ExitCode": 0, "StartedAt": never, "FinishedAt": never}
    container = {"Id": "c1", "Name": "/c1", "Image": "sha256:1", "Created": never, "RestartCount": 0, "HostConfig": {}}
    return {**container, "State": state, "Config": {"Tty": False}}


def not_found(_path: str) -> Answer:
    return 404, b'{"message": "No such container"}'


def test_output_that_arrives_with_the_headers_is_read(engine: Callable[[Responses], Engine]) -> None:
    def respond(path: str) -> Answer:
        if path.endswith("/start"):
            return 200, framed(1, b"all of it") + framed(2, b"a word") + framed(1, b"")
        requests.append(path)
        return 200, b'{"ExitCode": 3, "Id": "e1"}' if len(requests) == 4 else b'{"ExitCode": null, "Id": "e1"}'

    requests: list[str] = []
    printed: list[tuple[int, bytes]] = []
    with (scripted := engine(respond)).errors():
        assert docker_exec.run(scripted, "c1", ["ls"], lambda *piece: printed.append(piece)) == 3
    assert printed == [(1, b"all of it"), (2, b"a word")]


def test_a_copy_that_does_not_fit_into_a_container_leaves_nothing_there(
    engine: Callable[[Responses], Engine], tmp_path: Path
) -> None:
    asked: list[str] = []

    def respond(path: str) -> Answer:
        asked.append(path.partition("?")[0])
        if asked[-1].endswith("/archive"):
            return 500, b'{"message": "write /code/.model.tfprov-part: no space left on device"}'
        if asked[-1].endswith("/start"):
            return 200, framed(1, b"0\n0\nnothing\ndirectory\nnothing\n")
        return 200, b'{"ExitCode": 0, "Id": "e1"}'

    (tmp_path / "model").write_bytes(b"weights")
    facts = {"Id": "c1", "State": {"Running": True}, "Config": {"WorkingDir": "/code"}}
    with pytest.raises(HostError, match="no space left on its disk"):
        put_into(engine(respond), facts, "model", tmp_path / "model")
    assert asked.index("/containers/c1/archive") < len(asked) - 1 - asked[::-1].index("/containers/c1/exec")


def test_a_copy_has_all_names_of_a_file_and_nothing_of_a_copy_that_was_cut_off(
    engine: Callable[[Responses], Engine], sent: list[bytes], tmp_path: Path
) -> None:
    def respond(path: str) -> Answer:
        if path.endswith("/exec"):
            requests.append(json.loads(sent[-1])["Cmd"])
        if path.partition("?")[0].endswith("/archive"):
            requests.append(sent[-2])
        if path.endswith("/start"):
            return 200, framed(1, b"0\n0\nnothing\ndirectory\nnothing\n")
        return 200, b'{"ExitCode": 0, "Id": "e1"}'

    requests: list[Any] = []
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model-5").write_bytes(b"weights")
    (tmp_path / "models" / "best").hardlink_to(tmp_path / "models" / "model-5")
    facts = {"Id": "c1", "State": {"Running": True}, "Config": {"WorkingDir": "/code"}}
    assert put_into(engine(respond), facts, "models", tmp_path / "models") == "/code/models"
    _look, remove, archive, place = requests
    part = "/code/.models.tfprov-part"
    assert remove == ["rm", "-rf", part]
    assert place[-2:] == [part, "/code/models"]
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        contents = {one.name: files.extractfile(one) for one in files if one.isreg()}
        assert {name: file.read() for name, file in contents.items() if file} == {
            ".models.tfprov-part/model-5": b"weights",
            ".models.tfprov-part/best": b"weights",
        }


def test_a_copy_that_gets_no_name_is_removed(
    engine: Callable[[Responses], Engine], sent: list[bytes], tmp_path: Path
) -> None:
    def respond(path: str) -> Answer:
        if path.endswith("/exec"):
            commands.append(json.loads(sent[-1])["Cmd"])
            if "mv -f" in commands[-1][2]:
                return 500, b'{"message": "lost"}'
        if path.endswith("/start"):
            return 200, framed(1, b"0\n0\nnothing\ndirectory\nnothing\n")
        return 200, b'{"ExitCode": 0, "Id": "e1"}'

    commands: list[list[str]] = []
    (tmp_path / "model").write_bytes(b"weights")
    facts = {"Id": "c1", "State": {"Running": True}, "Config": {"WorkingDir": "/code"}}
    with pytest.raises(HostError):
        put_into(engine(respond), facts, "model", tmp_path / "model")
    assert commands[-1] == ["rm", "-rf", "/code/.model.tfprov-part"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/no-such-name", "the container's user may not write to /; choose another directory"),
        ("/tmp/no-such-name/", "no such directory in the container: /tmp/no-such-name/; make it first"),
        ("/tmp/no-such-name", "no space left on its disk"),
    ],
)
def test_what_the_user_of_a_container_could_not_place_is_refused_before_it_is_sent(
    engine: Callable[[Responses], Engine], sent: list[bytes], tmp_path: Path, path: str, message: str
) -> None:
    def respond(path: str) -> Answer:
        if path.endswith("/exec"):
            commands.append(json.loads(sent[-1])["Cmd"])
        if path.endswith("/start"):
            nobody = 65534 if os.getuid() == 0 else None
            done = subprocess.run(commands[-1], capture_output=True, user=nobody, group=nobody, check=False)
            return 200, framed(1, done.stdout)
        if path.partition("?")[0].endswith("/archive"):
            return 500, b'{"message": "no space left on device"}'
        return 200, b'{"ExitCode": 0, "Id": "e1"}'

    commands: list[list[str]] = []
    (tmp_path / "model").write_bytes(b"weights")
    facts = {"Id": "c1", "State": {"Running": True}, "Config": {"WorkingDir": "/code"}}
    with pytest.raises(HostError, match=re.escape(message)):
        put_into(engine(respond), facts, path, tmp_path / "model")


@pytest.mark.parametrize(("code", "stopped"), [(204, True), (304, False)])
def test_a_container_that_ends_by_itself_while_it_is_stopped_has_finished(
    engine: Callable[[Responses], Engine], code: int, stopped: bool
) -> None:
    container = json.loads(json.dumps(CONTAINER))
    never = "0001-01-01T00:00:00Z"

    def respond(path: str) -> Answer:
        words, _, query = path.partition("?")
        if words.endswith("/rename"):
            container["Name"] = "/" + parse_qs(query)["name"][0]
            if code == 304:
                end()
        elif words.endswith("/stop"):
            end()
            return code, b""
        else:
            return 200, json.dumps(LISTED if words == "/containers/json" else container).encode()
        return 204, b""

    def end() -> None:
        container["State"].update(Status="exited", Running=False, ExitCode=0, FinishedAt=never)

    DockerRuntime(engine(respond), "lab", lambda *_: False, lambda _: (0, ""), lambda _: b"").stop("ps/0", 1)
    seen = parse_container(container, "h1")
    assert (seen.state, seen.stopped, seen.finished) == (State.EXITED, stopped, not stopped)


def test_a_restarting_container_is_queried_again_and_one_without_programs_is_not(
    engine: Callable[[Responses], Engine],
) -> None:
    requests: list[str] = []
    refusal = (409, b'{"message": "Container c1 is restarting, wait until the container is running"}')

    def respond(path: str) -> Answer:
        requests.append(path)
        return refusal if path.endswith("/exec") else (404, b'{"message": "Could not find the file"}')

    scripted, without_programs = engine(respond), set[str]()
    facts = {"Id": "c1", "State": {"Running": True}}
    with pytest.raises(HostError):
        listing.list_files(scripted, facts, "/checkpoints", without_programs)
    assert not without_programs
    refusal = (400, b'{"message": "exec: \\"sh\\": executable file not found in $PATH"}')
    with pytest.raises(HostError):
        listing.list_files(scripted, facts, "/checkpoints", without_programs)
    assert without_programs == {"c1"}


def test_a_container_removed_after_the_listing_is_not_observed(engine: Callable[[Responses], Engine]) -> None:
    def respond(path: str) -> Answer:
        lists = {
            "/containers/json": b'[{"Id": "c1"}, {"Id": "c2"}]',
            "/images/json": b"[]",
            "/volumes": b'{"Volumes": []}',
        }
        return next(((200, lines) for name, lines in lists.items() if path.startswith(f"{name}?")), not_found(path))

    runtime = DockerRuntime(engine(respond), "lab", lambda *_: False, lambda _: (0, ""), lambda _: b"")
    assert runtime.observe().containers == ()
    assert list(runtime.logs("ps/0", follow=True)) == []


def test_a_container_that_somebody_has_paused_runs_and_is_paused() -> None:
    observed = parse_container(inspect_answer("paused"), "h1")
    assert (observed.state, observed.paused) == (State.RUNNING, True)
    assert not parse_container(inspect_answer("running"), "h1").paused


@pytest.mark.parametrize(("code", "ending"), [(0, "exited with code 0"), (137, "it was killed: out of memory")])
def test_a_task_that_outlives_a_process_that_lacked_memory_was_not_killed(code: int, ending: str) -> None:
    """With cgroups of version 2, an engine reports it whichever process of a container was killed."""
    facts = inspect_answer("exited")
    facts["State"] |= {"OOMKilled": True, "ExitCode": code}
    assert parse_container(facts, "h1").ending == ending


def test_a_container_that_removes_itself_is_waited_for(engine: Callable[[Responses], Engine]) -> None:
    """Until it is gone, it uses the volumes that are removed next."""
    asked: list[str] = []

    def respond(path: str) -> Answer:
        asked.append(path.partition("?")[0])
        if asked[-1] == "/containers/c1/wait":
            assert "condition=removed" in path
            return 200, b'{"StatusCode": 0}'
        return 409, b'{"message": "removal of container c1 is already in progress"}'

    docker_exec.remove_ended(engine(respond), "c1")
    assert asked == ["/containers/c1", "/containers/c1/wait"]


def test_the_log_of_a_removed_container_ends(engine: Callable[[Responses], Engine]) -> None:
    assert list(docker_logs.read_lines(engine(not_found).api, "c1", None, follow=True)) == []


@pytest.mark.parametrize(("times", "shown"), [(LogTimes(since=0.0), ["a line"]), (LogTimes(until=0.0), [])])
def test_a_log_can_be_asked_for_from_the_epoch_on(
    engine: Callable[[Responses], Engine], times: LogTimes, shown: list[str]
) -> None:
    """`--since 60000d` is then; the SDK takes no such time."""
    printed = framed(1, b"2026-01-02T03:04:05Z a line\n")
    with (scripted := engine(lambda _path: (200, printed))).errors():
        assert list(docker_logs.read_lines(scripted.api, "c1", None, follow=False, times=times)) == shown


def test_a_log_that_is_followed_before_a_restart_goes_on_after_it(engine: Callable[[Responses], Engine]) -> None:
    statuses = iter(["restarting", "restarting", "running", "running", "exited", "exited"])
    prints = iter([b"first run\n", b"second run\n", b""])

    def respond(path: str) -> Answer:
        if not path.endswith("/json"):
            return 200, framed(1, next(prints, b""))
        facts = inspect_answer(next(statuses, "exited"))
        facts["State"]["FinishedAt"] = "2026-01-02T03:04:05Z"
        return 200, json.dumps({**facts, "RestartCount": 1}).encode()

    with (scripted := engine(respond)).errors():
        lines = list(docker_logs.read_lines(scripted.api, "c1", None, follow=True))
    assert lines == ["first run", "second run"]


@pytest.mark.parametrize(
    ("read_at", "started", "reported"),
    [("05.001", "05.200", None), ("05.150", "05.200", "05.190"), ("06.5", "07", "06.6")],
)
def test_what_an_engine_reads_after_the_end_of_a_run_is_not_shown_again(
    engine: Callable[[Responses], Engine], read_at: str, started: str, reported: str | None
) -> None:
    """A busy engine may read it late; its report of the end comes after that."""
    stamped = {f"2026-01-02T03:04:{read_at}Z": "last words", f"2026-01-02T03:04:{started}Z": "second run"}
    statuses = iter(["running", "restarting", "running", "exited", "exited"])
    looks = 0

    def respond(path: str) -> Answer:
        nonlocal looks
        if path.endswith("/json"):
            status = next(statuses, "exited")
            facts = {**inspect_answer(status), "RestartCount": int(looks > 0)}
            facts["State"] |= {"StartedAt": f"2026-01-02T03:04:{started}Z", "FinishedAt": "2026-01-02T03:04:05Z"}
            return 200, json.dumps(facts).encode()
        if "/events" in path:
            return 200, b"" if reported is None else json.dumps(died(f"2026-01-02T03:04:{reported}Z")).encode()
        since = float(parse_qs(path.partition("?")[2]).get("since", ["0"])[0])
        looks += 1
        lines = [text for time, text in stamped.items() if (parse_time(time) or 0) >= since][:looks]
        return 200, b"".join(framed(1, f"{line}\n".encode()) for line in lines)

    with (scripted := engine(respond)).errors():
        lines = list(docker_logs.read_lines(scripted.api, "c1", None, follow=True))
    assert lines == ["last words", "second run"]


def died(at: str) -> dict[str, Any]:
    """Return the report of an engine that a container has ended."""
    nanoseconds = round((parse_time(at) or 0) * 1000) * 1_000_000
    return {"Type": "container", "Action": "die", "timeNano": nanoseconds, "Actor": {"Attributes": {"exitCode": "5"}}}


@pytest.mark.parametrize("reported", [None, "05.190"])
def test_the_last_words_of_a_run_are_none_of_the_next(
    engine: Callable[[Responses], Engine], reported: str | None
) -> None:
    asked: list[str] = []
    facts = {**inspect_answer("running"), "RestartCount": 1}
    facts["State"] |= {"StartedAt": "2026-01-02T03:04:05.200Z", "FinishedAt": "2026-01-02T03:04:05Z"}

    def respond(path: str) -> Answer:
        if "/events" in path:
            return 200, b"" if reported is None else json.dumps(died(f"2026-01-02T03:04:{reported}Z")).encode()
        asked.extend(parse_qs(path.partition("?")[2]).get("until", []))
        return 200, framed(1, b"boom\n")

    seen = ExitHistory(engine(respond)).last(facts)
    assert seen == LastRun(None if reported is None else 5, "boom")
    until = parse_time(f"2026-01-02T03:04:{reported or '05.100'}Z")
    assert [float(time) for time in asked] == [pytest.approx(until, abs=1e-4)]


LINES = [f"2026-01-02T03:04:0{n // 2}.{n % 2}00000000Z line {n}" for n in range(8)]


@pytest.mark.parametrize(
    ("tail", "looks", "shown"),
    [
        (None, [2, 2, 5, 8], range(8)),
        (None, [0, 0, 8], range(8)),
        (3, [5, 8, 8], range(2, 8)),
        (0, [4, 4, 5, 8], range(4, 8)),
        (0, [0, 0, 3], range(3)),
        (0, [3], range(0)),
    ],
)
def test_a_polled_log_has_every_line_once(
    engine: Callable[[Responses], Engine], tail: int | None, looks: list[int], shown: range
) -> None:
    turns = 0

    def respond(path: str) -> Answer:
        nonlocal turns
        if path.endswith("/json"):
            status = "running" if turns < len(looks) - 1 else "exited"
            return 200, json.dumps(inspect_answer(status)).encode()
        requests, scripted = parse_qs(path.partition("?")[2]), LINES[: looks[turns]]
        turns += 1
        if "since" in requests:
            scripted = [
                line for line in scripted if (parse_time(line.partition(" ")[0]) or 0) >= float(requests["since"][0])
            ]
        elif requests["tail"] != ["all"]:
            scripted = scripted[-int(requests["tail"][0]) :]
        return 200, b"".join(framed(1, f"{line}\n".encode()) for line in scripted)

    with (scripted := engine(respond)).errors():
        lines = list(docker_logs.poll_lines(scripted.api, "c1", tail, threading.Lock(), interval=0.001))
    assert lines == [f"line {n}" for n in shown]
