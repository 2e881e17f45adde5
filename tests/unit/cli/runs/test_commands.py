"""The commands of `tfprov runs`: what they remove and print."""

import json
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.run_history import progress, record_run, run_id, scripted, task
from tfprov.cli.runs.attach import attach_command
from tfprov.cli.runs.commands import compare_command, prune_command, rm_command, show_command
from tfprov.cli.runs.group import runs_command
from tfprov.cli.watch import logs_command
from tfprov.errors import CombinedError, TfprovError, Usage
from tfprov.history.run_dir import RunDir
from tfprov.model.state import State


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "tfprov" / "clusters" / "lab" / "runs"


def call(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, words)


def test_runs_are_removed_together_or_not_at_all(runs: Path) -> None:
    old, live = (record_run(runs, number, scripted(2), end={}) for number in (1, 2))
    held = live.hold()
    refused = call(rm_command, old.id, live.id)
    assert isinstance(refused.exception, Usage)
    assert str(refused.exception) == f"{live.id} is recorded at the moment; end it with `tfprov down` first"
    assert refused.output == ""
    assert old.path.is_dir()
    os.close(held)
    assert call(rm_command, old.id, live.id).output == f"removed {old.id} of lab\nremoved {live.id} of lab\n"
    assert not old.path.exists()


def test_a_run_that_is_named_twice_is_removed_once(runs: Path) -> None:
    run = record_run(runs, 1, scripted(2), end={})
    done = call(rm_command, run.id, run.id.rpartition("-")[2])
    assert (done.exit_code, done.output) == (0, f"removed {run.id} of lab\n")


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_text_is_no_run(runs: Path, empty: str) -> None:
    run = record_run(runs, 1, scripted(2), end={})
    for command, words in (
        (rm_command, [run.id, empty]),
        (compare_command, [run.id, empty]),
        (show_command, [empty]),
        (attach_command, [empty]),
        (logs_command, ["--run", empty]),
    ):
        refused = call(command, *words)
        assert (refused.exit_code, "an empty text names no run" in refused.output) == (2, True), command.name
    assert run.path.is_dir()
    assert call(show_command).output.startswith(f"run:         {run.id}")


@pytest.mark.parametrize("words", [(), ("worker/0",)])
def test_a_run_that_is_up_without_recorded_logs_leads_to_the_live_ones(runs: Path, words: tuple[str, ...]) -> None:
    up = record_run(runs, 1, iter([task("worker/0")]))
    refused = call(logs_command, "--run", up.id, *words)
    assert isinstance(refused.exception, Usage)
    assert str(refused.exception) == (
        f"{up.id} has no recorded log so far; `tfprov logs` prints those of the tasks that run"
    )
    done = record_run(runs, 2, iter([task("worker/0", State.EXITED, 0)]), end={})
    assert call(logs_command, "--run", done.id).exit_code == 0


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_null_in_json(runs: Path, loss: float) -> None:
    for number in (1, 2):
        record_run(runs, number, iter([progress(1), progress(2, loss)]), end={})
    printed = [
        call(runs_command, "--json"),
        call(show_command, "--json"),
        call(compare_command, "--json", run_id(1), run_id(2)),
    ]
    listed, shown, compared = [json.loads(one.output, parse_constant=pytest.fail) for one in printed]
    assert listed["runs"][0]["loss"] is None
    assert [sample["loss"] for sample in shown["curve"]] == [50.0, None]
    assert compared["figures"][0]["loss"] is None


def test_a_page_that_cannot_be_written_is_an_error_of_one_line(runs: Path) -> None:
    for number in (1, 2):
        record_run(runs, number, scripted(2), end={})
    (runs / "file").touch()
    failed = call(compare_command, "--html", str(runs / "file" / "page.html"), run_id(1), run_id(2))
    assert str(failed.exception) == (
        f"{runs}/file/page.html cannot be written: Not a directory; choose another path with `--html`"
    )


def test_fields_of_another_form_are_an_error_of_one_line(runs: Path) -> None:
    run = record_run(runs, 1, scripted(2), end={"checkpoint": "model.ckpt-1"})
    shown = call(show_command, run.id)
    assert isinstance(shown.exception, Usage)
    assert str(shown.exception).startswith(f"{run.id} is damaged: a field of run.json or end.json has another form: ")
    assert shown.output == ""
    with record_run(runs, 2, scripted(2), end={}).progress.open("a") as progress:
        progress.write(json.dumps({"at": 1e12, "step": 10**400, "loss": 1.0}) + "\n")
    compared = call(compare_command, run.id, run_id(2))
    assert isinstance(compared.exception, Usage)
    assert str(compared.exception).startswith("these runs cannot be compared: ")
    assert compared.output == ""


def test_options_in_front_of_a_command_count_as_behind_it(runs: Path) -> None:
    other = runs.parent.parent / "other" / "runs"
    for number in (1, 2):
        record_run(runs, number, scripted(2), end={})
        record_run(other, number + 2, scripted(2), end={})
    pruned = call(runs_command, "--cluster", "lab", "--json", "prune", "--keep", "1")
    assert json.loads(pruned.output) == {"removed": [run_id(1)], "chosen": [run_id(1)]}
    assert sorted(one.name for one in other.iterdir() if one.name[0] != ".") == [run_id(3), run_id(4)]
    assert call(runs_command, "--cluster", "lab", "show").output.startswith(f"run:         {run_id(2)}")
    assert call(runs_command, "show").output.startswith(f"run:         {run_id(4)}")
    assert call(runs_command, "--cluster", "lab", "prune", "--keep", "0", "--cluster", "other").output == (
        f"removed {run_id(4)} of other\nremoved {run_id(3)} of other\n"
    )


def test_an_option_of_the_table_in_front_of_a_command_is_refused(runs: Path) -> None:
    run = record_run(runs, 1, scripted(2), end={})
    refused = call(runs_command, "-n", "1", "prune", "--keep", "0")
    assert refused.exit_code == 2
    assert "`-n` is an option of the table alone; write `tfprov runs prune` without it" in refused.output
    assert run.path.is_dir()


def test_prune_reports_what_it_has_removed_when_it_cannot_remove_a_run(runs: Path) -> None:
    for number in (1, 2, 3, 4):
        record_run(runs, number, scripted(2), end={})
    RunDir(runs / run_id(3)).run_file.write_text("[]")
    held = RunDir(runs / run_id(3)).hold()
    (runs / f".removed-{run_id(2)}").touch()  # where the directory would go
    pruned = CliRunner().invoke(prune_command, ["--keep", "1", "--json"])
    os.close(held)
    assert json.loads(pruned.stdout) == {"removed": [run_id(1)], "chosen": [run_id(3), run_id(2), run_id(1)]}
    assert isinstance(pruned.exception, CombinedError)
    assert str(pruned.exception) == (
        f"{run_id(3)} is recorded at the moment; end it with `tfprov down` first\n"
        f"{run_id(2)} cannot be removed: Not a directory; its files are in {runs / run_id(2)}"
    )
    assert pruned.exception.exit_code == 2
    again = call(prune_command, "--keep", "1")
    assert again.output == f"removed {run_id(3)} of lab\n"
    assert (type(again.exception), again.exception.exit_code) == (TfprovError, 1)  # type: ignore[union-attr]
