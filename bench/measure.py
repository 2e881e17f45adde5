"""Whole commands, timed from outside, and the figures as a table."""

import contextlib
import gc
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HEAD = ("what", "tfprov", "peer", "ratio", "goal", "met", "CPU")
_LOOK = 0.05
"""Seconds between two looks at a process's memory; each reads the highest so far, so only the very end is missed."""


@dataclass(frozen=True)
class Ran:
    """How a command went: `seconds` of wall time, `cpu` seconds, `peak` bytes of its own memory, and what it printed.

    CPU time is that of the controller and of all hosts together, whose containers are our descendants.
    """

    seconds: float
    cpu: float
    peak: int
    output: str


@dataclass(frozen=True)
class Figure:
    """A line of the table, and what it includes. `met` is None without a goal; `cpu` is the ratio of CPU times."""

    what: str
    ours: str
    peer: str = ""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    cpu: float | None = None
    includes: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """What stands in the columns of HEAD."""
        met = {None: "", True: "yes", False: "no"}[self.met]
        return self.what, self.ours, self.peer, _ratio(self.ratio), self.goal, met, _ratio(self.cpu)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def environment(variables: Mapping[str, str], byte_code: Path) -> dict[str, str]:
    """Return this environment with `variables`; byte code is kept in `byte_code`, as that of an installation is.

    The uncounted runs fill it; a source tree, or a machine that keeps none, would compile everything each time.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **variables, "PYTHONPYCACHEPREFIX": str(byte_code)}


def run(command: Sequence[str], env: Mapping[str, str], directory: Path | None = None) -> Ran:
    """Run a command to its end; RuntimeError with what it printed when it fails."""
    return together([command], env, directory)


def together(commands: Sequence[Sequence[str]], env: Mapping[str, str], directory: Path | None = None) -> Ran:
    """Start all `commands` at once and wait for the last; `peak` is that of the largest."""
    with contextlib.ExitStack() as stack:
        printed = stack.enter_context(tempfile.TemporaryFile())
        before = spent()
        begin = time.perf_counter()
        processes = [
            stack.enter_context(
                _ended(
                    subprocess.Popen(
                        list(command), env=env, cwd=directory, stdin=subprocess.DEVNULL, stdout=printed,
                        stderr=subprocess.STDOUT, start_new_session=True,
                    )
                )
            )
            for command in commands
        ]  # fmt: skip
        peaks = stack.enter_context(_watched([process.pid for process in processes]))
        codes = [process.wait() for process in processes]
        end = time.perf_counter()
        printed.seek(0)
        output = printed.read().decode(errors="replace")
        if any(codes):
            raise RuntimeError(f"{commands}: exit codes {codes}:\n{output[-3000:]}")
        return Ran(end - begin, spent() - before, max(peaks.values(), default=0), output)


def spent() -> float:
    """Return the CPU seconds of all our descendants so far; what has ended is counted with its parent."""
    times: dict[int, float] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in brackets, may have anything in it; what follows are the state, the parent and so on.
            words = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(words[1])
            times[int(path.parent.name)] = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(times[pid] for pid in ours)


@contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """A command has a session of its own: when we are interrupted, everything it started ends with it."""
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _watched(pids: Sequence[int]) -> Iterator[dict[int, int]]:
    """Yield the highest memory use so far of each process, in bytes; those that have ended keep what was seen last."""
    peaks: dict[int, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            for pid in pids:
                with contextlib.suppress(OSError):
                    if peak := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
                        peaks[pid] = 1024 * int(peak[1])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def alone(module: str, words: Sequence[str], env: Mapping[str, str], python: str = sys.executable) -> Ran:
    """Run a module of ours that measures itself with `itself`; its interpreter's start is not in the time."""
    ran = run([python, "-m", module, *words], env, Path(__file__).parents[1])
    measured = json.loads(ran.output.splitlines()[-1])
    return Ran(measured["seconds"], measured["cpu"], measured["peak"], ran.output)


@contextmanager
def itself() -> Iterator[dict[str, int]]:
    """Measure what is done meanwhile, and print it for `alone`, with what is put into the mapping."""
    gc.disable()  # as the command does
    more: dict[str, int] = {}
    before, cpu = time.perf_counter(), time.process_time()
    yield more
    taken = {"seconds": time.perf_counter() - before, "cpu": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**more, **taken, "peak": peak}))


def in_turn(contenders: Mapping[str, Callable[[], Ran]], rounds: int, unheeded: int = 1) -> dict[str, list[Ran]]:
    """Let the contenders run in turn, so that a machine that slows down slows all of them.

    The first `unheeded` rounds do not count. Who comes first changes from round to round.
    """
    runs: dict[str, list[Ran]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(unheeded + rounds):
        for name in names:
            ran = contenders[name]()
            if turn >= unheeded:
                runs[name].append(ran)
        names = names[1:] + names[:1]
    return runs


def median(runs: Sequence[Ran]) -> float:
    """Return the median of their seconds."""
    return statistics.median(ran.seconds for ran in runs)


def seconds(runs: Sequence[Ran]) -> str:
    """Return the median, and behind it the least."""
    return f"{median(runs):.2f} s (min {min(ran.seconds for ran in runs):.2f})"


def compared(what: str, ours: Sequence[Ran], peer: Sequence[Ran], most: float | None, includes: str) -> Figure:
    """Return the ratio of the medians of two contenders; the goal is that that of their seconds is at most `most`."""
    ratio = median(ours) / median(peer)
    cpu = statistics.median(ran.cpu for ran in ours) / statistics.median(ran.cpu for ran in peer)
    goal, met = ("", None) if most is None else (f"<= {most:.2f}", ratio <= most)
    return Figure(what, seconds(ours), seconds(peer), ratio, goal, met, cpu, includes)


def machine() -> str:
    """Return what a reader must know of the machine: figures of a busy one mean little."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures under HEAD, and below them what each includes."""
    rows = [HEAD, *(figure.cells for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    texts = dict.fromkeys(figure.includes for figure in figures if figure.includes)
    named = {text: [figure.what for figure in figures if figure.includes == text] for text in texts}
    return "\n".join([*lines, "", *(f"* {'; '.join(names)}: {text}" for text, names in named.items())])


def say(text: str) -> None:
    """Tell whoever waits what is being done; the figures themselves go to the standard output."""
    print(f"-- {text} ({machine()})", file=sys.stderr, flush=True)
