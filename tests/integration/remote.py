"""A cluster on the hosts of the lab for tests: real commands over real SSH, with a user's home of the test's own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
import yaml

from .images import ROOT, STANDIN
from .local import LONG
from .testhost import Host
from .testhosts import Lab
from .trust import pip_conf, proxies

PROGRAMS = ROOT / "images" / "train" / "programs"


class Cluster:
    """Runs `tfprov` as a user does against hosts of `lab`; settings are those under `tfprov:`, for all."""

    def __init__(self, lab: Lab, directory: Path, name: str = "lab") -> None:
        self.lab, self.directory, self.name = lab, directory, name
        self.inventory = directory / "inventory.yml"
        state = {"XDG_STATE_HOME": str(directory / "state"), "XDG_CACHE_HOME": str(directory / "cache")}
        self.env = {**os.environ, **lab.env, **state}
        self.started: list[subprocess.Popen[str]] = []

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

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a verb; of `image build` the inventory comes after both words."""
        words = 2 if arguments[0] == "image" else 1
        return [
            sys.executable, "-m", "tfprov", *arguments[:words], "-i", str(self.inventory), *arguments[words:]
        ]  # fmt: skip

    def __call__(self, *arguments: str, code: int = 0, timeout: float = LONG) -> str:
        """Run a verb to its end, expect its exit code, and return what it printed."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.env, cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{done.stdout}"
        assert "Traceback" not in done.stdout
        return done.stdout

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a verb and leave it running."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.env, cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.started.append(process)
        return process

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Return what `status --json` says, by task."""
        return {task["task"]: task for task in json.loads(self("status", "--json"))["tasks"]}

    def containers(self) -> dict[str, list[str]]:
        """Return the ids of all containers of every host, whoever they belong to."""
        return {host.name: [made.id or "" for made in _all(host.client)] for host in self.lab.hosts}

    def close(self) -> None:
        """End what was started here; what is on the hosts goes with the next test."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


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


def cluster(lab: Lab, directory: Path) -> Iterator[Cluster]:
    """Yield a Cluster of which no command is left running, and known_hosts is as it was: for a fixture."""
    made, known = Cluster(lab, directory), lab.bed.known_hosts.read_text()
    try:
        yield made
    finally:
        made.close()
        lab.bed.known_hosts.write_text(known)
