"""Times, patterns and colours of `logs`, and progress bars on a terminal and in a pipe."""

import io
import threading
import time
from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST, run_command
from tests.support.growth import check_growth
from tests.support.terminal import terminal
from tfprov.cli.output import Printer
from tfprov.cli.printing.log_text import LinePattern, level_colour, stamp
from tfprov.cli.printing.moments import parse_moment, parse_range
from tfprov.errors import Usage
from tfprov.results import LogRecord

NOW = 1_795_573_536.0


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("10m", NOW - 600),
        ("1h30m", NOW - 5400),
        ("1.5s", NOW - 1.5),
        ("250ms", NOW - 0.25),
        ("2d", NOW - 172_800),
        ("99999999d", 0.0),
        ("1795573000", 1_795_573_000.0),
        ("1795573000.5", 1_795_573_000.5),
        ("2026-11-25T02:00:00Z", 1_795_572_000.0),
        ("2026-11-25T03:00:00+01:00", 1_795_572_000.0),
        ("2026-11-25 02:00Z", 1_795_572_000.0),
    ],
)
def test_moments(text: str, moment: float) -> None:
    assert parse_moment("--since", text, NOW) == pytest.approx(moment)


def test_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert parse_moment("--since", "2026-11-25T04:00", NOW) == 1_795_572_000.0
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize(
    "text",
    ["", "10", "10x", "yesterday", "-5m", "m10", "2026-13-01", "1e9", "\u0661m", "nan", "inf"],
)
def test_what_is_no_moment_is_one_line(text: str) -> None:
    with pytest.raises(Usage, match="is no time; write a duration such as `10m`"):
        parse_moment("--since", text, NOW)


def test_an_empty_range_is_refused() -> None:
    assert parse_range("2h", "1h", NOW) == (NOW - 7200, NOW - 3600)
    with pytest.raises(Usage, match="`--since 1h` is not before `--until 2h`"):
        parse_range("1h", "2h", NOW)


@pytest.mark.parametrize(
    ("line", "colour"),
    [
        ("2026-11-25 02:11:57.123456: E tensorflow/core/platform/x.cc:12] failed", "31"),
        ("2026-11-25 02:11:57.123456: W tensorflow/core/platform/x.cc:12] slow", "33"),
        ("2026-11-25 02:11:57.123456: I tensorflow/core/platform/x.cc:12] fine", None),
        ("W0000 00:00:1795573536.123456  12 gpu_device.cc:2342] Cannot dlopen some GPU libraries", "33"),
        ("E1125 02:11:57.123456 140 file.py:12] wrong", "31"),
        ("WARNING:tensorflow:From train.py:3: is deprecated", "33"),
        ("ERROR:root:lost", "31"),
        ("2026-11-25 02:11:57,123 - ERROR - lost", "31"),
        ("[2026-11-25 02:11:57] WARNING lost", "33"),
        ("Traceback (most recent call last):", "31"),
        ("ValueError: no such shape", "31"),
        ("tensorflow.python.framework.errors_impl.UnavailableError: gone", "31"),
        ("step 10 loss 0.5 error 0.1", None),
        ("Errors: 0", None),
        ("Warning signs are none", None),
        ("\x1b[32mERROR: own colours\x1b[0m", None),
        ("", None),
    ],
)
def test_levels(line: str, colour: str | None) -> None:
    assert level_colour(line) == colour


def test_a_line_of_whatever_text_is_judged_at_once() -> None:
    def judges(length: int) -> None:
        for line in ("2026-11-25 " + ":" * length, "a." * (length // 2), "[" * length, "A" * length):
            for _ in range(20):
                level_colour(line)

    check_growth(lambda: judges(1_000), lambda: judges(20_000), below=5)


def test_stamps_have_one_width() -> None:
    assert stamp(NOW + 0.25) == "2026-11-25T02:25:36.250Z"
    assert len(stamp(None)) == len(stamp(NOW))


def test_a_pattern_that_backtracks_is_ended_and_a_wrong_one_is_one_line() -> None:
    assert LinePattern("loss 0.[0-4]").matches("step 1 loss 0.3")
    with pytest.raises(Usage, match=r"takes more than 0.2 s for one line; write it without a repetition inside"):
        LinePattern("(a+)+$", seconds=0.2).matches("a" * 60 + "b")
    for wrong in ("(", "a{99999999999}", "[", "*", "(?P<1>a)"):
        with pytest.raises(Usage, match="is no regular expression"):
            LinePattern(wrong)


def test_a_bad_option_is_reported_before_any_host_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yml").write_text(SMALLEST)
    for words in (("--grep", "("), ("--since", "x"), ("--since", "1m", "--until", "2m"), ("-n", "-1")):
        result = run_command(capsys, "logs", *words)
        assert (result.code, len(result.lines), result.out) == (2, 1, "")


def test_a_progress_bar_is_one_line_that_changes_on_a_terminal() -> None:
    with terminal(60) as window, Printer(out=window.out) as printer:
        printer.align(["worker/0"])
        for percent in (10, 20, 30):
            printer.record(LogRecord("worker/0", f"{percent}% [===]", unfinished=True))
        printer.record(LogRecord("ps/0", "a line"))
        printer.record(LogRecord("worker/0", "100% [===]"))
    shown = [line for line in window.lines() if line]
    assert shown == ["ps/0     | a line", "worker/0 | 100% [===]"]


def test_a_progress_bar_is_its_last_state_in_a_pipe() -> None:
    out = io.StringIO()
    printer = Printer(out=out)
    for percent in (10, 20, 30):
        printer.redrawn("worker/0", f"{percent}%")
    printer.record(LogRecord("worker/0", "100%", printed=NOW), times=True)
    assert out.getvalue() == "worker/0 | 2026-11-25T02:25:36.000Z 100%\n"


def test_the_bar_stands_on_the_live_line_meanwhile() -> None:
    shown = threading.Event()
    with terminal(60) as window, Printer(out=window.out) as printer:
        printer.redrawn("worker/0", "   30% [===]")
        assert printer.under_way.text(0.0) == "worker/0 | 30% [===]"
        shown.set()
    assert [line for line in window.lines() if line] == []


def test_levels_have_colours_only_where_output_has_some() -> None:
    plain, coloured = io.StringIO(), io.StringIO()
    Printer(out=plain).log("worker/0", "ERROR:root:lost")
    Printer(out=coloured, colour=True).log("worker/0", "ERROR:root:lost")
    assert plain.getvalue() == "worker/0 | ERROR:root:lost\n"
    assert coloured.getvalue().endswith("\x1b[31mERROR:root:lost\x1b[0m\n")
