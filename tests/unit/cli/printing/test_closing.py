"""The last lines of a training."""

from pathlib import Path

from tfprov.cli.printing.closing import closing_lines
from tfprov.results import Checkpoint, RunResult

SAVED = Checkpoint(Path("checkpoints/lab/model.ckpt-2001"), 2001, 3)


def test_the_last_lines_say_what_how_long_where_and_what_next() -> None:
    result = RunResult("lab", Path("checkpoints/lab"), SAVED, "20261125T025222Z-0af92a", 84.4)
    assert list(closing_lines(result)) == [
        "lab trained for 1m 24s, to step 2,001: checkpoints/lab/model.ckpt-2001",
        "next: `tfprov runs show 0af92a` shows the run, `tfprov run --resume` trains on from here",
    ]
    assert list(closing_lines(result, ["my lab.yml"]))[1].endswith(
        "`tfprov run --resume -i 'my lab.yml'` trains on from here"
    )


def test_a_program_that_saves_nothing_has_no_place_and_a_run_without_history_no_id() -> None:
    assert list(closing_lines(RunResult("lab", Path("c"), None, "", 3.0))) == ["lab trained for 3s"]
    assert list(closing_lines(RunResult("lab", Path("c"), None, "a-b", 3.0)))[1:] == [
        "next: `tfprov runs show b` shows the run"
    ]
