"""How long tfprov takes when there is nothing to do: `--help`, and `up` of a cluster that runs.

Each figure is the wall time of a whole process, with a bare `python -c pass` of the same interpreter beside it, so that
the machine's own share is known.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

from .measure import Figure, environment, in_turn, median, run, say, seconds

GOALS = {"tfprov --help": 0.25, "tfprov up, nothing to do, this machine": 0.5}
"""Seconds, on a quiet machine."""

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


def figures(rounds: int) -> list[Figure]:
    """Start a small cluster, measure, take it down."""
    say(f"processes on this machine, {rounds} rounds")
    tfprov = [sys.executable, "-m", "tfprov"]
    with tempfile.TemporaryDirectory() as directory:
        inventory = Path(directory) / "inventory.yml"
        inventory.write_text(INVENTORY)
        own = {"XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache"}
        env = environment(own, Path(directory) / "byte-code")
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "tfprov --help": [*tfprov, "--help"],
            "tfprov up, nothing to do, this machine": [*tfprov, "up", "-i", str(inventory)],
        }
        try:
            run(commands["tfprov up, nothing to do, this machine"], env)
            times = in_turn({name: partial(run, command, env) for name, command in commands.items()}, rounds)
        finally:
            run([*tfprov, "down", "--discard", "-i", str(inventory)], env)
    bare = seconds(times.pop("python -c pass"))
    return [
        Figure(
            name, seconds(taken), f"{bare} python -c pass", goal=f"<= {GOALS[name]:.2f} s",
            met=median(taken) <= GOALS[name], includes="the whole process, the interpreter's own start included",
        )
        for name, taken in times.items()
    ]  # fmt: skip
