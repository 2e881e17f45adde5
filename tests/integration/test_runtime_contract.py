"""The contract of a Runtime, for hosts in memory and real processes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.runtime_bench import MemoryBench, ProcessBench, code, container
from tests.support.runtime_contract import LAWS, LAWS_OF_FILES, the_end_of_a_file_can_be_read_alone
from tests.support.waiting import until
from tfprov.errors import HostError
from tfprov.model.state import State

AnyBench = MemoryBench | ProcessBench


@pytest.fixture(params=["memory", "process"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBench]:
    created: AnyBench = MemoryBench() if request.param == "memory" else ProcessBench(tmp_path)
    yield created
    created.close()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_contract_of_a_runtime(bench: AnyBench, law: Callable[[AnyBench], None]) -> None:
    law(bench)


@pytest.mark.parametrize("law", LAWS_OF_FILES, ids=lambda law: law.__name__)
def test_the_contract_for_restored_files(
    bench: AnyBench, tmp_path: Path, law: Callable[[AnyBench, Path], None]
) -> None:
    law(bench, tmp_path)


@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_the_end_of_a_file_can_be_read_alone(bench: AnyBench, runs: bool) -> None:
    the_end_of_a_file_can_be_read_alone(bench, runs)


def test_an_untouched_host_has_nothing(bench: AnyBench) -> None:
    observed = bench.runtime.observe()
    assert (observed.host, observed.containers, observed.delivered) == ("h", (), frozenset())
    assert bench.runtime.files("worker/0") == {}
    assert list(bench.runtime.logs("worker/0")) == []


def test_delivered_code_is_seen_and_delivered_once(bench: AnyBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="print('hello')")
    for _ in range(2):
        bench.runtime.deliver(packed.digest, packed.archive)
        assert bench.runtime.observe().delivered == {packed.digest}


def test_a_task_is_refused_a_port_in_use_and_its_owner_is_named(bench: AnyBench) -> None:
    first = bench.start_answering()
    with pytest.raises(HostError, match=rf"port {first.task.port} for worker/1 is taken by \w+"):
        bench.start(container("worker/1", port=first.task.port))
    assert [observed.task for observed in bench.runtime.observe().containers if observed.state is State.RUNNING] == [
        "worker/0"
    ]


@pytest.mark.parametrize("ends", [0, 3])
def test_the_end_of_a_task_is_observed_with_its_exit_code(bench: AnyBench, ends: int) -> None:
    bench.run_to_end(ends)
    observed = bench.see()
    assert (observed.state, observed.exit_code, observed.stopped, observed.restarts) == (State.EXITED, ends, False, 0)
    assert observed.finished is (ends == 0)
    assert observed.finished_at is not None


def test_a_missing_program_ends_with_127_and_an_explanation(bench: AnyBench) -> None:
    bench.start_unstartable()
    observed = bench.becomes(State.EXITED)
    assert observed.exit_code == 127
    assert observed.ending == "could not start: there is no program `no-such-program`; correct `command:`"


def test_programs_with_a_relative_directory_save_to_the_chiefs_checkpoints(tmp_path: Path) -> None:
    bench = ProcessBench(tmp_path)
    chiefs = bench.runtime.checkpoint_dir("worker/0")
    saves = ["sh", "-c", "cat logs/*; mkdir -p logs; echo $0 > logs/$0"]
    try:
        for name in ("ps-0", "worker-0"):  # the ps starts before the chief
            task = name.replace("-", "/")
            bench.start(container(task, argv=[*saves, name], link=("logs", chiefs)))
            bench.becomes(State.EXITED, task)
        assert list(bench.runtime.logs("worker/0")) == ["ps-0"]
        assert (sorted(bench.runtime.files("worker/0")), [*bench.runtime.files("ps/0")]) == (["ps-0", "worker-0"], [])
        bench.runtime.remove("ps/0")
        assert sorted(bench.runtime.files("worker/0")) == ["ps-0", "worker-0"]
    finally:
        bench.close()


def test_a_tasks_own_python_runs_it_and_imports_the_runtime(tmp_path: Path) -> None:
    bench = ProcessBench(tmp_path)
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(sys.executable)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    print_prefix = "import sys, tfprov.wiring as w; print(sys.prefix)"
    try:
        for task, program in {"worker/0": "python3", "worker/1": "sh"}.items():
            argv = [program, "-c", print_prefix if program == "python3" else "command -v python"]
            bench.start(container(task, argv=argv, python=str(venv / "python")))
            bench.becomes(State.EXITED, task)
        assert next(iter(bench.runtime.logs("worker/0"))) == str(tmp_path / "venv")
        assert list(bench.runtime.logs("worker/1")) == [str(venv / "python")]
    finally:
        bench.close()


def test_a_module_of_the_working_directory_takes_no_place_of_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the user')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    bench = ProcessBench(tmp_path / "host")
    try:
        bench.start(container("worker/0", argv=["sh", "-c", "echo trained, ${PYTHONSAFEPATH-as before}"]))
        bench.becomes(State.EXITED, "worker/0")
        assert list(bench.runtime.logs("worker/0")) == ["trained, as before"]
    finally:
        bench.close()


def test_an_ended_task_can_be_started_again_and_keeps_its_checkpoints_and_log(bench: AnyBench) -> None:
    bench.run_to_end(3, ["first"])
    bench.save("worker/0", "model.ckpt-1.index", b"12345")
    bench.run_to_end(0, ["second"])
    assert bench.see().finished
    assert bench.runtime.files("worker/0")["model.ckpt-1.index"].size == 5
    assert list(bench.runtime.logs("worker/0")) == ["first", "second"]


def test_a_failing_task_is_restarted_up_to_its_limit(bench: AnyBench) -> None:
    bench.start(container(argv=[sys.executable, "-c", "raise SystemExit(5)"], restart="on-failure", max_restarts=1))
    if isinstance(bench, MemoryBench):
        bench.memory.exits("worker/0", 5)
        bench.memory.exits("worker/0", 5)
    observed = bench.becomes(State.EXITED)
    assert (observed.exit_code, observed.restarts) == (5, 1)


def test_removing_a_task_keeps_the_code_for_the_next_one(bench: AnyBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="print('hello')")
    bench.runtime.deliver(packed.digest, packed.archive)
    bench.run_to_end(0)
    bench.runtime.remove("worker/0")
    bench.start(container("worker/1", spec={"code": packed.digest}))
    assert bench.see("worker/1").state is State.RUNNING


def test_deliveries_are_cleaned_once_no_task_is_left(bench: AnyBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="print('hello')")
    bench.runtime.deliver(packed.digest, packed.archive)
    bench.run_to_end(0)
    bench.runtime.clean()
    assert bench.runtime.observe().delivered == {packed.digest}
    bench.runtime.remove("worker/0")
    bench.runtime.clean()
    assert bench.runtime.observe().delivered == frozenset()


@pytest.mark.parametrize(("tail", "lines"), [(None, ["a", "b", "ä"]), (2, ["b", "ä"]), (0, []), (9, ["a", "b", "ä"])])
def test_the_log_is_read_from_the_requested_line(bench: AnyBench, tail: int | None, lines: list[str]) -> None:
    bench.run_to_end(0, ["a", "b", "ä"])
    assert list(bench.runtime.logs("worker/0", tail=tail)) == lines
    assert list(bench.runtime.logs("worker/0", tail=tail, follow=True)) == lines


def test_a_signal_reaches_only_processes_that_handle_it(bench: AnyBench) -> None:
    with pytest.raises(HostError, match="h: worker/0 does not run"):
        bench.runtime.signal("worker/0", "SIGUSR1")
    handling = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: print('got it', flush=True))"
    # One write, so that the handler cannot interrupt the line.
    waiting = f"{handling}; print('up\\n', end='', flush=True)\nwhile True: time.sleep(1)"
    bench.start(container(argv=["sh", "-c", f'{sys.executable} -c "{waiting}"; exit 3']))
    if isinstance(bench, MemoryBench):
        bench.memory.prints("worker/0", "up", "got it")
    until(lambda: "up" in list(bench.runtime.logs("worker/0")))
    assert bench.runtime.signal("worker/0", "SIGUSR1")
    until(lambda: "got it" in list(bench.runtime.logs("worker/0")))
    assert bench.see().state is State.RUNNING, "the surrounding shell does not handle the signal and was not sent one"


def test_a_task_that_does_not_handle_a_signal_is_reported_and_continues(bench: AnyBench) -> None:
    if isinstance(bench, MemoryBench):
        bench.memory.handled.clear()
    bench.start(container())
    assert not bench.runtime.signal("worker/0", "SIGUSR1")
    assert bench.see().state is State.RUNNING


def test_a_restarted_task_reports_its_previous_exit_code(bench: AnyBench) -> None:
    program = "import os, time; os.path.exists('again') and time.sleep(60); open('again', 'w'); os._exit(5)"
    bench.start(container(argv=[sys.executable, "-c", program], restart="on-failure"))
    if isinstance(bench, MemoryBench):
        bench.memory.exits("worker/0", 5)
    until(lambda: bench.see().restarts == 1)
    until(lambda: not bench.see().restarting)
    observed = bench.see()
    assert (observed.state, observed.last_exit, observed.exit_code) == (State.RUNNING, 5, None)
    assert observed.id
