"""What programs print for a terminal, as lines of a log: carriage returns, backspaces, progress bars."""

import random
from itertools import count
from pathlib import Path

import pyte

from tfprov.hosts.log_file import EVERY, Lines, follow, last_lines, shown, split, split_stamped

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


def test_a_line_is_what_a_terminal_shows_of_it_in_the_end(tmp_path: Path) -> None:
    found = {}
    for name, (text, lines) in ROWS.items():
        data, log = text.encode(), tmp_path / "log"
        log.write_bytes(data)
        pieces = [data[n : n + 7] for n in range(0, len(data), 7)]  # also in the middle of a character or a sequence
        ways = [
            last_lines([log], None),
            list(follow(log, None, lambda: False)),
            list(split(pieces)),
            list(split([data])),
        ]
        found[name] = [way for way in ways if way != lines]
    assert {name: ways for name, ways in found.items() if ways} == {}


def test_lines_are_those_of_a_terminal_whatever_is_written_over() -> None:
    chance = random.Random(5)
    for _ in range(300):
        text = "".join(chance.choices(["a", "bc", "d ", "\r", "\b", "\b\b"], k=20))
        screen = pyte.Screen(80, 1)
        pyte.Stream(screen).feed(text)
        assert shown(text).rstrip() == screen.display[0].rstrip(), text


def test_a_bar_without_a_line_end_shows_its_newest_state_now_and_then() -> None:
    bar = "".join(f"\r{n:>4} [{'=' * 27}]" for n in range(588))[:19_996].encode()
    clock = count()  # a second for each piece
    time = {"now": 0.0}
    lines = Lines(lambda: time["now"])
    told = []
    for n in range(0, len(bar), 340):
        time["now"] = float(next(clock))
        told += [*lines.feed(bar[n : n + 340]), *lines.due()]
    told += [*lines.end(), *lines.end()]
    assert len(told) == len(bar) // 340 // EVERY + 1
    assert told == sorted(told)
    assert told[-1] == f" 571 [{'=' * 27}]"


def test_what_does_not_change_is_shown_once_and_a_line_without_moves_with_its_end() -> None:
    time = {"now": 0.0}
    lines = Lines(lambda: time["now"])

    def fed(data: str, seconds: float) -> list[str]:
        told = list(lines.feed(data.encode()))
        time["now"] += seconds
        return [*told, *lines.due()]

    assert fed("Loading", 9.9) == []
    assert fed(" it", 0.1) == ["Loading it"]
    assert fed("", 60) == []
    assert fed("\nnext", 5) == [], "it was shown whole, and the next one is young"
    assert fed(" one\n", 60) == ["next one"]
    assert fed("." * 9_000, 10) == ["…" + "." * 200]
    assert fed("!" * 9_000, 10) == ["…" + "!" * 199]
    (whole,) = fed("\n", 0)
    assert (len(whole), whole[8_999:9_001], whole[-201:-198]) == (10_000, ".!", "!…!")


def test_a_log_that_is_followed_shows_a_line_that_does_not_end(tmp_path: Path) -> None:
    log, looks, time = tmp_path / "log", iter([True, True, True, False]), count(0, 4.0)
    log.write_text("\r 1/9\r 2/9")
    assert list(follow(log, None, lambda: next(looks), lambda: next(time))) == [" 2/9"]


def test_a_stamp_in_front_of_a_line_is_not_written_over() -> None:
    assert list(split_stamped([b"2026-01-02T03:04:05Z 10%\r", b"90%\n2026-01-02T03:04:06Z a"])) == [
        "2026-01-02T03:04:05Z 90%",
        "2026-01-02T03:04:06Z a",
    ]
