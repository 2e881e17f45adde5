"""The bounds of recorded logs: the first half and the newest quarters, also after kills and damage."""

import gzip
from pathlib import Path

import pytest

from tfprov.history.log_store import LogTail, TaskLog, limit_for, logged_tasks, read_log

LIMIT = 4000


def write(directory: Path, numbers: range, limit: int = LIMIT) -> None:
    log = TaskLog(directory, "worker/0", limit)
    log.skip()
    for number in numbers:
        log.add(1000.0 + number, f"line {number:06}")
        log.flush()


def texts(directory: Path) -> list[str]:
    return [line.text for line in read_log(directory, "worker/0")]


def test_a_short_log_is_whole_and_zcat_reads_it(tmp_path: Path) -> None:
    write(tmp_path, range(20))
    assert texts(tmp_path) == [f"line {n:06}" for n in range(20)]
    (path,) = tmp_path.iterdir()
    assert gzip.decompress(path.read_bytes()).splitlines()[3] == b"1003000\tline 000003"
    assert logged_tasks(tmp_path) == ["worker/0"]


@pytest.mark.parametrize("lines", [150, 175, 240, 1000, 5000])
def test_a_long_log_keeps_its_begin_and_its_end(tmp_path: Path, lines: int) -> None:
    write(tmp_path, range(lines))
    kept = texts(tmp_path)
    assert kept[0] == "line 000000"
    assert kept[-1] == f"line {lines - 1:06}"
    numbers = [int(text[5:]) for text in kept if text.startswith("line")]
    assert numbers == sorted(set(numbers))
    gaps = sum("lines were left out" in text for text in kept)
    assert gaps == (numbers != list(range(lines)))
    assert sum(len(gzip.decompress(path.read_bytes())) for path in tmp_path.iterdir()) <= LIMIT + 200
    tail = [n for n in numbers if n >= lines - LIMIT // 4 // 30]
    assert tail == list(range(lines - LIMIT // 4 // 30, lines)), "at least a quarter is the newest"


def test_a_later_writer_goes_on_within_the_bounds(tmp_path: Path) -> None:
    write(tmp_path, range(300))
    write(tmp_path, range(300, 600))
    numbers = [int(text[5:]) for text in texts(tmp_path) if text.startswith("line")]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 599
    assert sum(len(gzip.decompress(path.read_bytes())) for path in tmp_path.iterdir()) <= LIMIT + 200


def test_a_line_that_is_recorded_while_a_reader_begins_is_shown_once(tmp_path: Path) -> None:
    write(tmp_path, range(3))

    def meanwhile(directory: Path) -> list[str]:
        write(tmp_path, range(3, 5))
        return logged_tasks(directory)

    tail = LogTail(tmp_path, 10, meanwhile)
    assert [line.text for line in tail.begin["worker/0"]] == [f"line {n:06}" for n in range(3)]
    assert [line.text for _, line in tail.new()] == [f"line {n:06}" for n in range(3, 5)]
    assert tail.new() == []


def test_a_file_that_made_room_and_is_larger_again_is_read_from_its_start(tmp_path: Path) -> None:
    log, tail = TaskLog(tmp_path, "worker/0", 400), LogTail(tmp_path)
    shown: list[str] = []
    for numbers in ([0], [1], [2], range(3, 50)):  # the half, both quarters, and the first of them again
        for number in numbers:
            log.add(number, f"{number} {'x' * 180}")
        log.flush()
        shown += [line.text.split()[0] for _, line in tail.new()]
    assert shown == [str(number) for number in range(50)]


@pytest.mark.parametrize("cut", [1, 9, 25, 60])
def test_a_member_that_was_cut_is_replaced_by_what_follows(tmp_path: Path, cut: int) -> None:
    write(tmp_path, range(20))
    path = tmp_path / "worker-0.log.gz"
    path.write_bytes(path.read_bytes()[:-cut])
    before = texts(tmp_path)
    assert before == [f"line {n:06}" for n in range(len(before))]
    assert len(before) >= 17
    write(tmp_path, range(50, 53))
    assert texts(tmp_path)[-3:] == [f"line {n:06}" for n in range(50, 53)]


DAMAGED = {
    "empty": b"",
    "no gzip": b"no gzip",
    "lines without times": gzip.compress(b"no time\n\n\t\n#\tx\n99\t\xff\n", mtime=0),
    "a cut header": b"\x1f\x8b\x08",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_log_is_no_error(tmp_path: Path, damage: str) -> None:
    (tmp_path / "worker-0.log.gz").write_bytes(DAMAGED[damage])
    assert len(texts(tmp_path)) <= 1
    write(tmp_path, range(3))
    assert texts(tmp_path)[-1] == "line 000002"


def test_a_very_long_line_is_cut_and_control_characters_stay(tmp_path: Path) -> None:
    log = TaskLog(tmp_path, "worker/0")
    log.add(1.0, "x" * 10**6)
    log.add(1.0, "\x1b[31m\r\udcff")
    log.flush()
    long, odd = texts(tmp_path)
    assert len(long) == 16 * 1024
    assert odd == "\x1b[31m\r?"


def test_the_bound_of_a_task_falls_with_their_number() -> None:
    assert limit_for(1) == limit_for(64) == 16 * 1024 * 1024
    assert limit_for(1024) == 1024 * 1024
