"""The sections of the dashboard's pages."""

import json
from pathlib import Path

import pytest

from tests.support.run_history import record_run, run_id, scripted
from tfprov.dashboard.pages import LogQuery, compare_page, overview, run_page, shell
from tfprov.engine.events import LogLine
from tfprov.errors import Usage
from tfprov.history.reader import RunHistory


def history_of(tmp_path: Path) -> RunHistory:
    return RunHistory(tmp_path, tmp_path / "runs.sqlite")


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


def test_a_run_whose_events_have_a_time_out_of_range_is_an_error_of_one_line(tmp_path: Path) -> None:
    run = record_run(tmp_path / "lab" / "runs", 1, scripted(), end={})
    with run.events.open("a") as events:
        events.write('{"event": "note", "text": "late", "at": 1e17}\n')
    with pytest.raises(Usage, match=f"{run_id(1)} is damaged"):
        run_page(history_of(tmp_path).load(run_id(1)), LogQuery())


def test_a_comparison_names_the_run_that_has_been_damaged(tmp_path: Path) -> None:
    for number in (1, 2):
        run = record_run(tmp_path / "lab" / "runs", number, scripted(), end={})
    with run.progress.open("a") as progress:
        progress.write(json.dumps({"at": 1e12, "step": 10**400, "loss": 1.0}) + "\n")
    history = history_of(tmp_path)
    with pytest.raises(Usage, match=f"{run_id(2)} is damaged"):
        compare_page([history.load(run_id(1)), history.load(run_id(2))])


def test_a_text_that_utf_8_cannot_encode_has_a_replacement_on_every_page(tmp_path: Path) -> None:
    runs = tmp_path / "lab" / "runs"
    text = "caf\udce9"
    for number in (1, 2):
        run = record_run(runs, number, scripted(), end={})
        run.run_file.write_text(json.dumps({**run.read(run.run_file), "versions": {"code": f"{text}{number}"}}))
        ending = {**run.read(run.end_file), "error": text, "outcome": text, "tasks": {text: {"host": text}}}
        run.end_file.write_text(json.dumps(ending))
        with run.events.open("a") as events:
            events.write(json.dumps({"event": "note", "text": text}) + "\n")
    history = history_of(tmp_path)
    records = [history.load(run_id(number)) for number in (1, 2)]
    pages = [overview(history), run_page(records[0], LogQuery()), compare_page(records)]
    pages.append({"shell": shell(text, "message.html", {}, text=text)})
    for page in pages:
        html = "".join(page.values()).encode().decode()
        assert "caf\N{REPLACEMENT CHARACTER}" in html


def test_the_log_names_its_task_and_the_choice_has_the_tasks_that_log_later(tmp_path: Path) -> None:
    """Both are sections, which a page that is open receives again when they change."""
    runs = tmp_path / "lab" / "runs"
    record_run(runs, 1, iter([LogLine("ps/0", "a line of ps/0")]))
    chosen = LogQuery("ps/0")
    first = run_page(history_of(tmp_path).load(run_id(1)), LogQuery())
    assert first["task"] == "<option selected>ps/0</option>\n"
    assert "The last lines of ps/0<" in first["log"]
    record_run(runs, 1, iter([LogLine("worker/0", "a line of worker/0")]))
    record = history_of(tmp_path).load(run_id(1))
    for query, shown, other in ((LogQuery(), "worker/0", "ps/0"), (chosen, "ps/0", "worker/0")):
        sections = run_page(record, query)
        assert f"<option selected>{shown}</option>\n" in sections["task"]
        assert f"<option>{other}</option>\n" in sections["task"]
        assert f"The last lines of {shown}<" in sections["log"]
        assert f"a line of {shown}\n" in sections["log"]
    assert record.description["chief"] == "worker/0"
    assert "No line of ps/0 contains" in run_page(record, LogQuery("ps/0", "nothing"))["log"]
