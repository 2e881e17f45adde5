"""`--color` and NO_COLOR; `-v`."""

import io
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST, run_command
from tests.support.terminal import terminal
from tfprov.cli.escape_sequences import Screened, has_colours
from tfprov.cli.output import Printer
from tfprov.cli.printing import verbose
from tfprov.errors import hide_secret
from tfprov.hosts.trace import traced


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "environ", "on_a_terminal", "in_a_pipe"),
    [
        (None, {}, True, False),
        (None, {"NO_COLOR": "1"}, False, False),
        (None, {"NO_COLOR": ""}, True, False),
        (None, {"TERM": "dumb"}, False, False),
        (True, {"NO_COLOR": "1"}, True, True),
        (False, {}, False, False),
    ],
)
def test_colours(choice: bool | None, environ: Mapping[str, str], on_a_terminal: bool, in_a_pipe: bool) -> None:
    assert has_colours(Tty(), choice, environ) is on_a_terminal
    assert has_colours(io.StringIO(), choice, environ) is in_a_pipe


def test_the_option_reaches_the_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yml").write_text(SMALLEST)
    for words in (
        ("--color", "always", "inventory", "explain", "localhost"),
        ("inventory", "explain", "localhost", "--color", "always"),
    ):
        assert "\x1b[" in run_command(capsys, *words).out
    assert "\x1b[" not in run_command(capsys, "inventory", "explain", "localhost").out
    wrong = run_command(capsys, "plan", "--color", "blue")
    assert wrong.code == 2
    assert "`blue` is not one of" in wrong.lines[0]


def test_a_log_line_keeps_its_colours_only_where_output_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    coloured, plain = Tty(), Tty()
    Printer(out=coloured, live=False).log("ps/0", "\x1b[31mred\x1b[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    Printer(out=plain, live=False).log("ps/0", "\x1b[31mred\x1b[0m")
    assert "\x1b[31mred" in coloured.getvalue()
    assert plain.getvalue() == "ps/0 | red\n"
    errors = Tty()
    print("\x1b[31mred", file=Screened(errors))
    assert "\x1b" not in errors.getvalue()


def test_verbose_lines_name_the_host_the_action_and_its_time_and_mask_secrets(caplog: pytest.LogCaptureFixture) -> None:
    hide_secret("correct-horse-battery")
    lines: list[str] = []
    logger = logging.getLogger(verbose.LOGGER)
    handler = verbose._HANDLER  # noqa: SLF001
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    verbose.write_by(lines.append)
    try:
        with traced("node1", "ssh: id correct-horse-battery"):
            pass
        with traced("node1", "engine: GET /info", asks=True):
            pass
        with pytest.raises(OSError, match="gone"), traced("node2", "ssh: connect"):
            raise OSError("gone")
        logger.setLevel(logging.DEBUG)
        with traced("node1", "engine: GET /info", asks=True):
            pass
    finally:
        verbose.write_by(None)
        logger.removeHandler(handler)
        logger.setLevel(logging.WARNING)
    assert [line.partition(" (")[0] for line in lines] == [
        "node1: ssh: id ******",
        "node2: ssh: connect",
        "node1: engine: GET /info",
    ]
    assert lines[1].endswith("s, failed: OSError)")


def test_a_verbose_line_and_the_live_line_do_not_mix(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal(60) as window, Printer(out=window.out) as printer:
        printer.awaiting("waiting for worker/0")
        printer.show()
        printer.aside("node1: ssh: connect (0.10 s)")
        printer.note("a line")
    assert [line for line in window.lines() if line] == ["a line"]
    assert capsys.readouterr().err == "node1: ssh: connect (0.10 s)\n"
