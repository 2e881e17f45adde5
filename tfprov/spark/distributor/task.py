"""A task of the barrier stage: finds its peers, runs the program, streams its output, and ends with the others."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov.formats.checkpoint import checkpoints
from tfprov.spark.distributor.coordinator import DONE, Coordinator, Member
from tfprov.spark.distributor.messages import Channel, connect
from tfprov.spark.distributor.order import Order, Plan
from tfprov.spark.distributor.ports import HeldPort
from tfprov.spark.distributor.program import Program
from tfprov.spark.distributor.rows import End, Row, Saved, checkpoint_rows, digest
from tfprov.spark.distributor.slots import choose_gpus, cluster_of, gpu_users, serves, slots_of
from tfprov.wiring import STRATEGY_VARIABLE, Wiring, to_tf_config

Sink = Callable[[str], None]
_WAIT = 30.0
"""Seconds that the coordinator waits for the last reports of the other tasks, and each task for the driver's answer."""


def run_task(plan: Plan, batches: Iterable[Any]) -> Iterator[Any]:
    """Run this partition's task, and yield its rows as Arrow batches: the function of `mapInArrow`."""
    import pyarrow as pa  # noqa: PLC0415
    from pyspark import BarrierTaskContext  # noqa: PLC0415

    for _ in batches:
        pass
    context = BarrierTaskContext.get()
    with tempfile.TemporaryDirectory(prefix="tfprov-spark-") as directory:
        for row in _Task(plan, context, Path(directory)).rows():
            names = ("task", "kind", "name", "data")
            types = (pa.string(), pa.string(), pa.string(), pa.binary())
            arrays = [pa.array([value], kind) for value, kind in zip(row, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))


