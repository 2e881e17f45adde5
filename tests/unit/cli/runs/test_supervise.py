"""What a supervisor leaves for `attach` when it ends."""

from tfprov.cli.runs.supervise import error_lines
from tfprov.errors import CombinedError, HangUp, HostError


def test_a_supervisor_that_was_ended_by_a_signal_leaves_no_empty_line() -> None:
    assert error_lines(HangUp()) == ["error: stopped by a signal"]
    lost = CombinedError([HostError("h1", "no answer"), HostError("h2", "no answer")])
    assert error_lines(lost) == ["error: h1: no answer", "error: h2: no answer"]
