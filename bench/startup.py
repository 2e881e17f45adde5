"""How long tfprov takes when there is nothing to do: `--help`, and `up` of a cluster that runs.

    python -m bench.startup [RUNS]

Each figure is the wall time of a whole process, with a bare `python -c pass` of the same interpreter beside it, so that
the machine's own share can be told. The goals are 0.25 s for `--help` and 0.5 s for `up`, on a quiet machine.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

INVENTORY = """\
all:
  vars:
    tfprov:
      cluster: bench
      command: [python, -c, "import time; time.sleep(600)"]
      ready: start
      port: 27000
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}}
"""


def timed(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Return the wall time of `command` in seconds; raises when it fails."""
    begin = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def figures(commands: Mapping[str, Sequence[str]], runs: int, env: Mapping[str, str]) -> dict[str, list[float]]:
    """Time the commands in turn, so that a machine that slows down slows all of them; the first round does not count."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            seconds = timed(command, env)
            if turn:
                found[name].append(seconds)
    return found


def main() -> None:
    """Start a small cluster, measure, take it down."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    tfprov = [sys.executable, "-m", "tfprov"]
    with tempfile.TemporaryDirectory() as directory:
        inventory = Path(directory) / "inventory.yml"
        inventory.write_text(INVENTORY)
        env = {**os.environ, "XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache"}
        up = [*tfprov, "up", "-i", str(inventory)]
        try:
            timed(up, env)
            commands = {
                "python -c pass": [sys.executable, "-c", "pass"],
                "tfprov --help": [*tfprov, "--help"],
                "up, nothing to do": up,
            }
            found = figures(commands, runs, env)
        finally:
            timed([*tfprov, "down", "--discard", "-i", str(inventory)], env)
    print(f"{'seconds':20} {'min':>7} {'median':>7} {'max':>7}   goal")
    for name, goal in (("python -c pass", None), ("tfprov --help", 0.25), ("up, nothing to do", 0.5)):
        seconds = found[name]
        shown = f"{min(seconds):7.3f} {statistics.median(seconds):7.3f} {max(seconds):7.3f}"
        print(f"{name:20} {shown}   {f'{goal:.2f}' if goal else ''}")


if __name__ == "__main__":
    main()
