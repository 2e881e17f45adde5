"""TensorFlowRunner: a function becomes a distributed training on the executors of a Spark cluster."""

import secrets
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tfprov.errors import TaskFailed, Usage
from tfprov.spark.distributor import local, requirements
from tfprov.spark.distributor.log_server import LogServer, OnLine
from tfprov.spark.distributor.order import Plan
from tfprov.spark.distributor.remote_start import start_limit
from tfprov.spark.distributor.returned import ReturnedCheckpoint, write_checkpoint
from tfprov.spark.distributor.rows import SCHEMA, End, Outcome, outcome
from tfprov.spark.distributor.slots import count_tasks, names_of_tasks
from tfprov.spark.distributor.task import run_task
from tfprov.tfrecord.extra import require

_POLL = 0.5
"""Seconds between two looks at the number of slots."""


def print_line(task: str, line: str) -> None:
    """Print a line of a task's output, with the task in front."""
    sys.stdout.write(f"{task} | {line}\n")
    sys.stdout.flush()


@dataclass
class TensorFlowRunner:
    """Trains with TensorFlow on the executors of a Spark cluster: one barrier task for each task of the training.

    `num_slots` are the GPUs, or without GPUs the processes, of the whole training. With `local_mode` it runs in the
    driver. `use_gpu` takes the GPUs that Spark assigns as the resource `gpu_resource_name`. The function is called in the
    scope of a MultiWorkerMirroredStrategy, unless `use_custom_strategy`, or another `strategy`: `parameter_server`,
    `between_graph` and `in_graph`, with `num_ps` parameter servers in tasks of their own, or `single`. These have the
    servers that they need, and the function builds its strategy from TF_CONFIG, for example with `tfprov.runtime`.

    `trusted_network` accepts that TensorFlow's traffic is neither encrypted nor authenticated. `env` are environment
    variables of the tasks. The chief saves to `checkpoint_dir`, a directory of a file system that the executors share, or
    to a scratch directory, whose newest checkpoint is written to `gather_to` on the driver. `on_line` gets each line that a
    task prints, and prints it by default. `spark` is the session; by default the active one.
    Within `start_timeout` seconds Spark must have a slot for every task.

    Raises ValueError for settings that contradict each other or the Spark cluster, Usage for a network that is not trusted.
    """

    num_slots: int
    local_mode: bool
    use_gpu: bool
    gpu_resource_name: str
    use_custom_strategy: bool
    checkpoint: ReturnedCheckpoint | None
    """The newest whole checkpoint of the last run, every tensor of which was read; None without any."""

    def __init__(  # noqa: PLR0913  keywords with defaults
        self,
        *,
        num_slots: int,
        local_mode: bool = False,
        use_gpu: bool = True,
        gpu_resource_name: str = "gpu",
        use_custom_strategy: bool = False,
        strategy: str = "multi_worker_mirrored",
        num_ps: int = 0,
        trusted_network: bool = False,
        env: Mapping[str, str] | None = None,
        checkpoint_dir: str | None = None,
        gather_to: str | Path | None = None,
        on_line: OnLine = print_line,
        spark: Any = None,
        start_timeout: float = 60.0,
    ) -> None:
        self.num_slots, self.local_mode, self.use_gpu = num_slots, local_mode, use_gpu
        self.gpu_resource_name, self.use_custom_strategy = gpu_resource_name, use_custom_strategy
        self.checkpoint, self._start_timeout = None, start_timeout
        count_tasks(num_slots, None)  # before Spark is asked for anything
        if checkpoint_dir is not None and "://" in checkpoint_dir:  # a local directory `s3:` would get the checkpoints
            raise ValueError(f"`checkpoint_dir` must be a path that executors have, not the URL {checkpoint_dir}")
        self._spark = _session() if spark is None else spark
        self._on_line, self._env, self._trusted = on_line, dict(env or {}), trusted_network
        self._checkpoint_dir, self._gather_to = checkpoint_dir, Path(gather_to) if gather_to is not None else None
        if self._gather_to and checkpoint_dir:
            raise ValueError(
                "`checkpoint_dir` stays where it is, and `gather_to` needs a scratch directory: set one of them"
            )
        self.strategy = strategy
        if local_mode:
            self._local_gpus = self._driver_gpus() if use_gpu else None
            local.check_local(num_slots, self._local_gpus)
            return
        amount = requirements.gpu_amount(self._setting, gpu_resource_name) if use_gpu else None
        self.names = names_of_tasks(strategy, count_tasks(num_slots, amount), num_ps)
        requirements.check_network(self._setting, trusted=trusted_network)

    def run(self, train_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `train_fn` in every task that trains, and return the chief's value.

        The output of all tasks is passed on as it comes. Raises TaskFailed with the last lines of the task that failed
        first; all others are ended within ten seconds. Ctrl-C ends them, too.
        """
        self.checkpoint = None
        wraps = self.strategy == "multi_worker_mirrored" and not self.use_custom_strategy
        if self.local_mode:
            with local.visible_devices(self.num_slots, self._local_gpus):
                return local.run_here(train_fn, args, kwargs, wraps=wraps)
        from pyspark import cloudpickle  # noqa: PLC0415

        self._wait_for_slots()
        result = self._train(
            Plan(
                self.names,
                self.strategy,
                "MultiWorkerMirroredStrategy" if wraps else "",
                cloudpickle.dumps((train_fn, args, kwargs)),
                secrets.token_urlsafe(24),
                gpus=self.num_slots if self.use_gpu else 0,
                gpu_resource=self.gpu_resource_name,
                env=self._env,
                checkpoint_dir=self._checkpoint_dir,
                gather=self._gather_to is not None,
            )
        )
        if result.saved is not None:
            self.checkpoint = self._returned(result)
        _raise_failure(result.ends)
        return cloudpickle.loads(result.value) if result.value is not None else None

    def _wait_for_slots(self) -> None:
        """Wait for executors with a slot for every task; Spark itself would wait for ten minutes, or for ever.

        A client of Spark Connect cannot ask for their number.
        """
        deadline = time.monotonic() + self._start_timeout
        while not _is_remote(self._spark):
            context = self._spark.sparkContext._jsc.sc()  # noqa: SLF001  Spark's own barrier check asks the same
            slots = context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())
            if slots >= len(self.names):
                return
            if time.monotonic() > deadline:
                what = f"the training needs {len(self.names)} tasks at once, and Spark has slots for {slots}"
                raise Usage(what, "start more executors, give tasks fewer cores or GPUs, or lower num_slots")
            time.sleep(_POLL)

    def _returned(self, result: Outcome) -> ReturnedCheckpoint | None:
        if self._gather_to is not None:
            return write_checkpoint(result, self._gather_to)
        saved = result.saved
        if saved is None or self._checkpoint_dir is None:
            return None
        return ReturnedCheckpoint(Path(saved.directory, saved.prefix), saved.step, saved.tensors)

    def _train(self, plan: Plan) -> Outcome:
        tag = f"tfprov-{uuid.uuid4().hex}"
        with self._logs(plan, tag) as (logs, reachable), _tagged(self._spark, tag), self._start_limit(tag):
            rows = self._spark.range(0, len(plan.names), 1, len(plan.names))
            job = rows.mapInArrow(partial(run_task, reachable), SCHEMA, barrier=True)
            try:
                return outcome(job.toArrow().to_pylist())
            except KeyboardInterrupt:
                self._spark.interruptTag(tag)
                raise
            except Exception as error:
                if logs is not None and logs.lost is not None:
                    what = "was lost: its Spark task was ended, or its executor"
                    raise TaskFailed(logs.lost, what, logs.last_lines(logs.lost)) from error
                raise

    @contextmanager
    def _start_limit(self, tag: str) -> Iterator[None]:
        """Over Spark Connect, end a job of which no task has started after `start_timeout` seconds."""
        if not _is_remote(self._spark):  # waited for its slots before
            yield
            return
        with start_limit(self._spark, tag, self._start_timeout, len(self.names)):
            yield

    @contextmanager
    def _logs(self, plan: Plan, tag: str) -> Iterator[tuple[LogServer | None, Plan]]:
        """Yield the log server, and the plan with its address; without one where tasks cannot connect to this process."""
        host = self._setting("spark.driver.host", "")
        if not host or _is_remote(self._spark):
            yield None, plan
            return
        bound = self._setting("spark.driver.bindAddress", host)

        def end(_task: str) -> None:
            threading.Thread(target=self._spark.interruptTag, args=(tag,), daemon=True).start()

        logs = LogServer(bound, plan.token, self._on_line, end)
        try:
            yield logs, replace(plan, driver=(host, logs.port))
        finally:
            logs.close()

    def _setting(self, name: str, default: str) -> str:
        value = self._spark.conf.get(name, default)
        return default if value is None else str(value)

    def _driver_gpus(self) -> list[str]:
        if _is_remote(self._spark):
            raise Usage(
                "`local_mode` with GPUs needs the driver's resources, which Spark Connect does not have",
                "pass `use_gpu=False`",
            )
        resource = self._spark.sparkContext.resources.get(self.gpu_resource_name)
        return list(resource.addresses) if resource else []


def _session() -> Any:
    session = require("pyspark.sql", "spark").SparkSession.getActiveSession()
    if session is None:
        raise Usage("there is no active Spark session", "make one with SparkSession.builder.getOrCreate()")
    return session


def _is_remote(spark: Any) -> bool:
    """Whether this is a client of Spark Connect, whose driver is another process."""
    return ".connect." in type(spark).__module__


@contextmanager
def _tagged(spark: Any, tag: str) -> Iterator[None]:
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def _raise_failure(ends: Mapping[str, End]) -> None:
    """Raise TaskFailed for the task that failed first; the others were ended because of it."""
    failed = [end for end in ends.values() if end.code != 0]
    first = next((end for end in failed if not end.stop or end.cause == end.task), failed[0] if failed else None)
    if first is None:
        return
    cause = ends.get(first.cause, first)
    how = (
        f"was ended by {signal.Signals(-cause.code).name}" if cause.code < 0 else f"failed with exit code {cause.code}"
    )
    raise TaskFailed(cause.task, how, cause.lines, cause.code if cause.code > 0 else 1)
