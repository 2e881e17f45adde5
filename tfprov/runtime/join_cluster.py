"""Join a task to its cluster: read its wiring, and run its server."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.signals import Signals, die
from tfprov.wiring import FLAGS_VARIABLE, OUTSIDE, Wiring, WiringError, from_flags, from_names, from_tf_config

CHECKPOINT_DIR = "TFPROV_CHECKPOINT_DIR"
ALONE = Wiring("worker", 0)
"""The wiring of a program without flags and without TF_CONFIG: a chief without a cluster."""


@dataclass(frozen=True)
class ClusterTask:
    """One task of the cluster: what tasks of TF1 and TF2 programs have in common."""

    wiring: Wiring
    checkpoint_dir: str

    @property
    def name(self) -> str:
        """Such as `worker/1`."""
        return f"{self.wiring.job}/{self.wiring.index}"

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises, saves and reports."""
        return self.wiring.is_chief

    @property
    def is_alone(self) -> bool:
        """Whether it is the whole training: no ps, no other worker, no evaluator."""
        return not self.is_evaluator and sum(map(len, self.wiring.cluster.values())) <= 1

    @property
    def is_evaluator(self) -> bool:
        """Whether it evaluates the checkpoints of the training; see `evaluate`."""
        return self.wiring.job == "evaluator"


def read_wiring(
    check: Callable[[Wiring], None],
    argv: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Wiring:
    """Return the wiring of this task; end the program with code 2 if it is invalid, also by `check`.

    From here on, SIGUSR1 prints the stacks of all threads, and so does a crash of native code, such as TensorFlow's.
    """
    faulthandler.register(signal.SIGUSR1, file=2)  # not sys.stderr: in a notebook it is no file
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2)
    try:
        wiring = parse_wiring(sys.argv[1:] if argv is None else argv, os.environ if environ is None else environ, names)
        check(wiring)
    except WiringError as error:
        die(str(error), 2)
    return wiring


def parse_wiring(argv: Iterable[str], environ: Mapping[str, str], names: Mapping[str, str] | None = None) -> Wiring:
    """Return the wiring in the flags, else in TF_CONFIG, else ALONE. Raises WiringError for one that cannot be parsed."""
    flag_names = {**from_names(environ.get(FLAGS_VARIABLE, "")), **(names or {})}
    return from_flags(argv, flag_names) or from_tf_config(environ.get("TF_CONFIG", "")) or ALONE


def check_cluster(wiring: Wiring, source: str = "TF_CONFIG") -> None:
    """Raise WiringError for an invalid address, and for a worker or ps without a cluster; `source` is where it is read."""
    if not wiring.cluster and not wiring.is_chief and wiring.job not in OUTSIDE:
        raise WiringError(f"{wiring.job}/{wiring.index} has no cluster: give {source}")
    for address in (address for addresses in wiring.cluster.values() for address in addresses):
        if not (match := re.fullmatch(r"\S+:([0-9]{1,5})", address)) or not 0 < int(match[1]) < 65536:
            raise WiringError(f"{address!r} is not an address: write host:port")


def checkpoint_dir(environ: Mapping[str, str] | None = None) -> str:
    """Return the directory of this task's files."""
    return (os.environ if environ is None else environ).get(CHECKPOINT_DIR) or "checkpoints"


def cluster_spec(wiring: Wiring) -> Any:
    """Return TensorFlow's ClusterSpec of the cluster."""
    return graph_api().train.ClusterSpec({job: list(addresses) for job, addresses in wiring.cluster.items()})


def start_server(wiring: Wiring, config: Any = None) -> Any:
    """Start the server of this task with the ConfigProto `config`; end the program with code 1 if it cannot start."""
    v1 = graph_api()
    try:
        return v1.train.Server(cluster_spec(wiring), wiring.job, wiring.index, protocol="grpc", config=config)
    except v1.errors.OpError as error:
        reason = next(iter(str(error).splitlines()), "unknown reason")
        die(f"{wiring.job}/{wiring.index} cannot serve at {wiring.address}: {reason}")


def serve(wiring: Wiring, config: Any) -> NoReturn:
    """Serve until a signal. `Server.join` handles none; the server runs without it for as long as it is referenced."""
    with Signals().handled():
        server = start_server(wiring, config)
        while server:
            time.sleep(3600)
    raise AssertionError("a server ends by a signal")


def ps_devices(wiring: Wiring) -> dict[str, Any]:
    """Return the ConfigProto fields of a ps: its variables are in memory; a GPU would only be taken from a worker."""
    return {"device_count": {"GPU": 0}} if wiring.job == "ps" else {}
