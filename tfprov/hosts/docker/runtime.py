"""The `docker` runtime: each task in a container of the host's engine."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, BinaryIO

import docker

from tfprov.errors import HostError
from tfprov.hosts import held_checkpoints
from tfprov.hosts.base import NOTHING, File, Sent, untold
from tfprov.hosts.data_download import Telling, lacking
from tfprov.hosts.docker import archive as docker_archive
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker import logs as docker_logs
from tfprov.hosts.docker import preconditions, secret_files
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import Deliveries, Unrecorded, other_image, sorted_out
from tfprov.hosts.docker.labels import CLUSTER, DIRECTORY, STOPPED, TASK, container_name, creation
from tfprov.hosts.docker.state import Exits, observed
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState, Observed, State

if TYPE_CHECKING:
    from tfprov.hosts.docker.data_volumes import DataVolumes

Serves = Callable[[str, int], bool]
"""Whether something serves on an address and port, asked from the host itself."""
Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a program on the host; returns its exit code and what it printed."""
Codes = Callable[[str], bytes]
"""Returns code, by its digest, as an archive to put into a container at `/`."""

_NEVER: Any = {"Name": "no"}
"""A restart policy, without the number that only another one has."""
_UNRECORDED = Unrecorded()
DEFAULT_DIRECTORY = "/checkpoints"
"""Where a container's checkpoints are when no label says it."""


