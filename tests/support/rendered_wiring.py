"""The command line and environment of each task rendered for engines other than Kubernetes."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fast_yaml import read_yaml
from tests.support.slurm import Allocation
from tfprov.model.cluster import Cluster
from tfprov.wiring import from_flags, from_names, from_tf_config

IMAGE = "image=registry.example.com/train:1.0"

# A program that records its arguments and environment; the chief waits until all tasks have.
_PROGRAM = """#!/bin/sh
exec "{python}" -IS - "$@" <<'END'
import json, os, sys, time
folder, count = "{folder}", {count}
name = os.environ["TFPROV_TASK"].replace("/", "-")
with open(os.path.join(folder, name + ".part"), "w") as file:
    json.dump([sys.argv[1:], dict(os.environ)], file)
os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name + ".json"))
while len([one for one in os.listdir(folder) if one.endswith(".json")]) < count or os.environ["TFPROV_TASK"] != "{chief}":
    time.sleep(0.02)
END
"""


@dataclass(frozen=True)
class TaskWiring:
    """A task as its engine starts it; `host` is its name for the others."""

    host: str
    argv: Sequence[str]
    env: Mapping[str, str]

    @property
    def task(self) -> str:
        return self.env["TFPROV_TASK"]


def assert_wiring(inventory: str, cluster: Cluster, task_wirings: Sequence[TaskWiring]) -> None:
    """Check that every task reads its own wiring, from TF_CONFIG and from flags if the inventory uses them."""
    uses_flags = json.loads(inventory)["all"]["vars"]["tfprov"]["wiring"] != "tf_config"
    assert sorted(task_wiring.task for task_wiring in task_wirings) == sorted(task.name for task in cluster.tasks)
    for task_wiring in task_wirings:
        task = cluster.find(task_wiring.task)
        assert task is not None
        assert task_wiring.host == task.address
        wiring = None if task.is_web or task.feeds else cluster.wiring(task)
        assert from_tf_config(task_wiring.env.get("TF_CONFIG", "")) == wiring
        by_flags = from_flags(task_wiring.argv, from_names(task_wiring.env.get("TFPROV_FLAGS", "")))
        assert by_flags == (wiring if uses_flags else None)


def services(files: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the services of a Compose or stack file by their name."""
    (text,) = files.values()
    task_wirings: dict[str, dict[str, Any]] = read_yaml(text)["services"]
    return task_wirings


def by_service(files: Mapping[str, str]) -> Iterator[TaskWiring]:
    """Yield the tasks of a Compose or stack file, after Compose's interpolation."""
    for name, service in services(files).items():
        env = {key: value.replace("$$", "$") for key, value in service["environment"].items()}
        yield TaskWiring(name, [word.replace("$$", "$") for word in service["entrypoint"]], env)


def by_app(files: Mapping[str, str]) -> Iterator[TaskWiring]:
    """Yield the tasks of a Marathon group."""
    (text,) = files.values()
    group = json.loads(text)
    for app in group["apps"]:
        command = shlex.split(app["cmd"])
        yield TaskWiring(
            f"{app['id']}-{group['id'].strip('/')}.marathon.mesos", command[command.index("exec") + 1 :], app["env"]
        )


def by_rank(files: Mapping[str, str], directory: Path, count: int, chief: str) -> list[TaskWiring]:
    """Run a Slurm script with a program that records its wiring, and return it; its command begins with `python`."""
    (script,) = files.values()
    folder = directory / "wiring"
    folder.mkdir()
    nodes = [count] if count < 2 else [count // 2, count - count // 2]
    allocation = Allocation(directory / "bin", nodes)
    for name in ("python", "tensorboard"):
        program = allocation.directory / name
        program.write_text(_PROGRAM.format(python=sys.executable, folder=folder, count=count, chief=chief))
        program.chmod(0o755)
    code, printed = allocation.run(script)
    assert code == 0, printed
    task_wirings = []
    for path in folder.glob("*.json"):
        argv, env = json.loads(path.read_text())
        task_wirings.append(TaskWiring("", argv, env))
    return task_wirings
