"""The runtime bench on a real Docker engine."""

import io
import socket
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.engine import Engine as PrivateEngine
from tests.support.ports import free_port
from tests.support.runtime_bench import Bench, container
from tests.support.waiting import until
from tfprov.hosts.base import NO_FILES, OnProgress, ignore_progress, peer_is_listening
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.labels import container_name
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DockerOptions, State


class DockerBench(Bench):
    """Tasks in containers of the tests' engine, published on its own address."""

    def __init__(self, engine: PrivateEngine, image: str) -> None:
        self.client = engine.client
        self.address = str(engine.network.inside)
        self.image = str(engine.client.images.get(image).id)
        self.answered: dict[tuple[str, ...], tuple[int, str]] = {}
        api = Engine.local("h", Path(engine.socket))
        self.docker = DockerRuntime(api, "contract", self.answers_at, lambda argv: self.answered[tuple(argv)])
        self.runtime = self.docker

    def answers_at(self, address: str, port: int) -> bool:
        try:
            with socket.create_connection((address, port), 1) as connection:
                return peer_is_listening(connection)
        except OSError:
            return False

    def start(
        self,
        wanted: Container,
        run: str = "run-1",
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> Container:
        task = wanted.task
        placed = replace(
            wanted,
            task=Task(task.job, task.index, task.role, task.host, self.address, task.port),
            checkpoint_dir="/checkpoints",
            docker=wanted.docker or DockerOptions(self.image, address=self.address),
        )
        self.docker.start(placed, run, restore, on_progress)
        return placed

    def run_to_end(self, code: int, lines: Sequence[str] = (), **changes: Any) -> None:
        echo_commands = "; ".join(f"echo '{line}'" for line in lines) or "true"
        self.start(container(argv=["sh", "-c", f"{echo_commands}; exit {code}"], **changes))
        self.becomes(State.EXITED)

    def save(self, task: str, name: str, data: bytes) -> None:
        self._put(task, "/checkpoints", name, data, 0.0)

    def write(self, task: str, path: str, data: bytes) -> None:
        self._put(task, self.inspect(task)["Config"]["WorkingDir"] or "/", path, data, time.time())

    def _put(self, task: str, directory: str, name: str, data: bytes, modified: float) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), modified
            archive.addfile(info, io.BytesIO(data))
        # By its name: other processes of the tests use the engine as well, and have tasks of the same name there.
        assert self.client.api.put_archive(container_name("contract", task), directory, buffer.getvalue())

    def start_unstartable(self) -> None:
        self.start(container(argv=["no-such-program"]))

    def start_answering(self) -> Container:
        port = free_port()
        started = self.start(container(argv=["nc", "-ll", "-p", str(port), "-e", "/bin/cat"], port=port))
        until(lambda: self.docker.is_serving(started.task))
        return started

    def answers(self, argv: Sequence[str], code: int, output: str) -> None:
        self.answered[tuple(argv)] = code, output

    def inspect(self, task: str = "worker/0") -> dict[str, Any]:
        facts: dict[str, Any] = self.client.api.inspect_container(container_name("contract", task))
        return facts

    def close(self) -> None:
        ours: dict[str, Any] = {"label": "tfprov.cluster=contract"}
        for made in self.client.containers.list(all=True, filters=ours, ignore_removed=True):
            made.remove(force=True)
        for volume in self.client.volumes.list(filters=ours):
            volume.remove(force=True)
        self.docker.engine.close()


def docker_command(engine: PrivateEngine) -> tuple[str, ...]:
    """Return the command that finds the tests' engine."""
    return ("docker", "-H", engine.url)
