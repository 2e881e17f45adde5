"""The cluster's lock between real processes, and log files that grow while they are read."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path, PosixPath

import pytest

from tests.support.forked import PROCESSES
from tests.support.full_disk import full_disk
from tfprov.engine.lock.cluster_lock import hold_file
from tfprov.engine.lock.holder import LockHolder
from tfprov.errors import Locked, TfprovError
from tfprov.hosts.log_file import follow, last_lines

UP = LockHolder.current("up")


def hold_until_killed(path: Path, held: Connection, of_parent: Connection) -> None:
    of_parent.close()  # so that its end is seen here
    with hold_file(path, "linear", LockHolder.current("run")):
        held.send(None)
        held.recv()


@contextmanager
def holder(path: Path) -> Iterator[BaseProcess]:
    """Hold the lock in another process: a fork of this one, which need not import anything."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=hold_until_killed, args=(path, theirs, ours))
    with ours, theirs:
        process.start()
        try:
            ours.recv()
            yield process
        finally:
            process.kill()
            process.join()
            process.close()


def test_a_second_run_gets_the_holder_of_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path / "lock") as process:
        who = rf"cluster linear is in use by `tfprov run` of .+@.+ \(pid {process.pid}, since"
        with pytest.raises(Locked, match=who), hold_file(tmp_path / "lock", "linear", UP):
            pytest.fail("two at once")
    assert Locked.exit_code == 3


def test_a_holder_that_is_killed_leaves_nothing_to_unlock(tmp_path: Path) -> None:
    with holder(tmp_path / "lock") as process:
        process.kill()
        process.join()
        with hold_file(tmp_path / "lock", "linear", UP):
            pass


def test_the_lock_is_free_after_its_block_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), hold_file(tmp_path / "deep" / "lock", "linear", UP):
        raise RuntimeError
    with hold_file(tmp_path / "deep" / "lock", "linear", UP):
        pass


def test_a_holder_that_has_not_signed_yet_is_another_run(tmp_path: Path) -> None:
    with holder(tmp_path / "lock"):
        (tmp_path / "lock").write_text("{")
        with (
            pytest.raises(Locked, match=r"^cluster linear is in use by another run; wait for it, or stop it$"),
            hold_file(tmp_path / "lock", "linear", UP),
        ):
            pass


def test_a_full_disk_has_a_lock_without_a_name(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        full_disk(0),
        hold_file(lock, "linear", UP),
        pytest.raises(Locked, match=r"^cluster linear is in use by another run; wait for it, or stop it$"),
        hold_file(lock, "linear", UP),
    ):
        pytest.fail("two at once")


def test_a_lock_that_cannot_be_made_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = "cluster linear cannot be locked: .*/file/lab: Not a directory; check its permissions"
    with pytest.raises(TfprovError, match=error), hold_file(tmp_path / "file" / "lab" / "lock", "linear", UP):
        pytest.fail("without a lock")


def test_two_clusters_have_two_locks(tmp_path: Path) -> None:
    with hold_file(tmp_path / "one" / "lock", "one", UP), hold_file(tmp_path / "two" / "lock", "two", UP):
        for name in ("one", "two"):
            with (
                pytest.raises(Locked, match=f"cluster {name} is in use"),
                hold_file(tmp_path / name / "lock", name, UP),
            ):
                pytest.fail("two at once")


# --- log files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "count", "lines"),
    [
        (b"", None, []),
        (b"a\nb\n", None, ["a", "b"]),
        (b"a\nb", None, ["a", "b"]),
        (b"a\n\n\nb\n", None, ["a", "", "", "b"]),
        (b"a\r\nb\r\n", None, ["a", "b"]),
        (b"a\nb\nc\n", 2, ["b", "c"]),
        (b"a\n", 0, []),
        (b"a\n", 5, ["a"]),
        (b"\xff\xc3\xa4\n", None, ["\ufffdä"]),
        (b"a\x00b\n", None, ["a\x00b"]),
    ],
)
def test_the_last_lines_of_a_log(tmp_path: Path, data: bytes, count: int | None, lines: list[str]) -> None:
    (tmp_path / "log").write_bytes(data)
    assert last_lines([tmp_path / "log"], count) == lines


def test_the_older_part_of_a_log_comes_first(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("1\n2\n")
    (tmp_path / "new").write_text("3\n")
    assert last_lines([tmp_path / "old", tmp_path / "new", tmp_path / "none"], 2) == ["2", "3"]


def test_a_line_that_never_ends_is_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 5_000_000)
    assert [len(line) for line in last_lines([tmp_path / "log"], None)] == [10_000]
    assert [len(line) for line in follow(tmp_path / "log", None, lambda: False)] == [10_000]


@pytest.mark.parametrize(("tail", "lines"), [(None, ["a", "b", "c"]), (1, ["c"]), (0, []), (9, ["a", "b", "c"])])
def test_following_begins_as_far_back_as_asked(tmp_path: Path, tail: int | None, lines: list[str]) -> None:
    (tmp_path / "log").write_text("a\nb\nc\n")
    assert list(follow(tmp_path / "log", tail, lambda: False)) == lines


def test_following_a_log_without_a_last_line_break_begins_as_far_back_as_asked(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a\nb")
    assert list(follow(tmp_path / "log", 1, lambda: False)) == ["b"]


def test_following_waits_for_a_log_and_for_the_rest_of_a_line(tmp_path: Path) -> None:
    log, stopped = tmp_path / "log", threading.Event()
    lines = follow(log, None, lambda: not stopped.is_set())
    with log.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert next(lines) == "one"
        file.write(b"o\nthree")
        assert next(lines) == "two"
        stopped.set()
        assert list(lines) == ["three"]


def test_a_character_that_is_split_between_two_reads_stays_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (1024 * 1024 - 1) + "ä\n".encode() + b"y\n")
    assert list(follow(log, 1, lambda: False)) == ["y"]
    log.write_bytes((b"." * 1023 + b"\n") * 1023 + b"." * 1022 + b"\n" + "ä\n".encode())
    assert list(follow(log, None, lambda: False))[-1] == "ä"


def test_a_log_that_starts_anew_is_read_from_its_start(tmp_path: Path) -> None:
    log, running = tmp_path / "log", iter([True, True, False])
    log.write_text("a long first line\n")
    lines = follow(log, None, lambda: next(running))
    assert next(lines) == "a long first line"
    log.write_text("new\n")
    assert list(lines) == ["new"]


class GoneWhenRead(PosixPath):
    """A file that goes between a look whether it is there, and the next one."""

    def exists(self) -> bool:
        return True


def test_a_log_may_go_at_any_moment(tmp_path: Path) -> None:
    log = GoneWhenRead(tmp_path / "log")
    assert last_lines([log], None) == []
    assert [*follow(log, None, lambda: False), *follow(log, 1, lambda: False)] == []
