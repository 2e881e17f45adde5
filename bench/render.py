"""How long a rendering takes, for a cluster that is larger than most: python -m bench.render [TASKS]."""

import gc
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tfprov.config.load import load
from tfprov.render.rendering import render
from tfprov.render.target import TARGETS, find_target

_INVENTORY = """
all:
  vars:
    tfprov: {{cluster: large, image: {{name: "registry.example.com/train:1.0"}}, command: [python, train.py], memory: 2g}}
  children:
    ps: {{hosts: {{"ps[000:{ps:03}]": }}}}
    worker: {{hosts: {{"w[0000:{workers:04}]": }}}}
"""


def inventory(tasks: int) -> str:
    """Return an inventory with `tasks` tasks, of which every tenth is a ps."""
    ps = max(tasks // 10, 1)
    return _INVENTORY.format(ps=ps - 1, workers=tasks - ps - 1)


def measure(tasks: int) -> dict[str, tuple[float, int]]:
    """Return, for every target, the seconds it took to render `tasks` tasks, and how many bytes that made."""
    found = {}
    with TemporaryDirectory() as directory:
        path = Path(directory) / "inventory.yml"
        path.write_text(inventory(tasks))
        _, roles = load(path)
        for name in TARGETS:
            target = find_target(name)
            given = ["access=ReadWriteMany"] if "access" in target.options else []
            begin = time.perf_counter()
            files = render(roles, target, given)
            found[name] = time.perf_counter() - begin, sum(map(len, files.values()))
    return found


if __name__ == "__main__":
    gc.disable()  # as the command does
    for name, (seconds, size) in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1000).items():
        print(f"{name:18} {seconds:6.2f} s {size / 1e6:8.1f} MB")
