"""A bound on the time and the memory of one rendering: whatever a template computes, it ends.

Single operations are refused by their size before they begin (see `sizes`). What is left are loops, regular expressions
that try one way after another, and many values of an allowed size. A timer of CPU time ticks while templates are
rendered; regular expressions and loops let its handler in, which ends a rendering that has taken too long or too much. The
limit of the address space makes an operation fail that would take more at once.

The timer belongs to the process and its handler runs in the main thread, which is where inventories are read; in another
thread there is no limit of time. Between renderings nothing is left behind: the timer stops at the first idle tick.
"""

import os
import resource
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = 10.0
"""CPU seconds of a rendering. One that looks at all variables of 10,000 hosts takes 3."""
MEMORY = 1 << 30
"""Bytes by which a rendering may enlarge the process."""
_TICK = 0.1
_PAGE = resource.getpagesize()


class Expired(BaseException):
    """A rendering has taken too much; says of what. No Exception: a template's own parts handle some of those."""


class Limits:
    """Watches one rendering at a time, with those that it causes; `seconds` of CPU time and bytes of `memory`."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self._tick = min(_TICK, seconds / 4)
        self._active = False
        self._ticks = 0
        self._resident = 0
        self._armed_in = 0
        self._space = 0
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_AS)
        self._before: Any = signal.SIG_DFL

    def within(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what `function` returns for `arguments`, or raise Expired or MemoryError."""
        if self._active or threading.current_thread() is not threading.main_thread():
            return function(*arguments)
        if self._armed_in != os.getpid():  # a fork has no timer
            self._arm()
        # Other threads map much that they never use: with them, only the ticks watch the memory.
        alone = self._space and threading.active_count() == 1
        if alone:
            resource.setrlimit(resource.RLIMIT_AS, (self._space + self.memory, self._hard))
        self._ticks, self._active = 0, True
        try:
            return function(*arguments)
        finally:
            self._active = False
            if alone:
                resource.setrlimit(resource.RLIMIT_AS, (self._soft, self._hard))

    def _arm(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_AS)
        self._measure()
        self._before = signal.signal(signal.SIGPROF, self._look)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, self._tick, self._tick)
        self._armed_in = os.getpid()

    def _look(self, _number: int, _frame: object) -> None:
        resident = self._measure()
        if not self._active:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, signal.SIG_IGN if self._before is None else self._before)
            self._armed_in = 0
            return
        self._ticks += 1
        if self._ticks == 1:
            self._resident = resident
        if self._ticks * self._tick > self.seconds:
            raise Expired(f"takes more than {self.seconds:g} seconds")
        if resident - self._resident > self.memory:
            raise Expired(self.too_much_memory())

    def too_much_memory(self) -> str:
        """Say that a rendering takes too much memory."""
        return f"takes more than {self.memory >> 20} MiB of memory"

    def _measure(self) -> int:
        """Note how large the address space is where no limit of the user's is lower; return the resident bytes."""
        try:
            with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123  ten times a second
                space, resident = (int(number) * _PAGE for number in file.read(64).split()[:2])
        except OSError:  # another system than Linux
            self._space = 0
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        limit = min((one for one in (self._soft, self._hard) if one != resource.RLIM_INFINITY), default=None)
        self._space = space if limit is None or space + self.memory < limit else 0
        return resident
