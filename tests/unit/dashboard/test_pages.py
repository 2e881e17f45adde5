"""The sections of the dashboard's pages."""

from pathlib import Path

import pytest

from tests.support.run_history import record_run, run_id, scripted
from tfprov.dashboard.pages import LogQuery, run_page
from tfprov.errors import Usage
from tfprov.history.reader import RunHistory

BOARD = {"task": "tensorboard/0", "host": "h1", "role": "tensorboard", "address": "127.0.0.1:6006"}


@pytest.mark.parametrize(
    ("runtime", "shown"),
    [("process", '<a href="http://127.0.0.1:6006/" '), ("docker", "<code>tfprov tensorboard</code>")],
)
def test_only_a_tensorboard_of_this_machine_is_a_link(tmp_path: Path, runtime: str, shown: str) -> None:
    """Each is published on the loopback of its own host."""
    run = record_run(tmp_path / "lab" / "runs", 1, scripted(), end={})
    described = run.read(run.run_file)
    run.write(run.run_file, {**described, "runtime": runtime, "tasks": [*described["tasks"], BOARD]})
    run.write(run.end_file, {**(end := run.read(run.end_file)), "tasks": {**end["tasks"], "tensorboard/0": {}}})
    record = RunHistory(tmp_path, tmp_path / "runs.sqlite").load(run_id(1))
    assert shown in run_page(record, LogQuery())["tasks"]


@pytest.mark.parametrize("tasks", [5, [5]])
def test_a_run_with_damaged_fields_is_an_error_of_one_line(tmp_path: Path, tasks: object) -> None:
    run = record_run(tmp_path / "lab" / "runs", 1, scripted())
    run.write(run.run_file, {**run.read(run.run_file), "tasks": tasks})
    record = RunHistory(tmp_path, tmp_path / "runs.sqlite").load(run_id(1))
    with pytest.raises(Usage, match=r"a field of run\.json or end\.json has another form"):
        run_page(record, LogQuery())
