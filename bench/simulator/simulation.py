"""Runs the processes of simulated hosts: their sshd, their engines, and the link to them."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port
from tests.support.sshd import Sshd
from tests.support.waiting import until

from .faults import Faults
from .server import CLIENT

_SSHD = ("MaxStartups 5000", "MaxSessions 100", "UseDNS no", "LogLevel ERROR")
_ROOT = Path(__file__).parents[2]
_BASHRC = """\
a=${{SSH_CONNECTION% *}}
export DOCKER_HOST=unix://{sockets}/${{a##* }}.sock
unset a DOCKER_CONTEXT
"""
"""What bash reads before a command of sshd: the variables of the host at whose address it was reached."""


@dataclass(frozen=True)
class Simulation:
    """Hosts that answer at `port` of their addresses; nothing listens at `closed_port`. `faults` are by host."""

    server: Sshd
    port: int
    closed_port: int
    faults: Faults


def address_of(host: str) -> str:
    """Return the address of the host `hN` on the loopback."""
    number = int(host[1:])
    return f"127.1.{number // 250}.{number % 250 + 1}"


@contextmanager
def simulated(directory: Path, size: int, latency: float = 0.0, faults: Faults | None = None) -> Iterator[Simulation]:
    """Run the sshd of `size` hosts and the process of all their engines.

    Each engine has a unix socket, to which also the command `docker` leads; with another login shell than bash, hosts have
    only the command. `latency` is the seconds until an answer of a host arrives, half of them in each direction.
    """
    faults = faults or {}
    commands = directory / "commands"
    commands.mkdir(parents=True)
    sockets = directory / "e"
    sockets.mkdir()
    engines = sockets / "docker"
    docker = commands / "docker"
    docker.write_text(CLIENT.format(socket=engines))
    docker.chmod(0o755)
    server = Sshd(directory / "sshd", address="0.0.0.0")  # it can listen on 16 single addresses only
    server.prepare()
    (server.directory / ".bashrc").write_text(_BASHRC.format(sockets=sockets))
    path = f"SetEnv PATH={commands}:/usr/local/bin:/usr/bin:/bin HOME={server.directory} DOCKER_CONTEXT=simulated"
    server.options = (path, *_SSHD)  # of several SetEnv, the first counts
    of_engines = json.dumps({address_of(host): fault for host, fault in faults.items()})
    with (
        socket.socket() as closed,
        _running("bench.simulator.server", str(sockets), of_engines, *(address_of(f"h{n}") for n in range(size))),
    ):
        closed.bind(("0.0.0.0", 0))  # a connection to it is refused as long as it does not listen
        try:
            until(engines.exists, "the engines listen")
            server.start()
            with _link(server, latency) as port:
                yield Simulation(server, port, closed.getsockname()[1], faults)
        finally:
            server.stop()


@contextmanager
def _link(server: Sshd, latency: float) -> Iterator[int]:
    """Yield the port at which `server` answers with a latency."""
    if not latency:
        yield server.port
        return
    port = free_port()
    with _running("bench.simulator.link", str(port), str(server.port), str(latency / 2)):
        until(lambda: _accepts(port), "the link listens")
        yield port


def _accepts(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _running(module: str, *arguments: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=_ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