class _Task:
    def __init__(self, plan: Plan, context: Any, directory: Path) -> None:
        self.plan, self.context, self.directory = plan, context, directory
        self.rank: int = context.partitionId()
        self.name = plan.names[self.rank]
        self.host = context.getTaskInfos()[self.rank].address.rpartition(":")[0]
        self.result = directory / "result"
        self.stopped: tuple[str, str] = ("", "")
        self.refusal = ""
        self._program: Program | None = None
        self._lock = threading.Lock()

    def rows(self) -> Iterator[Row]:
        """Run the program, and yield how it ended and what it made."""
        with contextlib.ExitStack() as stack:
            log = self._log()
            if log is not None:
                stack.callback(log.close)
            port = stack.enter_context(HeldPort())
            coordinator = self._coordinator()
            if coordinator is not None:
                stack.callback(coordinator.close)
            peers = self._meet(port.number, coordinator.port if coordinator else 0)
            code = self._run(peers, log)
            if coordinator is not None:
                coordinator.wait(_WAIT)
            lines = self._program.last if self._program else filter(None, [self.refusal])
            yield End(self.name, code, *self.stopped, tuple(lines)).row()
            if self.rank == 0:
                yield from self._results(code)

    def _log(self) -> Channel | None:
        """Connect to the driver, for the output; None where it cannot be reached: the output is then the executor's."""
        if self.plan.driver is None:
            return None
        try:
            return connect(*self.plan.driver, self.plan.token, self.name)
        except OSError as error:
            sys.stderr.write(f"tfprov: the driver's log server cannot be reached: {error}\n")
            return None

    def _coordinator(self) -> Coordinator | None:
        if self.rank != 0:
            return None
        trainers = [name for name in self.plan.names if not serves(self.plan.strategy, name)]
        return Coordinator(self.host, self.plan.token, self.plan.names, trainers)

    def _meet(self, port: int, control: int) -> list[dict[str, Any]]:
        """Tell all tasks the address of this one, and return theirs."""
        own = json.dumps({"host": self.host, "port": port, "control": control})
        return [json.loads(text) for text in self.context.allGather(own)]

    def _run(self, peers: list[dict[str, Any]], log: Channel | None) -> int:
        wiring = self._wiring(peers)
        serving = serves(self.plan.strategy, self.name)
        function = None if serving else self.plan.function
        order = Order(function, self.plan.wraps, str(self.result), returns=self.rank == 0)
        member = Member(peers[0]["host"], peers[0]["control"], self.plan.token, self.name, self._stop)
        sink = _sink(self.name, log)
        try:
            with self._lock:
                if not self.stopped[0]:
                    self._program = self._start(order, wiring, sink)
            code = self._program.wait() if self._program else 1
            if serving and self.stopped[0] == DONE:
                code = 0
            member.report(code)
            if log is not None:
                # The driver's log server ends with the job, which may end with this task: its answer says that it has all.
                with contextlib.suppress(OSError):
                    log.ask({"code": code, "stop": self.stopped[0]}, _WAIT)
            return code
        finally:
            member.close()

    def _start(self, order: Order, wiring: Wiring, sink: Sink) -> Program | None:
        """Start the program; None, with a line in its output, where the task has not what it needs."""
        try:
            return Program(order, self._environment(wiring), self.directory, sink)
        except (OSError, ValueError) as error:
            self.refusal = f"tfprov: error: {error}"
            sink(self.refusal)
            return None

    def _stop(self, reason: str, cause: str) -> None:
        with self._lock:
            self.stopped = reason, cause
            if self._program is not None and (reason != DONE or serves(self.plan.strategy, self.name)):
                self._program.stop()

    def _wiring(self, peers: list[dict[str, Any]]) -> Wiring:
        addresses = [f"{peer['host']}:{peer['port']}" for peer in peers]
        job, _, index = self.name.partition("/")
        cluster: Mapping[str, tuple[str, ...]] = cluster_of(self.plan.names, addresses)
        return Wiring(job, int(index), {} if self.plan.strategy == "single" else cluster)

    def _environment(self, wiring: Wiring) -> dict[str, str]:
        """Return the environment of the program; modules that Spark brought to this executor can be imported there."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "TFPROV_"))}
        own = {
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TFPROV_TASK": self.name,
            STRATEGY_VARIABLE: self.plan.strategy,
            "TFPROV_CHECKPOINT_DIR": str(self._checkpoint_dir()),
            "CUDA_VISIBLE_DEVICES": self._gpus(),
        }
        config = {"TF_CONFIG": to_tf_config(wiring)} if wiring.cluster else {}
        return {**inherited, **own, **self.plan.env, **config}

    def _gpus(self) -> str:
        users = gpu_users(self.plan.strategy, self.plan.names)
        if not self.plan.gpus or self.name not in users:
            return "-1"
        count = slots_of(users.index(self.name), len(users), self.plan.gpus)
        resources = self.context.resources().get(self.plan.gpu_resource)
        return choose_gpus(resources.addresses if resources else [], count, os.environ.get("CUDA_VISIBLE_DEVICES"))

    def _checkpoint_dir(self) -> Path:
        """Return the directory for checkpoints. Only the chief uses a shared one: the others would write over its files."""
        shared = self.plan.checkpoint_dir if self.rank == 0 else None
        path = Path(shared) if shared else self.directory / "checkpoints"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _results(self, code: int) -> Iterator[Row]:
        if code == 0 and self.result.exists():
            yield self.name, "value", "", self.result.read_bytes()
        saved = newest(self._checkpoint_dir())
        if saved is not None:
            yield from checkpoint_rows(self.name, saved, contents=self.plan.gather)


def _sink(name: str, log: Channel | None) -> Sink:
    def write(line: str) -> None:
        if log is not None:
            with contextlib.suppress(OSError):
                log.send({"line": line})
                return
        sys.stderr.write(f"{name} | {line}\n")

    return write


def newest(directory: Path) -> Saved | None:
    """Return the newest checkpoint in `directory` whose tensors can all be read; None without any."""
    for saved in reversed(checkpoints(path.name for path in directory.iterdir() if path.is_file())):
        read = _read_tensors(str(directory / saved.prefix)) if saved.whole else None
        if read is not None:
            files = {name: digest(directory / name) for name in saved.files}
            return Saved(str(directory), saved.prefix, saved.step, read, files)
    return None


def _read_tensors(prefix: str) -> int | None:
    """Return the number of tensors of a checkpoint; None if one of them cannot be read."""
    command = [sys.executable, "-m", "tfprov.runtime.verify", prefix]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    result = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
    return None if result["error"] else int(result["tensors"])
