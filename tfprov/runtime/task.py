"""The task a program finds itself to be: who it is, where its graph goes, and its training session."""

import contextlib
import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tfprov.runtime.creator import Place
from tfprov.runtime.lazy import graph_api
from tfprov.runtime.leaving import WORKER_GRACE, Signals, die
from tfprov.runtime.session import Options, training
from tfprov.wiring import OUTSIDE, Wiring, WiringError, from_flags, from_tf_config

CHECKPOINT_DIR = "TFPROV_CHECKPOINT_DIR"
ALONE = Wiring("worker", 0)
"""A program without flags and without TF_CONFIG: the chief of nobody."""


@dataclass(frozen=True)
class Task:
    """One task of the training, with its server running. `server` is None for a task that is alone or outside."""

    wiring: Wiring
    checkpoint_dir: str
    server: Any = None

    @property
    def name(self) -> str:
        """Such as `worker/1`."""
        return f"{self.wiring.job}/{self.wiring.index}"

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises, saves and reports."""
        return self.wiring.is_chief

    @property
    def replicas(self) -> int:
        """How many tasks train: the chief and the workers, 1 for a task that is alone."""
        return sum(len(addresses) for job, addresses in self.wiring.cluster.items() if job != "ps") or 1

    @property
    def replica(self) -> int:
        """Which of them this is, from 0; the chief is 0. What a program seeds and shards its data with."""
        chiefs = len(self.wiring.cluster.get("chief", ())) if self.wiring.job == "worker" else 0
        return chiefs + self.wiring.index

    @property
    def target(self) -> str:
        """The address of this task's own server, for a tf.compat.v1.Session; empty for a task that is alone."""
        return str(self.server.target) if self.server else ""

    def device(self) -> contextlib.AbstractContextManager[Any]:
        """Where the graph is built: variables go round the ps, everything else to this task."""
        if self.server is None:
            return contextlib.nullcontext()
        v1 = graph_api()
        setter = v1.train.replica_device_setter(cluster=_cluster_spec(self.wiring), worker_device=_device(self.wiring))
        return v1.device(setter)  # type: ignore[no-any-return]

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
        max_wait_secs: float = 300,
        hooks: Sequence[Any] = (),
        scaffold: Any = None,
        config: Any = None,
    ) -> contextlib.AbstractContextManager[Any]:
        """Return a MonitoredSession that trains until the global step, shared by all, is `train_steps`.

        The chief restores the newest whole checkpoint, saves `model.ckpt-STEP` in its `checkpoint_dir` at the start,
        every `save_every_steps` steps or `save_every_secs` seconds (60 when neither is given), and at the end, and
        keeps the newest `keep`. It writes merged summaries and `global_step/sec` every `summary_every_steps` steps, and
        prints the scalars of `progress` every `progress_every_steps`.

        A signal lets the running step end, saves, and leaves with 128 + signal. After `max_wait_secs` without a
        session, at the start or after a lost ps, the task ends with code 1. `hooks` are the program's own, `scaffold`
        and `config` TensorFlow's; what they leave open is filled in. Call it once the graph is complete.
        """
        if self.wiring.job in OUTSIDE:
            die(f"{self.name} is not part of the training: it cannot open its session", 2)
        if save_every_steps is None and save_every_secs is None:
            save_every_secs = 60
        options = Options(
            train_steps=train_steps,
            save_every_steps=save_every_steps,
            save_every_secs=save_every_secs,
            summary_every_steps=summary_every_steps,
            keep=keep,
            progress=progress or {},
            progress_every_steps=progress_every_steps,
            max_wait_secs=max_wait_secs,
            hooks=hooks,
            scaffold=scaffold,
            config=config,
        )
        return training(self._place(), options, Signals(None if self.is_chief else WORKER_GRACE))

    def _place(self) -> Place:
        return Place(
            name=self.name,
            is_chief=self.is_chief,
            replicas=self.replicas,
            target=self.target,
            device=_device(self.wiring) if self.server else None,
            ps=self.wiring.cluster.get("ps", ()),
            checkpoint_dir=self.checkpoint_dir,
        )


def join(
    argv: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    config: Any = None,
) -> Task:
    """Start this task's server and return the task; a ps serves here until a signal ends it.

    The four flags are read from `argv` (default: sys.argv), under the names `names` gives them, else TF_CONFIG from
    `environ`. Eager execution is switched off: the graph API is what ps and workers share. A wiring that cannot be
    ends the program with code 2, a server that cannot start with code 1. `config` is the server's ConfigProto.
    """
    environ = os.environ if environ is None else environ
    wiring = _wiring(sys.argv[1:] if argv is None else argv, environ, names)
    faulthandler.register(signal.SIGUSR1, file=2)  # not sys.stderr: in a notebook it is no file
    graph_api().disable_eager_execution()
    directory = environ.get(CHECKPOINT_DIR) or "checkpoints"
    if wiring.job == "ps":
        _serve(wiring, config)
    return Task(wiring, directory, _server(wiring, config) if wiring.address else None)


def _wiring(argv: Iterable[str], environ: Mapping[str, str], names: Mapping[str, str] | None) -> Wiring:
    try:
        found = from_flags(argv, names) or from_tf_config(environ.get("TF_CONFIG", "")) or ALONE
        check(found)
    except WiringError as error:
        die(str(error), 2)
    return found


def check(wiring: Wiring) -> None:
    """Raise WiringError for a wiring that names no cluster a program can train in."""
    if not wiring.cluster and not wiring.is_chief and wiring.job not in OUTSIDE:
        raise WiringError(
            f"{wiring.job}/{wiring.index} has no cluster: give --ps_hosts and --worker_hosts, or TF_CONFIG"
        )
    training = sum(len(addresses) for job, addresses in wiring.cluster.items() if job != "ps")
    if training > 1 and not wiring.cluster.get("ps"):
        raise WiringError(f"{training} tasks train and there is no ps to share the variables: give --ps_hosts")
    for address in (address for addresses in wiring.cluster.values() for address in addresses):
        if not (match := re.fullmatch(r"\S+:([0-9]{1,5})", address)) or not 0 < int(match[1]) < 65536:
            raise WiringError(f"{address!r} is not an address: write host:port")


def _serve(wiring: Wiring, config: Any) -> NoReturn:
    """`Server.join` never returns and hears no signal; the server works without it for as long as it is referenced."""
    if config is None:
        # Variables live in the ps's memory; a GPU would only be taken from a worker on the same machine.
        config = graph_api().ConfigProto(device_count={"GPU": 0})
    with Signals().watched():
        server = _server(wiring, config)
        while server:
            time.sleep(3600)
    raise AssertionError("a ps ends by a signal")


def _server(wiring: Wiring, config: Any) -> Any:
    v1 = graph_api()
    try:
        return v1.train.Server(_cluster_spec(wiring), wiring.job, wiring.index, protocol="grpc", config=config)
    except v1.errors.OpError as error:
        reason = next(iter(str(error).splitlines()), "unknown reason")
        die(f"{wiring.job}/{wiring.index} cannot serve at {wiring.address}: {reason}")


def _cluster_spec(wiring: Wiring) -> Any:
    return graph_api().train.ClusterSpec({job: list(addresses) for job, addresses in wiring.cluster.items()})


def _device(wiring: Wiring) -> str:
    return f"/job:{wiring.job}/task:{wiring.index}"
