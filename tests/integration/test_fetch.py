"""Fetch data with the process runtime, from a real web server that fails in every way."""

import ast
import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runtime_bench import container
from tests.support.waiting import until
from tests.support.webserver import BIG, Listener, WebServer, serving
from tfprov.errors import HostError
from tfprov.hosts.data_download import PROGRAM
from tfprov.hosts.process.runtime import ProcessRuntime
from tfprov.model.state import DataFile, DataSet


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture
def runtime(tmp_path: Path) -> ProcessRuntime:
    return ProcessRuntime("h", tmp_path / "h")


def fetched_files(runtime: ProcessRuntime, data: DataSet) -> dict[str, bytes]:
    """Return the files of a data set as they are on the host."""
    return {path.name: path.read_bytes() for path in runtime.data.path(data.key).iterdir()}


def fetch_error(runtime: ProcessRuntime, data: DataSet) -> str:
    """Return the error of a fetch that fails and delivers nothing."""
    with pytest.raises(HostError) as caught:
        runtime.fetch(data, (), Listener())
    assert runtime.observe().delivered == frozenset()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def children() -> set[int]:
    """Return the pids of child processes that run a fetch."""
    digest = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            line = (path / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == os.getpid() and b"runtime/fetch.py" in line:
            digest.add(int(path.name))
    return digest


def test_the_program_can_be_read_by_older_pythons_and_fits_on_a_command_line() -> None:
    text = PROGRAM.read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "from __future__ import annotations" in text
    assert len(text.encode()) < 128 * 1024


def test_data_is_fetched_under_its_names_and_is_read_only(runtime: ProcessRuntime, web: WebServer) -> None:
    data, listener = web.set_of(train=BIG, test=b"12345", empty=b""), Listener()
    runtime.fetch(data, (), listener)
    assert fetched_files(runtime, data) == {"train": BIG, "test": b"12345", "empty": b""}
    assert runtime.observe().delivered == {data.artifact}
    assert {path.stat().st_mode & 0o777 for path in runtime.data.path(data.key).iterdir()} == {0o444}
    assert listener.moves[-1] == (len(BIG) + 5, len(BIG) + 5)
    assert not children()


def test_a_second_fetch_sends_no_request(runtime: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    runtime.fetch(data, (), Listener())
    requests_before = list(web.requests)
    runtime.fetch(data, (), Listener())
    assert web.requests == requests_before


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "the server wants a password (401); give a `url` that needs none"),
        (403, "the server does not hand it out (403); correct `url`, or its permissions there"),
        (404, "is not there (404); correct `url`"),
        (410, "the server answers 410; correct `url`"),
    ],
)
def test_an_http_error_is_reported_at_once_and_without_keys(
    runtime: ProcessRuntime, web: WebServer, status: int, message: str
) -> None:
    web.answers["/train"] = status
    file = DataFile("train", f"{web.base}/train?key=s3cret", "0" * 64)
    assert fetch_error(runtime, DataSet((file,))) == f"h: train from {web.base}/train?...: {message}"
    assert len(web.requests) == 1


def test_a_wrong_checksum_is_reported_with_both_sums_and_the_file_is_removed(
    runtime: ProcessRuntime, web: WebServer
) -> None:
    web.put("/train", b"other")
    data, digest = DataSet((web.named("/train", "0" * 64),)), hashlib.sha256(b"other").hexdigest()
    message = f"h: train from {web.base}/train: its sha256 is {digest}, and not {'0' * 64}; correct `sha256` or `url`"
    assert fetch_error(runtime, data) == message
    assert list(runtime.data.root.glob("*/*")) == []
    web.kind = "text/html"
    assert "(the server sent a web page)" in fetch_error(runtime, data)


def test_a_fetch_resumes_after_a_broken_connection(runtime: ProcessRuntime, web: WebServer) -> None:
    data, listener = web.set_of(train=BIG), Listener()
    web.cuts = [1_000_000, 2_000_000]
    runtime.fetch(data, (), listener)
    assert fetched_files(runtime, data) == {"train": BIG}
    assert [ranged for _, ranged in web.requests] == ["", "bytes=1000000-", "bytes=3000000-"]
    assert listener.notes[0] == f"h: train: the connection broke off at 1000000 of {len(BIG)} bytes; trying again"


def test_a_server_without_ranges_sends_the_file_again(runtime: ProcessRuntime, web: WebServer) -> None:
    data, web.whole, web.cuts = web.set_of(train=BIG), True, [1_000_000]
    runtime.fetch(data, (), Listener())
    assert fetched_files(runtime, data) == {"train": BIG}


def test_a_file_that_changed_between_two_tries_is_fetched_from_its_beginning(
    runtime: ProcessRuntime, web: WebServer
) -> None:
    data = web.set_of(train=BIG)
    directory = runtime.data.path(data.key).with_name(f".{data.key}")
    directory.mkdir(parents=True)
    (directory / ".train.part").write_bytes(b"x" * 1000)
    runtime.fetch(data, (), Listener())
    assert fetched_files(runtime, data) == {"train": BIG}
    assert [ranged for _, ranged in web.requests] == ["bytes=1000-", ""]


@pytest.mark.parametrize("partial", [BIG, BIG + b"more"], ids=["all", "more"])
def test_a_complete_or_longer_partial_file_is_verified(runtime: ProcessRuntime, web: WebServer, partial: bytes) -> None:
    data = web.set_of(train=BIG)
    directory = runtime.data.path(data.key).with_name(f".{data.key}")
    directory.mkdir(parents=True)
    (directory / ".train.part").write_bytes(partial)
    (directory / "train").write_bytes(b"damaged since")
    runtime.fetch(data, (), Listener())
    assert fetched_files(runtime, data) == {"train": BIG}
    assert [ranged for _, ranged in web.requests] == ([] if partial == BIG else [f"bytes={len(partial)}-", ""])


