"""Steps a second of every program, under tfprov beside the same commands started by hand.

Both run the same commands with the same environment at the same time, each on half of this machine's cores, and change
sides between the rounds: what else happens on the machine then happens to both. By hand there is no supervisor, no log
limit and nobody who watches; under tfprov `tfprov wait` follows the training as `run` does, on the cores of the training.
A rate is that between the chief's first checkpoint and its last, so that neither the start nor the end counts.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.strategies import CASES, Case
from tests.support.paths import ROOT
from tfprov.formats.checkpoint import checkpoints

from .measure import Figure, environment, say

STEPS = {"digits-async": 4000, "digits-sync": 2000, "in-graph": 2000, "parameter-server": 2500, "all-reduce": 1500}
"""So many that a run takes about half a minute; `single` takes those of the fastest."""
GOAL = 0.97
_INCLUDES = (
    "steps per second between the chief's first and last checkpoint, as processes with `tfprov wait` watching, "
    "beside the same commands as bare processes: at the same time on half of the cores each, which they "
    "exchange; the median of the rounds' ratios"
)
_TIME = 900
_PORTS = 700
"""Between the ports of the two: those of the inventories are 10 apart."""


@dataclass
class Program:
    """One strategy's program in a directory of its own, with the data of all of them; `ports` are added to its own."""

    case: Case
    directory: Path
    data: Path
    ports: int = 0

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.inventory = self.directory / "inventory.yml"
        home = {"XDG_STATE_HOME": f"{self.directory}/state", "XDG_CACHE_HOME": f"{self.directory}/cache"}
        self.env = environment(home, self.directory / "byte-code")
        self.tasks = self.directory / "state/tfprov/clusters" / self.case.name / "hosts/localhost/tasks"
        self.chief = self.case.chief.replace("/", "-")
        inventory: dict[str, Any] = yaml.safe_load((ROOT / "inventories" / self.case.inventory).read_text())
        own, steps = inventory["all"]["vars"]["tfprov"], STEPS.get(self.case.name, max(STEPS.values()))
        own |= {"code": str(ROOT / "images/train/programs"), "data": {"path": str(self.data)}}
        own |= {"port": own["port"] + self.ports, "checkpoints": {"to": str(self.directory / "gathered")}}
        own["flags"] |= {"train_steps": steps, "save_every_steps": steps // 4}
        inventory["all"]["children"].pop("evaluator", None)  # it would only make both slower
        self.inventory.write_text(yaml.safe_dump(inventory))

    @contextmanager
    def up(self) -> Iterator[None]:
        """Start everything under tfprov, and take it down in the end."""
        try:
            self._verb("up")
            yield
        finally:
            self._verb("down", "--discard")

    def wait(self) -> float:
        """Follow the training to its end; return its rate."""
        self._verb("wait")
        return rate(self.tasks / self.chief / "checkpoints")

    def orders(self) -> dict[str, dict[str, Any]]:
        """Return the command and the environment of every task, while they are up."""
        return {path.parent.name: json.loads(path.read_text()) for path in self.tasks.glob("*/order.json")}

    def _verb(self, *words: str) -> None:
        # Not with `measure.run`: that looks after the memory twenty times a second, on the core of the training.
        command = [sys.executable, "-m", "tfprov", *words, "-i", str(self.inventory)]
        ran = subprocess.run(
            command, env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise RuntimeError(f"tfprov {words[0]} ended with {ran.returncode}:\n{ran.stdout}")


@dataclass
class Pair:
    """A program under tfprov, and the same one that is started by hand, on other ports."""

    ours: Program
    hand: Program
    orders: dict[str, dict[str, Any]] = field(default_factory=dict)

    def warm(self) -> None:
        """Write the byte code, and learn the commands."""
        with self.ours.up():
            self.ours.wait()
        with self.hand.up():
            self.orders = self.hand.orders()

    def race(self, ours: set[int], hand: set[int]) -> tuple[float, float]:
        """Train both at the same time on cores of their own; return the rates."""
        folder = self.hand.directory / "by-hand"
        try:
            with on(hand), _running(self.orders, folder) as tasks:
                with on(ours), self.ours.up():
                    rate_of_ours = self.ours.wait()
                tasks[self.hand.chief].wait(timeout=_TIME)
            return rate_of_ours, rate(folder / self.hand.chief / "checkpoints")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def on(cores: set[int]) -> Iterator[None]:
    """Start what is started meanwhile on these `cores` only: a process inherits them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _running(orders: Mapping[str, Mapping[str, Any]], folder: Path) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Start every task; end, with all they have started, those that serve for ever."""
    tasks: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, order in sorted(orders.items()):
            place = folder / name
            place.mkdir(parents=True)
            with (place / "log").open("wb") as log:
                tasks[name] = subprocess.Popen(
                    order["argv"], env={**order["env"], "TFPROV_CHECKPOINT_DIR": str(place / "checkpoints")},
                    cwd=ROOT / "images/train/programs", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
        yield tasks
    finally:
        for task in tasks.values():
            if task.poll() is None:
                os.killpg(task.pid, signal.SIGKILL)
            task.wait()


def rate(folder: Path) -> float:
    """Return the steps per second between the first checkpoint after the start and the last one."""
    steps = sorted(each.step for each in checkpoints([path.name for path in folder.iterdir()]) if each.step > 0)
    first, last = steps[0], steps[-1]
    times = [(folder / f"model.ckpt-{step}.index").stat().st_mtime for step in (first, last)]
    return (last - first) / (times[1] - times[0])


def figures(rounds: int) -> list[Figure]:
    """Measure every program `rounds` times; none on a machine of one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        say("not measured, throughput: each way needs a core of its own, and there is one")
        return []
    half = len(cores) // 2
    halves = set(cores[:half]), set(cores[half : 2 * half])
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "digits"
        subprocess.run([sys.executable, str(ROOT / "images/train/programs/digits_data.py"), str(data)], check=True)
        return [_figure(_pair(case, Path(directory), data), halves, rounds) for case in CASES]


def _pair(case: Case, directory: Path, data: Path) -> Pair:
    return Pair(
        Program(case, directory / case.name, data), Program(case, directory / f"{case.name}-hand", data, _PORTS)
    )


def _figure(pair: Pair, halves: tuple[set[int], set[int]], rounds: int) -> Figure:
    name = pair.ours.case.name
    pair.warm()
    rates = []
    for number in range(rounds):
        rates.append(pair.race(*(halves if number % 2 else halves[::-1])))
        say(f"{name}: {rates[-1][0]:.1f} /s, by hand {rates[-1][1]:.1f} /s")
    ours, hand = (statistics.median(each) for each in zip(*rates, strict=True))
    ratio = statistics.median(one / other for one, other in rates)
    what = f"steps per second, {name}; by hand"
    return Figure(what, f"{ours:.0f} /s", f"{hand:.0f} /s", ratio, f">= {GOAL:.2f}", ratio >= GOAL, includes=_INCLUDES)
