"""A host as delivery, `check` and the docker runtime see it: its engine, its own commands, and ways through its network.

`Remote` is a host over SSH, `Here` this machine. Everything raises HostError or Unreachable and nothing else.
"""

import contextlib
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tfprov.errors import HostError
from tfprov.hosts.bounds import peer_is_listening
from tfprov.hosts.docker.engine import DOCKER, LOCAL, Engine
from tfprov.hosts.ssh.errors import ConnectionLost, ForwardingForbidden
from tfprov.hosts.ssh.host import SSH

CONNECT = 2.0
"""Seconds for a TCP connection between hosts of one cluster; they are in one network."""


class Connection(Protocol):
    """What sockets and the channels of an SSH connection have in common."""

    def recv(self, size: int, /) -> bytes: ...  # noqa: D102
    def sendall(self, data: bytes, /) -> None: ...  # noqa: D102
    def settimeout(self, seconds: float | None, /) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


Serve = Callable[[Any], None]
"""Is given a Connection, in a thread of its own, and returns when it is done with it."""


class Machine(Protocol):
    """One host with a Docker engine."""

    @property
    def host(self) -> str:
        """Its name in the inventory."""

    @property
    def engine(self) -> Engine:
        """Its Docker engine."""

    def remote_forward(self, serve: Serve) -> AbstractContextManager[int]:
        """Yield a port on the host's loopback whose connections are given to `serve`.

        Raises ForwardingForbidden when the host's sshd does not allow it.
        """

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> tuple[int, str]:
        """Run a program on the host, as root where `ansible_become` says so; return its exit code and all it printed."""

    def serves(self, address: str, port: int) -> bool:
        """Whether something serves at `address:port`, seen from the host."""

    def close(self) -> None:
        """End all connections to it."""


class Remote:
    """A host over SSH."""

    def __init__(self, ssh: SSH, docker: Sequence[str] = DOCKER) -> None:
        self.ssh = ssh
        self.engine = Engine.over(ssh, docker)

    @property
    def host(self) -> str:
        """See Machine."""
        return self.ssh.host

    def remote_forward(self, serve: Serve) -> AbstractContextManager[int]:
        """See Machine."""
        return self.ssh.remote_forward(serve)

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> tuple[int, str]:
        """See Machine."""
        done = self.ssh.run(argv, timeout=timeout, sudo=self.ssh.target.become)
        return done.code, (done.stdout + done.stderr).decode("utf-8", errors="replace")

    def serves(self, address: str, port: int) -> bool:
        """See Machine. Where sshd forwards nothing, a shell of the host connects, and cannot tell an idle proxy apart."""
        try:
            return self.ssh.is_listening(address, port)
        except ConnectionLost:
            # No answer within the time of a connection, as where a firewall drops packets; unless it is the host itself
            # that is gone, which opening it anew tells.
            self.ssh.open()
            return False
        except ForwardingForbidden:
            script = 'exec 3<>"/dev/tcp/$0/$1" && { IFS= read -r -t 1 -n 1 -u 3; [ $? -ne 1 ]; }'
            return self.ssh.run(["timeout", "3", "bash", "-c", script, address, str(port)]).code == 0

    def close(self) -> None:
        """See Machine."""
        self.engine.close()
        self.ssh.close()


class Here:
    """This machine, under the name the inventory gives it."""

    def __init__(self, host: str, path: Path = LOCAL) -> None:
        self.host = host
        self.engine = Engine.local(host, path)

    @contextmanager
    def remote_forward(self, serve: Serve) -> Iterator[int]:
        """See Machine: the host's loopback is ours."""

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        with Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield server.server_address[1]
            finally:
                server.shutdown()

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> tuple[int, str]:
        """See Machine."""
        try:
            done = subprocess.run(
                list(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise HostError(self.host, f"`{argv[0]}` is not done after {timeout:g} s") from None
        except OSError as error:
            return 127, f"{argv[0]}: {error.strerror}"
        return done.returncode, (done.stdout + done.stderr).decode("utf-8", errors="replace")

    def serves(self, address: str, port: int) -> bool:
        """See Machine."""
        return _answers(address, port)

    def close(self) -> None:
        """See Machine."""
        self.engine.close()


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), CONNECT) as connection:
            return peer_is_listening(connection)
    except OSError:
        return False
