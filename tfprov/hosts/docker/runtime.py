"""The `docker` runtime: each task in a container of the host's engine."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.hosts import held_checkpoints
from tfprov.hosts.base import NO_FILES, File, OnProgress, Prefix, ignore_progress, read_then_list
from tfprov.hosts.data_download import FetchProgress, missing_data_error
from tfprov.hosts.docker import archive as docker_archive
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker import listing, preconditions, secret_files
from tfprov.hosts.docker import logs as docker_logs
from tfprov.hosts.docker.copy_in import create_link, make_writable, put_code, put_into
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.paths import images_path, volumes_path
from tfprov.hosts.docker.image_contents import Deliveries, NoDeliveries, split_by_delivery, wrong_image_reason
from tfprov.hosts.docker.inspection import TaskContainers
from tfprov.hosts.docker.labels import CLUSTER, STOPPED, TASK, container_name
from tfprov.hosts.docker.state import ContainerUsage, ExitHistory, checkpoint_directory, has_used, parse_container
from tfprov.hosts.log_lines import LogTimes
from tfprov.hosts.terminal import NO_INPUT, ExecMode
from tfprov.hosts.usage import Usage
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState, Observed, State

if TYPE_CHECKING:
    from tfprov.hosts.docker.data_volumes import DataVolumes

Serves = Callable[[str, int], bool]
"""Whether something listens at an address and port, as seen from the host."""
RunCommand = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a program on the host; returns its exit code and output."""
CodeArchives = Callable[[str], bytes]
"""Returns code by its digest, as an archive for `/` of a container."""

_NO_RESTART: Any = {"Name": "no"}
"""The restart policy `no`; the SDK's type requires a count that it does not have."""
_NO_DELIVERIES = NoDeliveries()


