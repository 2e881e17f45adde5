"""Runs are recorded as they happen: nothing that is older than a second is lost, and nothing secret is kept."""

import errno
import json
import os
import random
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.full_disk import full_disk
from tests.support.run_history import description, ending, progress, record_run, run_id, scripted, task
from tfprov.engine.events import ActionFailed, LogLine, Note, RunStarted
from tfprov.errors import TfprovError, hide_secret
from tfprov.history.json_lines import read_lines
from tfprov.history.log_store import read_log
from tfprov.history.reader import RunHistory
from tfprov.history.recorder import Recorder
from tfprov.history.run_dir import RunDir
from tfprov.history.summary import summarize
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import State


def history(tmp_path: Path) -> RunHistory:
    return RunHistory(tmp_path, tmp_path / "index.sqlite")


def test_a_run_is_recorded_with_its_tasks_restarts_lost_steps_curve_and_logs(tmp_path: Path) -> None:
    record_run(tmp_path / "lab" / "runs", 1, scripted(), end={})
    record = history(tmp_path).load("")
    one = record.summary
    assert (one.cluster, one.outcome, one.last_step, one.steps) == ("lab", "succeeded", 1950, 2000)
    assert (one.restarts, one.went_back, one.tasks) == (1, 1, 2)
    assert {name: (state["state"], state["exit_code"]) for name, state in record.tasks.items()} == {
        "worker/0": ("exited", 0),
        "worker/1": ("exited", 0),
    }
    assert [sample.step for sample in record.samples] == list(range(0, 2000, 50))
    assert record.samples[0].loss == 100.0
    assert record.logged_tasks == ["worker/0", "worker/1"]
    assert [line.text for line in record.log("worker/1")][-1] == "step 1950 of worker/1"
    assert next(record.log("worker/1")).at > 1767225600
    kinds = [event["event"] for event in record.events()]
    assert (kinds[0], kinds[-1]) == ("verb_started", "verb_ended")
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in record.directory.path.rglob("*") if path.is_file()
    }
    assert set(modes.values()) == {0o600}


def test_what_is_cut_or_damaged_is_left_out_and_a_later_verb_goes_on(tmp_path: Path) -> None:
    runs = tmp_path / "lab" / "runs"
    directory = record_run(runs, 1, scripted(4))
    for path in (directory.events, directory.progress):
        with path.open("ab") as file:
            file.write(b'{"at": 1, "event": "no')
    with (directory.logs / "worker-0.log.gz").open("r+b") as file:
        file.truncate(directory.logs.joinpath("worker-0.log.gz").stat().st_size - 3)
    before = len(list(history(tmp_path).load("").events()))
    record_run(runs, 1, iter([progress(500), Note("again"), *(LogLine("worker/0", f"new {n}") for n in range(3))]))
    record = history(tmp_path).load("")
    assert len(list(record.events())) == before + 3
    assert record.samples[-1].step == 500
    assert [line.text for line in record.log("worker/0")][-3:] == ["new 0", "new 1", "new 2"]


def test_the_end_of_a_verb_is_known_also_after_a_long_error(tmp_path: Path) -> None:
    directory = record_run(tmp_path / "lab" / "runs", 1, scripted(2))
    recorder = Recorder(directory, "wait")
    recorder.open(description)
    recorder.close(exit_code=4, error="\n".join(f"node{n}: no answer after 10 s" for n in range(9000)))
    (one,) = history(tmp_path).summaries()
    assert (one.outcome, one.error.count("\n")) == ("up", 8999)


def test_a_log_that_is_read_again_from_its_start_is_recorded_once(tmp_path: Path) -> None:
    runs = tmp_path / "lab" / "runs"
    lines = [LogLine("worker/0", f"line {n}") for n in range(10)]
    record_run(runs, 1, iter(lines[:6]))
    record_run(runs, 1, iter(lines))
    assert [line.text for line in history(tmp_path).load("").log("worker/0")] == [f"line {n}" for n in range(10)]
    record_run(runs, 1, iter([LogLine("worker/0", "another container"), *lines[:2]]))
    assert [line.text for line in history(tmp_path).load("").log("worker/0")][10:] == [
        "another container",
        "line 0",
        "line 1",
    ]


def test_a_line_that_was_cut_is_known_when_it_is_read_again(tmp_path: Path) -> None:
    lines = [LogLine("worker/0", text) for text in ("first", "x" * 20000, "last")]
    for _ in range(2):
        directory = record_run(tmp_path / "lab" / "runs", 1, iter(lines))
    assert [line.text[:5] for line in read_log(directory.logs, "worker/0")] == ["first", "xxxxx", "last"]


def test_a_description_that_lacks_fields_is_replaced(tmp_path: Path) -> None:
    runs = tmp_path / "lab" / "runs"
    directory = record_run(runs, 1, scripted(2))
    directory.run_file.write_text('{"schema": 1}')
    record_run(runs, 1, scripted(2))
    assert history(tmp_path).summaries()[0].outcome == "up"


