"""Locks that are freed with their holder, and that observers never take."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until
from tfprov.file_locks import is_locked, open_lock, take_lock

HOLD = """
import sys
from pathlib import Path
from tfprov.file_locks import open_lock, take_lock
assert take_lock(open_lock(Path(sys.argv[1])))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def observers(lock: Path) -> Iterator[list[bool]]:
    """Look at a lock in two threads until the end of the block; yield what they see."""
    seen: list[bool] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.append(is_locked(lock))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_observers_take_each_other_for_no_holder(tmp_path: Path) -> None:
    os.close(open_lock(tmp_path / "lock"))
    with observers(tmp_path / "lock") as seen:
        until(lambda: len(seen) > 2000, "both have looked")
    assert not any(seen)


def test_observers_are_not_in_the_way_of_one_that_takes_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    os.close(open_lock(lock))
    with observers(lock) as seen:
        until(lambda: seen, "they look")
        for _ in range(500):
            descriptor = open_lock(lock)
            assert take_lock(descriptor)
            assert is_locked(lock)
            os.close(descriptor)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert is_locked(lock)
        mine = open_lock(lock)
        assert not take_lock(mine)
        assert not take_lock(mine, shared=True)
        holder.kill()
    assert not is_locked(lock)
    assert take_lock(mine)
    os.close(mine)


def test_a_shared_lock_can_be_held_twice_and_keeps_others_out(tmp_path: Path) -> None:
    one, two, three = (open_lock(tmp_path / "lock") for _ in range(3))
    assert take_lock(one, shared=True)
    assert take_lock(two, shared=True)
    assert not take_lock(three)
    os.close(one)
    assert is_locked(tmp_path / "lock")
    os.close(two)
    assert take_lock(three)
    os.close(three)


def test_a_missing_file_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "none" / "lock")
