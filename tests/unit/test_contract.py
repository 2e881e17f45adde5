"""What every Runtime keeps, tried on hosts in memory and on real processes alike."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.bench import MemoryBench, ProcessBench, code, container, until
from tfprov.errors import HostError
from tfprov.model.state import State

AnyBench = MemoryBench | ProcessBench


@pytest.fixture(params=["memory", "process"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBench]:
    made: AnyBench = MemoryBench() if request.param == "memory" else ProcessBench(tmp_path)
    yield made
    made.close()


def test_an_untouched_host_has_nothing(bench: AnyBench) -> None:
    seen = bench.runtime.observe()
    assert (seen.host, seen.containers, seen.delivered) == ("h", (), frozenset())
    assert bench.runtime.files("worker/0") == {}
    assert list(bench.runtime.logs("worker/0")) == []


def test_delivered_code_is_seen_and_delivered_once(bench: AnyBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="print('hello')")
    for _ in range(2):
        bench.runtime.deliver(packed.digest, packed.archive)
        assert bench.runtime.observe().delivered == {packed.digest}


def test_a_started_task_runs_with_the_spec_and_the_run_it_was_given(bench: AnyBench) -> None:
    started = bench.start(container(spec={"flags": {"steps": "2", "on": None}}), run="run-7")
    seen = bench.see()
    assert (seen.state, seen.host, seen.run, seen.spec) == (State.RUNNING, "h", "run-7", started.spec)
    assert seen.id
    assert seen.exit_code is None
    assert not seen.finished


def test_a_task_is_never_started_twice(bench: AnyBench) -> None:
    bench.start(container())
    before = bench.see()
    with pytest.raises(HostError, match="h: worker/0 is already running"):
        bench.start(container())
    assert bench.see() == before


def test_a_second_task_is_refused_a_port_that_is_taken_and_told_by_whom(bench: AnyBench) -> None:
    first = bench.start_answering()
    with pytest.raises(HostError, match=rf"port {first.task.port} for worker/1 is taken by \w+"):
        bench.start(container("worker/1", port=first.task.port))
    assert [seen.task for seen in bench.runtime.observe().containers if seen.state is State.RUNNING] == ["worker/0"]


def test_whether_a_task_serves_is_asked_at_its_port(bench: AnyBench) -> None:
    assert not bench.runtime.serves(container().task)
    started = bench.start_answering()
    assert bench.runtime.serves(started.task)
    bench.runtime.stop("worker/0", 5)
    assert not bench.runtime.serves(started.task)


@pytest.mark.parametrize("ends", [0, 3])
def test_an_end_is_seen_with_its_exit_code(bench: AnyBench, ends: int) -> None:
    bench.run_to_end(ends)
    seen = bench.see()
    assert (seen.state, seen.exit_code, seen.stopped, seen.restarts) == (State.EXITED, ends, False, 0)
    assert seen.finished is (ends == 0)
    assert seen.finished_at is not None


def test_a_program_that_is_not_there_ends_with_127_and_says_so(bench: AnyBench) -> None:
    bench.start_unstartable()
    seen = bench.becomes(State.EXITED)
    assert seen.exit_code == 127
    assert seen.ending == "could not start: No such file or directory: no-such-program"


def test_a_stopped_task_has_ended_because_it_was_stopped(bench: AnyBench) -> None:
    bench.start(container(argv=["sh", "-c", "echo up; exec sleep 3600"]))
    if isinstance(bench, MemoryBench):
        bench.memory.prints("worker/0", "up")
    until(lambda: "up" in list(bench.runtime.logs("worker/0")))  # before, a container's init may lose a signal
    bench.runtime.stop("worker/0", 5)
    seen = bench.see()
    assert (seen.state, seen.exit_code, seen.stopped, seen.ending) == (State.EXITED, 143, True, "stopped")


def test_to_stop_what_does_not_run_changes_nothing(bench: AnyBench) -> None:
    bench.runtime.stop("worker/0", 5)
    bench.run_to_end(3)
    before = bench.see()
    bench.runtime.stop("worker/0", 5)
    assert bench.see() == before


def test_an_ended_task_can_be_started_again_and_keeps_its_checkpoints_and_log(bench: AnyBench) -> None:
    bench.run_to_end(3, ["first"])
    bench.save("worker/0", "model.ckpt-1.index", b"12345")
    bench.run_to_end(0, ["second"])
    assert bench.see().finished
    assert bench.runtime.files("worker/0")["model.ckpt-1.index"].size == 5
    assert list(bench.runtime.logs("worker/0")) == ["first", "second"]


def test_a_failing_task_is_restarted_as_often_as_it_was_asked(bench: AnyBench) -> None:
    bench.start(container(argv=[sys.executable, "-c", "raise SystemExit(5)"], restart="on-failure", max_restarts=1))
    if isinstance(bench, MemoryBench):
        bench.memory.exits("worker/0", 5)
        bench.memory.exits("worker/0", 5)
    seen = bench.becomes(State.EXITED)
    assert (seen.exit_code, seen.restarts) == (5, 1)


def test_a_task_that_is_done_is_not_restarted(bench: AnyBench) -> None:
    bench.run_to_end(0, restart="on-failure", max_restarts=3)
    assert bench.see().restarts == 0


def test_a_removed_task_leaves_no_trace(bench: AnyBench) -> None:
    bench.run_to_end(0, ["a line"])
    bench.save("worker/0", "model.ckpt-1.index", b"12345")
    bench.runtime.remove("worker/0")
    assert bench.runtime.observe().containers == ()
    assert bench.runtime.files("worker/0") == {}
    assert list(bench.runtime.logs("worker/0")) == []
    bench.runtime.remove("worker/0")


def test_to_remove_a_task_takes_no_code_from_the_next_one(bench: AnyBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="print('hello')")
    bench.runtime.deliver(packed.digest, packed.archive)
    bench.run_to_end(0)
    bench.runtime.remove("worker/0")
    bench.start(container("worker/1", spec={"code": packed.digest}))
    assert bench.see("worker/1").state is State.RUNNING


def test_what_was_delivered_is_cleaned_away_once_no_task_is_left(bench: AnyBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="print('hello')")
    bench.runtime.deliver(packed.digest, packed.archive)
    bench.run_to_end(0)
    bench.runtime.clean()
    assert bench.runtime.observe().delivered == {packed.digest}
    bench.runtime.remove("worker/0")
    bench.runtime.clean()
    assert bench.runtime.observe().delivered == frozenset()


def test_a_task_that_runs_is_not_removed(bench: AnyBench) -> None:
    bench.start(container())
    with pytest.raises(HostError, match="worker/0"):
        bench.runtime.remove("worker/0")
    assert bench.see().state is State.RUNNING


def test_tasks_do_not_touch_each_other(bench: AnyBench) -> None:
    for name in ("ps/0", "worker/0", "worker/1"):
        bench.start(container(name))
    bench.runtime.stop("worker/0", 5)
    bench.runtime.remove("worker/0")
    assert {seen.task: seen.state for seen in bench.runtime.observe().containers} == {
        "ps/0": State.RUNNING,
        "worker/1": State.RUNNING,
    }


def test_the_files_of_a_task_can_be_listed_and_read(bench: AnyBench) -> None:
    bench.start(container())
    bench.save("worker/0", "checkpoint", b"text")
    bench.save("worker/0", "eval/events.out", b"\0\1\2")
    found = bench.runtime.files("worker/0")
    assert {name: file.size for name, file in found.items()} == {"checkpoint": 4, "eval/events.out": 3}
    with bench.runtime.open("worker/0", "eval/events.out") as file:
        assert file.read() == b"\0\1\2"


def test_to_open_what_is_not_there_is_an_error_of_the_host(bench: AnyBench) -> None:
    bench.start(container())
    with pytest.raises(HostError, match=r"h: .*missing"):
        bench.runtime.open("worker/0", "missing")


def test_restored_files_are_there_before_the_task_starts(bench: AnyBench, tmp_path: Path) -> None:
    files = {"data": b"\0" * 1000 + b"x", "empty": b"", "checkpoint": b"names the others"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    restore = {f"model.{name}" if name != "checkpoint" else name: tmp_path / name for name in files}
    bench.start(container(), restore=restore)
    assert {name: file.size for name, file in bench.runtime.files("worker/0").items()} == {
        "model.data": 1001,
        "model.empty": 0,
        "checkpoint": 16,
    }
    for name, path in restore.items():
        with bench.runtime.open("worker/0", name) as file:
            assert file.read() == path.read_bytes()


def test_a_restored_file_takes_the_place_of_its_namesake_alone(bench: AnyBench, tmp_path: Path) -> None:
    bench.start(container())
    bench.save("worker/0", "checkpoint", b"a longer one, of before")
    bench.save("worker/0", "model.ckpt-1.index", b"12345")
    bench.runtime.stop("worker/0", 5)
    (tmp_path / "checkpoint").write_bytes(b"new")
    bench.start(container(), restore={"checkpoint": tmp_path / "checkpoint"})
    sizes = {name: file.size for name, file in bench.runtime.files("worker/0").items()}
    assert sizes == {"checkpoint": 3, "model.ckpt-1.index": 5}


def test_nothing_starts_where_a_file_cannot_be_restored(bench: AnyBench, tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"h: .*missing"):
        bench.start(container(), restore={"checkpoint": tmp_path / "missing"})
    assert all(seen.state is not State.RUNNING for seen in bench.runtime.observe().containers)
    bench.start(container())
    assert bench.see().state is State.RUNNING


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_the_end_of_a_file_can_be_read_alone(bench: AnyBench, runs: bool) -> None:
    data = bytes(range(256)) * 1000
    bench.start(container())
    bench.save("worker/0", "events.out", data)
    bench.save("worker/0", "empty", b"")
    if not runs:
        bench.runtime.stop("worker/0", 5)
    for size in (0, 1, 1000, len(data) - 1, len(data), len(data) + 1, 1 << 40):
        assert bench.runtime.tail("worker/0", "events.out", size) == data[max(0, len(data) - size) :]
    assert bench.runtime.tail("worker/0", "empty", 10) == b""
    with pytest.raises(HostError, match=r"h: .*missing"):
        bench.runtime.tail("worker/0", "missing", 10)


@pytest.mark.parametrize(("tail", "lines"), [(None, ["a", "b", "ä"]), (2, ["b", "ä"]), (0, []), (9, ["a", "b", "ä"])])
def test_the_log_is_read_from_as_far_back_as_asked(bench: AnyBench, tail: int | None, lines: list[str]) -> None:
    bench.run_to_end(0, ["a", "b", "ä"])
    assert list(bench.runtime.logs("worker/0", tail=tail)) == lines
    assert list(bench.runtime.logs("worker/0", tail=tail, follow=True)) == lines


def test_a_command_gives_its_exit_code_and_all_it_prints(bench: AnyBench) -> None:
    bench.answers(["sh", "-c", "echo out; echo err >&2; exit 4"], 4, "out\nerr\n")
    assert bench.runtime.command(["sh", "-c", "echo out; echo err >&2; exit 4"]) == (4, "out\nerr\n")


def test_a_command_beside_a_task_gives_its_exit_code(bench: AnyBench) -> None:
    with pytest.raises(HostError, match="worker/0 is not there; start it with `tfprov up`"):
        bench.runtime.execute("worker/0", ["true"])
    bench.start(container(env={"GREETING": "hello"}))
    argv = ["sh", "-c", '[ "$GREETING" = hello ] && exit 6']
    bench.answers(argv, 6, "")
    assert bench.runtime.execute("worker/0", argv) == 6


def test_a_signal_reaches_who_handles_it_and_nobody_else(bench: AnyBench) -> None:
    with pytest.raises(HostError, match="h: worker/0 does not run"):
        bench.runtime.signal("worker/0", "SIGUSR1")
    handling = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: print('got it', flush=True))"
    # In one write, so that the handler cannot get into the line.
    waiting = f"{handling}; print('up\\n', end='', flush=True)\nwhile True: time.sleep(1)"
    bench.start(container(argv=["sh", "-c", f'{sys.executable} -c "{waiting}"; exit 3']))
    if isinstance(bench, MemoryBench):
        bench.memory.prints("worker/0", "up", "got it")
    until(lambda: "up" in list(bench.runtime.logs("worker/0")))
    assert bench.runtime.signal("worker/0", "SIGUSR1")
    until(lambda: "got it" in list(bench.runtime.logs("worker/0")))
    assert bench.see().state is State.RUNNING, "the shell around it handles no signal, and was sent none"


def test_a_task_that_handles_no_signal_is_told_and_goes_on(bench: AnyBench) -> None:
    if isinstance(bench, MemoryBench):
        bench.memory.handled.clear()
    bench.start(container())
    assert not bench.runtime.signal("worker/0", "SIGUSR1")
    assert bench.see().state is State.RUNNING


def test_a_restarted_task_says_how_it_ended_before(bench: AnyBench) -> None:
    program = "import os, time; os.path.exists('again') and time.sleep(60); open('again', 'w'); os._exit(5)"
    bench.start(container(argv=[sys.executable, "-c", program], restart="on-failure"))
    if isinstance(bench, MemoryBench):
        bench.memory.exits("worker/0", 5)
    until(lambda: bench.see().restarts == 1)
    until(lambda: not bench.see().restarting)
    seen = bench.see()
    assert (seen.state, seen.last_exit, seen.exit_code) == (State.RUNNING, 5, None)
    assert seen.id
