"""The clock and the threads of a run."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

MIN_FORKS, MAX_FORKS = 32, 128
"""Least and most hosts worked on at the same time by default. With Ansible's default of 5, most of a cluster would wait."""
_FORKS_PER_CORE = 16
"""A host keeps a core busy for some 4 ms, and lets it wait for 50 to 300 ms."""


def default_forks(hosts: int, cores: int | None = None) -> int:
    """Return how many of `hosts` to work on at the same time: more on a controller with more cores (default: its own)."""
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    return max(1, min(hosts, MAX_FORKS, max(MIN_FORKS, _FORKS_PER_CORE * cores)))


LOOK = 0.5
"""Seconds between two looks for Ctrl-C: a signal that comes just before the main thread sleeps does not wake it."""


class Clock:
    """The machine's clock and threads; tests replace it, so that no time limit depends on their speed."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Return the seconds since 1970, to compare with times of hosts and files."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait up to `seconds` for `event`; return whether it is set."""
        return event.wait(seconds)

    def pool(self, workers: int) -> Executor:
        """Return an executor for up to `workers` calls at the same time."""
        return ThreadPoolExecutor(max_workers=max(1, workers))


@contextmanager
def pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of up to `threads` threads, and wait for them at the end, except after Ctrl-C or a hang-up.

    A lost host can take minutes to fail, and must not delay an interrupted run.
    """
    executor = ThreadPoolExecutor(max_workers=max(1, threads))
    try:
        yield executor
    except Exception:
        executor.shutdown()
        raise
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        executor.shutdown()
