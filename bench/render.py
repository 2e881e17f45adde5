"""How long a rendering takes of a cluster that is larger than most: of what was read, to the text that was read again.

Each target in a process of its own, which measures itself: without the interpreter's start, and without the inventory.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tfprov.render.render import render
from tfprov.render.target import TARGETS, find_target
from tfprov.settings.load import load

from .measure import Figure, Ran, alone, environment, in_turn, itself, median, say, seconds

TASKS = 1000
SECONDS = 2.0
"""The goal for TASKS tasks."""

_INVENTORY = """
all:
  vars:
    tfprov: {{cluster: large, image: {{name: "registry.example.com/train:1.0"}}, command: [python, train.py], memory: 2g}}
  children:
    ps: {{hosts: {{"ps[000:{ps:03}]": }}}}
    worker: {{hosts: {{"w[0000:{workers:04}]": }}}}
"""
_INCLUDES = "from the read inventory to the rendered text, which is read again; not the interpreter's start and imports"


def inventory(tasks: int) -> str:
    """Return an inventory with `tasks` tasks, of which every tenth is a ps."""
    ps = max(tasks // 10, 1)
    return _INVENTORY.format(ps=ps - 1, workers=tasks - ps - 1)


def figures(rounds: int) -> list[Figure]:
    """Measure every target in turn."""
    say(f"rendering {TASKS} tasks, {rounds} rounds")
    with TemporaryDirectory() as directory:
        path = Path(directory) / "inventory.yml"
        path.write_text(inventory(TASKS))
        env = environment({}, Path(directory) / "byte-code")
        runs = in_turn({name: partial(alone, "bench.render", [name, str(path)], env) for name in TARGETS}, rounds)
    return [_figure(name, ran) for name, ran in runs.items()]


def _figure(target: str, runs: Sequence[Ran]) -> Figure:
    size = json.loads(runs[-1].output.splitlines()[-1])["size"] / 1e6
    return Figure(
        f"render {TASKS} tasks for {target}, {size:.1f} MB", seconds(runs), goal=f"<= {SECONDS:.2f} s",
        met=median(runs) <= SECONDS, includes=_INCLUDES,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Be the process that measures itself."""
    name, path = arguments
    _, roles = load(Path(path))
    target = find_target(name)
    values = ["access=ReadWriteMany"] if "access" in target.options else []
    with itself() as notes:
        files = render(roles, target, values)
        notes["size"] = sum(len(text) for text in files.values())


if __name__ == "__main__":
    main(sys.argv[1:])
