"""How a program joins its cluster: what it is told about itself, its server, and the tasks that only serve."""

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from tfprov.runtime.graph.task import Task, cluster_spec
from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.signals import Signals, die
from tfprov.wiring import FLAGS_VARIABLE, OUTSIDE, Wiring, WiringError, from_flags, from_names, from_tf_config

CHECKPOINT_DIR = "TFPROV_CHECKPOINT_DIR"
ALONE = Wiring("worker", 0)
"""A program without flags and without TF_CONFIG: the chief of nobody."""


def join(
    argv: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    in_graph: bool = False,
    config: Any = None,
) -> Task:
    """Start this task's server and return the task; a ps serves here until a signal ends it.

    The four flags are read from `argv` (default: sys.argv), under the names that TFPROV_FLAGS in `environ` or, before
    it, `names` gives them, else TF_CONFIG from `environ`. A program with one client, the chief, for all workers says
    `in_graph`: then the workers serve here as well. Eager execution is switched off: the graph API is what ps and
    workers share. A wiring that cannot be ends the program with code 2, a server that cannot start with code 1.
    `config` is the server's ConfigProto.
    """
    environ = os.environ if environ is None else environ
    wiring = _read_wiring(sys.argv[1:] if argv is None else argv, environ, names)
    faulthandler.register(signal.SIGUSR1, file=2)  # not sys.stderr: in a notebook it is no file
    graph_api().disable_eager_execution()
    directory = environ.get(CHECKPOINT_DIR) or "checkpoints"
    if wiring.job == "ps" or (in_graph and wiring.job == "worker" and not wiring.is_chief):
        _serve(wiring, config)
    return Task(wiring, directory, _server(wiring, config) if wiring.address else None, in_graph)


def _read_wiring(argv: Iterable[str], environ: Mapping[str, str], names: Mapping[str, str] | None) -> Wiring:
    try:
        wiring = parse_wiring(argv, environ, names)
        check_wiring(wiring)
    except WiringError as error:
        die(str(error), 2)
    return wiring


def parse_wiring(argv: Iterable[str], environ: Mapping[str, str], names: Mapping[str, str] | None = None) -> Wiring:
    """Return what the flags say, else what TF_CONFIG says, else ALONE. Raises WiringError for what cannot be read."""
    named = from_names(environ.get(FLAGS_VARIABLE, "")) | dict(names or {})
    return from_flags(argv, named) or from_tf_config(environ.get("TF_CONFIG", "")) or ALONE


def check_wiring(wiring: Wiring) -> None:
    """Raise WiringError for a wiring that names no cluster a program can train in."""
    if not wiring.cluster and not wiring.is_chief and wiring.job not in OUTSIDE:
        raise WiringError(
            f"{wiring.job}/{wiring.index} has no cluster: give --ps_hosts and --worker_hosts, or TF_CONFIG"
        )
    training_tasks = sum(len(addresses) for job, addresses in wiring.cluster.items() if job != "ps")
    if training_tasks > 1 and not wiring.cluster.get("ps"):
        raise WiringError(f"{training_tasks} tasks train and there is no ps to share the variables: give --ps_hosts")
    for address in (address for addresses in wiring.cluster.values() for address in addresses):
        if not (match := re.fullmatch(r"\S+:([0-9]{1,5})", address)) or not 0 < int(match[1]) < 65536:
            raise WiringError(f"{address!r} is not an address: write host:port")


def _serve(wiring: Wiring, config: Any) -> NoReturn:
    """`Server.join` never returns and hears no signal; the server works without it for as long as it is referenced."""
    if config is None and wiring.job == "ps":
        # Variables live in the ps's memory; a GPU would only be taken from a worker on the same machine.
        config = graph_api().ConfigProto(device_count={"GPU": 0})
    with Signals().handled():
        server = _server(wiring, config)
        while server:
            time.sleep(3600)
    raise AssertionError("a ps ends by a signal")


def _server(wiring: Wiring, config: Any) -> Any:
    v1 = graph_api()
    try:
        return v1.train.Server(cluster_spec(wiring), wiring.job, wiring.index, protocol="grpc", config=config)
    except v1.errors.OpError as error:
        reason = next(iter(str(error).splitlines()), "unknown reason")
        die(f"{wiring.job}/{wiring.index} cannot serve at {wiring.address}: {reason}")
