"""The live line on a real pseudo-terminal: what is printed above it is on the screen, or above the screen, at the end."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.terminal import terminal
from tfprov.cli.output import Printer
from tfprov.cli.printing.live_line import LiveLine, fitting
from tfprov.errors import TfprovError
from tfprov.model.plan import Action, ActionKind

TASKS = 40
FIX = "no route to host; check the address, the firewall and that sshd listens there"


def actions(kind: str) -> list[Action]:
    return [Action(ActionKind(kind), f"node{i}.example.com", f"worker/{i}", ()) for i in range(TASKS)]


def started_all(printer: Printer, resize: Callable[[int], None]) -> list[str]:
    """Report a plan of 40 tasks, and how it is carried out; return the lines that were printed."""
    lines = [f"  start  worker/{i} on node{i}.example.com  (not there)" for i in range(TASKS)]
    for line in lines:
        printer.note(line)
    deliveries, starts = actions("deliver"), actions("start")
    printer.planned([*deliveries, *starts])
    for action in deliveries:
        printer.started(action)
    for step, action in enumerate(deliveries):
        for other in deliveries[step:]:
            printer.transferred(other.host, (step + 1) * 1_000_000, 80_000_000)
        printer.show()
        printer.failed(action, TfprovError(FIX)) if step % 7 == 3 else printer.done(action)
        resize(step)
    lines += [f"{word(step)}   deliver" for step in range(TASKS)]
    for action in starts:
        printer.started(action)
    for step, action in enumerate(starts):
        printer.done(action)
        resize(step)
    return lines


def word(step: int) -> str:
    return "failed" if step % 7 == 3 else "ok    "


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_every_printed_line_is_on_the_screen_or_above_it(columns: int) -> None:
    with terminal(columns) as window, Printer(out=window.out) as printer:
        lines = started_all(printer, lambda _: None)
    text = [line.rstrip() for line in window.lines()]
    for line in lines[:TASKS]:
        assert text.count(line) == 1, line
    for kind in ("deliver", "start"):
        ends = [line for line in text if f" {kind} " in line and line.startswith(("ok ", "failed "))]
        assert len(ends) == TASKS
    joined = "".join(line.ljust(columns) if len(line) > columns - 12 else line for line in window.lines())
    assert joined.replace(" ", "").count(FIX.replace(" ", "")) == len(range(3, TASKS, 7)), "the fix stands there whole"
    assert not any(line.startswith(("delivering", "starting")) for line in text), "the live line is gone at the end"


def test_no_printed_line_goes_when_the_window_changes_its_width() -> None:
    widths = itertools.cycle([200, 61, 120, 60, 80])
    with terminal(80) as window, Printer(out=window.out) as printer:
        started_all(printer, lambda step: window.resize(next(widths)) if step % 3 == 0 else None)
    text = window.lines()
    for i in range(TASKS):
        assert any(line.startswith(f"  start  worker/{i} on node{i}.example.com") for line in text), i
        for kind in ("deliver", "start"):
            about = f"node{i}.example.com" if kind == "deliver" else f"worker/{i} on"
            assert any(line.startswith(("ok ", "failed ")) and f" {kind} " in line and about in line for line in text)


def test_the_line_never_takes_a_second_row_and_output_goes_above_it() -> None:
    with terminal(60) as window, Printer(out=window.out) as printer:
        printer.awaiting("waiting for " + ", ".join(f"worker/{i}" for i in range(30)))
        for i in range(5):
            printer.show()
            printer.note(f"line {i}")
        printer.show()
        window.out.flush()
        kept = window
    assert [line for line in kept.lines() if line] == [f"line {i}" for i in range(5)]


@pytest.mark.parametrize(("colour", "shown"), [(True, "red"), (False, "default")])
def test_colours_of_programs_reach_a_terminal_only_if_the_printer_has_colours(colour: bool, shown: str) -> None:
    with terminal(60) as window, Printer(out=window.out, colour=colour) as printer:
        printer.log("ps/0", "\x1b[31mwarm\x1b[0m")
    first = window.cells()[0]
    assert "".join(data for data, _, _ in first).rstrip() == "ps/0 | warm"
    assert {foreground for data, foreground, _ in first[-4:]} == {shown}


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        ("step 12", 7, "step 12"),
        ("step 12", 6, "step …"),
        ("模型模型", 8, "模型模型"),
        ("模型模型", 7, "模型模…"),
        ("模型模型", 6, "模型 …"),
        ("step", 0, ""),
        ("step", 1, "…"),
    ],
)
def test_a_text_is_cut_to_cells_of_the_terminal(text: str, cells: int, expected: str) -> None:
    assert fitting(text, cells) == expected


def test_a_terminal_that_was_closed_ends_nothing(tmp_path: Path) -> None:
    def columns() -> int:
        raise OSError(5, "Input/output error")

    with (tmp_path / "out").open("w") as out:
        line = LiveLine(out, columns)
        line.print("a")
        line.show("b")
        line.print("c")
        line.show("")