def test_a_fetch_fails_when_every_connection_breaks_off(runtime: ProcessRuntime, web: WebServer) -> None:
    data, web.whole, web.cuts = web.set_of(train=BIG), True, [1000] * 20
    assert f"the connection broke off at 1000 of {len(BIG)} bytes; look at the server" in fetch_error(runtime, data)
    assert len(web.requests) == 5


def test_a_busy_server_is_tried_again(runtime: ProcessRuntime, web: WebServer) -> None:
    data, web.answers["/train"] = web.set_of(train=BIG), 503
    assert "the server answers 503; look at the server" in fetch_error(runtime, data)
    assert len(web.requests) == 5


def test_an_unreachable_server_is_reported(runtime: ProcessRuntime) -> None:
    message = fetch_error(runtime, DataSet((DataFile("train", "http://127.0.0.1:1/train", "0" * 64),)))
    assert "train from http://127.0.0.1:1/train: 127.0.0.1 cannot be reached: Connection refused; look at" in message


def test_redirects_are_followed_to_web_servers_only(runtime: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    web.redirects = {"/moved": f"{web.base}/train", "/out": "ftp://127.0.0.1/x", "/in": "file:///etc/passwd"}
    web.redirects["/round"] = f"{web.base}/round"
    moved = DataSet((DataFile("train", f"{web.base}/moved", data.files[0].sha256),))
    runtime.fetch(moved, (), Listener())
    assert fetched_files(runtime, moved) == {"train": BIG}
    runtime.clean()
    for path, message in (("/out", "to ftp://"), ("/in", "in a circle, or out"), ("/round", "in a circle, or out")):
        assert f"the server redirects {message}" in fetch_error(runtime, DataSet((web.named(path, "0" * 64),)))


def test_a_file_too_large_for_the_disk_is_not_begun(runtime: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)

    class Boundless(bytes):
        def __len__(self) -> int:
            return 1 << 60

    web.files["/train"] = Boundless()
    assert f"no space: {1 << 60} bytes are to come, and " in fetch_error(runtime, data)


def test_a_killed_fetch_is_not_delivered_and_resumes(runtime: ProcessRuntime, web: WebServer) -> None:
    data, errors = web.set_of(first=b"1", train=BIG), []
    web.held = {"/train"}

    def fetch() -> None:
        try:
            runtime.fetch(data, (), Listener())
        except HostError as error:
            errors.append(str(error))

    thread = threading.Thread(target=fetch)
    thread.start()
    until(lambda: bool(web.halves))
    half = runtime.data.path(data.key).with_name(f".{data.key}") / ".train.part"
    until(lambda: half.is_file() and half.stat().st_size > 0)
    (child,) = children()
    os.kill(child, signal.SIGKILL)
    thread.join(300)
    assert errors == ["h: the data was not fetched to its end: it was ended; run this again: it goes on where it was"]
    assert runtime.observe().delivered == frozenset()
    web.held, received = set(), half.stat().st_size
    runtime.fetch(data, (), Listener())
    assert fetched_files(runtime, data) == {"first": b"1", "train": BIG}
    assert [ranged for path, ranged in web.requests if path == "/train"] == ["", f"bytes={received}-"]
    assert len(web.requests) == 3


def test_a_fetch_can_be_interrupted_before_it_begins(runtime: ProcessRuntime, web: WebServer) -> None:
    data, listener = web.set_of(train=BIG), Listener()
    web.held = {"/train"}
    listener.cancel()
    with pytest.raises(HostError, match="h: the data was not fetched to its end: interrupted; run this again"):
        runtime.fetch(data, (), listener)
    assert not children()
    listener.cancel()  # nothing is under way


def test_two_concurrent_fetches_fetch_the_data_once(runtime: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    web.held = {"/train"}
    listeners = [Listener(), Listener()]
    threads = [threading.Thread(target=runtime.fetch, args=(data, (), listener)) for listener in listeners]
    for thread in threads:
        thread.start()
    until(lambda: any("is being fetched there already" in note for one in listeners for note in one.notes))
    web.release.set()
    for thread in threads:
        thread.join(300)
    assert fetched_files(runtime, data) == {"train": BIG}
    assert len(web.requests) == 1


def test_unused_data_is_removed(runtime: ProcessRuntime, web: WebServer) -> None:
    old, read, wanted = (web.set_of(**{name: name.encode()}) for name in ("old", "read", "wanted"))
    for data in (old, read, wanted):
        runtime.fetch(data, (), Listener())
    (runtime.data.root / ".half").mkdir()
    runtime.start(container(spec={"data": {"fetch": read.key}}), "run")
    assert runtime.remove_unused_data([wanted.artifact]) == 1
    assert sorted(path.name for path in runtime.data.root.iterdir()) == sorted([read.key, wanted.key])
    runtime.stop("worker/0", 5)
    runtime.remove("worker/0")
    runtime.clean([wanted.artifact])
    assert runtime.observe().delivered == {wanted.artifact}
    runtime.clean()
    assert not runtime.root.exists()


def test_a_task_is_not_started_without_its_data(runtime: ProcessRuntime, web: WebServer) -> None:
    data = web.set_of(train=BIG)
    wanted = container(data=data.artifact)
    with pytest.raises(HostError, match="h: the data of worker/0 is not there; fetch it with `tfprov up`"):
        runtime.start(wanted, "run")
    runtime.fetch(data, (), Listener())
    runtime.start(wanted, "run")
    runtime.stop("worker/0", 5)
