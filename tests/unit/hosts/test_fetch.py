"""Data that a host fetches, with a real web server that fails in every way, under the process runtime."""

import ast
import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bench import container
from tests.support.waiting import until
from tests.support.webserver import BIG, Listener, WebServer, serving
from tfprov.errors import HostError
from tfprov.hosts.fetching import PROGRAM
from tfprov.hosts.process import ProcessRuntime
from tfprov.model.data import DataFile, DataSet


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture
def host(tmp_path: Path) -> ProcessRuntime:
    return ProcessRuntime("h", tmp_path / "h")


def fetched(host: ProcessRuntime, data: DataSet) -> dict[str, bytes]:
    """Return the files of a data set as they are on the host."""
    return {path.name: path.read_bytes() for path in host.data.path(data.key).iterdir()}


def refused(host: ProcessRuntime, data: DataSet) -> str:
    """Return why it cannot be fetched; nothing is called whole then."""
    with pytest.raises(HostError) as caught:
        host.fetch(data, (), Listener())
    assert host.observe().delivered == frozenset()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def children() -> set[int]:
    """Return the processes of this one that run fetches."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            line = (path / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == os.getpid() and b"runtime/fetch.py" in line:
            found.add(int(path.name))
    return found


def test_the_program_can_be_read_by_older_pythons_and_fits_on_a_command_line() -> None:
    text = PROGRAM.read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "from __future__ import annotations" in text
    assert len(text.encode()) < 128 * 1024


def test_data_is_there_under_its_names_and_cannot_be_written(host: ProcessRuntime, web: WebServer) -> None:
    data, listener = web.set_of(train=BIG, test=b"12345", empty=b""), Listener()
    host.fetch(data, (), listener)
    assert fetched(host, data) == {"train": BIG, "test": b"12345", "empty": b""}
    assert host.observe().delivered == {data.artifact}
    assert {path.stat().st_mode & 0o777 for path in host.data.path(data.key).iterdir()} == {0o444}
    assert listener.moves[-1] == (len(BIG) + 5, len(BIG) + 5)
    assert not children()


def test_a_second_time_asks_nobody(host: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    host.fetch(data, (), Listener())
    asked = list(web.requests)
    host.fetch(data, (), Listener())
    assert web.requests == asked


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (401, "the server wants a password (401); give a `url` that needs none"),
        (403, "the server does not hand it out (403); correct `url`, or its permissions there"),
        (404, "is not there (404); correct `url`"),
        (410, "the server answers 410; correct `url`"),
    ],
)
def test_what_a_server_refuses_is_told_at_once_and_without_keys(
    host: ProcessRuntime, web: WebServer, answer: int, says: str
) -> None:
    web.answers["/train"] = answer
    file = DataFile("train", f"{web.base}/train?key=s3cret", "0" * 64)
    assert refused(host, DataSet((file,))) == f"h: train from {web.base}/train?...: {says}"
    assert len(web.requests) == 1


def test_a_wrong_sum_is_told_with_both_and_the_file_is_gone(host: ProcessRuntime, web: WebServer) -> None:
    web.put("/train", b"other")
    data, found = DataSet((web.named("/train", "0" * 64),)), hashlib.sha256(b"other").hexdigest()
    says = f"h: train from {web.base}/train: its sha256 is {found}, and not {'0' * 64}; correct `sha256` or `url`"
    assert refused(host, data) == says
    assert list(host.data.root.glob("*/*")) == []
    web.kind = "text/html"
    assert "(the server sent a web page)" in refused(host, data)


def test_a_connection_that_breaks_off_is_gone_on_with(host: ProcessRuntime, web: WebServer) -> None:
    data, listener = web.set_of(train=BIG), Listener()
    web.cuts = [1_000_000, 2_000_000]
    host.fetch(data, (), listener)
    assert fetched(host, data) == {"train": BIG}
    assert [ranged for _, ranged in web.requests] == ["", "bytes=1000000-", "bytes=3000000-"]
    assert listener.notes[0] == f"h: train: the connection broke off at 1000000 of {len(BIG)} bytes; trying again"


def test_a_server_that_knows_no_ranges_sends_it_again(host: ProcessRuntime, web: WebServer) -> None:
    data, web.whole, web.cuts = web.set_of(train=BIG), True, [1_000_000]
    host.fetch(data, (), Listener())
    assert fetched(host, data) == {"train": BIG}


def test_what_changed_between_two_tries_is_fetched_from_its_beginning(host: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    directory = host.data.path(data.key).with_name(f".{data.key}")
    directory.mkdir(parents=True)
    (directory / ".train.part").write_bytes(b"x" * 1000)
    host.fetch(data, (), Listener())
    assert fetched(host, data) == {"train": BIG}
    assert [ranged for _, ranged in web.requests] == ["bytes=1000-", ""]


@pytest.mark.parametrize("left", [BIG, BIG + b"more"], ids=["all", "more"])
def test_what_was_left_in_the_last_moment_is_looked_at(host: ProcessRuntime, web: WebServer, left: bytes) -> None:
    data = web.set_of(train=BIG)
    directory = host.data.path(data.key).with_name(f".{data.key}")
    directory.mkdir(parents=True)
    (directory / ".train.part").write_bytes(left)
    (directory / "train").write_bytes(b"damaged since")
    host.fetch(data, (), Listener())
    assert fetched(host, data) == {"train": BIG}
    assert [ranged for _, ranged in web.requests] == ([] if left == BIG else [f"bytes={len(left)}-", ""])


def test_a_server_that_always_breaks_off_is_given_up(host: ProcessRuntime, web: WebServer) -> None:
    data, web.whole, web.cuts = web.set_of(train=BIG), True, [1000] * 20
    assert f"the connection broke off at 1000 of {len(BIG)} bytes; look at the server" in refused(host, data)
    assert len(web.requests) == 5


def test_a_busy_server_is_asked_again(host: ProcessRuntime, web: WebServer) -> None:
    data, web.answers["/train"] = web.set_of(train=BIG), 503
    assert "the server answers 503; look at the server" in refused(host, data)
    assert len(web.requests) == 5


def test_nobody_there_is_told(host: ProcessRuntime) -> None:
    says = refused(host, DataSet((DataFile("train", "http://127.0.0.1:1/train", "0" * 64),)))
    assert "train from http://127.0.0.1:1/train: 127.0.0.1 cannot be reached: Connection refused; look at" in says


def test_a_redirect_is_followed_in_the_web_only(host: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    web.redirects = {"/moved": f"{web.base}/train", "/out": "ftp://127.0.0.1/x", "/in": "file:///etc/passwd"}
    web.redirects["/round"] = f"{web.base}/round"
    moved = DataSet((DataFile("train", f"{web.base}/moved", data.files[0].sha256),))
    host.fetch(moved, (), Listener())
    assert fetched(host, moved) == {"train": BIG}
    host.clean()
    for path, says in (("/out", "to ftp://"), ("/in", "in a circle, or out"), ("/round", "in a circle, or out")):
        assert f"the server redirects {says}" in refused(host, DataSet((web.named(path, "0" * 64),)))


def test_a_file_too_large_for_the_disk_is_not_begun(host: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)

    class Boundless(bytes):
        def __len__(self) -> int:
            return 1 << 60

    web.files["/train"] = Boundless()
    assert f"no space: {1 << 60} bytes are to come, and " in refused(host, data)


def test_a_fetch_that_is_killed_is_not_called_whole_and_gone_on_with(host: ProcessRuntime, web: WebServer) -> None:
    data, errors = web.set_of(first=b"1", train=BIG), []
    web.held = {"/train"}

    def fetch() -> None:
        try:
            host.fetch(data, (), Listener())
        except HostError as error:
            errors.append(str(error))

    thread = threading.Thread(target=fetch)
    thread.start()
    until(lambda: bool(web.halves))
    half = host.data.path(data.key).with_name(f".{data.key}") / ".train.part"
    until(lambda: half.is_file() and half.stat().st_size > 0)
    (child,) = children()
    os.kill(child, signal.SIGKILL)
    thread.join(300)
    assert errors == ["h: the data was not fetched to its end: it was ended; run this again: it goes on where it was"]
    assert host.observe().delivered == frozenset()
    web.held, received = set(), half.stat().st_size
    host.fetch(data, (), Listener())
    assert fetched(host, data) == {"first": b"1", "train": BIG}
    assert [ranged for path, ranged in web.requests if path == "/train"] == ["", f"bytes={received}-"]
    assert len(web.requests) == 3


def test_a_fetch_can_be_cut_short_also_before_it_begins(host: ProcessRuntime, web: WebServer) -> None:
    data, listener = web.set_of(train=BIG), Listener()
    web.held = {"/train"}
    listener.cut()
    with pytest.raises(HostError, match="h: the data was not fetched to its end: interrupted; run this again"):
        host.fetch(data, (), listener)
    assert not children()
    listener.cut()  # nothing is under way


def test_two_at_once_fetch_it_once(host: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    web.held = {"/train"}
    listeners = [Listener(), Listener()]
    threads = [threading.Thread(target=host.fetch, args=(data, (), listener)) for listener in listeners]
    for thread in threads:
        thread.start()
    until(lambda: any("is being fetched there already" in note for one in listeners for note in one.notes))
    web.release.set()
    for thread in threads:
        thread.join(300)
    assert fetched(host, data) == {"train": BIG}
    assert len(web.requests) == 1


def test_what_nobody_wants_and_nobody_reads_goes(host: ProcessRuntime, web: WebServer) -> None:
    old, read, wanted = (web.set_of(**{name: name.encode()}) for name in ("old", "read", "wanted"))
    for data in (old, read, wanted):
        host.fetch(data, (), Listener())
    (host.data.root / ".half").mkdir()
    host.start(container(spec={"data": {"fetch": read.key}}), "run")
    assert host.tidy([wanted.artifact]) == 1
    assert sorted(path.name for path in host.data.root.iterdir()) == sorted([read.key, wanted.key])
    host.stop("worker/0", 5)
    host.remove("worker/0")
    host.clean([wanted.artifact])
    assert host.observe().delivered == {wanted.artifact}
    host.clean()
    assert not host.root.exists()


def test_a_task_is_not_started_without_its_data(host: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    wanted = container(data=data.artifact)
    with pytest.raises(HostError, match="h: the data of worker/0 is not there; fetch it with `tfprov up`"):
        host.start(wanted, "run")
    host.fetch(data, (), Listener())
    host.start(wanted, "run")
    host.stop("worker/0", 5)
