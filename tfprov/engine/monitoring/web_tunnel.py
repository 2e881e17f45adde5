"""A task that people reach over HTTP: a TensorBoard, a model server or a notebook.

Its host, the local port that is forwarded to it, and whether it answers.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tfprov.engine.context import Context
from tfprov.engine.monitoring.failures import ended, last_log
from tfprov.engine.monitoring.watch import Watch
from tfprov.engine.observe import observe
from tfprov.errors import HostError, TaskFailed, Usage
from tfprov.hosts.ssh.http_gate import TokenGate
from tfprov.model.state import Container, Observation, State
from tfprov.results import WebServer

if TYPE_CHECKING:
    from tfprov.hosts.ssh.host import SSHHost

_ASK = 0.5
"""Seconds between two requests until it answers: it takes several to start."""
_LOOK = 2.0
"""Seconds between two observations of a task that is open."""
_HTTP = 5.0
"""Seconds for an answer to one request."""
_ANY = "0.0.0.0"  # noqa: S104  compared with, not bound
_TOKEN_FILE = ".tfprov-notebook-token"  # noqa: S105  a name, of `tfprov.runtime.notebook`
_MAX_TOKEN = 1024
"""Bytes of it that are read."""


@dataclass(frozen=True)
class WebTask:
    """A task that answers at `address` and `port`, seen from this machine. `token` is that of a notebook."""

    container: Container
    address: str
    port: int
    gate: TokenGate | None = None
    """Checks the token of requests to another host; every user of this machine can reach a task on it."""
    path: str = ""
    token: str = ""

    @property
    def url(self) -> str:
        """The URL to open in a browser."""
        query = self.gate.query() if self.gate else ""
        if self.token:
            query += f"{'&' if query else '?'}{urlencode({'token': self.token})}"
        return f"http://{self.address}:{self.port}/{self.path}{query}"


@contextmanager
def open_web_task(context: Context, job: str, port: int | None = None) -> Iterator[WebTask]:
    """Yield the cluster's task of `job` once it answers; the port forward lasts as long as the block.

    `port` of this machine is forwarded to a remote host; by default the same port, or a free one. Raises Usage without
    such a task in the inventory, or for a `port` that needs no forward, and TaskFailed if it does not run or answer.
    """
    container = _wanted(context, job)
    _check(context, container, observe(context, hosts={container.task.host}))
    with _forward(context, container, port) as opened:
        _wait(context, opened)
        token = _notebook_token(context, container) if job == "notebook" else ""
        yield replace(opened, token=token, path=_model_path(container) if job == "serving" else "")


def _model_path(container: Container) -> str:
    """Return the path of a model server's answer about its model; its address alone has none."""
    flag = "--model_name="
    name = next((word.removeprefix(flag) for word in container.argv if word.startswith(flag)), None)
    return f"v1/models/{name}" if name else ""


@contextmanager
def open_web_server(context: Context, job: str, port: int | None) -> Iterator[WebServer]:
    """Yield the cluster's task of `job` as callers of the API see it; see `open_web_task`."""
    with open_web_task(context, job, port) as opened:
        task = opened.container.task
        yield WebServer(task.name, task.host, opened.url, lambda: stay(context, opened))


def _notebook_token(context: Context, container: Container) -> str:
    """Return the token that the notebook wrote; empty for a command of the user's, which has a token of its own."""
    try:
        tree = context.runtimes[container.task.host].outside.tree(container.task.name, _TOKEN_FILE)
        contents = [stream.read(_MAX_TOKEN) for _, _, stream in tree.files]
    except HostError:
        return ""
    return contents[0].decode("ascii", "replace").strip() if contents else ""


def stay(context: Context, opened: WebTask) -> None:
    """Block until the task ends, and raise TaskFailed then; reports when its host is lost and when it is back."""
    host = opened.container.task.host
    with Watch(replace(context, runtimes={host: context.runtimes[host]})) as watch:
        while True:
            observation = watch.look()
            if host in observation.hosts:
                _check(context, opened.container, observation)
            context.clock.sleep(_LOOK)


def _wanted(context: Context, job: str) -> Container:
    wanted = next((container for container in context.wanted if container.task.job == job), None)
    if wanted is None:
        fix = f"add the group `{job}` with the chief's host to the inventory, and run `tfprov up`"
        raise Usage(f"cluster {context.cluster.name} has no {job}", fix)
    return wanted


def _check(context: Context, container: Container, observation: Observation) -> None:
    """Raise when the task is not there or does not run."""
    name = container.task.name
    observed = next(
        (one for one in observation.containers() if (one.task, one.host) == (name, container.task.host)), None
    )
    if observed is None:
        raise TaskFailed(name, f"is not there on {container.task.host}; start it with `tfprov up`")
    if observed.state is not State.RUNNING:
        log = () if observed.stopped or observed.finished else last_log(context, name, observed.host)
        raise TaskFailed(name, f"does not run: {ended(observed)}; start it with `tfprov up`", log)


@contextmanager
def _forward(context: Context, container: Container, port: int | None) -> Iterator[WebTask]:
    """Forward a port to the task on another host, and yield its address; it may not answer yet."""
    task, options = container.task, container.docker
    address = options.address if options else task.address
    address = "127.0.0.1" if address == _ANY else address
    ssh = _connection(context, task.host)
    if ssh is None and port not in (None, task.port):
        fix = "open that, or set `port` of the role in the inventory"
        raise Usage(f"{task.name} is on this machine and serves at http://{address}:{task.port}/", fix)
    if ssh is None:
        yield WebTask(container, address, task.port)
    else:
        gate = TokenGate()
        with ssh.local_forward(address, task.port, _free(task.port) if port is None else port, gate=gate) as here:
            yield WebTask(container, "127.0.0.1", here, gate)


def _connection(context: Context, host: str) -> "SSHHost | None":
    """Return the SSH connection to a host; None for this machine."""
    machine = context.machines.get(host)
    if machine is None:
        return None
    from tfprov.hosts.machine import SSHMachine  # noqa: PLC0415  the process runtime can do without the SSH library

    return machine.ssh if isinstance(machine, SSHMachine) else None


def _free(port: int) -> int:
    """Return `port` if it is free on this machine, else 0 for any."""
    from tfprov.hosts.process.proc import port_owner  # noqa: PLC0415

    try:
        return port if port_owner("127.0.0.1", port) is None else 0
    except OSError:  # a privileged port
        return 0


def _wait(context: Context, opened: WebTask) -> None:
    """Return when the task answers; TaskFailed if it ends first or exceeds its `start_timeout`."""
    task, limit = opened.container.task, opened.container.start_timeout
    deadline = context.clock.now() + limit
    while not _answers(opened):
        _check(context, opened.container, observe(context, hosts={task.host}))
        if context.clock.now() > deadline:
            what = f"does not answer at {task.endpoint} after {limit} s"
            raise TaskFailed(task.name, what, last_log(context, task.name, task.host))
        context.clock.sleep(_ASK)


def _answers(opened: WebTask) -> bool:
    connection = http.client.HTTPConnection(opened.address, opened.port, timeout=_HTTP)
    try:
        headers = {"Cookie": opened.gate.cookie(opened.port)} if opened.gate else {}
        connection.request("GET", "/", headers=headers)
        return connection.getresponse().status < http.client.INTERNAL_SERVER_ERROR
    except (OSError, http.client.HTTPException, HostError):
        return False
    finally:
        connection.close()