def test_secrets_are_masked_in_every_file(tmp_path: Path) -> None:
    secret = "correct-horse-battery"
    hide_secret(secret)
    action = Action(ActionKind.START, "h1", "worker/0", (f"env.TOKEN: {secret}",))
    events = [
        Note(f"a note with {secret}"),
        LogLine("worker/0", f"a line with {secret}"),
        ActionFailed(action, ValueError(f"an error with {secret}")),
        task("worker/0", State.EXITED, 127, error=f"cannot start {secret}"),
    ]
    directory = record_run(tmp_path / "lab" / "runs", 1, iter(events), end={})
    for path in directory.path.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes(), path
    record = history(tmp_path).load("")
    assert [line.text for line in record.log("worker/0")] == ["a line with ******"]


def test_nothing_is_written_for_a_verb_that_is_refused(tmp_path: Path) -> None:
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "run")
    recorder.handle(Note("a plan"))
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_events_before_the_directory_is_made_are_kept(tmp_path: Path) -> None:
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "run")
    recorder.handle(Note("early"))
    recorder.open(description)
    recorder.close()
    assert [event.get("text") for event in read_lines(recorder.directory.events)][1] == "early"


def test_a_run_whose_id_is_known_late_gets_its_name(tmp_path: Path) -> None:
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "up")
    recorder.open(description)
    recorder.handle(Note("before"))
    recorder.handle(RunStarted(run_id(2)))
    recorder.handle(Note("after"))
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == [run_id(2)]
    notes = [event.get("text") for event in read_lines(recorder.directory.events) if event["event"] == "note"]
    assert notes == ["before", "after"]
    assert RunDir(tmp_path / run_id(2)).read(tmp_path / run_id(2) / "run.json")["run"] == run_id(2)


def test_a_run_whose_id_is_known_late_keeps_its_logs_and_goes_on_with_them(tmp_path: Path) -> None:
    warnings: list[str] = []
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "play", warn=warnings.append)
    recorder.open(description)
    recorder.handle(LogLine("worker/0", "begins"))
    recorder.handle(RunStarted(run_id(2)))
    for line in ("begins", "ends"):
        recorder.handle(LogLine("worker/0", line))
    recorder.close()
    assert warnings == []
    logs = RunDir(tmp_path / run_id(2)).logs
    assert [line.text for line in read_log(logs, "worker/0")] == ["begins", "begins", "ends"]


def test_the_last_lines_of_a_run_are_recorded_when_another_one_begins(tmp_path: Path) -> None:
    record_run(tmp_path, 1, iter([Note("first")]))
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "up")
    recorder.open(description)
    recorder.handle(LogLine("worker/0", "the last line"))
    recorder.handle(RunStarted(run_id(2)))
    recorder.handle(LogLine("worker/0", "the first line"))
    recorder.close()
    recorded = [[line.text for line in read_log(RunDir(tmp_path / run_id(n)).logs, "worker/0")] for n in (1, 2)]
    assert recorded == [["the last line"], ["the first line"]]


def test_events_that_belong_to_an_earlier_run_are_added_to_it(tmp_path: Path) -> None:
    record_run(tmp_path, 1, iter([Note("first")]))
    recorder = Recorder(RunDir(tmp_path / run_id(2)), "up")
    recorder.open(description)
    recorder.handle(Note("second"))
    recorder.handle(RunStarted(run_id(1)))
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == [run_id(1)]
    notes = [event.get("text") for event in read_lines(recorder.directory.events) if event["event"] == "note"]
    assert notes == ["first", "second"]


def test_an_earlier_run_is_not_renamed_when_the_chief_begins_a_new_one(tmp_path: Path) -> None:
    record_run(tmp_path, 1, iter([Note("first")]))
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "up")
    recorder.open(description)
    recorder.handle(RunStarted(run_id(2)))
    recorder.handle(Note("second"))
    recorder.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [run_id(1), run_id(2)]
    assert (tmp_path / run_id(2) / "run.json").exists()


def test_a_run_that_another_takes_the_place_of_is_lost_and_keeps_its_lost_steps(tmp_path: Path) -> None:
    runs = tmp_path / "lab" / "runs"
    record_run(runs, 1, scripted())
    recorder = Recorder(RunDir(runs / run_id(1)), "up")
    recorder.open(description)
    recorder.handle(RunStarted(run_id(2)))
    recorder.close()
    assert [one.outcome for one in history(tmp_path).summaries()] == ["lost", "up"]
    assert (recorder.totals.went_back, recorder.totals.last) == ([], None)


def test_a_directory_that_cannot_be_made_when_another_run_begins_ends_the_recording_alone(tmp_path: Path) -> None:
    record_run(tmp_path, 1, iter([Note("first")]))
    warnings: list[str] = []
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "up", warn=warnings.append)
    recorder.open(description)
    (tmp_path / run_id(2)).symlink_to(tmp_path / "nowhere" / "below")
    recorder.handle(RunStarted(run_id(2)))
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]  # such as connections, with the next descriptors
    recorder.close()
    for other in others:
        os.close(other)
    assert warnings == [f"the run is not recorded any more: {tmp_path / run_id(1)}: Not a directory"]


