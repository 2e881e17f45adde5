"""Replicas that leave after their last joint operation: the first to leave takes its part of the result with it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfprov.runtime.eager.mirrored_training import part

LIMIT = 60.0


class Lost(Exception):
    """A replica left before its part of the result was read."""


class Replicas:
    """`number` replicas; the first one is so fast that each of the others reads its part when it has gone on, or left."""

    def __init__(self, number: int) -> None:
        self._changed = threading.Condition()
        self._met = [0] * number
        self._first_left = False

    def meet(self, me: int) -> None:
        """Wait for all, and read the first one's part. Raises Lost."""
        with self._changed:
            self._met[me] += 1
            times = self._met[me]
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: min(self._met) >= times, LIMIT), "the others do not come"
            if me:
                assert self._changed.wait_for(lambda: self._first_left or self._met[0] > times, LIMIT)
            if me and self._first_left:
                raise Lost

    def leave(self, me: int) -> None:
        """Leave the others."""
        with self._changed:
            self._first_left |= me == 0
            self._changed.notify_all()


def test_replicas_part_without_losing_each_other() -> None:
    replicas = Replicas(3)

    def leave(me: int) -> None:
        part(lambda: replicas.meet(me), Lost)
        replicas.leave(me)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(leave, range(3)))


def test_a_replica_that_is_lost_before_all_have_saved_is_lost() -> None:
    def meet() -> None:
        raise Lost

    with pytest.raises(Lost):
        part(meet, Lost)


def test_other_errors_are_not_hidden() -> None:
    calls: list[int] = []

    def meet() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        part(meet, Lost)
