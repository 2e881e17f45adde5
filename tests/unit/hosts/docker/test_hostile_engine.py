"""Broken and hostile engines: any answer leads to a one-line error naming the host, within limits of size and time."""

import contextlib
import copy
import io
import json
import random
import re
import resource
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support import hostile
from tests.support.examples import quick
from tests.support.hostile import ID, Endless, answered, engine, framed, recorded
from tests.support.waiting import LONG
from tfprov.engine.checkpoints.staging import Staging
from tfprov.engine.machines import _gateway
from tfprov.errors import HostError
from tfprov.formats.checkpoint import model_files
from tfprov.hosts import bounds
from tfprov.hosts.collect_facts import engine_facts
from tfprov.hosts.data_download import FetchOutput, FetchProgress
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker import listing
from tfprov.hosts.docker.archive import open_sparse
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.dial import DeadlineSocket, EngineTimeouts
from tfprov.hosts.docker.engine_api.paths import VOLUME_USAGE, program_path
from tfprov.hosts.docker.reachability_probe import Endpoint, probe
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.hosts.docker.state import parse_container
from tfprov.images import engine_images

MUTATIONS = quick(2_000)
NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, 10**400, 1.5, float("inf"), float("nan"), "", "x", "\ud800", "\x1b[2J\r\n", "é" * 50,
    "2026-13-77T99:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", [], [None], [[]], {}, {"": None},
)  # fmt: skip


def runtime(broken: Engine) -> DockerRuntime:
    return DockerRuntime(broken, "lab", lambda *_: False, lambda _: (0, ""), lambda _: b"", fetches=True)


def facts() -> dict[str, Any]:
    """Return a valid inspect answer of the container."""
    return dict(json.loads(json.dumps(hostile.CONTAINER)))


def list_checkpoints(broken: Engine) -> object:
    with broken.errors():
        return listing.list_files(broken, facts(), "/checkpoints", set())


def inspect(broken: Engine) -> object:
    with broken.errors():
        return parse_container(broken.api.inspect_container(ID), "h1")


def exit_code(broken: Engine) -> object:
    return broken.ask(program_path(ID, "json"))


def read_tail(broken: Engine) -> object:
    with broken.errors():
        return docker_files.read_tail(broken, facts(), "/checkpoints/x", 10)


REQUESTS: dict[str, tuple[str, Callable[[Engine], object]]] = {
    "version": (r"/version", lambda broken: broken.api),
    "info": (r"/info", lambda broken: engine_facts(broken, [])),
    "versions": (r"/version|/info", lambda broken: engine_facts(broken, ["tfprov/lab:1"])),
    "list": (r"/containers/json", lambda broken: engine_facts(broken, [])),
    "inspect": (r"/containers/[^/]+/json", inspect),
    "exit": (r"/events|/containers/[^/]+/logs", lambda broken: runtime(broken).observe()),
    "image": (
        r"/images/.*json",
        lambda broken: (engine_images.count_shared_layers(broken, ["a"]), engine_images.last_tag_time(broken, "x")),
    ),
    "network": (r"/networks/bridge", _gateway),
    "volumes": (r"/volumes", lambda broken: runtime(broken)._data().complete()),  # noqa: SLF001
    "sizes": (r"/system/df", lambda broken: broken.ask(VOLUME_USAGE)),
    "logs": (r"/containers/[^/]+/logs", lambda broken: list(runtime(broken).logs("ps/0"))),
    "exec": (r"/exec/[^/]+/start|.*/exec", list_checkpoints),
    "execute": (r"/exec/[^/]+/start", read_tail),
    "exit code": (r"/exec/.*", exit_code),
    "stat": (r".*/archive", lambda broken: docker_files.stat_file(broken, ID, "/checkpoints/x")),
    "changes": (r".*/changes|.*/archive", lambda broken: runtime(broken).outside.written("ps/0", model_files)),
}
"""The mutated answers, and a call that requests them."""
SCHEDULE = (*REQUESTS, *("inspect", "exit code", "volumes", "network", "stat", "execute") * 5)
"""Calls of a single request are cheap and repeated more often."""


