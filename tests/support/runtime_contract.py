"""The contract of every Runtime, tested in memory, on real processes, and on a real engine."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from tests.support.runtime_bench import Bench, MemoryBench, container
from tests.support.waiting import until
from tfprov.errors import HostError
from tfprov.formats.checkpoint import model_files
from tfprov.hosts.base import File
from tfprov.model.state import State


def a_started_task_runs_with_the_spec_and_the_run_it_was_given(bench: Bench) -> None:
    """A started task runs with the spec and the run that started it."""
    started = bench.start(container(spec={"flags": {"steps": "2", "on": None}}), run="run-7")
    seen = bench.see()
    assert (seen.state, seen.host, seen.run, seen.spec) == (State.RUNNING, "h", "run-7", started.spec)
    assert seen.id
    assert seen.exit_code is None
    assert not seen.finished


def a_task_is_never_started_twice(bench: Bench) -> None:
    """A task is never started twice."""
    bench.start(container())
    before = bench.see()
    with pytest.raises(HostError, match="h: worker/0 is already running"):
        bench.start(container())
    assert bench.see() == before


def whether_a_task_serves_is_asked_at_its_port(bench: Bench) -> None:
    """Whether a task serves is asked at its port."""
    assert not bench.runtime.is_serving(container().task)
    started = bench.start_answering()
    assert bench.runtime.is_serving(started.task)
    bench.runtime.stop("worker/0", 5)
    assert not bench.runtime.is_serving(started.task)


def a_stopped_task_has_ended_because_it_was_stopped(bench: Bench) -> None:
    """A stopped task has ended because it was stopped."""
    bench.start(container(argv=["sh", "-c", "echo up; exec sleep 3600"]))
    if isinstance(bench, MemoryBench):
        bench.memory.prints("worker/0", "up")
    until(lambda: "up" in list(bench.runtime.logs("worker/0")))  # before, a container's init may lose a signal
    bench.runtime.stop("worker/0", 60)
    seen = bench.see()
    assert (seen.state, seen.exit_code, seen.stopped, seen.ending) == (State.EXITED, 143, True, "stopped")


def to_stop_what_does_not_run_changes_nothing(bench: Bench) -> None:
    """To stop what does not run changes nothing."""
    bench.runtime.stop("worker/0", 5)
    bench.run_to_end(3)
    before = bench.see()
    bench.runtime.stop("worker/0", 5)
    assert bench.see() == before


def a_task_that_is_done_is_not_restarted(bench: Bench) -> None:
    """A task that is done is not restarted."""
    bench.run_to_end(0, restart="on-failure", max_restarts=3)
    assert bench.see().restarts == 0


def a_removed_task_leaves_no_trace(bench: Bench) -> None:
    """A removed task leaves no trace."""
    bench.run_to_end(0, ["a line"])
    bench.save("worker/0", "model.ckpt-1.index", b"12345")
    bench.runtime.remove("worker/0")
    assert bench.runtime.observe().containers == ()
    assert bench.runtime.files("worker/0") == {}
    assert list(bench.runtime.logs("worker/0")) == []
    bench.runtime.remove("worker/0")


def a_task_that_runs_is_not_removed(bench: Bench) -> None:
    """A task that runs is not removed."""
    bench.start(container())
    with pytest.raises(HostError, match="worker/0"):
        bench.runtime.remove("worker/0")
    assert bench.see().state is State.RUNNING


def tasks_do_not_touch_each_other(bench: Bench) -> None:
    """Tasks do not touch each other."""
    for name in ("ps/0", "worker/0", "worker/1"):
        bench.start(container(name))
    bench.runtime.stop("worker/0", 5)
    bench.runtime.remove("worker/0")
    assert {seen.task: seen.state for seen in bench.runtime.observe().containers} == {
        "ps/0": State.RUNNING,
        "worker/1": State.RUNNING,
    }


def the_files_of_a_task_can_be_listed_and_read(bench: Bench) -> None:
    """The files of a task can be listed and read."""
    bench.start(container())
    bench.save("worker/0", "checkpoint", b"text")
    bench.save("worker/0", "eval/events.out", b"\0\1\2")
    files = bench.runtime.files("worker/0")
    assert {name: file.size for name, file in files.items()} == {"checkpoint": 4, "eval/events.out": 3}
    with bench.runtime.open("worker/0", "eval/events.out") as file:
        assert file.read() == b"\0\1\2"


def to_open_what_is_not_there_is_an_error_of_the_host(bench: Bench) -> None:
    """To open what is not there is an error of the host."""
    bench.start(container())
    with pytest.raises(HostError, match=r"h: .*missing"):
        bench.runtime.open("worker/0", "missing")


def what_a_task_wrote_elsewhere_is_listed_and_can_be_read(bench: Bench) -> None:
    """What a task wrote outside of its checkpoint directory is listed where it looks like a model, and can be read."""
    assert bench.runtime.outside.written("worker/0", model_files) == {}
    bench.start(container())
    files = {"out/model.keras": b"weights", "out/log/notes.txt": b"text", "notes.txt": b"", ".cache/a.h5": b"h5"}
    for path, data in files.items():
        bench.write("worker/0", path, data)
    bench.runtime.stop("worker/0", 0)
    (path, model), *others = bench.runtime.outside.written("worker/0", model_files).items()
    assert path in ("out/model.keras", "/code/out/model.keras"), "a container's own layer has absolute paths"
    assert (model.size, model.lasting, others) == (7, False, [])
    texts = bench.runtime.outside.written("worker/0", lambda paths: [one for one in paths if one.endswith(".txt")])
    work = bench.runtime.outside.tree("worker/0", ".").path
    assert {PurePosixPath(text).relative_to(work).as_posix() for text in texts} == {"notes.txt", "out/log/notes.txt"}
    for top, expected in (("out/", {"model.keras": b"weights", "log/notes.txt": b"text"}), (path, {"": b"weights"})):
        tree = bench.runtime.outside.tree("worker/0", top)
        assert tree.path == path[: len(tree.path)]
        assert {name: content.read() for name, _, content in tree.files} == expected
    read = next(file for _, file, _ in bench.runtime.outside.tree("worker/0", path).files)
    assert (read.size, read.modified) == (model.size, model.modified), "a file is known again once it was brought"
    with pytest.raises(HostError, match=r"h: no such file.*missing"):
        list(bench.runtime.outside.tree("worker/0", "missing").files)


def a_command_gives_its_exit_code_and_all_it_prints(bench: Bench) -> None:
    """A command gives its exit code and all it prints."""
    bench.answers(["sh", "-c", "echo out; echo err >&2; exit 4"], 4, "out\nerr\n")
    assert bench.runtime.command(["sh", "-c", "echo out; echo err >&2; exit 4"]) == (4, "out\nerr\n")


def a_command_beside_a_task_gives_its_exit_code(bench: Bench) -> None:
    """A command beside a task gives its exit code."""
    with pytest.raises(HostError, match="worker/0 is not there; start it with `tfprov up`"):
        bench.runtime.execute("worker/0", ["true"])
    bench.start(container(env={"GREETING": "hello"}))
    argv = ["sh", "-c", '[ "$GREETING" = hello ] && exit 6']
    bench.answers(argv, 6, "")
    assert bench.runtime.execute("worker/0", argv) == 6


def restored_files_are_there_before_the_task_starts(bench: Bench, tmp_path: Path) -> None:
    """Restored files are there before the task starts."""
    files = {"data": b"\0" * 1000 + b"x", "empty": b"", "checkpoint": b"names the others"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    restore = {f"model.{name}" if name != "checkpoint" else name: tmp_path / name for name in files}
    reports: list[tuple[int, int]] = []
    bench.start(container(), restore=restore, on_progress=lambda come, whole: reports.append((come, whole)))
    assert reports == sorted(reports)
    assert reports[-1] == (1017, 1017)
    assert {name: file.size for name, file in bench.runtime.files("worker/0").items()} == {
        "model.data": 1001,
        "model.empty": 0,
        "checkpoint": 16,
    }
    for name, path in restore.items():
        with bench.runtime.open("worker/0", name) as file:
            assert file.read() == path.read_bytes()


def a_restored_file_takes_the_place_of_its_namesake_alone(bench: Bench, tmp_path: Path) -> None:
    """A restored file takes the place of its namesake alone."""
    bench.start(container())
    bench.save("worker/0", "checkpoint", b"a longer one, of before")
    bench.save("worker/0", "model.ckpt-1.index", b"12345")
    bench.runtime.stop("worker/0", 5)
    (tmp_path / "checkpoint").write_bytes(b"new")
    bench.start(container(), restore={"checkpoint": tmp_path / "checkpoint"})
    sizes = {name: file.size for name, file in bench.runtime.files("worker/0").items()}
    assert sizes == {"checkpoint": 3, "model.ckpt-1.index": 5}


def nothing_starts_where_a_file_cannot_be_restored(bench: Bench, tmp_path: Path) -> None:
    """Nothing starts where a file cannot be restored."""
    with pytest.raises(HostError, match=r"h: .*missing"):
        bench.start(container(), restore={"checkpoint": tmp_path / "missing"})
    assert all(seen.state is not State.RUNNING for seen in bench.runtime.observe().containers)
    bench.start(container())
    assert bench.see().state is State.RUNNING


def the_end_of_a_file_can_be_read_alone(bench: Bench, runs: bool) -> None:
    """The end of a file can be read alone."""
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


def many_files_can_be_read_one_after_the_other(bench: Bench) -> None:
    """Many files can be read one after the other; what has vanished since it was listed is left out."""
    bench.run_to_end(0)
    wanted = {f"{folder}f{number}": b"%d" % number for folder in ("", "many/", "many/deep/") for number in range(3)}
    for name, data in {**wanted, "many/other": b"not asked for"}.items():
        bench.save("worker/0", name, data)
    listed = bench.runtime.files("worker/0")
    read = {}
    for name, stream in bench.runtime.open_each("worker/0", [*wanted, "gone"], {**listed, "gone": File(1, 0.0)}):
        with stream:
            read[name] = stream.read()
    assert read == wanted


LAWS: tuple[Callable[[Bench], None], ...] = (
    a_started_task_runs_with_the_spec_and_the_run_it_was_given,
    a_task_is_never_started_twice,
    whether_a_task_serves_is_asked_at_its_port,
    a_stopped_task_has_ended_because_it_was_stopped,
    to_stop_what_does_not_run_changes_nothing,
    a_task_that_is_done_is_not_restarted,
    a_removed_task_leaves_no_trace,
    a_task_that_runs_is_not_removed,
    tasks_do_not_touch_each_other,
    the_files_of_a_task_can_be_listed_and_read,
    to_open_what_is_not_there_is_an_error_of_the_host,
    many_files_can_be_read_one_after_the_other,
    what_a_task_wrote_elsewhere_is_listed_and_can_be_read,
    a_command_gives_its_exit_code_and_all_it_prints,
    a_command_beside_a_task_gives_its_exit_code,
)

LAWS_OF_FILES: tuple[Callable[[Bench, Path], None], ...] = (
    restored_files_are_there_before_the_task_starts,
    a_restored_file_takes_the_place_of_its_namesake_alone,
    nothing_starts_where_a_file_cannot_be_restored,
)