class DockerRuntime:
    """Tasks of `cluster` on the host of `engine`; `serves` and `run` reach the host itself, `codes` what images lack.

    Unless it `fetches`, `observe` does not ask for fetched data.
    """

    def __init__(  # noqa: PLR0913  what it has to do with besides the engine
        self,
        engine: Engine,
        cluster: str,
        serves: Serves,
        run: Run,
        codes: Codes | None = None,
        *,
        fetches: bool = True,
        deliveries: Deliveries = _UNRECORDED,
    ) -> None:
        self.host, self.engine, self.cluster, self.fetches = engine.host, engine, cluster, fetches
        self._serves, self._run, self._codes, self._deliveries = serves, run, codes, deliveries
        self._mute: set[str] = set()
        self._holds: set[str] = set()
        self._exits = Exits(engine)
        self.outside = docker_files.DockerOutside(engine, self._find)

    def checkpoint_dir(self, task: str) -> str:
        """See Runtime."""
        found = self._find(task)
        return _directory(found) if found else DEFAULT_DIRECTORY

    def observe(self) -> HostState:
        """See Runtime."""
        containers = [self._observed(facts) for facts in self._inspected(f"{CLUSTER}={self.cluster}", TASK)]
        with self.engine.errors():
            images = self.engine.api.images(name=f"tfprov/{self.cluster}")
        delivered, moved = sorted_out(self._deliveries, images)
        data = self._data().whole() if self.fetches else frozenset()
        return HostState(self.host, tuple(containers), delivered | data, moved)

    def _data(self) -> "DataVolumes":
        from tfprov.hosts.docker.data_volumes import DataVolumes  # noqa: PLC0415  most clusters fetch none

        return DataVolumes(self.engine, self.cluster, self._deliveries)

    def _observed(self, facts: Mapping[str, Any]) -> Observed:
        found = replace(observed(facts, self.host), other_image=other_image(self._deliveries, facts))
        before = self._exits.last(facts)
        return found if before is None else replace(found, last_exit=before.code, last_words=before.words)

    def _inspected(self, *labels: str) -> list[dict[str, Any]]:
        with self.engine.errors():
            listed = self.engine.api.containers(all=True, filters={"label": list(labels)})
            return [facts for one in listed if (facts := self._facts(one["Id"]))]

    def _facts(self, container: str) -> dict[str, Any] | None:
        try:
            facts: dict[str, Any] = self.engine.api.inspect_container(container)
        except docker.errors.NotFound:  # removed since it was listed
            return None
        return facts

    def _find(self, task: str) -> dict[str, Any] | None:
        found = self._inspected(f"{CLUSTER}={self.cluster}", f"{TASK}={task}")
        return found[0] if found else None

    def _need(self, task: str) -> dict[str, Any]:
        found = self._find(task)
        if found is None:
            raise HostError(self.host, f"{task} is not there", "start it with `tfprov up`")
        return found

    def in_the_way(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """See Runtime. Its own containers say which ports they publish."""
        return preconditions.taken(self.engine, self.cluster, self._run, starting)

    def start(self, container: Container, run: str, restore: Mapping[str, Path] = NOTHING, sent: Sent = untold) -> None:
        """See Runtime."""
        task, box = container.task.name, container.box
        assert box is not None, "a container of the docker runtime has an image"
        before = self._idle(task, "is already running")
        preconditions.check_name(self.engine, self.cluster, container_name(self.cluster, task))
        if container.data and container.data not in self._data().whole():  # the engine would make an empty volume
            raise lacking(self.host, task)
        image = preconditions.image_id(self.engine, self._deliveries, box.image)
        volume = preconditions.volume(self.engine, self.cluster, box.files_of or task)
        with self.engine.errors():
            api = self.engine.api
            if before is not None:
                api.remove_container(before["Id"], v=True)  # with the code of one that is read-only
            entry = preconditions.secrets(self.engine, self.cluster, container, image)
            made = api.create_container(**creation(api, container, box, self.cluster, run, image, entry))
            if not box.only_reads and (before is None or not self._has_used(before, volume)):
                preconditions.writable(self.engine, container, volume, image, made["Id"])
            if restore:
                api.put_archive(made["Id"], container.checkpoint_dir, docker_archive.of_files(self.host, restore, sent))
            if box.code and self._codes:
                preconditions.put_code(self.engine, made["Id"], self._codes(box.code), read_only=box.read_only)
            if container.link:
                preconditions.link(self.engine, made["Id"], *container.link)
            api.start(made["Id"])

    def _idle(self, task: str, complaint: str) -> dict[str, Any] | None:
        found = self._find(task)
        if found is not None and observed(found, self.host).state is State.RUNNING:
            raise HostError(self.host, f"{task} {complaint} (container {found['Id'][:12]})", "stop it first")
        return found

    def _has_used(self, facts: Mapping[str, Any], volume: str) -> bool:
        """Whether a container was started with `volume`, which was made writable before that."""
        mounted = any(mount.get("Name") == volume for mount in facts.get("Mounts") or ())
        return mounted and observed(facts, self.host).started_at is not None

    def stop(self, task: str, grace: float) -> None:
        """See Runtime."""
        found = self._find(task)
        if found is None or observed(found, self.host).state is not State.RUNNING:
            return
        name = found["Name"].lstrip("/")
        with self.engine.errors():
            if not name.endswith(STOPPED):
                self.engine.api.rename(found["Id"], name + STOPPED)
            self.engine.api.stop(found["Id"], timeout=int(grace))

    def end_restarts(self, task: str) -> None:
        """See Runtime. A start that the engine has begun to wait for still comes."""
        found = self._find(task)
        if found is not None:
            with self.engine.errors():
                self.engine.api.update_container(found["Id"], restart_policy=_NEVER)

    def signal(self, task: str, name: str) -> bool:
        """See Runtime."""
        found = self._need(task)
        if found["State"]["Status"] != "running":
            raise HostError(self.host, f"{task} does not run")
        with self.engine.errors():
            return docker_exec.signal(self.engine.api, self.host, found["Id"], Signals[name])

    def remove(self, task: str) -> None:
        """See Runtime."""
        found = self._idle(task, "is running")
        with self.engine.errors():
            if found is not None:
                if secret_files.has_secrets(found):
                    secret_files.forget(self.engine, container_name(self.cluster, task), found["Image"])
                self.engine.api.remove_container(found["Id"], v=True)
            ours = {"label": [f"{CLUSTER}={self.cluster}", f"{TASK}={task}"]}
            for volume in self.engine.api.volumes(filters=ours).get("Volumes") or ():
                self.engine.api.remove_volume(volume["Name"])

    def deliver(self, digest: str, archive: bytes) -> None:
        """See Runtime."""
        raise AssertionError("images are delivered by digest, not code")

    def fetch(self, data: DataSet, images: Sequence[str], telling: Telling) -> None:
        """See Runtime."""
        self._data().fetch(data, images, telling)

    def tidy(self, keep: Collection[str]) -> int:
        """See Runtime."""
        return self._data().tidy(keep)

    def clean(self, keep: Collection[str] = ()) -> None:
        """See Runtime. Images stay: the next start needs them, and `image prune` is for them."""
        self._data().end_fetches()
        self.tidy(keep)

    def files(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        if (found := self._find(task)) is None:
            return {}
        with self.engine.errors():
            files, left = held_checkpoints.apart(
                docker_files.listing(self.engine, found, _directory(found), self._mute)
            )
        if left:
            self._holds.add(task)
        return files

    def hold(self, task: str) -> Mapping[str, File]:
        """See Runtime. A task that has ended removes nothing; an image without a shell can hold nothing."""
        if (found := self._find(task)) is None or not found["State"]["Running"]:
            return {}
        self._holds.add(task)
        directory = _directory(found)
        with self.engine.errors():
            code, _, _ = docker_files.asked(
                self.engine.api, found["Id"], ["sh", "-c", held_checkpoints.HOLD, "sh", directory]
            )
            if code != 0:
                return {}
            there = docker_files.listing(self.engine, found, f"{directory}/{held_checkpoints.FOLDER}", self._mute)
        return held_checkpoints.held(there)

    def release(self, task: str) -> None:
        """See Runtime. What a task has that ended meanwhile goes with its volume."""
        if task in self._holds and (found := self._find(task)) is not None and found["State"]["Running"]:
            with self.engine.errors():
                docker_files.asked(
                    self.engine.api, found["Id"], ["sh", "-c", held_checkpoints.RELEASE, "sh", _directory(found)]
                )
            self._holds.discard(task)

    def open(self, task: str, name: str) -> BinaryIO:
        """See Runtime."""
        found = self._need(task)
        return docker_files.read(self.engine, found, f"{_directory(found)}/{name}")

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """See Runtime. Directories of which most is wanted come as one archive each."""
        found = self._need(task)
        for directory, below in docker_archive.bundles(names, files):
            top = f"{_directory(found)}/{directory}".rstrip("/")
            with suppress(HostError):  # it was changed meanwhile: what did not come is left out
                for name, _, content in docker_files.tree(self.engine, found["Id"], top, links=True):
                    if (path := f"{directory}/{name}".lstrip("/")) in below:
                        yield path, content

    def tail(self, task: str, name: str, size: int) -> bytes:
        """See Runtime."""
        found = self._need(task)
        with self.engine.errors():
            return docker_files.tail(self.engine, found, f"{_directory(found)}/{name}", size)

    def logs(self, task: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """See Runtime."""
        if (found := self._find(task)) is None:
            return
        with self.engine.errors():
            if not follow:
                yield from docker_logs.lines(self.engine.api, found["Id"], tail, follow=False)
            elif self.engine.followers.acquire(blocking=False):
                try:
                    yield from docker_logs.lines(self.engine.api, found["Id"], tail, follow=True)
                finally:
                    self.engine.followers.release()
            else:
                yield from docker_logs.polled(self.engine.api, found["Id"], tail, self.engine.turn)

    def serves(self, task: Task) -> bool:
        """See Runtime."""
        return self._serves(task.address, task.port)

    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """See Runtime."""
        return self._run(argv)

    def execute(self, task: str, argv: Sequence[str]) -> int:
        """See Runtime; the command has no input."""
        found = self._need(task)
        command = secret_files.with_secrets(found, argv)
        with self.engine.errors():
            return docker_exec.run(self.engine.api, found["Id"], command, docker_exec.pass_on)


def _directory(facts: Mapping[str, Any]) -> str:
    return (facts["Config"].get("Labels") or {}).get(DIRECTORY) or DEFAULT_DIRECTORY
