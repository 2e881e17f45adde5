"""The last words of a failed program, and when a restart is useless."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.runtime_bench import MemoryBench, ProcessBench, container
from tests.support.waiting import until
from tfprov.hosts.crash import FailedRun, exception_at, is_hopeless, is_restarted, last_words
from tfprov.model.state import State

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/x/train.py", line 3, in <module>',
    "    import pandas",
    "ModuleNotFoundError: No module named 'pandas'",
]
ENDINGS = {
    "nothing": ([], ""),
    "the last line": (["one", "two", ""], "two"),
    "a traceback": (["step 1", *TRACEBACK], TRACEBACK[-1]),
    "lines after it": ([*TRACEBACK, "closing the session", "error: shutdown"], TRACEBACK[-1]),
    "the runtime's reason": ([*TRACEBACK, "tfprov: error: chief/0: lost ps/0 at a:1; restarted", ""],
                             "tfprov: error: chief/0: lost ps/0 at a:1; restarted"),
    "the reason within another thread's line": (["Exception ignored in: <f>", *TRACEBACK[:3],
                                                 "e.UnavailableError: tfprov: error: chief/0: lost ps/0 at a:1", " "],
                                                "tfprov: error: chief/0: lost ps/0 at a:1"),
    "a reason that ends with a colon": ([*TRACEBACK, "bye", "tfprov: error: chief/0: lost another task: RPC:"],
                                        "tfprov: error: chief/0: lost another task: RPC:"),
    "a reason that is not the end": (["tfprov: error: it did not serve", *TRACEBACK], TRACEBACK[-1]),
    "the last of two": ([*TRACEBACK, "again", *TRACEBACK[:3], "ValueError: 3"], "ValueError: 3"),
    "a syntax error": (['  File "/x/train.py", line 1', "    x = = 1", "SyntaxError: invalid syntax"],
                       "SyntaxError: invalid syntax"),
    "argparse": (["usage: t.py [-h]", "t.py: error: unrecognized arguments: --job_name=ps"],
                 "t.py: error: unrecognized arguments: --job_name=ps"),
    "absl": (["FATAL Flags parsing error:", "  Unknown command line flag 'job_name'. Did you mean: ps ?",
              "Pass --helpshort or --helpfull to see help on flags."],
             "Unknown command line flag 'job_name'. Did you mean: ps ?"),
    "its message on the next line": ([*TRACEBACK[:3], "tf.errors.InvalidArgumentError: Graph execution error:", "",
                                      "Detected at node"],
                                     "tf.errors.InvalidArgumentError: Graph execution error: Detected at node"),
    "colours": (["\x1b[1;35mValueError\x1b[0m: \x1b[35m3\x07\x1b[0m"], "ValueError: 3\ufffd"),
    "a long message": ([*TRACEBACK[:3], f"ValueError: {'9' * 400}"], f"ValueError: {'9' * 288}…"),
}  # fmt: skip


def test_the_last_words_are_the_line_that_names_the_failure() -> None:
    results = {name: last_words(lines) for name, (lines, _) in ENDINGS.items()}
    assert results == {name: words for name, (_, words) in ENDINGS.items()}


def test_an_exception_includes_its_chained_exceptions() -> None:
    chained = ["", "During handling of the above exception, another exception occurred:", ""]
    lines = ["step 1", *TRACEBACK, *chained, *TRACEBACK[:3], "ValueError: 3", "bye"]
    assert exception_at(lines) == (1, len(lines) - 2)
    assert exception_at(["step 1", *TRACEBACK, "retry", *TRACEBACK]) == (6, 9), "two unrelated exceptions"
    assert exception_at(["an error", "the end"]) is None
    assert exception_at([*TRACEBACK, "tfprov: error: chief/0: lost ps/0 at a:1"]) is None, "another end than by it"


IMPORT = "ModuleNotFoundError: No module named 'pandas'"
RESTARTS = {
    "twice at once": (FailedRun(1, 0.3, "boom"), FailedRun(1, 0.2, "boom"), True),
    "at another time": (FailedRun(1, 1, "2026-01-02 10:00:00.1: F boom"),
                        FailedRun(1, 1, "2026-01-02 10:00:07.9: F boom"), True),
    "at another address": (FailedRun(1, 1, "boom at 0x7f00"), FailedRun(1, 1, "boom at 0x7f11"), True),
    "an import that took long": (FailedRun(1, 40, IMPORT), FailedRun(1, 60, IMPORT), True),
    "flags after a long import": (FailedRun(2, 9, "t.py: error: unrecognized arguments: --x"),
                                  FailedRun(2, 9, "t.py: error: unrecognized arguments: --x"), True),
    "other words": (FailedRun(1, 1, "boom"), FailedRun(1, 1, "bang"), False),
    "another code": (FailedRun(1, 1, "boom"), FailedRun(2, 1, "boom"), False),
    "no words": (FailedRun(1, 1, ""), FailedRun(1, 1, ""), False),
    "in the middle": (FailedRun(1, 1, "boom"), FailedRun(1, 6, "boom"), False),
    "killed": (FailedRun(137, 1, "boom"), FailedRun(137, 1, "boom"), False),
    "a crash of the interpreter": (FailedRun(139, 1, "boom"), FailedRun(139, 1, "boom"), True),
    "a peer that is not up": (FailedRun(1, 1, "UnavailableError: socket closed"),
                              FailedRun(1, 1, "UnavailableError: socket closed"), False),
    "a ps that is lost": (FailedRun(1, 4, "tfprov: error: chief/0: lost ps/0 at a:1; restarted"),
                          FailedRun(1, 4, "tfprov: error: chief/0: lost ps/0 at a:1; restarted"), False),
    "a fraction that is lost": (FailedRun(1, 4, "ValueError: lost 3/4 of the rows"),
                                FailedRun(1, 4, "ValueError: lost 3/4 of the rows"), True),
    "a peer that the runtime waited for": (FailedRun(1, 4, "tfprov: error: worker/1: no answer from ps/0 for 3 s"),
                                           FailedRun(1, 4, "tfprov: error: worker/1: no answer from ps/0 for 3 s"),
                                           False),
    "a port that is taken": (FailedRun(1, 1, "OSError: [Errno 98] Address already in use"),
                             FailedRun(1, 1, "OSError: [Errno 98] Address already in use"), False),
}  # fmt: skip


def test_failing_twice_at_the_start_with_the_same_words_is_hopeless() -> None:
    assert {name: is_hopeless(previous, last) for name, (previous, last, _) in RESTARTS.items()} == {
        name: hopeless for name, (_, _, hopeless) in RESTARTS.items()
    }


@pytest.fixture(params=[MemoryBench, ProcessBench], ids=["memory", "process"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryBench | ProcessBench]:
    create: Callable[..., MemoryBench | ProcessBench] = request.param
    created = create() if create is MemoryBench else create(tmp_path)
    yield created
    created.close()


def fails_twice(bench: MemoryBench | ProcessBench) -> None:
    bench.start(container(argv=[sys.executable, "-c", "import no_such"], restart="on-failure", max_restarts=3))
    if isinstance(bench, MemoryBench):
        for _ in range(2):
            bench.memory.prints("worker/0", "ModuleNotFoundError: No module named 'no_such'")
            bench.memory.exits("worker/0", 1)


def test_a_task_that_fails_twice_at_its_import_is_not_restarted(bench: MemoryBench | ProcessBench) -> None:
    fails_twice(bench)
    observed = bench.becomes(State.EXITED)
    assert (observed.restarts, observed.gave_up, observed.exit_code) == (1, True, 1)
    assert observed.last_words == "ModuleNotFoundError: No module named 'no_such'"
    bench.start(container())
    assert not bench.see().gave_up, "a new start may be restarted again"


def test_a_task_whose_restarts_are_ended_continues_without_restarts(bench: MemoryBench | ProcessBench) -> None:
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(4)"
    bench.start(container(argv=[sys.executable, "-c", waits], restart="on-failure", max_restarts=3))
    bench.runtime.end_restarts("worker/0")
    bench.runtime.end_restarts("worker/9")
    assert bench.see().state is State.RUNNING
    if isinstance(bench, MemoryBench):
        bench.memory.exits("worker/0", 4)
    else:
        (bench.process.task_dir("worker/0").work / "go").touch()
    until(lambda: bench.see().state is State.EXITED)
    assert bench.see().restarts == 0


@pytest.mark.parametrize(
    ("code", "only", "never", "restarted"),
    [
        (0, (), (), False),
        (0, (0,), (), False),
        (3, (), (), True),
        (3, (137,), (), False),
        (137, (137, 143), (), True),
        (2, (), (2, 78), False),
        (3, (), (2, 78), True),
        (137, (137,), (137,), False),
    ],
)
def test_exit_codes_decide_on_restarts(
    code: int, only: tuple[int, ...], never: tuple[int, ...], restarted: bool
) -> None:
    assert is_restarted(code, only, never) is restarted


def test_processes_are_restarted_after_some_exit_codes_only(tmp_path: Path) -> None:
    policies: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
        "one that is named": ((3,), (), 1),
        "another": ((137,), (), 0),
        "one that is excluded": ((), (3,), 0),
    }
    for number, (case, (only, never, restarts)) in enumerate(policies.items()):
        for bench in (MemoryBench(), ProcessBench(tmp_path / str(number))):
            bench.run_to_end(3, restart="on-failure", max_restarts=1, restart_on=only, no_restart_on=never)
            assert bench.see().restarts == restarts, case
