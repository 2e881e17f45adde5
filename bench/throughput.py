"""Steps a second of every program, under tfprov beside the same commands started by hand.

Both run the same commands with the same environment on this machine, in turn: by hand without supervisor, log limits and
anybody who watches; under tfprov with `tfprov wait`, which follows the training as `run` does. A rate is that between the
chief's first checkpoint and its last, so that neither the start nor the end counts.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.images import ROOT
from tests.strategies import CASES, Case
from tfprov.checkpoint import checkpoints

from .measure import Figure, environment, run, say

STEPS = {"digits-async": 6000, "digits-sync": 3000, "in-graph": 3000, "parameter-server": 4000, "all-reduce": 2000}
"""So many that a run takes about half a minute on two cores; `single` takes those of the fastest."""
GOAL = 0.97
_INCLUDES = (
    "steps per second between the chief's first and last checkpoint, as processes with `tfprov wait` watching, "
    "beside the same commands as bare processes; the median of the rounds, run in turn"
)
_TIME = 900


@dataclass
class Program:
    """One strategy's program in a directory of its own, with the data of all of them."""

    case: Case
    directory: Path
    data: Path

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.inventory = self.directory / "inventory.yml"
        home = {"XDG_STATE_HOME": f"{self.directory}/state", "XDG_CACHE_HOME": f"{self.directory}/cache"}
        self.env = environment(home, self.directory / "byte-code")
        self.tasks = self.directory / "state/tfprov/clusters" / self.case.name / "hosts/localhost/tasks"
        self.orders: dict[str, dict[str, Any]] = {}
        found: dict[str, Any] = yaml.safe_load((ROOT / "inventories" / self.case.inventory).read_text())
        own, steps = found["all"]["vars"]["tfprov"], STEPS.get(self.case.name, max(STEPS.values()))
        own |= {"code": str(ROOT / "images/train/programs"), "data": {"path": str(self.data)}}
        own["flags"] |= {"train_steps": steps, "save_every_steps": steps // 4}
        own["checkpoints"] = {"to": str(self.directory / "gathered")}
        found["all"]["children"].pop("evaluator", None)  # it would only make both slower
        self.inventory.write_text(yaml.safe_dump(found))

    def tfprov(self) -> float:
        """Train under tfprov; return the rate."""
        try:
            self._verb("up")
            self.orders = {path.parent.name: json.loads(path.read_text()) for path in self.tasks.glob("*/order.json")}
            self._verb("wait")
            return rate(self.tasks / self.case.chief.replace("/", "-") / "checkpoints")
        finally:
            self._verb("down", "--discard")

    def by_hand(self) -> float:
        """Train with the same commands, after `tfprov`; return the rate."""
        folder = self.directory / "by-hand"
        with _running(self.orders, folder) as tasks:
            tasks[self.case.chief.replace("/", "-")].wait(timeout=_TIME)
        try:
            return rate(folder / self.case.chief.replace("/", "-") / "checkpoints")
        finally:
            shutil.rmtree(folder)

    def _verb(self, *words: str) -> None:
        run([sys.executable, "-m", "tfprov", *words, "-i", str(self.inventory)], self.env, self.directory)


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
    steps = sorted(found.step for found in checkpoints([path.name for path in folder.iterdir()]) if found.step > 0)
    first, last = steps[0], steps[-1]
    times = [(folder / f"model.ckpt-{step}.index").stat().st_mtime for step in (first, last)]
    return (last - first) / (times[1] - times[0])


def figures(rounds: int) -> list[Figure]:
    """Measure every program `rounds` times, each way in turn."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "digits"
        subprocess.run([sys.executable, str(ROOT / "images/train/programs/digits_data.py"), str(data)], check=True)
        return [_figure(Program(case, Path(directory) / case.name, data), rounds) for case in CASES]


def _figure(program: Program, rounds: int) -> Figure:
    say(f"{program.case.name}: {rounds} rounds")
    pairs = []
    program.tfprov()  # writes byte code, and the commands
    for number in range(rounds):
        ways = [program.tfprov, program.by_hand]
        rates = [way() for way in (ways if number % 2 else ways[::-1])]
        pairs.append(rates if number % 2 else rates[::-1])
    ours, hand = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = ours / hand
    what = f"steps per second, {program.case.name}; by hand"
    return Figure(what, f"{ours:.0f} /s", f"{hand:.0f} /s", ratio, f">= {GOAL:.2f}", ratio >= GOAL, includes=_INCLUDES)