def test_mutated_answers_raise_only_host_errors() -> None:
    chance = random.Random(18)
    failures: list[str] = []
    signal_mask_pattern = 0
    pattern = ""
    mutate: Callable[[bytes], bytes] = bytes

    def answer(_method: str, path: str) -> bytes:
        whole = recorded(path)
        return mutate(whole) if re.fullmatch(rf"(/v[\d.]+)?({pattern})", path.partition("?")[0]) else whole

    valid_engine = engine(answer)
    assert valid_engine.api, "creating a client takes as long as ten requests"
    for number in range(MUTATIONS):
        name = SCHEDULE[number % len(SCHEDULE)]
        pattern, call = REQUESTS[name]
        mutate = mutation(chance)
        try:
            call(engine(answer) if name == "version" else valid_engine)
        except HostError as error:
            signal_mask_pattern += 1
            if not str(error).startswith("h1: ") or "\n" in str(error) or "\x1b" in str(error):
                failures.append(f"{number} {name}: {error}")
        except Exception as error:
            failures.append(f"{number} {name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures[:20])
    assert MUTATIONS / 4 < signal_mask_pattern < MUTATIONS, "most mutations affect a parsed field"


def mutation(chance: random.Random) -> Callable[[bytes], bytes]:
    """Return a repeatable mutation of an answer: of its JSON, its bytes or its headers."""
    kind, seed = chance.choice(("json",) * 6 + ("bytes", "bytes", "http")), chance.random()
    mutate = {"json": _mutate_json, "bytes": _mutate_bytes, "http": _mutate_http}[kind]
    return lambda whole: mutate(whole, random.Random(seed))


def _mutate_json(whole: bytes, chance: random.Random) -> bytes:
    body = whole.partition(b"\r\n\r\n")[2]
    try:
        value = json.loads(body) if body else None
    except ValueError:
        return _mutate_bytes(whole, chance)
    stat = json.loads(json.dumps(hostile.STAT))
    top = [value, stat]
    for _ in range(chance.choice((1, 1, 2, 5))):
        holder, key = chance.choice([place for place in _places(top) if place[0] is not top or place[1] == 0])
        if isinstance(holder, dict) and chance.random() < 0.3:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.choice(NASTY))
    return answered(json.dumps(top[0]).encode(), stat=top[1])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, part in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def _mutate_bytes(whole: bytes, chance: random.Random) -> bytes:
    body = bytearray(whole.partition(b"\r\n\r\n")[2])
    at = chance.randrange(len(body) + 1)
    nasty = (b"\xff\xfe", b"\0" * 9, b"[" * 3000, b'{"a":' * 3000, b"NaN", b"1e999", b"9" * 5000, b"\\ud800", b"'", b"")
    body[at : at + chance.choice((0, 1, 8, 1000))] = chance.choice(nasty)
    return answered(bytes(body), stat=hostile.STAT)


def _mutate_http(whole: bytes, chance: random.Random) -> bytes:
    head, _, body = whole.partition(b"\r\n\r\n")
    return chance.choice((
        b"", b"HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 99999 x\r\n\r\n", head, head + b"\r\n\r\n", body,
        answered(body, 302, headers="Location: http://elsewhere/\r\n"), answered(body, 204), answered(b"", 200),
        answered(body, headers="Content-Encoding: gzip\r\n"), answered(b'{"message": ["\\ud800"]}', 500),
        answered(b"[1]", 404), answered(b"\xff" * 9000, 500), answered(b'"x"', 409), answered(b"[" * 4000, 400),
        b"HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 200 -\r\nContent-Length: x\r\n\r\n" + body,
        b"HTTP/1.1 200 -\r\nContent-Length: 99999\r\n\r\n" + body, b"HTTP/1.1 200 -\r\nNo colon\r\n\r\n" + body,
        b"HTTP/1.1 200 -\r\n" + b"a: b\r\n" * 200 + b"\r\n" + body, b"HTTP/1.1 200 " + b"x" * 70000 + b"\r\n\r\n",
    ))  # fmt: skip


