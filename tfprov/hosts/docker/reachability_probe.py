"""Temporary containers in place of tasks, for `check`: listeners on the tasks' ports, and probers that connect to them.

They use the task's image, network and privileges. Their creator removes them, at the latest with `sweep`. They end
by themselves after a time that it chooses, in case the controller is killed.
"""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tfprov.errors import HostError, one_line
from tfprov.hosts import bounds
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api import answers
from tfprov.hosts.docker.engine_api.sdk import docker

CHECK, MAKER = "tfprov.check", "tfprov.check.maker"
"""Labels with the cluster's name and its maker's token; without a task's labels, so that it does not count as a task."""

Labels = Mapping[str, str]

CONNECT_TIMEOUT = 4.0
"""Seconds to connect: enough for a lost packet to be retransmitted."""
LISTENER_TIMEOUT = 10.0
"""Seconds for a listener to start answering on a busy host."""
THREADS = 32
"""Targets to which PROBE connects at the same time."""
_TARGETS = 8 * THREADS
"""Targets of one PROBE: Linux takes 128 KiB as an argument, and its output must come within bounds.ACTION_TIMEOUT."""

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
"""Sends a greeting to every connection on a port; with port 0, only waits."""

PROBE = """
import errno, json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor
targets, limit, patience, threads = [json.loads(argument) for argument in sys.argv[1:]]
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
            received = connection.recv(1000)
        except socket.timeout:
            return "silent" if greeting else "ok"
        except OSError:
            return "closed"
        if not received:
            return "closed"
        return "ok" if not greeting or received.decode(errors="replace").strip() == greeting else "other"
def probe(target):
    address, port, greeting = target
    end = time.monotonic() + patience
    while True:
        outcome = once(address, port, greeting)
        if not greeting or outcome not in ("refused", "closed", "no route", "silent") or time.monotonic() > end:
            return outcome
        time.sleep(0.2)
with ThreadPoolExecutor(min(threads, len(targets))) as pool:
    print(json.dumps(list(pool.map(probe, targets))))
"""
"""Connects to all targets concurrently. A target without greeting is a running task; one with a greeting may still be
starting."""


@dataclass(frozen=True)
class Endpoint:
    """An address to connect to. `greeting` is what its listener sends; empty for a running task."""

    address: str
    port: int
    greeting: str = ""


@dataclass(frozen=True)
class Temporary:
    """What a temporary container is made from; it ends by itself after `lifetime` seconds."""

    image: str
    labels: Labels
    lifetime: int


class NoPython(Exception):
    """The image has no Python, which probing needs."""


def token() -> str:
    """Return the word that identifies the temporary containers of this process."""
    return _token(os.getpid())


@cache
def _token(_pid: int) -> str:
    return secrets.token_hex(8)


def temporary(cluster: str) -> Labels:
    """Return the labels of a temporary container."""
    return {CHECK: cluster, MAKER: token()}


def sweep(engine: Engine, cluster: str, word: str = "") -> None:
    """Remove the temporary containers of `cluster` whose maker has the token `word`, or all. Raises HostError."""
    labels = [f"{CHECK}={cluster}", *([f"{MAKER}={word}"] if word else [])]
    with engine.errors():
        for container in engine.api.containers(all=True, filters={"label": labels}):
            _remove(engine.api, container["Id"])


def sweep_created(engine: Engine, cluster: str) -> None:
    """Remove the containers of `cluster` that a killed controller created and did not start."""
    with engine.errors():
        for container in engine.api.containers(all=True, filters={"label": f"{CHECK}={cluster}", "status": "created"}):
            _remove(engine.api, container["Id"])


def _remove(api: "docker.APIClient", container: str) -> None:
    try:
        api.remove_container(container, force=True, v=True)
    except docker.errors.APIError as error:
        if error.status_code not in (404, 409):  # the engine is removing one that has just ended
            raise


def isolated(program: str) -> list[str]:
    """Return the command of a program that imports nothing from an image's working directory, such as a `json.py`."""
    return [_PYTHON, "-I", "-S", "-c", program]


def listen(engine: Engine, made: Temporary, *, target: Endpoint, published: str) -> str:
    """Start a container that listens on the port of `target`, published on the host's address `published`; return its id.

    Raises NoPython, or HostError if the port cannot be published.
    """
    return _start(engine, made, [str(target.port), target.greeting], {target.port: (published, target.port)})


def start_prober(engine: Engine, made: Temporary) -> str:
    """Start the container for `probe` and return its id. Raises NoPython or HostError."""
    return _start(engine, made, ["0", ""], {})


def _start(engine: Engine, made: Temporary, arguments: Sequence[str], ports: dict[int | str, Any]) -> str:
    with engine.errors():
        api = engine.api
        container_id: str = api.create_container(
            made.image,
            entrypoint=isolated(LISTEN),
            command=[*arguments, str(made.lifetime)],
            labels=dict(made.labels),
            ports=list(ports),
            host_config=temporary_host_config(api, port_bindings=ports, pids_limit=256),
        )["Id"]
        try:
            api.start(container_id)
        except docker.errors.APIError as error:
            _remove(api, container_id)
            if f'"{_PYTHON}"' in str(error.explanation):
                raise NoPython from error
            raise
    return container_id


def temporary_host_config(api: "docker.APIClient", **options: Any) -> dict[str, Any]:
    """Return the options of a container without privileges and log, which is removed when it ends."""
    config: dict[str, Any] = api.create_host_config(
        auto_remove=True,  # no init: it would start before a missing program is noticed
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        log_config=docker.types.LogConfig(type="none"),
        **options,
    )
    return config


def probe(engine: Engine, container: str, targets: Sequence[Endpoint]) -> list[str]:
    """Connect to all of `targets` from inside a container; return the outcomes in their order. Raises HostError.

    `ok`; `refused`, `no answer`, `no route`, `no address`; `closed` or `silent` if the connection was accepted but nothing
    listens behind it; `other` if something else does; `error: …` otherwise.
    """
    parts = (targets[at : at + _TARGETS] for at in range(0, len(targets), _TARGETS))
    return [outcome for part in parts for outcome in _probe(engine, container, part)]


def _probe(engine: Engine, container: str, targets: Sequence[Endpoint]) -> list[str]:
    output = docker_exec.CapturedOutput()
    arguments = json.dumps([[target.address, target.port, target.greeting] for target in targets])
    argv = [*isolated(PROBE), arguments, str(CONNECT_TIMEOUT), str(LISTENER_TIMEOUT), str(THREADS)]
    with engine.errors():
        code = docker_exec.run(engine, container, argv, output.append, bounds.ACTION_TIMEOUT)
    if code != 0:
        message = one_line(output[2].decode(errors="replace").strip().rpartition("\n")[2])
        raise HostError(engine.host, f"the image's Python cannot probe: {message or f'exit code {code}'}")
    with engine.errors():
        outcomes: list[str] = answers.list_of(answers.read_text)(answers.parse_json(output[1]), "a probe")
        if len(outcomes) != len(targets):
            raise answers.MalformedAnswer(f"{len(outcomes)} outcomes of {len(targets)} probes")
    return outcomes
