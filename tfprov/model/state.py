"""Desired and observed containers, which `reconcile` compares."""

import hashlib
import json
from collections.abc import Container as AnyContainer
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tfprov.errors import HostError
from tfprov.model.cluster import Task
from tfprov.wiring import STRATEGY_VARIABLE

Spec = Mapping[str, Any]
"""A container's canonical spec: nested mappings of JSON values. With equal specs, nothing has to change."""


@dataclass(frozen=True)
class Mount:
    """A directory of the host inside the container; both paths are absolute.

    With `volume_options`, it is a volume of the engine's driver `local` with these options instead, such as an NFS export.
    """

    source: str
    target: str
    read_only: bool = True
    volume_options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DockerOptions:
    """The Docker options of a container. `image` is the image's name on its host: `tfprov/linear:3f2a…`.

    Its port is published on `address`. `memory` and `shm_size` are in bytes, `cpus` in cores, with None for the engine's
    default; `gpus` is a number, -1 for all. `code` is the digest of code to copy into the container before it starts;
    `has_code`: whether /code has any, from there or from the image. `files_of` is the task whose checkpoint directory it
    mounts, read-only with `only_reads`. Fetched data is at `data_at`. With `read_only`, its volumes and /tmp are writable.
    """

    image: str
    code: str | None = None
    files_of: str | None = None
    only_reads: bool = False
    address: str = "127.0.0.1"
    memory: int | None = None
    shm_size: int | None = None
    cpus: float | None = None
    gpus: int = 0
    pids: int = 4096
    devices: tuple[str, ...] = ()
    ulimits: Mapping[str, int] = field(default_factory=dict)
    has_code: bool = False
    data_at: str | None = None
    user: str | None = None
    read_only: bool = False
    network: str = "bridge"
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Container:
    """The desired container of one task.

    A difference in its `spec` means a restart. The restart policy, and the seconds to start, to stop and to go on after
    the chief, are not in it: they change without one.
    """

    task: Task
    spec: Spec
    argv: tuple[str, ...]
    env: Mapping[str, str]
    checkpoint_dir: str
    secret: frozenset[str] = frozenset()
    """Names in `env` with secret values: files in a container, not in its configuration."""
    restart: str = "never"
    max_restarts: int = 3
    restart_on: tuple[int, ...] = ()
    """The exit codes after which it is restarted; all but 0 if empty."""
    no_restart_on: tuple[int, ...] = ()
    start_timeout: int = 120
    stop_grace: int = 30
    ready: str = "port"
    end_wait: int = 0
    python: str | None = None
    """The Python that runs the task, if not the controller's; None in a container, whose image has one."""
    link: tuple[str, str] | None = None
    """A path below its working directory, and the checkpoint directory it links to; None without a link."""
    data: str | None = None
    """The data set, as an artifact, that its host must fetch before it starts; None without one."""
    docker: DockerOptions | None = None
    """None under the process runtime."""
    remote: str | None = None
    """The URL of the directory to which its checkpoints are copied; None without one."""

    @property
    def strategy(self) -> str:
        """The strategy in its environment; empty without one."""
        return self.env.get(STRATEGY_VARIABLE, "")

    @property
    def artifact(self) -> str | None:
        """The artifact its host must have before it starts: an image by name, or code by digest; None without either."""
        code: str | None = self.spec.get("code")
        return self.docker.image if self.docker else code


class State(StrEnum):
    """The state of an observed container."""

    CREATED = "created"
    """It exists and was never started: tfprov was killed in between."""
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"
    """It ended without an exit code: the machine restarted, or its supervisor was killed too."""


_NOT_STARTED = (126, 127, 128)
"""Exit codes with which shells and engines report a program that they could not run."""


