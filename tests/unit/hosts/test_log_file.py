"""Output for terminals as lines of a log: carriage returns, backspaces, progress bars."""

import random
from itertools import count
from pathlib import Path

import pyte

from tfprov.hosts.log_file import (
    UPDATE_INTERVAL,
    LineSplitter,
    follow,
    last_lines,
    render_line,
    split_lines,
    split_stamped_lines,
)

BAR = "".join(f"\r{n}/1666 [{'=' * (n // 833)}" for n in range(1667))
"""A progress bar of one line."""
KERAS = "".join(
    "\b" * 30 + f"\r\x1b[1m{n:>2}/32\x1b[0m \x1b[32m{'━' * n}\x1b[0m loss: 0.{32 - n:02}" for n in range(1, 33)
)

ROWS = {
    "a line end of Windows": ("one\r\n\r\n", ["one", ""]),
    "written over": ("10%\r50%\r100%\n", ["100%"]),
    "the rest of a longer one stays": ("abcdef\rxy\n", ["xycdef"]),
    "backspaces": ("step 1\b2\b3\n", ["step 3"]),
    "more of them than characters": ("ab\b\b\b\bc\n", ["cb"]),
    "a bar": (BAR, ["1666/1666 [=="]),
    "a bar between lines": (f"begin\n{BAR}\nend\n", ["begin", "1666/1666 [==", "end"]),
    "one with colours": (KERAS + "\n", [f"\x1b[1m32/32\x1b[0m \x1b[32m{'━' * 32}\x1b[0m loss: 0.00"]),
    "no text": ("\r\b\n", [""]),
    "not ASCII": ("ä\rö\n", ["ö"]),
}  # fmt: skip


def test_a_line_is_rendered_as_a_terminal_finally_displays_it(tmp_path: Path) -> None:
    results = {}
    for name, (text, lines) in ROWS.items():
        data, log = text.encode(), tmp_path / "log"
        log.write_bytes(data)
        chunks = [data[n : n + 7] for n in range(0, len(data), 7)]  # also splits characters and sequences
        readings = [
            last_lines([log], None),
            list(follow(log, None, lambda: False)),
            list(split_lines(chunks)),
            list(split_lines([data])),
        ]
        results[name] = [reading for reading in readings if reading != lines]
    assert {name: readings for name, readings in results.items() if readings} == {}


def test_overwritten_lines_are_rendered_like_a_terminal_does() -> None:
    chance = random.Random(5)
    for _ in range(300):
        text = "".join(chance.choices(["a", "bc", "d ", "\r", "\b", "\b\b"], k=20))
        screen = pyte.Screen(80, 1)
        pyte.Stream(screen).feed(text)
        assert render_line(text).rstrip() == screen.display[0].rstrip(), text


def test_a_bar_without_a_line_end_is_an_unfinished_line_that_changes() -> None:
    bar = "".join(f"\r{n:>4} [{'=' * 27}]" for n in range(588))[:19_996].encode()
    clock = count()  # an eighth of a second per chunk
    time = {"now": 0.0}
    lines = LineSplitter(lambda: time["now"])
    shown = []
    for n in range(0, len(bar), 340):
        time["now"] = next(clock) / 8
        shown += [*lines.feed(bar[n : n + 340]), *lines.due()]
    assert len(shown) == len(bar) // 340 // (UPDATE_INTERVAL * 8)
    assert all(line.unfinished for line in shown)
    assert shown == sorted(shown)
    last = [*lines.end(), *lines.end()]
    assert [(str(line), line.unfinished) for line in last] == [(f" 571 [{'=' * 27}]", False)]


def test_an_unchanged_line_is_shown_once_before_its_end_and_a_long_one_with_its_end() -> None:
    time = {"now": 0.0}
    lines = LineSplitter(lambda: time["now"])

    def feed(data: str, seconds: float) -> list[str]:
        shown = list(lines.feed(data.encode()))
        time["now"] += seconds
        return [f"({line})" if line.unfinished else str(line) for line in (*shown, *lines.due())]

    assert feed("Loading", 0.4) == []
    assert feed(" it", 0.1) == ["(Loading it)"]
    assert feed("", 60) == []
    assert feed("\nnext", 0.1) == ["Loading it"]
    assert feed(" one\n", 60) == ["next one"]
    assert feed("." * 9_000, 10) == ["(…" + "." * 200 + ")"]
    assert feed("!" * 9_000, 10) == ["(…" + "!" * 199 + ")"]
    (whole,) = feed("\n", 0)
    assert (len(whole), whole[8_999:9_001], whole[-201:-198]) == (10_000, ".!", "!…!")


def test_a_followed_log_shows_an_unfinished_line(tmp_path: Path) -> None:
    log, checks, time = tmp_path / "log", iter([True, True, True, False]), count(0, 4.0)
    log.write_text("\r 1/9\r 2/9")
    lines = list(follow(log, None, lambda: next(checks), lambda: next(time)))
    assert [(str(line), line.unfinished) for line in lines] == [(" 2/9", True), (" 2/9", False)]


def test_the_stamp_of_a_line_is_not_overwritten() -> None:
    assert list(split_stamped_lines([b"2026-01-02T03:04:05Z 10%\r", b"90%\n2026-01-02T03:04:06Z a"])) == [
        "2026-01-02T03:04:05Z 90%",
        "2026-01-02T03:04:06Z a",
    ]