CHUNKED = b"HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20))
ENDLESS: dict[str, tuple[str, bytes, bytes, str]] = {
    "version in chunks": ("/version", CHUNKED, PIECE, "sent an answer longer than 16 MiB"),
    "one chunk of any length": ("/version", CHUNKED + b"7fffffffffffffff\r\n", bytes(1 << 20), "longer than 16 MiB"),
    "a list": ("/containers/json", CHUNKED, PIECE, "sent an answer longer than 16 MiB"),
    "a header": ("/version", b"HTTP/1.1 200 ", b"x" * 4096, "closed the connection"),
    "headers": ("/version", b"HTTP/1.1 200 -\r\n", b"a: b\r\n", "closed the connection"),
    "an error": ("/containers/json", b"HTTP/1.1 500 -\r\n\r\n", b"words ", "words"),
}


def test_endless_answers_are_bounded() -> None:
    failures = []
    for name, (request, head, piece, expected) in ENDLESS.items():
        source = Endless(head, piece)

        def answer(_method: str, path: str, request: str = request, source: Endless = source) -> Any:
            return source if path.partition("?")[0].endswith(request) else recorded(path)

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(HostError, match=r"^h1: [^\n]*$") as raised:
            runtime(engine(answer)).observe()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if (
            expected not in str(raised.value)
            or source.sent > 2 * bounds.ENGINE_ANSWER
            or grown > 6 * bounds.ENGINE_ANSWER
        ):
            failures.append(f"{name}: {raised.value}; {source.sent} bytes read, {grown} bytes more in memory")
    assert not failures, "\n".join(failures)


def test_a_frame_of_any_announced_length_is_read_in_chunks() -> None:
    head = b"HTTP/1.1 200 -\r\n\r\n" + framed(1, b"first\n") + b"\1\0\0\0\xff\xff\xff\xff"
    source = Endless(head, b"x" * 65_536)

    def answer(_method: str, path: str) -> Any:
        nonlocal source
        source = Endless(head, b"x" * 65_536)
        return source if "/logs" in path else recorded(path)

    lines = runtime(engine(answer)).logs("ps/0")
    assert next(lines) == "first"
    assert source.sent < 1 << 20, "unrequested data is not read"
    with (
        pytest.raises(HostError, match=r"^h1: its Docker engine sent a log longer than 64 MiB: the rest is not read; "),
        (broken := engine(answer)).errors(),
    ):
        for _ in broken.api.logs(ID, stream=True, follow=False):
            pass


def scripted(serve: Callable[[socket.socket, bytes], object], timeouts: EngineTimeouts) -> Engine:
    """Return an engine whose connections are each served in a thread: `serve` gets the socket and the request."""

    def dial() -> DeadlineSocket:
        near, far = socket.socketpair()

        def answer() -> None:
            with far, contextlib.suppress(OSError):
                serve(far, far.recv(65_536))
                far.recv(1)  # until the other side hangs up

        threading.Thread(target=answer, daemon=True).start()
        return DeadlineSocket(fileno=near.detach())

    return Engine.from_dial("h1", dial, timeouts)


def hung(*pieces: bytes, pause: float = 0.0) -> Engine:
    """Return an engine that accepts every request, sends `pieces` and falls silent."""

    def serve(far: socket.socket, _request: bytes) -> None:
        for piece in pieces:
            far.sendall(piece)
            time.sleep(pause)

    return scripted(serve, EngineTimeouts(action=0.4, query=0.05, ping=0.05))


PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK"
CALLS: tuple[Callable[[Engine], object], ...] = (lambda hung: hung.api, lambda hung: hung.ask("/info"))
"""Requests by the SDK, and of ours."""
HUNG: dict[str, tuple[tuple[bytes, ...], float]] = {
    "no answer": ((), 0.0),
    "half of the headers": ((b"HTTP/1.1 200 OK\r\nContent-",), 0.0),
    "half of a body": ((b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",), 0.0),
    "half of a chunk": ((CHUNKED, b"ff\r\n{"), 0.0),
    "a byte at a time": ((CHUNKED, *(b"1\r\n \r\n",) * 2_000), 0.02),
    "headers without an end": ((b"HTTP/1.1 200 OK\r\n", *(b"a: b\r\n",) * 2_000), 0.02),
    "interim answers without an end": ((b"HTTP/1.1 100 Continue\r\n\r\n",) * 2_000, 0.02),
}


def test_a_hanging_engine_is_reported_in_time() -> None:
    failures = []
    for (name, (pieces, pause)), call in product(HUNG.items(), CALLS):
        started = time.monotonic()
        with pytest.raises(HostError) as raised:
            call(hung(*pieces, pause=pause))
        took = time.monotonic() - started
        if str(raised.value) != "h1: its Docker engine did not answer in time; look at its load and its disk":
            failures.append(f"{name}: {raised.value}")
        if took > 20:  # the engine would send for 40 s
            failures.append(f"{name}: {took:.1f} s")
    assert not failures, "\n".join(failures)


VERSION = b'{"ApiVersion":"1.41"}'


@pytest.mark.parametrize("name", ["headers without an end", "interim answers without an end"])
def test_events_that_do_not_begin_are_given_up_in_time(name: str) -> None:
    pieces, pause = HUNG[name]

    def serve(far: socket.socket, request: bytes) -> None:
        if b"/version" in request:
            far.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(VERSION) + VERSION)
            return
        for piece in pieces:
            far.sendall(piece)
            time.sleep(pause)

    timeouts = EngineTimeouts()
    engine = scripted(serve, timeouts)
    engine.ask()  # its version
    timeouts.query = 0.05
    started = time.monotonic()
    with pytest.raises(HostError, match=r"^h1: its Docker engine did not answer in time"):
        engine.changes("tfprov.cluster=lab")
    assert time.monotonic() - started < 20, "it would send for 40 s"


@pytest.mark.parametrize("call", CALLS)
def test_an_engine_that_answers_pings_gets_more_time(call: Callable[[Engine], object]) -> None:
    pinged = threading.Event()

    def serve(far: socket.socket, request: bytes) -> None:
        if b"/_ping" in request:
            pinged.set()
        else:
            assert pinged.wait(LONG), "it is asked when it has been silent for too long"
        far.sendall(PONG)

    with pytest.raises(HostError, match="malformed answer: no JSON: `OK`"):
        call(scripted(serve, EngineTimeouts(action=LONG, query=0.05, ping=LONG)))


def test_an_engine_may_collect_an_image_before_it_sends_it_and_unpack_one_in_silence() -> None:
    def serve(far: socket.socket, request: bytes) -> None:
        if b"/images/" in request:
            time.sleep(0.6)
        loads = b"/images/load" in request
        far.sendall(answered(b'{"stream": "Loaded"}' if loads else b"archive" if b"/images/" in request else VERSION))

    timeouts = EngineTimeouts()
    api = scripted(serve, timeouts).api
    timeouts.action = timeouts.query = timeouts.ping = timeouts.busy = 0.05
    assert b"".join(api.get_image("tfprov/lab:1")) == b"archive"
    assert list(api.load_image(iter([b"archive"]))) == [{"stream": "Loaded"}]  # type: ignore[no-untyped-call]


def test_the_default_timeouts_are_the_documented_ones() -> None:
    timeouts = EngineTimeouts()
    assert timeouts.query + timeouts.ping == 20
    assert (timeouts.busy, timeouts.action) == (60, 120)


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(expected: bytes) -> bytes:
    """Return an extended header and its member of 4 bytes."""
    return (
        header(tarfile.XHDTYPE, len(expected))
        + expected.ljust(512, b"\0")
        + header(tarfile.REGTYPE, 4)
        + b"data".ljust(512)
    )


LONG_NAME = header(tarfile.GNUTYPE_LONGNAME, 1 << 40)
SPARSE = bytearray(header(tarfile.GNUTYPE_SPARSE, 512))
SPARSE[482:483] = b"\1"
SPARSE[148:156] = b"%06o\0 " % (sum(SPARSE[:148]) + sum(SPARSE[156:512]) + 256)
ARCHIVES: dict[str, tuple[bytes, bytes]] = {
    "a name of a terabyte": (LONG_NAME, bytes(65_536)),
    "names of names": (b"", header(tarfile.GNUTYPE_LONGNAME, 1) + b"x".ljust(512, b"\0")),
    "an extended header of a terabyte": (header(tarfile.XHDTYPE, 1 << 40), b"7 a=b\n\0" * 8192),
    "a sparse file of any number of pieces": (bytes(SPARSE), b"\0" * 504 + b"\1" + b"\0" * 7),
    "no archive": (b"", b"x" * 512),
    "numbers that are none": (extended(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n23 GNU.sparse.size=abc\n"), b""),
    "a size below nothing": (extended(b"11 size=-9\n"), b""),
    "the end of no header": (header(tarfile.REGTYPE, 1 << 40), b""),
}


def test_broken_archives_raise_host_errors_and_their_headers_are_bounded() -> None:
    failures = []
    ended = facts() | {"State": {"Running": False, "Status": "exited"}}
    for name, (head, piece) in ARCHIVES.items():
        whole = answered(b"", stat=hostile.STAT).replace(b"Content-Length: 0\r\n", b"") + head

        for operation, read in (
            ("list", lambda broken: listing.list_files(broken, ended, "/checkpoints", {ID})),
            ("read", lambda broken: docker_files.open_file(broken, ended, "/checkpoints/x").read()),
            ("tree", lambda broken: [file for _, _, file in docker_files.open_tree(broken, ID, "/checkpoints")]),
        ):
            source = Endless(whole, piece) if piece else None

            def answer(_method: str, path: str, source: Any = source, whole: bytes = whole) -> Any:
                return (source or whole) if "/archive" in path else recorded(path)

            try:
                read(engine(answer))
                failures.append(f"{name}, {operation}: no error")
            except HostError as error:
                if not str(error).startswith("h1: /checkpoints"):
                    failures.append(f"{name}, {operation}: {error}")
            except Exception as error:
                failures.append(f"{name}, {operation}: {type(error).__name__}: {error}")
            if source and source.sent > 4 * bounds.ARCHIVE_HEADER:
                failures.append(f"{name}, {operation}: {source.sent} bytes read")
    assert not failures, "\n".join(failures)


def test_malformed_output_of_a_program_in_a_container_raises_host_errors() -> None:
    printed = [b""]

    def answer(_method: str, path: str) -> bytes:
        if path.endswith("/start"):
            return answered(framed(1, printed[0])).replace(b"Content-Length", b"X-Was")
        return recorded(path)

    broken, target = engine(answer), [Endpoint("10.0.0.2", 2222)]
    for printed[0] in (b"", b"7", b"[]", b"[1]", b'["ok", "ok"]', b"[" * 3000, b"\xff", b'{"a": 1}', b"[NaN]"):
        with pytest.raises(HostError, match=r"^h1: its Docker engine sent a malformed answer: "):
            probe(broken, ID, target)
    for printed[0] in (b"x 1\n", b"1\n", b"-5 3\nabc", b"9 0 0\n", b"9" * 100, b"0 3\nabc2 3\nabc", b"0 9\nab"):
        member = open_sparse(broken, facts(), "/checkpoints/x")
        assert member is not None
        with pytest.raises(HostError, match=r"^h1: /checkpoints/x was not sent "):
            member.read()
    notes: list[str] = []
    answers = FetchOutput("h1", FetchProgress(lambda *_: None, notes.append))
    for line in (
        b"7\n",
        b"[" * 3000 + b"\n",
        b'"wrong"\n',
        b'{"at": "x", "of": []}\n',
        b'{"done": null}\n',
        b"\xff\n",
    ):
        answers.append(1, line)
    answers.append(1, b'{"note": ["\\u001b[2J"]}\n')
    assert notes == ["h1: [`\\x1b[2J`]"]
    with pytest.raises(HostError, match=r"^h1: 7$"):
        answers.append(1, b'{"wrong": 7}\n')


OUTSIDE = ("model/../../evil", "model/../../../evil", "../evil", "model/./evil", "/evil/../../x", "..")
KINDS = (tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)


def packed(*members: tarfile.TarInfo, content: bytes = b"data") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return file.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def test_only_regular_files_of_an_archive_are_written_and_only_below_the_directory(tmp_path: Path) -> None:
    """Like `gather --path model`."""

    def gather(archive: bytes, number: int) -> Staging:
        broken = engine(lambda _, path: answered(archive, stat=hostile.STAT) if "/archive" in path else recorded(path))
        staging = Staging(tmp_path / "home" / "out" / str(number) / ".part", lambda *_: None)
        files = (
            (f"model/{name}", file, content) for name, file, content in docker_files.open_tree(broken, ID, "/x/model")
        )
        staging.take(files, "h1")
        return staging

    def written(below: Path) -> dict[str, bytes]:
        return {str(path.relative_to(below)): path.read_bytes() for path in below.rglob("*") if not path.is_dir()}

    failures = []
    for number, name in enumerate(OUTSIDE):
        try:
            gather(packed(member("model/good"), member(name)), number)
            failures.append(f"{name}: no error")
        except HostError as error:
            what = "h1: a file that is called .* would not stay in the directory that is gathered into"
            if not re.fullmatch(f"{what}; look at its Docker engine: it should not send that", str(error)):
                failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)
    assert set(written(tmp_path).values()) == {b"data"}
    assert {name.rpartition("/")[2] for name in written(tmp_path)} == {"good"}
    special = [member(f"model/{kind.decode()}", kind, "/etc/passwd") for kind in KINDS]
    # A link to a directory, and a file below it.
    trap = [member("model/d", tarfile.SYMTYPE, str(tmp_path)), member("model/d/behind"), member("model/two\nlines")]
    last = gather(packed(*special, *trap), len(OUTSIDE))
    assert written(last.directory) == {"model/d/behind": b"data", "model/two\nlines": b"data"}
    assert not (tmp_path / "behind").exists()
    with pytest.raises(HostError, match="is a hard link to another file"):
        gather(packed(member("model/hard", tarfile.LNKTYPE, "/etc/passwd")), len(OUTSIDE) + 1)


ERROR = "pull access denied for app"
DETAIL = {"code": 1, "message": ERROR}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"error": ERROR, "errorDetail": DETAIL}, ERROR),
        ({"errorDetail": DETAIL}, ERROR),
        ({"error": "", "errorDetail": DETAIL}, ERROR),
        ({"error": ERROR}, ERROR),
        ({"errorDetail": {"code": 1}}, "an error without a text"),
        ({"error": "", "errorDetail": None, "status": "Pulling"}, None),
        ({"status": "Pulling"}, None),
    ],
)
def test_the_error_of_a_pull_is_read_from_either_field(message: dict[str, Any], error: str | None) -> None:
    """Engines say it twice, in a text and in details, and will leave out the text."""
    lines = b'{"status": "Pulling from app"}\r\n' + json.dumps(message).encode() + b"\r\n"
    broken = engine(lambda _, path: answered(lines) if "/images/create" in path else recorded(path))
    with broken.errors():
        messages = list(broken.api.pull("app:1", stream=True, decode=True))
    assert [it["error"] for it in messages if "error" in it] == ([error] if error else [])
    if error:
        with pytest.raises(HostError, match=r"the registry refuses access to app:1|an error without a text"):
            engine_images.pull_image(broken, "app:1")
