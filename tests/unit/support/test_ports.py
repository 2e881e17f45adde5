"""Ports for tests: no two sessions get the same, and a session that ends leaves its own to the next."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.ports import SIZE as SIZE_OF_RANGE
from tests.support.ports import free_ports, lock_range

SIZE = 10
LOCKED = """
import sys
from tests.support.ports import lock_range
ours = lock_range(*map(int, sys.argv[1:]))
print(ours.low, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ranges() -> tuple[int, int, int]:
    """Three small ranges, among ports that no other test has."""
    low = free_ports(3 * SIZE)
    return low, low + 3 * SIZE, SIZE


@pytest.fixture
def other(ranges: tuple[int, int, int]) -> Iterator["subprocess.Popen[str]"]:
    """Another session, which has the first of the ranges."""
    command = [sys.executable, "-c", LOCKED, *map(str, ranges)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert int(process.stdout.readline()) == ranges[0]
        yield process
        process.kill()


@pytest.mark.usefixtures("other")
def test_two_sessions_have_ports_of_their_own(ranges: tuple[int, int, int]) -> None:
    ours = lock_range(*ranges)
    with ours.lock:
        theirs = set(range(ranges[0], ranges[0] + SIZE))
        assert not theirs & {ours.free(1) for _ in range(3 * SIZE)}


def test_the_ports_of_a_session_that_was_killed_are_free_again(
    ranges: tuple[int, int, int], other: "subprocess.Popen[str]"
) -> None:
    other.kill()
    other.wait()
    ours = lock_range(*ranges)
    with ours.lock:
        assert ours.low == ranges[0]


def test_a_port_that_is_taken_is_passed_over_and_none_is_returned_twice_in_a_row(ranges: tuple[int, int, int]) -> None:
    ours = lock_range(*ranges)
    with ours.lock, socket.create_server(("127.0.0.1", ours.low + 3)):
        assert [ours.free(count) - ours.low for count in (2, 2, 1, 3)] == [1, 4, 6, 7]
        assert ours.free(1) == ours.low + 1, "from the beginning again, past the lock"


def test_more_sessions_than_ranges_is_an_error(ranges: tuple[int, int, int]) -> None:
    locks = [lock_range(*ranges).lock for _ in range(3)]
    try:
        with pytest.raises(RuntimeError, match="other test sessions have all ports from"):
            lock_range(*ranges)
    finally:
        for lock in locks:
            lock.close()


def test_threads_get_ports_of_their_own() -> None:
    with ThreadPoolExecutor(8) as pool:
        firsts = list(pool.map(lambda _: free_ports(5), range(80)))
    assert len({port for first in firsts for port in range(first, first + 5)}) == 80 * 5


def test_a_fork_gets_ports_of_its_own() -> None:
    ours = free_ports(1)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, str(free_ports(1)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = int(os.read(read, 100))
    os.close(read)
    os.close(write)
    assert theirs // SIZE_OF_RANGE != ours // SIZE_OF_RANGE
