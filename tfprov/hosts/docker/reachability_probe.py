"""Throw-away containers that stand in for tasks: one that listens where a task will, and one that connects as a task would.

They are made from the task's own image, with the same network and the same rights. Each is removed by who made it, at the
latest by `sweep`, and ends by itself after two minutes: what a controller that was killed leaves is gone soon.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docker

from tfprov.errors import HostError, one_line
from tfprov.hosts import bounds
from tfprov.hosts.docker import api_types
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine

CHECK, ROUND = "tfprov.check", "tfprov.check.round"
"""Label them with the cluster's name and a word for each round: not with a task's labels, so nobody takes them for one."""

Labels = Mapping[str, str]

LIFE = 120
"""Seconds until one ends by itself."""
CONNECT = 4.0
"""Seconds for a connection: enough for a lost packet to be sent again."""
PATIENCE = 10.0
"""Seconds in which a listener must have begun to answer, on a host that is busy."""

_PYTHON = "python3"
LISTEN = """
import os, socket, sys, threading
port, words, life = int(sys.argv[1]), sys.argv[2].encode(), float(sys.argv[3])
threading.Timer(life, os._exit, (0,)).start()
def greet(connection):
    try:
        connection.settimeout(5)
        connection.sendall(words + b"\\n")
        connection.recv(1)
    except OSError:
        pass
    connection.close()
if not port:
    threading.Event().wait()
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", port))
listener.listen(128)
while True:
    threading.Thread(target=greet, args=listener.accept()[:1], daemon=True).start()
"""
"""Greets everyone on a port; on port 0, only waits."""

PROBE = """
import errno, json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor
targets, limit, patience = json.loads(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
ways = {errno.EHOSTUNREACH: "no route", errno.ENETUNREACH: "no route", errno.ECONNREFUSED: "refused",
        errno.ETIMEDOUT: "no answer"}
def once(address, port, greeting):
    try:
        connection = socket.create_connection((address, port), limit)
    except socket.gaierror:
        return "no address"
    except socket.timeout:
        return "no answer"
    except OSError as error:
        return ways.get(error.errno) or "error: %s" % error
    with connection:
        connection.settimeout(limit if greeting else 0.5)
        try:
            said = connection.recv(1000)
        except socket.timeout:
            return "silent" if greeting else "ok"
        except OSError:
            return "closed"
        if not said:
            return "closed"
        return "ok" if not greeting or said.decode(errors="replace").strip() == greeting else "other"
def probe(target):
    address, port, greeting = target
    end = time.monotonic() + patience
    while True:
        found = once(address, port, greeting)
        if not greeting or found not in ("refused", "closed", "no route", "silent") or time.monotonic() > end:
            return found
        time.sleep(0.2)
with ThreadPoolExecutor(min(32, len(targets))) as pool:
    print(json.dumps(list(pool.map(probe, targets))))
"""
"""Connects to all at once. What has no greeting is a task, which waits to be spoken to; what has one may still start."""


@dataclass(frozen=True)
class Target:
    """Where to connect to. `greeting` is what the listener there says; a task that runs already has none."""

    address: str
    port: int
    greeting: str = ""


class NoPython(Exception):
    """The image has no Python, so nothing can be tried from inside of it."""


def sweep(engine: Engine, cluster: str, word: str = "") -> None:
    """Remove from a host what was made for `cluster` in the round of `word`, or in any. Raises HostError."""
    ours = [f"{CHECK}={cluster}", *([f"{ROUND}={word}"] if word else [])]
    with engine.errors():
        for found in engine.api.containers(all=True, filters={"label": ours}):
            _remove(engine.api, found["Id"])


def sweep_created(engine: Engine, cluster: str) -> None:
    """Remove from a host what was made for `cluster` and never started: a controller was killed meanwhile."""
    with engine.errors():
        for found in engine.api.containers(all=True, filters={"label": f"{CHECK}={cluster}", "status": "created"}):
            _remove(engine.api, found["Id"])


def _remove(api: docker.APIClient, container: str) -> None:
    try:
        api.remove_container(container, force=True, v=True)
    except docker.errors.APIError as error:
        if error.status_code not in (404, 409):  # one that has just ended is removed by the engine itself
            raise


def listen(engine: Engine, image: str, labels: Labels, *, at: Target, published: str) -> str:
    """Listen on the port of `at` in a container, published on the host's address `published`; return its id.

    Raises NoPython, or HostError when the port cannot be published.
    """
    return _start(engine, image, labels, [str(at.port), at.greeting], {at.port: (published, at.port)})


def prober(engine: Engine, image: str, labels: Labels) -> str:
    """Start the container that `probe` works in, and return its id. Raises NoPython, or HostError."""
    return _start(engine, image, labels, ["0", ""], {})


def _start(engine: Engine, image: str, labels: Labels, arguments: Sequence[str], ports: dict[int | str, Any]) -> str:
    with engine.errors():
        api = engine.api
        made: str = api.create_container(
            image,
            entrypoint=[_PYTHON, "-c", LISTEN],
            command=[*arguments, str(LIFE)],
            labels=dict(labels),
            ports=list(ports),
            host_config=_host_config(api, ports),
        )["Id"]
        try:
            api.start(made)
        except docker.errors.APIError as error:
            _remove(api, made)
            if f'"{_PYTHON}"' in str(error.explanation):
                raise NoPython from error
            raise
    return made


def _host_config(api: docker.APIClient, ports: dict[int | str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = api.create_host_config(
        port_bindings=ports,
        auto_remove=True,  # and no init: it would start, and then not find the program
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=256,
        log_config=docker.types.LogConfig(type="none"),
    )
    return made


def probe(engine: Engine, container: str, targets: Sequence[Target]) -> list[str]:
    """Connect to all of `targets` from inside of a container; return what became of each, in their order.

    That is `ok`, or `refused`, `no answer`, `no route`, `no address`; `closed` and `silent` when the connection came about
    and nobody is there; `other` when somebody else is; `error: …` for the rest. Raises HostError.
    """
    if not targets:
        return []
    told = docker_exec.Printed()
    asked = json.dumps([[target.address, target.port, target.greeting] for target in targets])
    argv = [_PYTHON, "-c", PROBE, asked, str(CONNECT), str(PATIENCE)]
    with engine.errors():
        code = docker_exec.run(engine.api, container, argv, told.take, bounds.ACT)
    if code != 0:
        words = one_line(told[2].decode(errors="replace").strip().rpartition("\n")[2])
        raise HostError(engine.host, f"the image's Python cannot probe: {words or f'exit code {code}'}")
    with engine.errors():
        found: list[str] = api_types.listing(api_types.text)(api_types.parsed(told[1]), "a probe")
        if len(found) != len(targets):
            raise api_types.Nonsense(f"{len(found)} outcomes of {len(targets)} probes")
    return found
