"""How long after the chief is ready a waiting worker has its session: TensorFlow's own workers look every 30 s."""

import re
import statistics
import sys
import tempfile
from pathlib import Path

import yaml

from .measure import Figure, environment, run, say

GOAL = 2.0
"""Seconds."""

_PROGRAM = """\
import time
import tensorflow.compat.v1 as tf
from tfprov import runtime

task = runtime.join()
if task.is_chief:
    time.sleep(5)  # so that the worker is there first, and waits
with task.device():
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
with task.session(train_steps=50) as session:
    print("ready", time.time(), flush=True)
    while not session.should_stop():
        session.run(train)
        time.sleep(0.1)
"""
_INCLUDES = (
    "from the chief's session to that of a worker who waited for it, each by its own word; processes on one machine"
)


def figures(rounds: int) -> list[Figure]:
    """Start a small training `rounds` times."""
    say(f"a worker that waits for its chief, {rounds} rounds")
    with tempfile.TemporaryDirectory() as directory:
        waits = [_wait(Path(directory), number) for number in range(rounds)]
    middle = statistics.median(waits)
    waited = f"{middle:.2f} s (max {max(waits):.2f})"
    return [
        Figure("a worker joins its chief", waited, goal=f"<= {GOAL:.0f} s", met=max(waits) <= GOAL, includes=_INCLUDES)
    ]


def _wait(directory: Path, number: int) -> float:
    place = directory / str(number)
    (place / "code").mkdir(parents=True)
    (place / "code" / "program.py").write_text(_PROGRAM)
    own = {"cluster": "joining", "code": "code", "command": ["python", "program.py"], "port": 27100}
    hosts = {"hosts": {"localhost": None}}
    workers = {**hosts, "vars": {"tfprov": {"tasks_per_host": 2}}}
    inventory = {"all": {"vars": {"tfprov": own}, "children": {"ps": hosts, "worker": workers}}}
    (place / "inventory.yml").write_text(yaml.safe_dump(inventory))
    home = {"XDG_STATE_HOME": f"{place}/state", "XDG_CACHE_HOME": f"{place}/cache"}
    env = environment(home, directory / "byte-code")
    tfprov = [sys.executable, "-m", "tfprov"]
    try:
        run([*tfprov, "up"], env, place)
        run([*tfprov, "wait"], env, place)
        lines = run([*tfprov, "logs"], env, place).output
    finally:
        run([*tfprov, "down", "--discard"], env, place)
    ready = {task: float(at) for task, at in re.findall(r"^(worker/\d) +\| ready ([0-9.]+)$", lines, re.MULTILINE)}
    return ready["worker/1"] - ready["worker/0"]
