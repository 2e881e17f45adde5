"""Tasks of a training end together; their output, their ports and their checkpoints."""

import json
import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import LONG, until
from tfprov.errors import GatherError
from tfprov.formats.checkpoint import parse_state
from tfprov.spark.distributor.child import train
from tfprov.spark.distributor.coordinator import Coordinator, Member
from tfprov.spark.distributor.log_server import LogServer
from tfprov.spark.distributor.messages import connect
from tfprov.spark.distributor.order import Order
from tfprov.spark.distributor.ports import HeldPort
from tfprov.spark.distributor.returned import write_checkpoint
from tfprov.spark.distributor.rows import End, Saved, checkpoint_rows, digest, outcome

HOST, TOKEN = "127.0.0.1", "a token"
NAMES = ("worker/0", "worker/1", "ps/0")
Stops = dict[str, tuple[str, str]]


@contextmanager
def training() -> Iterator[tuple[Coordinator, dict[str, Member], Stops]]:
    """Yield a coordinator and a member for each task, with what each has received."""
    stops: Stops = {}
    coordinator = Coordinator(HOST, TOKEN, NAMES, ("worker/0", "worker/1"))

    def member(name: str) -> Member:
        return Member(HOST, coordinator.port, TOKEN, name, lambda *stop: stops.__setitem__(name, stop))

    members = {name: member(name) for name in NAMES}
    try:
        yield coordinator, members, stops
    finally:
        for each in members.values():
            each.close()
        coordinator.close()


def answer(coordinator: Coordinator, *messages: bytes) -> bytes:
    """Send lines to a coordinator and leave; return what it has sent once it has handled them, as it hangs up then."""
    with socket.create_connection((HOST, coordinator.port), LONG) as raw:
        raw.sendall(b"".join(line + b"\n" for line in messages))
        raw.shutdown(socket.SHUT_WR)
        return raw.makefile("rb").read()


def test_servers_are_stopped_once_all_trainers_are_done() -> None:
    with training() as (coordinator, members, stops):
        hello = json.dumps({"token": TOKEN, "name": "worker/1"}).encode()
        assert answer(coordinator, hello, b'{"code": 0}') == b""
        members["worker/0"].report(0)
        until(lambda: "ps/0" in stops, "the ps is stopped")
        assert stops["ps/0"] == ("done", "worker/0"), "the last one"


def test_the_first_failure_stops_all_others_and_is_named() -> None:
    with training() as (coordinator, members, stops):
        members["worker/1"].report(-9)
        until(lambda: len(stops) == 3, "all know")
        assert set(stops.values()) == {("failed", "worker/1")}
        members["worker/0"].report(143)
        members["ps/0"].report(143)
        coordinator.wait(LONG)


def test_a_task_that_leaves_without_a_word_is_a_failure() -> None:
    with training() as (_, members, stops):
        members["ps/0"].close()
        until(lambda: stops.get("worker/0") == ("failed", "ps/0"), "it is noticed")


def test_a_lost_coordinator_stops_everybody() -> None:
    with training() as (coordinator, _, stops):
        coordinator.close()
        until(lambda: set(stops) == set(NAMES), "all stop")


def test_a_stranger_without_the_token_is_not_heard() -> None:
    with training() as (coordinator, members, stops):
        for token, name in (("another", "worker/0"), (TOKEN, "worker/9"), ("", "ps/0")):
            stranger = connect(HOST, coordinator.port, token, name)
            stranger.send({"code": 1})
            assert next(stranger.receive(), None) is None
            stranger.close()
        assert answer(coordinator, b"\xff") == b""
        for name in ("worker/0", "worker/1"):
            members[name].report(0)
        until(lambda: len(stops) == 3, "the training ends")
        assert {reason for reason, _ in stops.values()} == {"done"}


