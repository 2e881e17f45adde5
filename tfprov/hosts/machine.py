"""A host's Docker engine, commands and port forwards: `SSHMachine` over SSH, `LocalMachine` on this machine.

Methods raise only HostError and its subclasses.
"""

import contextlib
import shlex
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tfprov.errors import HostError
from tfprov.hosts.base import peer_is_listening
from tfprov.hosts.docker.engine import LOCAL, Engine
from tfprov.hosts.docker.engine_api.host_dial import DOCKER
from tfprov.hosts.link_rate import measure_link
from tfprov.hosts.ssh.errors import ConnectionLost, ForwardingForbidden
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.trace import traced

CONNECT = 2.0
"""Seconds to connect between hosts of one cluster, which share a network."""


Serve = Callable[[Any], None]
"""Called in a thread of its own with a connected socket or a Stream, which is closed when it returns."""


class Machine(Protocol):
    """One host with a Docker engine."""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""

    @property
    def engine(self) -> Engine:
        """The host's Docker engine."""

    def remote_forward(self, serve: Serve) -> AbstractContextManager[int]:
        """Yield a port of the host's loopback; `serve` is called with each connection to it.

        Raises ForwardingForbidden if the host's sshd does not allow it.
        """

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> tuple[int, str]:
        """Run a program on the host, as root with `ansible_become`; return its exit code and output."""

    def is_listening(self, address: str, port: int) -> bool:
        """Whether a program listens at `address:port`, as seen from the host."""

    def link_rate(self) -> float | None:
        """Measure how many bytes a second the host receives, in some 0.3 s; None for this machine, or if unknown."""

    def close(self) -> None:
        """Close all connections to the host."""


class SSHMachine:
    """A host over SSH."""

    def __init__(self, ssh: SSHHost, docker: Sequence[str] = DOCKER) -> None:
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
        completed = self.ssh.run(argv, timeout=timeout, sudo=self.ssh.target.become)
        return completed.code, (completed.stdout + completed.stderr).decode("utf-8", errors="replace")

    def is_listening(self, address: str, port: int) -> bool:
        """See Machine. If sshd forbids forwarding, a shell on the host connects; it cannot recognize an idle proxy."""
        try:
            return self.ssh.is_listening(address, port)
        except ConnectionLost:
            # No answer within the connect timeout, as with a firewall that drops packets. open() raises if the host itself
            # is lost.
            self.ssh.open()
            return False
        except ForwardingForbidden:
            script = 'exec 3<>"/dev/tcp/$0/$1" && { IFS= read -r -t 1 -n 1 -u 3; [ $? -ne 1 ]; }'
            return self.ssh.run(["timeout", "3", "bash", "-c", script, address, str(port)]).code == 0

    def link_rate(self) -> float | None:
        """See Machine. None for an account that does not run the program."""
        return measure_link(self.ssh)

    def close(self) -> None:
        """See Machine."""
        self.engine.close()
        self.ssh.close()


class LocalMachine:
    """This machine, by its name in the inventory."""

    def __init__(self, host: str, path: Path = LOCAL) -> None:
        self.host = host
        self.engine = Engine.local(host, path)

    @contextmanager
    def remote_forward(self, serve: Serve) -> Iterator[int]:
        """See Machine. The host's loopback is this machine's."""

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
            with traced(self.host, shlex.join(argv)):
                completed = subprocess.run(
                    list(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=timeout
                )
        except subprocess.TimeoutExpired:
            raise HostError(self.host, f"`{argv[0]}` did not end within {timeout:g} s") from None
        except OSError as error:
            return 127, f"{argv[0]}: {error.strerror}"
        return completed.returncode, (completed.stdout + completed.stderr).decode("utf-8", errors="replace")

    def is_listening(self, address: str, port: int) -> bool:
        """See Machine."""
        return is_listening(address, port)

    def link_rate(self) -> None:
        """See Machine."""

    def close(self) -> None:
        """See Machine."""
        self.engine.close()


def is_listening(address: str, port: int) -> bool:
    """Whether a server listens at `address` and `port` as this machine sees it."""
    try:
        with socket.create_connection((address, port), CONNECT) as connection:
            return peer_is_listening(connection)
    except OSError:
        return False
