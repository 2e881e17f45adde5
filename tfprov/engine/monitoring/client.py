"""The TF_CONFIG of a client outside of a cluster of bare servers (`strategy: standalone`)."""

import socket

from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import TaskFailed, Usage
from tfprov.model.cluster import is_loopback
from tfprov.model.state import State
from tfprov.wiring import STANDALONE, Wiring, to_tf_config

_CLIENT = "chief"
"""The job under which TensorFlow's coordinators join a cluster."""


def client_config(context: Context, port: int, address: str | None = None) -> str:
    """Return TF_CONFIG for a client that listens on `port` of this machine, which the servers reach as `address`.

    By default that is the address from which this machine reaches the first server. Raises Usage for another strategy, and
    TaskFailed if a server does not run.
    """
    strategy = context.wanted[0].strategy
    if strategy != STANDALONE:
        what = f"the tasks of `strategy: {strategy}` have programs of their own, and no client"
        raise Usage(what, f"set `strategy: {STANDALONE}` for servers that a client drives")
    _check(context)
    spec = context.cluster.spec
    first = next(iter(spec.values()))[0].rpartition(":")[0]
    own = address or (first if is_loopback(first) else own_address(first))
    return to_tf_config(Wiring(_CLIENT, 0, {_CLIENT: (f"{own}:{port}",), **spec}))


def _check(context: Context) -> None:
    running = {c.task for c in observe(context).containers() if c.state is State.RUNNING}
    missing = next((task.name for task in context.cluster.tasks if task.trains and task.name not in running), None)
    if missing is not None:
        raise TaskFailed(missing, "does not run; start it with `tfprov up`")


def own_address(server: str) -> str:
    """Return the address of this machine from which it would send to `server`; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((server, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise Usage(f"this machine has no route to {server}: {error.strerror}", "use --address") from None