def test_a_run_that_is_resumed_has_its_earlier_lost_steps(tmp_path: Path) -> None:
    record_run(tmp_path, 1, scripted())
    recorder = Recorder(RunDir(tmp_path / run_id(2)), "up")
    recorder.open(description)
    recorder.handle(RunStarted(run_id(1)))
    recorder.close()
    assert [one["lost"] for one in recorder.totals.went_back] == [90]


def test_a_run_that_is_resumed_has_the_settings_with_which_it_goes_on(tmp_path: Path) -> None:
    begun = record_run(tmp_path, 1, scripted())
    before = begun.read(begun.run_file)
    recorder = Recorder(RunDir(tmp_path / run_id(2)), "up")
    recorder.open(lambda: {**description(train_steps=3000), "steps": 3000})
    recorder.handle(RunStarted(run_id(1)))
    recorder.close()
    now = begun.read(begun.run_file)
    assert {name: now[name] for name in ("run", "started", "verb")} == {
        name: before[name] for name in ("run", "started", "verb")
    }
    assert (now["steps"], now["settings"]["worker"]["h1"]["flags"]["train_steps"]) == (3000, 3000)


def test_a_full_disk_ends_the_recording_with_one_warning_and_not_the_verb(tmp_path: Path) -> None:
    warnings: list[str] = []

    def full() -> dict[str, object]:
        raise OSError(errno.ENOSPC, "No space left on device")

    recorder = Recorder(RunDir(tmp_path / run_id(1)), "run", warn=warnings.append)
    recorder.open(full)
    recorder.handle(Note("goes on"))
    recorder.end({})
    recorder.close()
    assert warnings == [f"the run is not recorded any more: {tmp_path / run_id(1)}: No space left on device"]


@pytest.mark.parametrize("event", [Note("n" * 9000), LogLine("worker/0", random.Random(1).randbytes(9000).hex())])
def test_a_disk_that_takes_a_part_of_a_write_is_full(tmp_path: Path, event: Note | LogLine) -> None:
    warnings: list[str] = []
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "run", warn=warnings.append)
    recorder.open(description)
    with full_disk(4096):
        recorder.handle(event)
        recorder.flush()
    recorder.close()
    assert warnings == [f"the run is not recorded any more: {tmp_path / run_id(1)}: File too large"]


class FullDisk(RunDir):
    """Has room for a file only once its spare room is free."""

    def write(self, path: Path, data: Mapping[str, Any]) -> None:
        if self.run_file.exists() and self.spare.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(path, data)


def test_the_end_of_a_run_is_recorded_on_a_disk_that_became_full(tmp_path: Path) -> None:
    warnings: list[str] = []
    directory = FullDisk(tmp_path / run_id(1))
    recorder = Recorder(directory, "run", warn=warnings.append)
    recorder.open(description)
    with full_disk(4096):
        recorder.handle(Note("n" * 9000))
    recorder.end(ending(recorder.totals))
    recorder.close(exit_code=0, error="")
    assert len(warnings) == 1
    assert summarize(directory).outcome == "succeeded"
    assert not directory.spare.exists()


def test_two_recorders_of_one_run_record_its_logs_once(tmp_path: Path) -> None:
    recorders = [Recorder(RunDir(tmp_path / run_id(1)), verb) for verb in ("run", "wait")]
    for recorder in recorders:
        recorder.open(description)
        recorder.handle(LogLine("worker/0", "a line"))
        recorder.handle(Note("a note"))
    for recorder in recorders:
        recorder.close()
    events = [event["event"] for event in read_lines(recorders[0].directory.events)]
    assert events.count("note") == 2
    assert [line.text for line in read_log(recorders[0].directory.logs, "worker/0")] == ["a line"]


def test_the_sums_of_a_run_go_on_with_the_next_verb(tmp_path: Path) -> None:
    record_run(tmp_path, 1, scripted(3))
    recorder = Recorder(RunDir(tmp_path / run_id(1)), "down")
    recorder.open(description)
    assert recorder.totals.restarts == 1
    assert len(recorder.totals.went_back) == 1
    assert recorder.totals.running == []
    recorder.close()


def test_a_failed_action_is_recorded_with_its_error(tmp_path: Path) -> None:
    action = Action(ActionKind.DELIVER, "h1", "image", ())
    directory = record_run(tmp_path, 1, iter([ActionFailed(action, TfprovError("h1: no room", "make some"))]))
    (failed,) = [event for event in read_lines(directory.events) if event["event"] == "failed"]
    assert (failed["action"], failed["subject"], failed["error"]) == ("deliver", "image", "h1: no room; make some")


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_valid_json(tmp_path: Path, loss: float) -> None:
    event = progress(1, loss)
    directory = record_run(tmp_path, 1, iter([event, replace(event, steps=3)]))
    text = directory.progress.read_text()
    assert len([json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]) == 2
