"""A cluster on the lab's hosts: real commands over SSH, with a home directory per test."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
import yaml

from tests.support.command_line import CommandLine
from tests.support.network_settings import pip_conf, proxies
from tests.support.paths import ROOT, STANDIN
from tests.support.testhost import Host
from tests.support.testhosts import Lab

PROGRAMS = ROOT / "images" / "train" / "programs"


class LabCluster(CommandLine):
    """A cluster on hosts of `lab`; settings are those under `tfprov:`, for all."""

    def __init__(self, lab: Lab, directory: Path, name: str = "lab") -> None:
        state = {"XDG_STATE_HOME": str(directory / "state"), "XDG_CACHE_HOME": str(directory / "cache")}
        super().__init__(directory, {**os.environ, **lab.env, **state})
        self.lab, self.name = lab, name

    def write(
        self,
        roles: Mapping[str, Sequence[Host]],
        settings: Mapping[str, Any],
        *,
        role_settings: Mapping[str, Mapping[str, Any]] | None = None,
        user: str | None = None,
        **variables: Any,
    ) -> None:
        """Write the inventory: `roles` says which hosts have which role."""
        whole = {"cluster": self.name, "checkpoints": {"to": str(self.directory / "checkpoints")}, **settings}
        children = {
            role: {
                "hosts": {host.name: {**host.variables(user), **variables} for host in hosts},
                "vars": {"tfprov": dict((role_settings or {}).get(role, {}))},
            }
            for role, hosts in roles.items()
        }
        self.inventory.write_text(yaml.safe_dump({"all": {"vars": {"tfprov": whole}, "children": children}}))

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Return what `status --json` says, by task."""
        return {task["task"]: task for task in json.loads(self("status", "--json"))["tasks"]}

    def containers(self, hosts: Sequence[Host] | None = None) -> dict[str, list[str]]:
        """Return the ids of all containers of `hosts`, by default of every host, whoever they belong to."""
        return {host.name: [made.id or "" for made in _all(host.client)] for host in hosts or self.lab.hosts}


def _all(client: docker.DockerClient) -> list[Any]:
    return list(client.containers.list(all=True, ignore_removed=True))


def standin(archive: Path, **flags: Any) -> dict[str, Any]:
    """Return settings that train with the stand-in program, which needs no TensorFlow."""
    return {
        "image": {"archive": str(archive)},
        "code": str(STANDIN),
        "command": ["sh", "task.sh"],
        "flags": {"train_steps": 100000, "step_seconds": 0.1, **flags},
        "start_timeout": 300,
        "restart": "never",
        "stop_grace": 60,
    }


def training(directory: Path, arguments: Mapping[str, str], program: str = "linear.py", **flags: Any) -> dict[str, Any]:
    """Return settings that build images/train and train with real TensorFlow."""
    image: dict[str, Any] = {"build": str(ROOT / "images" / "train"), "build_args": {**arguments, **proxies()}}
    if settings := pip_conf():
        (directory / "pip.conf").write_bytes(settings)
        image["pip_conf"] = str(directory / "pip.conf")
    return {
        "image": image,
        "code": str(PROGRAMS),
        "command": ["python", program],
        "flags": {"train_steps": 2000, **flags},
        "env": {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"},
    }


def open_lab_cluster(lab: Lab, directory: Path) -> Iterator[LabCluster]:
    """Yield a Cluster of which no command is left running, and known_hosts is as it was: for a fixture."""
    made, known = LabCluster(lab, directory), lab.bed.known_hosts.read_text()
    try:
        yield made
    finally:
        made.end()
        lab.bed.known_hosts.write_text(known)
