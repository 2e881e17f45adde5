"""An in-memory host for tests: runs every verb of tfprov without a machine, and simulates failures.

Nothing happens by itself, sleeps or waits. Started tasks run until `exits`, `loses` or a stop; tests make them print,
save and fail.
"""

import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from tfprov.errors import HostError
from tfprov.hosts.base import NO_FILES, File, OnProgress, Prefix, ignore_progress, read_then_list
from tfprov.hosts.data_download import FetchProgress, missing_data_error
from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.hosts.memory_task import MemoryOutsideFiles, MemoryTask, check_free, read_local
from tfprov.hosts.terminal import NO_INPUT, ExecMode
from tfprov.hosts.usage import Usage
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState, Observed, State, dataset_artifact

_TERMINATED = 143
"""128 + SIGTERM: the exit code of a task that does not handle it."""


class MemoryRuntime:
    """A Runtime in memory. `calls` records the changing calls in order, such as `start worker/1`.

    `refuses` maps a call to the reason for which it fails; `unstartable` maps a task to the reason why its program cannot
    start; `silent` are running tasks that do not listen; `answer` returns exit code and output of commands; `now` is the
    host's clock in seconds. `failure` is raised by every method, as for an unreachable host. `handled` are the signals
    that tasks handle; `taken` maps a task to the conflict with its start. `neighbours` are the other hosts by name, and
    `walled` the tasks behind a firewall. `places` is the state by task.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.now = 0.0
        self.calls: list[str] = []
        self.refuses: dict[str, str] = {}
        self.unstartable: dict[str, str] = {}
        self.silent: set[str] = set()
        self.failure: HostError | None = None
        self.neighbours: Mapping[str, MemoryRuntime] = {}
        self.walled: set[str] = set()
        self.handled: set[str] = {"SIGUSR1"}
        self.taken: dict[str, str] = {}
        self.answer: Callable[[Sequence[str]], tuple[int, str]] = lambda _argv: (0, "")
        self.codes: dict[str, bytes] = {}
        self.data: set[str] = set()
        self.orphans: dict[str, str] = {}
        self.places: dict[str, MemoryTask] = {}
        self.outside = MemoryOutsideFiles(self.places, self._check_failure)
        self.modes: list[ExecMode] = []
        self.used: dict[str, Usage] = {}
        self._started = 0

    def observe(self) -> HostState:
        """See Runtime."""
        self._check_failure()
        places = sorted(self.places.values(), key=lambda place: place.observed.task)
        return HostState(self.host, tuple(place.observed for place in places), frozenset(self.codes) | self.data)

    def deliver(self, digest: str, archive: bytes) -> None:
        """See Runtime."""
        self._called("deliver", digest)
        self.codes.setdefault(digest, archive)

    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        """See Runtime."""
        self._called("fetch", data.artifact)
        if images and not self.codes.keys() & set(images):
            raise HostError(self.host, "there is no image to fetch data with", "deliver one first")
        if progress.is_cancelled:
            raise HostError(self.host, "the data was not fetched to its end: interrupted")
        self.data.add(data.artifact)

    def remove_unused_data(self, keep: Collection[str]) -> int:
        """See Runtime."""
        unused = self.data - set(keep) - {dataset_artifact(place.observed.spec) for place in self.places.values()}
        self.data -= unused
        return len(unused)

    def conflicts(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """See Runtime. Returns the conflicts in `taken`."""
        self._check_failure()
        taken = [self.taken[one.task.name] for one in starting if one.task.name in self.taken]
        return [HostError(self.host, problem, "stop it") for problem in taken]

    def start(
        self,
        container: Container,
        run: str,
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        """See Runtime."""
        task = container.task
        self._called("start", task.name)
        check_free(self.host, task, self.places.values())
        if container.artifact is not None and container.artifact not in self.codes:
            raise HostError(self.host, f"the code of {task.name} is not there", "deliver it first")
        if container.data is not None and container.data not in self.data:
            raise missing_data_error(self.host, task.name)
        restored = {name: (read_local(self.host, path), self.now) for name, path in restore.items()}
        if size := sum(len(data) for data, _ in restored.values()):
            on_progress(size, size)
        self._started += 1
        # Through JSON, like every runtime: a spec changed by that would differ forever.
        spec = json.loads(json.dumps(container.spec))
        observed = Observed(
            task.name, self.host, State.RUNNING, spec, id=str(self._started), run=run, started_at=self.now
        )
        if reason := self.unstartable.get(task.name):
            observed = replace(
                observed, state=State.EXITED, id="", exit_code=127, started_at=None, finished_at=self.now, error=reason
            )
        place = self.places.setdefault(task.name, MemoryTask(observed))
        place.observed, place.container, place.written = observed, container, {}
        place.run_start, place.previous = len(place.log), None
        place.files.update(restored)

    def stop(self, task: str, grace: float) -> None:
        """See Runtime."""
        self._called("stop", task)
        if task in self.places and self.places[task].runs:
            self.places[task].ends(_TERMINATED, self.now, stopped=True)

    def end_restarts(self, task: str) -> None:
        """See Runtime."""
        self._called("end-restarts", task)
        if task in self.places and (container := self.places[task].container) is not None:
            self.places[task].container = replace(container, restart="never")

    def signal(self, task: str, name: str) -> bool:
        """See Runtime. Tasks handle the signals in `handled`."""
        self._called("signal", f"{task} {name}")
        if task not in self.places or not self.places[task].runs:
            raise HostError(self.host, f"{task} does not run")
        return name in self.handled

    def remove(self, task: str) -> None:
        """See Runtime."""
        self._called("remove", task)
        if task in self.places and self.places[task].runs:
            raise HostError(self.host, f"{task} is running", "stop it first")
        self.places.pop(task, None)

    def clean(self, keep: Collection[str] = (), *, discard: bool = False) -> None:
        """See Runtime."""
        self._check_failure()
        self.remove_unused_data(keep)
        if not self.places:
            self.codes.clear()

    def orphaned_volume(self, task: str) -> str:
        """See Runtime. Returns what `orphans` has."""
        return self.orphans.get(task, "")

    def checkpoint_dir(self, task: str) -> str:
        """See Runtime."""
        return f"/memory/{self.host}/{task}"

    def files(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        self._check_failure()
        return self.places[task].list_files() if task in self.places else {}

    read_and_list = read_then_list

    def hold(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        self._called("hold", task)
        return self.places[task].hold()

    def release(self, task: str) -> None:
        """See Runtime."""
        if task in self.places:
            self.places[task].release()

    def open(self, task: str, name: str) -> BinaryIO:
        """See Runtime."""
        self._check_failure()
        place = self.places.get(task)
        if place is None or name not in place.files:
            raise HostError(self.host, f"no such file: {self.checkpoint_dir(task)}/{name}")
        return io.BytesIO(place.files[name][0])

    def open_rest(self, task: str, name: str, before: Prefix) -> BinaryIO | None:
        """See Runtime."""
        return self._place(task).open_rest(name, before)

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """See Runtime."""
        for name in names:
            with suppress(HostError):
                yield name, self.open(task, name)

    def tail(self, task: str, name: str, size: int) -> bytes:
        """See Runtime."""
        return self.open(task, name).read()[-size:] if size else b""

    def logs(
        self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
    ) -> Iterator[str]:
        """See Runtime. `follow` ends with the existing lines, as nothing could add more."""
        self._check_failure()
        lines = list(self.places[task].log) if task in self.places else []
        return (times or LogTimes()).select(lines, tail)

    def usage(self) -> Mapping[str, Usage]:
        """See Runtime."""
        return self.used

    def is_serving(self, task: Task) -> bool:
        """See Runtime."""
        self._check_failure()
        return task.name not in self.walled and self.neighbours.get(task.host, self).listens(task)

    def listens(self, task: Task) -> bool:
        """Whether the task listens, for hosts that can reach this one."""
        place = self.places.get(task.name)
        return place is not None and place.runs and task.serves and task.name not in self.silent

    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """See Runtime."""
        self._check_failure()
        return self.answer(argv)

    def execute(self, task: str, argv: Sequence[str], mode: ExecMode = NO_INPUT) -> int:
        """See Runtime."""
        self._place(task)
        self.modes.append(mode)
        return self.answer(argv)[0]

    def put(self, task: str, path: str, source: Path) -> str:
        """See Runtime. Every target is a new name."""
        self._place(task).put(path, source, self.now)
        return path

    def _place(self, task: str) -> MemoryTask:
        self._check_failure()
        if task not in self.places:
            raise HostError(self.host, f"{task} is not there", "start it with `tfprov up`")
        return self.places[task]

    def puts(self, observed: Observed) -> None:
        """Add a container, as left by another run."""
        self.places[observed.task] = MemoryTask(replace(observed, host=self.host))

    def exits(self, task: str, code: int = 0) -> None:
        """End the task's process with `code`; it is restarted if its container says so."""
        self.places[task].exits(code, self.now)

    def loses(self, task: str) -> None:
        """End the task without a known exit code."""
        self.places[task].observed = replace(self.places[task].observed, state=State.LOST, id="")

    def saves(self, task: str, name: str, data: bytes) -> None:
        """Write a file into the task's checkpoint directory."""
        self.places[task].files[name] = data, self.now

    def writes(self, task: str, path: str, data: bytes) -> None:
        """Write a file into the task's working directory, or to an absolute path, where it stays after a removal."""
        self.places[task].written[path] = data, self.now

    def prints(self, task: str, *lines: str) -> None:
        """Add lines to the task's log, printed at the host's present time."""
        self.places[task].log.extend(Line(line, self.now) for line in lines)

    def _called(self, verb: str, subject: str) -> None:
        self._check_failure()
        if (call := f"{verb} {subject}") in self.refuses:
            raise HostError(self.host, self.refuses[call])
        self.calls.append(call)

    def _check_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


class MemoryHosts(dict[str, MemoryRuntime]):
    """Hosts in memory by name, as a `factory` for `tfprov.Cluster.load`: each reaches all the others."""

    def __call__(self, name: str, _home: Path) -> MemoryRuntime:
        """Return the host called `name`, the same for every load."""
        host = self.setdefault(name, MemoryRuntime(name))
        host.neighbours = self
        return host
