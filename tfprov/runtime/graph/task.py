"""A task of a TF1 style program: its device, its shard of the data, and its training session."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfprov.runtime.eager.evaluator import Measure, evaluate
from tfprov.runtime.graph.session import SessionOptions, synchronous, training_session
from tfprov.runtime.graph.session_creator import SessionContext
from tfprov.runtime.join_cluster import (
    ClusterTask,
    check_cluster,
    checkpoint_dir,
    cluster_spec,
    ps_devices,
    read_wiring,
    serve,
    start_server,
)
from tfprov.runtime.lazy_tensorflow import graph_api, tensorflow
from tfprov.runtime.placement import GreedyPlacement, ps_strategy_for
from tfprov.runtime.signals import WORKER_GRACE, Signals, die
from tfprov.wiring import OUTSIDE, Wiring, WiringError


@dataclass(frozen=True)
class Task(ClusterTask):
    """One task of the training, with its server running. `server` is None for a task that is alone or outside.

    `in_graph`: this is the only client, and the workers serve its towers.
    """

    server: Any = None
    in_graph: bool = False
    _greedy: list[GreedyPlacement] = field(default_factory=list, repr=False, compare=False)

    @property
    def replicas(self) -> int:
        """How many tasks train: the chief and the workers; 1 for a task that is alone, and for an in-graph client."""
        if self.in_graph:
            return 1
        return sum(len(addresses) for job, addresses in self.wiring.cluster.items() if job != "ps") or 1

    @property
    def replica(self) -> int:
        """The number of this replica, from 0, the chief: for seeds and data shards."""
        chiefs = len(self.wiring.cluster.get("chief", ())) if self.wiring.job == "worker" else 0
        return chiefs + self.wiring.index

    @property
    def target(self) -> str:
        """The address of this task's own server, for a tf.compat.v1.Session; empty for a task that is alone."""
        return str(self.server.target) if self.server else ""

    @property
    def towers(self) -> int:
        """How many workers compute for an in-graph client; 1 for one that is alone, and for every other task."""
        return (self.in_graph and len(self.wiring.cluster.get("worker", ()))) or 1

    def device(
        self, placement: str = "round_robin", *, tower: int | None = None
    ) -> contextlib.AbstractContextManager[Any]:
        """Return the device scope of the graph: variables on the ps, everything else on this task.

        `placement` is how variables are spread: `round_robin`, or `greedy` by their bytes. An in-graph client builds
        each of its towers on the worker that `tower` says, from 0. Raises ValueError for another placement or tower.
        """
        if tower is not None and not 0 <= tower < self.towers:
            raise ValueError(f"{self.name} has {self.towers} towers: there is no tower {tower}")
        spread = ps_strategy_for(placement, len(self.wiring.cluster.get("ps", ())), self._greedy)
        if self.server is None:
            return contextlib.nullcontext()
        v1 = graph_api()
        worker = f"/job:worker/task:{tower}" if self.in_graph and tower is not None else self._device
        setter = v1.train.replica_device_setter(
            cluster=cluster_spec(self.wiring), worker_device=worker, ps_strategy=spread
        )
        return v1.device(setter)  # type: ignore[no-any-return]

    def records(self, pattern: str, by: str = "auto", *, tower: int | None = None) -> Any:
        """Return a dataset of the TFRecords in the shard of this replica, or of a tower.

        `pattern` names the files (`/data/train-*.tfrecord`); `by` is `file`, `index` or `auto`, see `shard_files`.
        The choice is printed on stderr. No matching file ends the task with code 1. Raises ValueError as `shard_files`
        does.
        """
        if not (files := tensorflow().io.gfile.glob(pattern)):
            die(f"{self.name}: no file is called {pattern}: write the data there, on every host that trains")
        shard = (self.replica, self.replicas) if tower is None else (tower, self.towers)
        shard_to_read = shard_files(files, *shard, by)
        reader = self.name if tower is None else f"{self.name}, tower {tower},"
        sys.stderr.write(f"tfprov: {reader} reads {shard_to_read} of the {len(files)} that are {pattern}\n")
        return (
            graph_api().data.TFRecordDataset(list(shard_to_read.files)).shard(shard_to_read.every, shard_to_read.first)
        )

    def synchronous(self, optimizer: Any, backup_workers: int = 0) -> tuple[Any, list[Any]]:
        """Return an optimizer whose step waits for the gradients of all replicas, and the hooks for its session.

        With backup workers a step takes the first gradients and drops those of as many stragglers. Raises ValueError
        where none would be left. See `synchronous`.
        """
        return synchronous(optimizer, self.replicas, self.is_chief, backup_workers)

    def evaluate(self, build: Callable[[], Measure], *, train_steps: int, best: str | None = None) -> dict[str, float]:
        """Measure every checkpoint in `checkpoint_dir`, which is the chief's, until that of `train_steps`.

        For an evaluator, and for a task that is alone at its end. Returns the last result; see `evaluator.evaluate`.
        """
        return evaluate(build, self.checkpoint_dir, train_steps, best)

    def session(  # noqa: PLR0913 - keywords with defaults
        self,
        *,
        train_steps: int | None = None,
        save_every_steps: int | None = None,
        save_every_secs: float | None = None,
        summary_every_steps: int = 100,
        keep: int = 5,
        progress: Mapping[str, Any] | None = None,
        progress_every_steps: int = 200,
        examples_per_step: int | None = None,
        max_wait_secs: float = 300,
        hooks: Sequence[Any] = (),
        scaffold: Any = None,
        config: Any = None,
    ) -> contextlib.AbstractContextManager[Any]:
        """Return a MonitoredSession that trains until the global step is `train_steps`.

        The chief restores the newest whole checkpoint, saves `model.ckpt-STEP` in its `checkpoint_dir` at the start,
        every `save_every_steps` steps or `save_every_secs` seconds (60 when neither is set), and at the end, and
        keeps the newest `keep`. It writes merged summaries and `global_step/sec` every `summary_every_steps` steps, and
        prints the scalars of `progress` every `progress_every_steps`. Every task reports its rate in `progress.json`, in
        examples as well if `examples_per_step` of this task is set.

        On a signal the running step ends, the chief saves, and the task exits with 128 + signal. After `max_wait_secs`
        without a session, at the start or after a lost ps, the task ends with code 1. `hooks` are the program's own,
        `scaffold` and `config` TensorFlow's; missing parts are filled in. Call it once the graph is complete.
        """
        if self.wiring.job in OUTSIDE:
            die(f"{self.name} is not part of the training: it cannot open its session", 2)
        if save_every_steps is None and save_every_secs is None:
            save_every_secs = 60
        elif save_every_steps is not None and save_every_secs is not None:
            die("save_every_steps and save_every_secs are alternatives here: leave one out", 2)
        options = SessionOptions(
            train_steps=train_steps,
            save_every_steps=save_every_steps,
            save_every_secs=save_every_secs,
            summary_every_steps=summary_every_steps,
            keep=keep,
            progress=progress or {},
            progress_every_steps=progress_every_steps,
            examples_per_step=examples_per_step,
            max_wait_secs=max_wait_secs,
            hooks=hooks,
            scaffold=scaffold,
            config=config,
        )
        return training_session(self._session_context(), options, Signals(None if self.is_chief else WORKER_GRACE))

    def _session_context(self) -> SessionContext:
        needed = ("ps", "worker") if self.in_graph else ("ps",)
        addresses = {job: self.wiring.cluster.get(job, ()) for job in needed}
        return SessionContext(
            name=self.name,
            is_chief=self.is_chief,
            replicas=self.replicas,
            target=self.target,
            device=self._device if self.server else None,
            peers=[
                (f"{job}/{index}", at) for job, all_of_it in addresses.items() for index, at in enumerate(all_of_it)
            ],
            filters=[*(f"/job:{job}" for job in needed), self._device],
            checkpoint_dir=self.checkpoint_dir,
        )

    @property
    def _device(self) -> str:
        return f"/job:{self.wiring.job}/task:{self.wiring.index}"