def test_the_driver_gets_lines_with_their_task_and_the_first_loss() -> None:
    lines: list[tuple[str, str]] = []
    lost: list[str] = []
    server = LogServer(HOST, TOKEN, lambda *line: lines.append(line), lost.append)
    one, two = connect(HOST, server.port, TOKEN, "worker/0"), connect(HOST, server.port, TOKEN, "worker/1")
    for number in range(30):
        one.send({"line": f"step {number}"})
    two.send({"code": 0})
    two.close()
    until(lambda: len(lines) == 30, "all lines")
    one.close()
    until(lambda: lost == ["worker/0"], "the loss")
    assert lines[0] == ("worker/0", "step 0")
    assert server.last_lines("worker/0")[-1] == "step 29"
    assert len(server.last_lines("worker/0")) == 20
    again = connect(HOST, server.port, TOKEN, "worker/0")  # a second attempt of the stage
    assert list(again.receive()) == []
    again.close()
    server.close()
    assert lost == ["worker/0"]


def test_a_task_ends_after_the_driver_has_passed_on_all_of_its_output() -> None:
    """The driver may close its log server at that moment."""
    lines: list[str] = []
    may_print, has_ended = threading.Event(), threading.Event()

    def on_line(_task: str, line: str) -> None:
        may_print.wait(LONG)
        lines.append(line)

    server = LogServer(HOST, TOKEN, on_line, lambda _task: None)
    log = connect(HOST, server.port, TOKEN, "worker/0")
    for number in range(30):
        log.send({"line": f"step {number}"})

    def end() -> None:
        log.ask({"code": 0}, LONG)
        has_ended.set()

    task = threading.Thread(target=end)
    task.start()
    assert not has_ended.wait(0.05)
    may_print.set()
    task.join(LONG)
    server.close()
    log.close()
    assert lines == [f"step {number}" for number in range(30)]


def test_a_held_port_is_given_to_nobody_but_can_be_listened_on() -> None:
    with HeldPort() as held:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("0.0.0.0", held.number))
        server = socket.socket(socket.AF_INET6)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as TensorFlow's gRPC server does
        server.bind(("::", held.number))
        server.listen()
        with socket.create_connection((HOST, held.number), LONG):
            server.accept()[0].close()
        server.close()


def saved_files(folder: Path) -> Saved:
    files = {"model.ckpt-7.index": b"index", "model.ckpt-7.data-00000-of-00001": b"x" * 5_000_000}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return Saved(str(folder), "model.ckpt-7", 7, 3, {name: digest(folder / name) for name in files})


def test_a_checkpoint_arrives_whole(tmp_path: Path) -> None:
    saved = saved_files(tmp_path)
    rows = [End("worker/0", 0, lines=("bye",)).row(), *checkpoint_rows("worker/0", saved, contents=True)]
    named = [dict(zip(("task", "kind", "name", "data"), row, strict=True)) for row in rows]
    result = outcome(named)
    assert result.ends == {"worker/0": End("worker/0", 0, lines=("bye",))}
    returned = write_checkpoint(result, tmp_path / "to")
    assert returned is not None
    assert (returned.path, returned.step, returned.tensors) == (tmp_path / "to/model.ckpt-7", 7, 3)
    assert (tmp_path / "to/model.ckpt-7.data-00000-of-00001").stat().st_size == 5_000_000
    assert parse_state((tmp_path / "to/checkpoint").read_text()) == ["model.ckpt-7"]


def test_a_damaged_checkpoint_leaves_what_was_there(tmp_path: Path) -> None:
    saved = saved_files(tmp_path)
    rows = list(checkpoint_rows("worker/0", saved, contents=True))
    named = [dict(zip(("task", "kind", "name", "data"), row, strict=True)) for row in rows[:-1]]
    (tmp_path / "to").mkdir()
    (tmp_path / "to/checkpoint").write_text("before")
    with pytest.raises(GatherError, match=r"model.ckpt-7.data-00000-of-00001 of model.ckpt-7 arrived damaged"):
        write_checkpoint(outcome(named), tmp_path / "to")
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["checkpoint"]
    assert write_checkpoint(outcome([]), tmp_path / "to") is None


@pytest.mark.parametrize(
    ("args", "code", "printed"), [((), 0, ""), ((7,), 7, ""), (("no data in /data",), 1, "no data in /data\n")]
)
def test_a_training_function_may_exit_as_a_program_does(
    args: tuple[object, ...],
    code: int,
    printed: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])  # the function sees those of a program
    assert train(Order(pickle.dumps((sys.exit, args, {})), wraps="", result="", returns=False)) == code
    assert capsys.readouterr().err == printed
