"""The public Python API: load a cluster from its inventory, start it, follow it, gather its checkpoints, take it down.

    cluster = tfprov.Cluster.load("lab.yml", extra={"train_steps": 500})
    print(cluster.plan())
    cluster.up()
    cluster.wait()
    print(cluster.gather().newest)
    cluster.down()

Errors are those of `tfprov.errors`. Each verb imports its modules when it is called: `import tfprov` and a plan with
nothing to do load neither Fabric nor the parts of the docker SDK that change a host.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfprov.engine.assemble import Options, RuntimeFactory, assemble
from tfprov.engine.checkpoints.verify import Verify, verify
from tfprov.engine.context import Context, Definition, KeptContext
from tfprov.engine.events import Callback, OnEvent, Quiet
from tfprov.engine.observe import locate
from tfprov.engine.task_files import copy_from, copy_to
from tfprov.errors import Problem, Usage
from tfprov.hosts.log_lines import LogTimes
from tfprov.hosts.process.runtime import ProcessRuntime
from tfprov.hosts.terminal import NO_INPUT, ExecMode
from tfprov.inventory.extra_vars import extra_options
from tfprov.paths import INVENTORY
from tfprov.planning.plan_text import summary
from tfprov.playbook import verbs
from tfprov.results import DownResult, GatherResult, LogStream, PlanResult, Rendering, RunResult, UpResult, WebServer

if TYPE_CHECKING:
    from tfprov.engine.checks.check import CheckReport
    from tfprov.engine.checks.collect import Ask
    from tfprov.engine.cluster_images import ClusterImages
    from tfprov.engine.monitoring.overview import Overview
    from tfprov.engine.monitoring.status import Placement, Status
    from tfprov.vault.decrypt import Vault


class Cluster:
    """A TensorFlow cluster, as its inventory defines it. Use it in a `with` block, or call `close()`.

    Verbs block until they are done, and raise TfprovError. Not safe to use from several threads.
    """

    def __init__(
        self,
        definition: Definition,
        options: Options,
        on_event: OnEvent | None,
        factory: RuntimeFactory = ProcessRuntime,
        verify: Verify = verify,
    ) -> None:
        self.definition, self._options, self._factory, self._verify = definition, options, factory, verify
        self._report = Quiet() if on_event is None else Callback(on_event)
        self._kept = KeptContext(self._assemble)

    @classmethod
    def load(  # noqa: PLR0913  the options of the command line
        cls,
        *sources: str | Path,
        extra: Mapping[str, Any] | Sequence[str] = (),
        limit: str | None = None,
        forks: int | None = None,
        accept_new: bool = False,
        fold: bool = False,
        vault: "Vault | None" = None,
        lookup_dirs: Sequence[str] = (),
        on_event: OnEvent | None = None,
        on_warning: Callable[[Problem], None] = lambda _problem: None,
        factory: RuntimeFactory = ProcessRuntime,
        verify: Verify = verify,
    ) -> "Cluster":
        """Read and check an inventory; no host is contacted. InvalidInput carries every problem of it.

        `sources` are files, directories, scripts or host lists, of which later ones win; without any it is
        $TFPROV_INVENTORY, else ./inventory.yml. `extra` are variables as with `-e`: a mapping, or the options' texts.
        `limit` is a host pattern, `forks` how many hosts to work on at once. `accept_new` records the keys of hosts that
        known_hosts lacks. `fold` has one line for like actions of a plan. `vault` decrypts what ansible-vault encrypted.
        Templates may look up files below `lookup_dirs`. `on_event` is called with each event of tfprov.engine.events, from
        several threads; `on_warning` with the inventory's warnings. `factory` and `verify` are for tests.
        """
        named = [str(source) for source in sources] or [os.environ.get("TFPROV_INVENTORY") or INVENTORY]
        if forks is not None and forks < 1:
            raise Usage(f"`forks` is {forks}; it is 1 at least")
        definition = Definition.load(named, extra_options(extra), vault, on_warning, lookup_dirs)
        return cls(definition, Options(limit, forks, accept_new, fold=fold), on_event, factory, verify)

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.definition.name

    @property
    def title(self) -> str:
        """Return the cluster in one line: `linear: 1 ps, 2 workers on 1 host`."""
        return summary(self._kept.use().cluster)

    @property
    def chief(self) -> str:
        """Return the name of the task that leads the training, such as `chief/0` or `worker/0`."""
        return self._kept.use().cluster.chief.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the names of all tasks."""
        return tuple(wanted.task.name for wanted in self._kept.use().wanted)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; tasks keep running. The next verb connects again."""
        self._kept.close()

    def _assemble(self, connect: bool | None, starts: bool) -> Context:
        options = replace(self._options, connect=connect, starts=starts)
        return replace(assemble(self.definition, self._report, options, self._factory), verify=self._verify)

    def _context(self, *, resume: bool = False, connect: bool = False) -> Context:
        return replace(self._kept.use(connect=connect, starts=True), resume=resume)

    def prepare(self, *, connect: bool | None = False, starts: bool = True) -> Context:
        """Pack the code and find the way to each host, before the next verb. `connect` and `starts`: see Options."""
        return self._kept.prepare(connect=connect, starts=starts)

    def plan(self, *, resume: bool = False) -> PlanResult:
        """Return what `up` would do, and change nothing. `resume`: a start goes on from the newest gathered checkpoint."""
        return verbs.plan_changes(self._context(resume=resume, connect=True))

    def up(self, *, partial: bool = False, resume: bool = False, canary: int | None = None) -> UpResult:
        """Build, deliver and start what is missing, and wait until every task serves. With nothing to do, do nothing.

        If a task fails, what was started is taken back, unless `partial`. `canary`: so many hosts first, then the others.
        """
        return verbs.up(self._context(resume=resume, connect=True), partial=partial, canary=canary)

    def run(self, *, partial: bool = False, discard: bool = False, resume: bool = False) -> RunResult:
        """`up`, follow the training to its end, gather, `down`. TaskFailed carries the chief's exit code if it failed.

        KeyboardInterrupt takes the cluster down, too, after the chief has saved. `discard` does not gather.
        """
        return verbs.run(self._context(resume=resume, connect=True), partial=partial, discard=discard)

    def down(self, *, discard: bool = False) -> DownResult:
        """Gather once more, then stop and remove every task, in order. `discard` does not gather.

        A task whose checkpoint could not be gathered is stopped but kept, and so is one on an unreachable host: both raise.
        """
        return verbs.down(replace(self._kept.use(connect=True), tolerant=True), discard=discard)

    def play(
        self,
        playbook: str | Path,
        *,
        tags: Iterable[str] = (),
        check: bool = False,
        partial: bool = False,
        resume: bool = False,
    ) -> None:
        """Play a playbook: a file, or the name of one that ships with tfprov: up, run, down.

        `tags` plays only what has one of them; `check` says what each step would do, and changes nothing.
        """
        from tfprov.playbook.player import PlayOptions  # noqa: PLC0415
        from tfprov.playbook.run import read_tagged  # noqa: PLC0415

        options = PlayOptions(f"play {playbook}", frozenset(tags), check, partial=partial)
        verbs.play(self._context(resume=resume), read_tagged(str(playbook), tags), options)

    def wait(self, condition: Literal["done", "serving"] = "done", timeout: float | None = None) -> str:
        """Wait until the chief is done, or until every task serves; return the chief's name. `timeout` is in seconds.

        Raises TaskFailed with the chief's exit code if it fails, and if the time is over.
        """
        return verbs.wait(self._kept.use(), condition, timeout)

    def status(self) -> "Status":
        """Return every task's state and speed, and the chief's progress; unreachable hosts are in the result."""
        return verbs.status(self._kept.use(connect=True))

    def overview(self) -> "Overview":
        """Return `status`, what each task uses, and the chief's last line."""
        return verbs.overview(self._kept.use(connect=True), self.title)

    def overviews(self) -> AbstractContextManager[Callable[[], "Overview"]]:
        """Return a context manager with a function that returns an overview at each call, as `status --watch` shows it."""
        return verbs.overviews(self._kept.use(connect=True), self.title)

    def placement(self) -> "Placement":
        """Return which task holds which variable. Raises TaskFailed until the chief's model is ready."""
        return verbs.placement(self._kept.use())

    def logs(
        self,
        *tasks: str,
        follow: bool = False,
        tail: int | None = None,
        times: LogTimes | None = None,
        unfinished: bool = False,
    ) -> LogStream:
        """Return the logs of `tasks`, or of all; those of removed tasks from beside the gathered checkpoints.

        `follow` goes on until the tasks end; `tail` begins that many lines before the end of each log. With `times`, each
        record has the time at which it was `printed`, and only those in that range are yielded. `unfinished` also yields
        lines that still change, again and again. The stream ends by raising the errors of unreachable hosts.
        """
        from tfprov.engine.monitoring.logs import LogOptions, read_logs  # noqa: PLC0415

        return read_logs(self._kept.use(), tasks, LogOptions(follow, tail, times, unfinished))

    def execute(
        self, task: str, argv: Sequence[str], mode: ExecMode = NO_INPUT, before: Callable[[], None] = lambda: None
    ) -> int:
        """Run a command in the container of a task, its output on the standard output; return its exit code.

        `mode` passes on the standard input, and this process's terminal. `before` is called before it starts.
        """
        if not argv or isinstance(argv, str) or not argv[0]:
            raise Usage("a command is a list of its program and arguments", 'for example `["ls", "-l"]`')
        runtime, _ = locate(self._kept.use(), task)
        before()
        return runtime.execute(task, argv, mode)

    def copy_from(self, task: str, path: str, to: str | Path) -> Path:
        """Copy a file or directory of a task to this machine, whole or not at all; return where it is."""
        return copy_from(locate(self._kept.use(), task)[0], task, path, to)

    def copy_to(self, source: str | Path, task: str, path: str) -> str:
        """Copy a file or directory of this machine into a task, whole or not at all; return where it is there."""
        return copy_to(locate(self._kept.use(), task)[0], Path(source), task, path)

    def gather(self, path: str | None = None) -> GatherResult:
        """Copy the chief's new checkpoints and event files, whole and verified; a second call copies nothing.

        A remote `checkpoints.dir` is read without a host.
        `path` copies this file or directory of the chief instead, as it is: relative to its working directory, or absolute.
        """
        return verbs.gather(self._kept.use(connect=None), path)

    def tensorboard(self, port: int | None = None) -> AbstractContextManager[WebServer]:
        """Yield the cluster's TensorBoard once it answers; for one on another host, `port` of this machine leads to it."""
        return self._web("tensorboard", port)

    def serving(self, port: int | None = None) -> AbstractContextManager[WebServer]:
        """Yield the cluster's model server, as `tensorboard` does; it answers before it has a model."""
        return self._web("serving", port)

    def notebook(self, port: int | None = None) -> AbstractContextManager[WebServer]:
        """Yield the cluster's notebook, as `tensorboard` does; its `url` has Jupyter's token."""
        return self._web("notebook", port)

    def _web(self, job: str, port: int | None) -> AbstractContextManager[WebServer]:
        from tfprov.engine.monitoring.web_tunnel import open_web_server  # noqa: PLC0415

        return open_web_server(self._kept.use(), job, port)

    def check(self, *, deliver: bool = False, trust: "Ask | None" = None, all_pairs: bool = False) -> "CheckReport":
        """Check whether every host can run its tasks. `deliver` first delivers missing images, to try addresses with.

        `trust` is called with each unknown host key, and returns whether to record it. With `all_pairs`, every address is
        tried from every host in large clusters, too; by default, those that the strategy uses.
        """
        from tfprov.engine.checks.cluster_check import check_cluster  # noqa: PLC0415

        return check_cluster(self._context(), deliver=deliver, trust=trust, all_pairs=all_pairs)

    @property
    def images(self) -> "ClusterImages":
        """Return the verbs for the cluster's images: build, deliver, on_hosts and prune; Usage if it has none."""
        from tfprov.engine.cluster_images import ClusterImages  # noqa: PLC0415

        return ClusterImages(self._context())

    def render(self, target: str, settings: Iterable[str] = (), *, template_dir: Path | None = None) -> Rendering:
        """Return the cluster as files for another engine, such as `kubernetes` or `slurm`; no host is contacted.

        `settings` are the target's options, as `NAME=VALUE`; templates in `template_dir` replace those of the same names.
        """
        from tfprov.render.render import render_cluster  # noqa: PLC0415

        definition = self.definition
        definition.check_files()
        files = render_cluster(definition.roles, target, list(settings), lambda: definition.never_code, template_dir)
        return Rendering(target, files)
