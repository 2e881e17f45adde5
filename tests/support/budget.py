"""The CPU seconds of a whole run of the suite, held against the figure that is committed in tests/budget.json.

Seconds of the clock say how busy a machine was; CPU seconds say what the tests cost, and creep up unseen. What counts is
all that the machine did in the meantime but for processes that were there before: tasks outlive the verb that starts
them, and containers are children of an engine. A slower machine is allowed more, by a piece of work of fixed size that is
timed on both: before, afterwards and every half minute, as a machine that shares its processors with others can take
twice as long from one second to the next. A run that had to build images is not compared, nor are the long forms of
`make matrix`, which have more to do.

    python -m tests.support.budget SECONDS      # commits the figure of a run on a quiet machine, for this machine's speed
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.examples import MATRIX
from tests.support.paths import ROOT

FILE = ROOT / "tests" / "budget.json"
GROWTH = 1.10
"""What a run may cost, of the committed figure."""
ENFORCED = "TFPROV_TESTS_BUDGET"
"""Set to `required` in continuous integration; elsewhere a run that costs more is only reported."""
_TICKS = os.sysconf("SC_CLK_TCK")


_BETWEEN = 30.0
"""Seconds between two times at which the machine's speed is measured while the tests run."""


def speed() -> float:
    """Return the CPU seconds that a fixed piece of work takes here: the median of five times about 0.05."""
    return sorted(_piece_of_work() for _ in range(5))[2]


def _piece_of_work() -> float:
    """Return the CPU seconds that it takes.

    The interpreter's own work, as most of the tests' is. A hash takes a quarter of the time where the processor has
    instructions for it.
    """
    begin = time.process_time()
    counts: dict[str, int] = {}
    for number in range(360_000):
        end = str(number)[-3:]
        counts[end] = counts.get(end, 0) + len(end)
    return time.process_time() - begin


class SpeedSamples:
    """Measures a machine's speed now and then, with `work`, by a `clock`."""

    def __init__(self, work: Callable[[], float] = _piece_of_work, clock: Callable[[], float] = time.monotonic) -> None:
        self._work, self._clock = work, clock
        self._next = clock() + _BETWEEN
        self._taken: list[float] = []

    def sample(self) -> None:
        """Measure it, if it is time to."""
        if self._clock() >= self._next:
            self._taken.append(self._work())
            self._next = self._clock() + _BETWEEN

    def mean(self) -> float:
        """Return the mean of what was measured; 0 for nothing."""
        return sum(self._taken) / max(1, len(self._taken))


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the boot: of the whole machine, and of each process, by pid and start time."""

    machine: float
    processes: dict[tuple[int, str], float]

    @classmethod
    def now(cls) -> "Usage":
        """Read it from /proc."""
        # user, nice and system of proc(5): waiting and what other machines took are not work.
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
        processes = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                fields = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended
                continue
            processes[int(process.name), fields[19]] = (int(fields[11]) + int(fields[12])) / _TICKS
        return cls((user + nice + system) / _TICKS, processes)

    def since(self, begin: "Usage", ours: int) -> float:
        """Return the CPU seconds since `begin` but for those of processes that were there then; `ours` counts."""
        others = sum(
            seconds - begin.processes[process]
            for process, seconds in self.processes.items()
            if process in begin.processes and process[0] != ours
        )
        return self.machine - begin.machine - others


def verdict(seconds: float, here: float, committed: dict[str, float]) -> str | None:
    """Return what is wrong with a run of so many CPU `seconds` on a machine of the speed `here`; None when nothing is."""
    allowed = committed["cpu_seconds"] * max(1.0, here / committed["speed"]) * GROWTH
    if seconds <= allowed:
        return None
    return (
        f"the tests took {seconds:.0f} CPU seconds and may take {allowed:.0f}: {committed['cpu_seconds']:.0f} "
        f"(tests/budget.json) and a tenth, at this machine's speed; make the new ones cheaper (see the slowest above), or "
        f"commit a new figure and say in the commit what it buys"
    )


class Budget:
    """A pytest plugin: measures the session, and reports at its end."""

    def __init__(self, config: pytest.Config, *, long_forms: bool = MATRIX) -> None:
        self.built = 0
        # A part of the suite has no budget, and neither has a run that a failure has cut short.
        part = config.option.keyword or config.option.file_or_dir or config.option.maxfail
        self.whole = not (part or long_forms)
        self.begin, self.speed = Usage.now(), speed() if self.whole else 0.0
        self.samples = SpeedSamples()

    def sample(self) -> None:
        """Measure the machine's speed while the tests run, if it is time to."""
        if self.whole:
            self.samples.sample()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that costs too much, where that is enforced."""
        self.built += session.config.stash.get(IMAGES_BUILT, 0)
        self.seconds = Usage.now().since(self.begin, os.getpid())
        self.problem = None
        if self.whole and session.exitstatus == 0 and not self.built and FILE.exists():
            slower = max(self.speed, speed(), self.samples.mean())
            self.problem = verdict(self.seconds, slower, json.loads(FILE.read_text()))
            if self.problem and os.environ.get(ENFORCED) == "required":
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the figure."""
        note = " (tests/budget.json has no figure: not compared)" if self.whole and not FILE.exists() else ""
        note = f" ({self.built} images were built: not compared)" if self.built else note
        at = f", at a speed of {mean:.3f}" if (mean := self.samples.mean()) else ""
        terminalreporter.write_line(f"CPU seconds: {self.seconds:.0f}{at}{note}")
        if self.problem:
            terminalreporter.write_line(f"error: {self.problem}", red=True)


IMAGES_BUILT = pytest.StashKey[int]()


if __name__ == "__main__":
    FILE.write_text(json.dumps({"cpu_seconds": float(sys.argv[1]), "speed": round(speed(), 4)}, indent=2) + "\n")
