"""What should run, and what runs: the two sides that `reconcile` compares."""

import hashlib
import json
from collections.abc import Container as AnyContainer
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tfprov.errors import HostError
from tfprov.model.cluster import Task
from tfprov.wiring import STRATEGY_VARIABLE

Spec = Mapping[str, Any]
"""A container's canonical spec: nested mappings of plain JSON values. Equal specs mean that nothing has to change."""


@dataclass(frozen=True)
class Mount:
    """A directory of the host inside the container; both paths are absolute."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Box:
    """What a Docker container has around its task. `image` is what its host's engine knows it by: `tfprov/linear:3f2a…`.

    `address` is where its port is published; `memory` is in bytes, `cpus` in cores, and None means no limit; `gpus` is a
    number, -1 for all. `code` is the digest of code that is not in the image, and put into the container before it starts.
    `files_of` is the task whose checkpoint directory it works on, where that is not its own; with `only_reads` it cannot
    write there. `data_at` is where it reads what its host has fetched.
    """

    image: str
    code: str | None = None
    files_of: str | None = None
    only_reads: bool = False
    address: str = "127.0.0.1"
    memory: int | None = None
    cpus: float | None = None
    gpus: int = 0
    pids: int = 4096
    has_code: bool = False
    """Whether there is code at /code, be it in the image or put there."""
    data_at: str | None = None
    user: str | None = None
    """None for the user of the image."""
    read_only: bool = False
    """Whether nothing but its volumes and /tmp can be written to."""
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Container:
    """A container that should run one task.

    `spec` is all that makes it what it is: a difference means a restart. What can change without one stands beside it:
    the restart policy and the seconds it has to start, to stop, and to go on when the chief is done.
    """

    task: Task
    spec: Spec
    argv: tuple[str, ...]
    env: Mapping[str, str]
    checkpoint_dir: str
    secret: frozenset[str] = frozenset()
    """The names in `env` whose values nobody else may read: files in a container, and no part of its configuration."""
    restart: str = "never"
    max_restarts: int = 3
    start_timeout: int = 120
    stop_grace: int = 30
    ready: str = "port"
    end_wait: int = 0
    python: str | None = None
    """The Python that runs it, where that is not the controller's; None in a container, whose image has one."""
    link: tuple[str, str] | None = None
    """A name below its working directory, and the checkpoint directory to which it leads; None for none."""
    data: str | None = None
    """The data set that its host must have fetched before it starts, as an artifact; None for none."""
    box: Box | None = None
    """None under the process runtime."""

    @property
    def strategy(self) -> str:
        """How its cluster trains, as it is told; empty where it is told nothing."""
        return self.env.get(STRATEGY_VARIABLE, "")

    @property
    def artifact(self) -> str | None:
        """What its host must have before it starts: an image by its name there, or code by its digest; None for nothing."""
        code: str | None = self.spec.get("code")
        return self.box.image if self.box else code


class State(StrEnum):
    """What an observed container is doing."""

    CREATED = "created"
    """It exists and was never started: a run was cut off in between."""
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"
    """It is gone without an exit code: the machine restarted, or its supervisor was killed as well."""


_NOT_STARTED = (126, 127, 128)
"""Exit codes with which shells and engines report a program that could not be run."""


@dataclass(frozen=True)
class Observed:
    """A container as its host describes it. Times are seconds since the epoch, by the host's clock."""

    task: str
    host: str
    state: State
    spec: Spec
    id: str = ""
    run: str = ""
    exit_code: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    restarts: int = 0
    restarting: bool = False
    """Whether it has ended and is about to be started again, which counts as running."""
    last_exit: int | None = None
    """The exit code with which it ended before it was started again, where that is known."""
    last_words: str = ""
    """The line that named the failure at that end: its exception, where that is known."""
    gave_up: bool = False
    """Whether it was not started again, though its policy says so, because it had failed twice with the same words."""
    stopped: bool = False
    """Whether it ended because tfprov stopped it."""
    error: str = ""
    """Why it could not be started, when it could not."""
    other_image: str = ""
    """Why its image is not the one that was delivered, when it is another one."""

    @property
    def finished(self) -> bool:
        """Whether it ended by itself with exit code 0: the task is done, and that is not drift."""
        return self.state is State.EXITED and self.exit_code == 0 and not self.stopped

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.state is State.LOST:
            return "gone without an exit code"
        if self.state is State.CREATED:
            return "created but never started"
        if self.error:
            return f"could not start: {self.error}" if self.exit_code in _NOT_STARTED else self.error
        if self.stopped:
            return "stopped"
        return describe_exit(self.exit_code)


def undelivered_image(image: str) -> str:
    """Say that the image with a name of ours is another one than was delivered under it."""
    return f"the image {image.rpartition(':')[2][:12]} is not the one that was delivered"


@dataclass(frozen=True)
class HostState:
    """Everything of one cluster on one host, and the artifacts that were delivered to it.

    `moved` are names of images that stand for another image there than the one that was delivered.
    """

    host: str
    containers: tuple[Observed, ...] = ()
    delivered: frozenset[str] = field(default_factory=frozenset)
    moved: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Observation:
    """All hosts at one moment; `built` are the artifacts that the controller has ready to deliver.

    `unreachable` are the hosts that did not say what is there, and why: what they may hold is not among `hosts`.
    """

    hosts: Mapping[str, HostState]
    built: AnyContainer[str] = field(default_factory=frozenset)
    unreachable: Mapping[str, HostError] = field(default_factory=dict)

    def containers(self) -> list[Observed]:
        """Return every container, on every host."""
        return [container for state in self.hosts.values() for container in state.containers]

    def find(self, task: str) -> Observed | None:
        """Return the container of `task`, or None."""
        return next((container for container in self.containers() if container.task == task), None)


_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def describe_exit(code: int | None) -> str:
    """Say what an exit code means; 128 + N is how shells and Docker report the signal N."""
    if code is None:
        return "ended"
    if code - 128 in _SIGNALS:
        return f"killed by {_SIGNALS[code - 128]} (exit code {code})"
    return f"exited with code {code}"


DATA_PREFIX = "data:"
"""Begins the name of a data set as an artifact."""
_DIGITS = 32
"""Hex digits of a key, as many as an image has."""


@dataclass(frozen=True)
class DataFile:
    """One file: its `name` in the directory with the data, its URL, and the sha256 of its content in hex digits."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class DataSet:
    """Files that lie in one directory."""

    files: tuple[DataFile, ...]

    @property
    def key(self) -> str:
        """What it is known by: the same for the same files, in whatever order and wherever they come from."""
        known = sorted((file.name, file.sha256) for file in self.files)
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:_DIGITS]

    @property
    def artifact(self) -> str:
        """Its name among what is brought to hosts: `data:3f2a9c01d2e4…`."""
        return DATA_PREFIX + self.key


def dataset_artifact(spec: Mapping[str, Any]) -> str | None:
    """Return the data set, as an artifact, that a task with this spec reads; None for none."""
    data = spec.get("data")
    key = data.get("fetch") if isinstance(data, Mapping) else None
    return f"{DATA_PREFIX}{key}" if key else None


def dataset_key(artifact: str) -> str:
    """Return the key of the data set that is called `artifact`."""
    return artifact.removeprefix(DATA_PREFIX)