class DockerRuntime:
    """Runs the tasks of `cluster` on the host of `engine`.

    `serves` and `run` access the host itself; `codes` has code that images lack; `observe` lists data if `fetches`.
    """

    def __init__(  # noqa: PLR0913  its collaborators
        self,
        engine: Engine,
        cluster: str,
        serves: Serves,
        run: RunCommand,
        codes: CodeArchives | None = None,
        *,
        fetches: bool = True,
        deliveries: Deliveries = _NO_DELIVERIES,
    ) -> None:
        self.host, self.engine, self.cluster, self.fetches = engine.host, engine, cluster, fetches
        self._serves, self._run, self._codes, self._deliveries = serves, run, codes, deliveries
        self._without_programs: set[str] = set()
        self._held_tasks: set[str] = set()
        self._containers = TaskContainers(engine, cluster)
        self._find = self._containers.find
        self._exits, self._usage = ExitHistory(engine), ContainerUsage()
        self.outside = docker_files.DockerOutsideFiles(engine, self._find)

    def checkpoint_dir(self, task: str) -> str:
        """See Runtime."""
        return checkpoint_directory(self._find(task))

    def observe(self) -> HostState:
        """See Runtime. All questions are asked at once, but for details of the cluster's containers."""
        questions = [images_path(f"tfprov/{self.cluster}"), *([self._data().question] if self.fetches else [])]
        inspected, (images, *volumes) = self._containers.inspect(*questions)
        containers = [self._observe_container(facts) for facts in inspected]
        delivered, moved = split_by_delivery(self._deliveries, images)
        data = self._data().complete_in(volumes[0]) if volumes else frozenset()
        return HostState(self.host, tuple(containers), delivered | data, moved)

    def _data(self) -> "DataVolumes":
        from tfprov.hosts.docker.data_volumes import DataVolumes  # noqa: PLC0415  most clusters fetch none

        return DataVolumes(self.engine, self.cluster, self._deliveries)

    def _observe_container(self, facts: Mapping[str, Any]) -> Observed:
        wrong_image = wrong_image_reason(self._deliveries, facts)
        observed = replace(parse_container(facts, self.host), other_image=wrong_image)
        previous = self._exits.last(facts)
        return replace(observed, last_exit=previous.code, last_words=previous.last_words) if previous else observed

    def _require(self, task: str) -> dict[str, Any]:
        if (facts := self._find(task)) is None:
            raise HostError(self.host, f"{task} is not there", "start it with `tfprov up`")
        return facts

    def conflicts(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """See Runtime. `held` is not needed: the containers' published ports are known."""
        return preconditions.conflict_errors(self.engine, self.cluster, self._run, starting)

    def start(
        self,
        container: Container,
        run: str,
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        """See Runtime."""
        task, options = container.task.name, container.docker
        assert options is not None, "a container of the docker runtime has an image"
        previous, _ = self._find_stopped(task, "is already running")
        preconditions.check_name(self.engine, self.cluster, container_name(self.cluster, task))
        if container.data and container.data not in self._data().complete():  # the engine would create an empty volume
            raise missing_data_error(self.host, task)
        image = preconditions.delivered_image_id(self.engine, self._deliveries, options.image)
        with preconditions.task_volume(self.engine, self.cluster, options.files_of or task) as volume:
            api, older = self.engine.api, self._containers.older(task)
            created = preconditions.create_container(
                self.engine, self.cluster, container, run, image, previous=previous, older=older
            )
            if not options.only_reads and (previous is None or not has_used(previous, volume)):
                make_writable(self.engine, container, volume, image, created)
            if restore:
                files = docker_archive.pack_files(self.host, restore, on_progress)
                api.put_archive(created, container.checkpoint_dir, files)
            if options.code and self._codes:
                put_code(self.engine, created, self._codes(options.code), read_only=options.read_only)
            if container.link:
                create_link(self.engine, created, *container.link)
            api.start(created)

    def _find_stopped(self, task: str, problem: str, *questions: str) -> tuple[dict[str, Any] | None, list[Any]]:
        """Return the container of a task that must not run, and the answers to `questions`, asked in the same trip."""
        facts, answers = self._containers.find_with(task, *questions)
        if facts is not None and parse_container(facts, self.host).state is State.RUNNING:
            raise HostError(self.host, f"{task} {problem} (container {facts['Id'][:12]})", "stop it first")
        return facts, answers

    def stop(self, task: str, grace: float) -> None:
        """See Runtime."""
        if (facts := self._find(task)) is None or parse_container(facts, self.host).state is not State.RUNNING:
            return
        name, api = facts["Name"].lstrip("/"), cast("Any", self.engine.api)
        with self.engine.errors():
            if not name.endswith(STOPPED):
                api.rename(facts["Id"], name + STOPPED)
            if not api.stop_running(facts["Id"], int(grace)) and not name.endswith(STOPPED):
                api.rename(facts["Id"], name)  # it ended by itself meanwhile: nobody stopped it

    def end_restarts(self, task: str) -> None:
        """See Runtime. A restart for which the engine is already waiting still happens."""
        if (facts := self._find(task)) is not None:
            with self.engine.errors():
                self.engine.api.update_container(facts["Id"], restart_policy=_NO_RESTART)

    def signal(self, task: str, name: str) -> bool:
        """See Runtime."""
        facts = self._require(task)
        if facts["State"]["Status"] != "running":
            raise HostError(self.host, f"{task} does not run")
        with self.engine.errors():
            return docker_exec.signal(self.engine, facts["Id"], Signals[name])

    def remove(self, task: str) -> None:
        """See Runtime."""
        of_task = volumes_path(label=[f"{CLUSTER}={self.cluster}", f"{TASK}={task}"])
        facts, (volumes,) = self._find_stopped(task, "is running", of_task)
        with self.engine.errors():
            if facts is not None:
                preconditions.remove_containers(self.engine, self.cluster, task, facts, self._containers.older(task))
                self._containers.forget(task)
            for volume in volumes.get("Volumes") or ():
                preconditions.remove_volume(self.engine, volume["Name"])

    def deliver(self, digest: str, archive: bytes) -> None:
        """See Runtime."""
        raise AssertionError("images are delivered by digest, not code")

    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        """See Runtime."""
        self._data().fetch(data, images, progress)

    def remove_unused_data(self, keep: Collection[str]) -> int:
        """See Runtime."""
        return self._data().remove_unused_data(keep)

    def clean(self, keep: Collection[str] = (), *, discard: bool = False) -> None:
        """See Runtime. Images stay for the next start; `image prune` removes them."""
        self._data().clean(keep)
        preconditions.remove_orphans(self.engine, self.cluster, discard=discard)

    def orphaned_volume(self, task: str) -> str:
        """See Runtime."""
        return preconditions.orphaned_volume(self.engine, self.cluster, task)

    def files(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        if (facts := self._find(task)) is None:
            return {}
        with self.engine.errors():
            listed = listing.list_files(self.engine, facts, checkpoint_directory(facts), self._without_programs)
        return self._without_held(task, listed)

    def _without_held(self, task: str, listed: Mapping[str, File]) -> Mapping[str, File]:
        files, has_held = held_checkpoints.split_held(listed)
        if has_held:
            self._held_tasks.add(task)
        return files

    def read_and_list(self, task: str, name: str) -> tuple[bytes | None, Mapping[str, File]]:
        """See Runtime. One program does both, where the image has Python."""
        if (facts := self._find(task)) is not None:
            directory = checkpoint_directory(facts)
            listed = listing.list_by_program(self.engine, facts, directory, self._without_programs, name)
            if listed is not None and listed.is_by_python:
                return listed.content, self._without_held(task, listed.files)
        return read_then_list(self, task, name)

    def hold(self, task: str) -> Mapping[str, File]:
        """See Runtime. Only for running tasks, as ended ones remove nothing; needs a shell in the image."""
        if (facts := self._find(task)) is None or not facts["State"]["Running"]:
            return {}
        self._held_tasks.add(task)
        directory = checkpoint_directory(facts)
        with self.engine.errors():
            argv = ["sh", "-c", held_checkpoints.HOLD, "sh", directory]
            code, _, _ = docker_exec.run_program(self.engine, facts["Id"], argv)
            if code != 0:
                return {}
            folder = f"{directory}/{held_checkpoints.FOLDER}"
            held_files = listing.list_files(self.engine, facts, folder, self._without_programs)
        return held_checkpoints.checkpoint_files(held_files)

    def release(self, task: str) -> None:
        """See Runtime. The files of a task that has ended meanwhile go with its volume."""
        if task in self._held_tasks and (facts := self._find(task)) is not None and facts["State"]["Running"]:
            argv = ["sh", "-c", held_checkpoints.RELEASE, "sh", checkpoint_directory(facts)]
            docker_exec.run_program(self.engine, facts["Id"], argv)
            self._held_tasks.discard(task)

    def open(self, task: str, name: str) -> BinaryIO:
        """See Runtime."""
        facts = self._require(task)
        return docker_files.open_file(self.engine, facts, f"{checkpoint_directory(facts)}/{name}")

    def open_rest(self, task: str, name: str, before: Prefix) -> BinaryIO | None:
        """See Runtime. Needs a shell and sha256sum in the image."""
        facts = self._require(task)
        return docker_archive.open_rest(self.engine, facts, f"{checkpoint_directory(facts)}/{name}", before)

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """See Runtime. Directories of which most files are requested are read as one archive each."""
        facts = self._require(task)
        for directory, below in docker_archive.plan_archives(names, files):
            top = f"{checkpoint_directory(facts)}/{directory}".rstrip("/")
            with suppress(HostError):  # changed meanwhile: files that were not sent are left out
                for name, _, content in docker_files.open_tree(self.engine, facts["Id"], top, skip_links=True):
                    if (path := f"{directory}/{name}".lstrip("/")) in below:
                        yield path, content

    def tail(self, task: str, name: str, size: int) -> bytes:
        """See Runtime."""
        facts = self._require(task)
        with self.engine.errors():
            return docker_files.read_tail(self.engine, facts, f"{checkpoint_directory(facts)}/{name}", size)

    def logs(
        self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
    ) -> Iterator[str]:
        """See Runtime. An engine passes on complete lines only, and pieces of 16 KB of longer ones."""
        if (facts := self._find(task)) is not None:
            with self.engine.errors():
                yield from docker_logs.task_lines(self.engine, facts["Id"], tail, follow=follow, times=times)

    def usage(self) -> Mapping[str, Usage]:
        """See Runtime. One request after the other, on one connection."""
        with self.engine.errors():
            return self._usage.read(self.engine.api, f"{CLUSTER}={self.cluster}", self._run)

    def is_serving(self, task: Task) -> bool:
        """See Runtime."""
        return self._serves(task.address, task.port)

    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """See Runtime."""
        return self._run(argv)

    def execute(self, task: str, argv: Sequence[str], mode: ExecMode = NO_INPUT) -> int:
        """See Runtime."""
        facts = self._require(task)
        return docker_exec.run_attached(self.engine, facts["Id"], secret_files.with_secrets(facts, argv), mode)

    def put(self, task: str, path: str, source: Path) -> str:
        """See Runtime."""
        return put_into(self.engine, self._require(task), path, source)