def join(
    argv: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    in_graph: bool = False,
    config: Any = None,
) -> Task:
    """Start this task's server and return the task; a ps serves here until a signal ends it.

    The four flags are read from `argv` (default: sys.argv), under the names in TFPROV_FLAGS of `environ` or, before it,
    in `names`, else TF_CONFIG from `environ`. With `in_graph` the chief is the only client, and the workers serve here as
    well. Eager execution is switched off: ps and workers share the graph API. An invalid wiring ends the program with
    code 2, a server that cannot start with code 1. `config` is the server's ConfigProto.
    """
    wiring = read_wiring(check_wiring, argv, environ, names)
    graph_api().disable_eager_execution()
    if wiring.job == "ps" or (in_graph and wiring.job == "worker" and not wiring.is_chief):
        serve(wiring, graph_api().ConfigProto(**ps_devices(wiring)) if config is None else config)
    server = start_server(wiring, config) if wiring.address else None
    return Task(wiring, checkpoint_dir(environ), server, in_graph)


def check_wiring(wiring: Wiring) -> None:
    """Raise WiringError for a cluster that a TF1 style program cannot train in."""
    check_cluster(wiring, "--ps_hosts and --worker_hosts, or TF_CONFIG")
    training_tasks = sum(len(addresses) for job, addresses in wiring.cluster.items() if job != "ps")
    if training_tasks > 1 and not wiring.cluster.get("ps"):
        raise WiringError(f"{training_tasks} tasks train and there is no ps to share the variables: give --ps_hosts")


SHARD_MODES = ("auto", "file", "index")


@dataclass(frozen=True)
class Shard:
    """The shard of one replica: `files`, and of their records every `every`-th from `first` on."""

    files: tuple[str, ...]
    every: int = 1
    first: int = 0

    def __str__(self) -> str:
        """Such as `2 files` or `every 3rd record of 4 files, from the 2nd`."""
        files = f"{len(self.files)} file{'s' if len(self.files) > 1 else ''}"
        return files if self.every == 1 else f"records {self.first}, {self.first + self.every}, … of {files}"


def shard_files(files: Sequence[str], replica: int, replicas: int, by: str = "auto") -> Shard:
    """Return the shard of `replica` (from 0) of `replicas`.

    `by` is `file`, `index`, or `auto`: by file where each replica gets equally many files, else by index. All replicas
    must see the same files. Raises ValueError for another `by`, and by file for fewer files than replicas, because
    some would have nothing to read.
    """
    if by not in SHARD_MODES:
        raise ValueError(f"shard by {', '.join(SHARD_MODES)}, not by {by!r}")
    if by == "file" and len(files) < replicas:
        raise ValueError(
            f"{len(files)} files are not enough for {replicas} replicas: write more files or shard by index"
        )
    in_order = sorted(files)
    if by == "file" or (by == "auto" and len(files) % replicas == 0):
        return Shard(tuple(in_order[replica::replicas]))
    return Shard(tuple(in_order), replicas, replica)
