"""What is left of a run whose recorder is killed, at random moments and at each change of its directory."""

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import quick
from tests.support.run_history import description, record_run, run_id, scripted, streams
from tests.support.waiting import started, until
from tfprov.engine.events import RunStarted
from tfprov.history.reader import RunHistory
from tfprov.history.recorder import Recorder
from tfprov.history.run_dir import RunDir


def history(tmp_path: Path) -> RunHistory:
    return RunHistory(tmp_path, tmp_path / "index.sqlite")


def test_a_killed_recorder_loses_at_most_a_second(tmp_path: Path) -> None:
    # Random moments of five recorders at a time; each reports what it has recorded, and which lines it has written.
    chosen = random.Random(21)
    for _ in range(quick(4)):
        directories = [
            tmp_path / "lab" / "runs" / f"20260101T00000{n}Z-{chosen.randrange(1 << 24):06x}" for n in range(5)
        ]
        with streams(directories) as outputs:
            for directory, output in zip(directories, outputs, strict=True):
                least = chosen.randrange(1, 900)
                reports = (json.loads(line) for line in output)
                latest = next(report for report in reports if report["step"] >= least and report["written"] >= 0)
                start = started(latest["pid"])
                os.kill(latest["pid"], signal.SIGKILL)
                last = json.loads([json.dumps(latest).encode(), *(line for line in output if line.endswith(b"\n"))][-1])
                until(lambda: started(latest["pid"]) != start, "the end of the recorder")  # noqa: B023
                check_recorded(tmp_path, directory, last["step"], last["written"])


CHANGES = (os.mkdir, os.open, os.rename, os.replace, os.unlink, os.rmdir, open)


def killed_at(number: int, action: Callable[[], object]) -> bool:
    """Carry out `action` in a process that dies before its `number`th change of a directory; return whether it did."""
    if not (pid := os.fork()):
        calls = iter(range(number))

        def before_call(_frame: object, event: str, function: Any) -> None:
            if event == "c_call" and function in CHANGES and next(calls, None) is None:
                os._exit(9)

        sys.setprofile(before_call)
        action()
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


def record_anew(recorder: Recorder) -> None:
    recorder.open(description)


def record_under_another_id(recorder: Recorder) -> None:
    recorder.open(description)
    recorder.handle(RunStarted(run_id(2)))


def leave_for_a_new_run(recorder: Recorder) -> None:
    recorder.directory = RunDir(recorder.directory.path.with_name(run_id(0)))
    recorder.open(description)
    recorder.handle(RunStarted(run_id(2)))


def record_nothing(recorder: Recorder) -> None:
    recorder.open(description)
    recorder.discard()


@pytest.mark.parametrize("action", [record_anew, record_under_another_id, leave_for_a_new_run, record_nothing])
def test_a_recorder_that_is_killed_leaves_a_whole_run_or_none(
    tmp_path: Path, action: Callable[[Recorder], None]
) -> None:
    runs = tmp_path / "lab" / "runs"
    record_run(runs, 0, scripted(1))
    for number in count(1):
        was_killed = killed_at(number, lambda: action(Recorder(RunDir(runs / run_id(1)), "up")))
        outcomes = [one.outcome for one in history(tmp_path).summaries()]
        assert "damaged" not in outcomes, f"at change {number}"
        for left in (run_id(1), run_id(2)):
            shutil.rmtree(runs / left, ignore_errors=True)
        if not was_killed:
            break
    assert number > 5
    assert not list(runs.glob(".*")), "what was killed is removed"


def check_recorded(tmp_path: Path, directory: Path, step: int, written: int) -> None:
    """Check that the lines until `written` are there, and all events and samples until `step`: they are written at once."""
    record = history(tmp_path).load(directory.name)
    assert record.summary.outcome == "interrupted"
    assert record.end is None
    assert [sample.step for sample in record.samples][: step + 1] == list(range(step + 1))
    notes = [event["text"] for event in record.events() if event["event"] == "note"]
    assert notes[: step + 1] == [f"note {n}" for n in range(step + 1)]
    lines = [line.text for line in record.log("worker/0")]
    assert lines == [f"line {n}" for n in range(len(lines))]
    assert len(lines) > written
