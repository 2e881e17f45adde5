"""Programs not written for tfprov, in the shapes of public ones, run unchanged with one documented setting.

They lie in `tests/cases/programs`; docs/programs.md has the settings.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from tests.support.local_cluster import LocalCluster
from tests.support.paths import CASES
from tests.support.waiting import until
from tfprov.formats.checkpoint import parse_state

pytestmark = pytest.mark.tensorflow


@dataclass(frozen=True)
class Program:
    """How a program runs: its settings beside those of all, its groups with their tasks, and what it prints and leaves."""

    command: list[str]
    settings: Mapping[str, Any]
    prints: str
    leaves: str
    tasks: Mapping[str, int] = field(default_factory=lambda: {"ps": 1, "worker": 2})
    bring: str = ""
    """What `gather --path` brings; then `run` ends with 1, because no checkpoint was gathered."""
    edit: Callable[[str, int], str] = lambda text, _port: text


RANKS = {
    "RANK": "{{ rank }}",
    "WORLD_SIZE": "{{ world_size }}",
    "MASTER_ADDR": "{{ chief_address.split(':')[0] }}",
    "MASTER_PORT": "{{ chief_address.split(':')[1] }}",
    "CHECKPOINTS": "{{ checkpoint_dir }}",
}
POSITIONS = ["{{ task.job }}", "{{ task.index }}", "{{ ps_hosts }}", "{{ worker_hosts }}", "{{ checkpoint_dir }}"]
TWO = {"worker": 2}
ALL_REDUCE = {"strategy": "multi_worker_mirrored"}
NAMES = {"job_name": "--role", "task_index": "--task_id", "worker_hosts": "--workers", "ps_hosts": None}

PROGRAMS = {
    "supervisor": Program(
        ["python", "supervisor.py"], {"checkpoints": {"link": "train_logs"}}, "finished at", "model.ckpt-*.index"
    ),
    "monitored": Program(
        ["python", "monitored.py"], {"checkpoints": {"link": "logdir"}}, "worker 0 is through", "model.ckpt-40.index"
    ),
    "epochs": Program(["python", "epochs.py"], {**ALL_REDUCE, "checkpoints": "none"}, "Epoch 2 loss", "", tasks=TWO),
    "manager": Program(
        ["python", "manager.py"],
        {**ALL_REDUCE, "flags": {"model_dir": "{{ checkpoint_dir }}"}},
        "saved epoch 2",
        "ckpt-2.index",
        tasks=TWO,
    ),
    "coordinator": Program(
        ["python", "coordinator.py", "{{ checkpoint_dir }}"],
        {"strategy": "parameter_server"},
        "wrote ckpt-1",
        "ckpt-1.index",
        tasks={"chief": 1, "ps": 1, "worker": 1},
    ),
    "positional": Program(
        ["python", "positional.py", *POSITIONS], {"wiring": "tf_config"}, "worker/0 on", "model.ckpt-*.index"
    ),
    "rendezvous": Program(
        ["python", "rendezvous.py"],
        {**ALL_REDUCE, "wiring": "tf_config", "ready": "start", "env": RANKS},
        "[0/2] sum of ranks 1",
        "model.pt",
        tasks=TWO,
    ),
    "single_dash": Program(
        ["python", "single_dash.py"],
        {"wiring": {"flags": NAMES}, "ready": "start"},
        "worker 0 of 2 is done",
        "weights.npz",
        bring="weights.npz",
        tasks=TWO,
    ),
    "hard_coded": Program(
        ["python", "hard_coded.py", "{{ task.index }}"],
        {**ALL_REDUCE, "checkpoints": {"link": "out"}},
        "w = 2.0",
        "weights.index",
        tasks=TWO,
        edit=lambda text, port: text.replace("PORT0", str(port)).replace("PORT1", str(port + 1)),
    ),
    "keras_callback": Program(
        ["python", "keras_callback.py"],
        {"strategy": "single"},
        "saved final.keras",
        "snapshots/final.keras",
        tasks={"worker": 1},
        bring="snapshots",
    ),
}
ALWAYS = ("hard_coded", "rendezvous", "single_dash")
"""What runs with every run of the suite: one with TensorFlow, one without, one whose model lies elsewhere."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.matrix) for name in PROGRAMS]
)
def test_a_program_runs_as_it_is(local_cluster: LocalCluster, name: str) -> None:
    program = PROGRAMS[name]
    write(local_cluster, program)
    printed = local_cluster("run", code=1 if program.bring else 0)
    assert program.prints in printed
    if program.bring:
        assert f"tfprov gather --path {program.bring}" in printed
        local_cluster("gather", "--path", program.bring)
        local_cluster("down")
    gathered = local_cluster.directory / "checkpoints" / "foreign"
    assert not program.leaves or list(gathered.glob(program.leaves)), printed
    assert local_cluster.processes() == []


def write(local_cluster: LocalCluster, program: Program) -> None:
    """Write the program, and an inventory that runs it on this machine."""
    code = local_cluster.directory / "program"
    code.mkdir()
    text = (CASES / "programs" / program.command[1]).read_text()
    (code / program.command[1]).write_text(program.edit(text, local_cluster.port))
    own = {"cluster": "foreign", "code": "program", "command": program.command, "port": local_cluster.port}
    own |= {"env": {"TF_CPP_MIN_LOG_LEVEL": "2"}, **program.settings}
    children = {
        role: {"hosts": {"localhost": {}}, "vars": {"tfprov": {"tasks_per_host": count}}}
        for role, count in program.tasks.items()
    }
    local_cluster.inventory.write_text(yaml.safe_dump({"all": {"vars": {"tfprov": own}, "children": children}}))


SUPERVISED = Program(
    ["python", "supervised.py"],
    {"flags": {"logdir": "{{ checkpoint_dir }}"}},
    "finished at",
    "model.ckpt-*.index",
    tasks={"ps": 1, "worker": 1},
)


def test_a_supervisor_saves_on_the_chief_and_continues_after_a_kill_of_it(local_cluster: LocalCluster) -> None:
    write(local_cluster, SUPERVISED)
    training = local_cluster.start("run")
    folders = local_cluster.directory / "state/tfprov/clusters/foreign/hosts/localhost/tasks"
    state = folders / "worker-0/checkpoints/checkpoint"

    def saved() -> int:
        newest = parse_state(state.read_text()) if state.exists() else []
        return max((int(name.rpartition("-")[2]) for name in newest), default=0)

    step = until(lambda: (reached := saved()) > 20 and reached, "a checkpoint", of=training)
    assert [path.parts[-3] for path in folders.glob("*/checkpoints/model.ckpt-*.data-*")][:1] == ["worker-0"]
    assert not list(folders.glob("ps-0/checkpoints/model.ckpt*"))
    # At once: a verb that is asked for the pid takes a part of the training.
    os.kill(json.loads((folders / "worker-0/state.json").read_text())["pid"], signal.SIGKILL)
    printed = training.communicate()[0]
    assert training.returncode == 0, printed
    begins = [int(number) for number in re.findall(r"begins at (\d+)", printed)]
    assert begins[0] == 0, printed
    assert begins[1] >= step, printed
    assert SUPERVISED.prints in printed
    gathered = local_cluster.directory / "checkpoints/foreign"
    assert max(int(path.stem.rpartition("-")[2]) for path in gathered.glob("model.ckpt-*.index")) >= 400