@dataclass(frozen=True)
class Observed:
    """A container as its host reports it. Times are seconds since the epoch, by the host's clock."""

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
    """Whether it ended and is about to be restarted, which counts as running."""
    unpause: str = ""
    """The command on its host that lets a paused one go on: its processes stand still, which counts as running."""
    last_exit: int | None = None
    """Its exit code before the last restart, if known."""
    last_words: str = ""
    """The log line that named the failure then, such as its exception, if known."""
    gave_up: bool = False
    """Whether it was not restarted, despite its policy, because it had failed twice with the same error."""
    stopped: bool = False
    """Whether tfprov stopped it."""
    error: str = ""
    """Why it could not start; empty if it could."""
    other_image: str = ""
    """Why its image differs from the delivered one; empty if it does not."""

    @property
    def identity(self) -> tuple[str, str, str, float | None]:
        """What no two containers have in common, under whatever names their hosts are observed."""
        return self.task, self.id, self.run, self.started_at

    @property
    def paused(self) -> bool:
        """Whether somebody has paused it, as with `docker pause` or SIGSTOP."""
        return bool(self.unpause)

    @property
    def strategy(self) -> str:
        """The strategy in its spec; empty for the default, and for a label that tfprov did not write."""
        wiring = self.spec.get("wiring")
        return str(wiring.get("strategy", "")) if isinstance(wiring, Mapping) else ""

    @property
    def finished(self) -> bool:
        """Whether it ended by itself with exit code 0, which is not drift."""
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
    """Return the message for an image whose id differs from the one delivered under its name."""
    return f"the image {image.rpartition(':')[2][:12]} is not the one that was delivered"


@dataclass(frozen=True)
class HostState:
    """The containers of one cluster on one host, and the artifacts delivered to it.

    `moved` are names of images that now refer to another image than the delivered one.
    """

    host: str
    containers: tuple[Observed, ...] = ()
    delivered: frozenset[str] = field(default_factory=frozenset)
    moved: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Observation:
    """The state of all hosts at one moment; `built` are the artifacts that the controller can deliver.

    `unreachable` has the hosts that did not answer, with their errors; they are not in `hosts`.
    """

    hosts: Mapping[str, HostState]
    built: AnyContainer[str] = field(default_factory=frozenset)
    unreachable: Mapping[str, HostError] = field(default_factory=dict)

    def containers(self) -> list[Observed]:
        """Return the containers on all hosts."""
        return [container for state in self.hosts.values() for container in state.containers]

    def without_aliases(self, left: AnyContainer[str]) -> "Observation":
        """Return this without the hosts of `left` that are another name of a host before them, or outside of `left`.

        A host that was renamed in the inventory is observed under both names, with the same containers.
        """
        known = {one.identity for host, state in self.hosts.items() if host not in left for one in state.containers}
        aliases = set()
        for host in (host for host in self.hosts if host in left):
            own = {one.identity for one in self.hosts[host].containers if one.id}
            if own & known:
                aliases.add(host)
            known |= own
        return replace(self, hosts={host: state for host, state in self.hosts.items() if host not in aliases})

    def find(self, task: str) -> Observed | None:
        """Return the container of `task`, or None."""
        return next((container for container in self.containers() if container.task == task), None)


_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def describe_exit(code: int | None) -> str:
    """Return an exit code in words; shells and Docker report the signal N as 128 + N."""
    if code is None:
        return "ended"
    if code - 128 in _SIGNALS:
        return f"killed by {_SIGNALS[code - 128]} (exit code {code})"
    return f"exited with code {code}"


DATA_PREFIX = "data:"
"""Prefix of the artifact name of a data set."""
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
    """Files that are fetched into one directory: `files`, or all of the `remote` directory, with credentials in `env`."""

    files: tuple[DataFile, ...]
    remote: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def key(self) -> str:
        """Its key: the same for the same names and contents, in any order and from any URL; of a remote one, its URL's."""
        if self.remote is not None:
            return hashlib.sha256(json.dumps(["remote", self.remote]).encode()).hexdigest()[:_DIGITS]
        files = sorted((file.name, file.sha256) for file in self.files)
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:_DIGITS]

    @property
    def artifact(self) -> str:
        """Its name as an artifact: `data:3f2a9c01d2e4…`."""
        return DATA_PREFIX + self.key


def dataset_artifact(spec: Mapping[str, Any]) -> str | None:
    """Return the data set, as an artifact, in a task's spec; None without one."""
    data = spec.get("data")
    key = data.get("fetch") if isinstance(data, Mapping) else None
    return f"{DATA_PREFIX}{key}" if key else None


def dataset_key(artifact: str) -> str:
    """Return the key of the data set with the artifact name `artifact`."""
    return artifact.removeprefix(DATA_PREFIX)
