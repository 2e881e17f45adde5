"""A host over SSH: commands, streams and port forwards, on one connection.

Every error is a HostError of one line that names the host. The next call replaces a lost connection; calls that were
using it raise ConnectionLost, as their outcome is unknown.
"""

import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from tfprov.errors import HostError, one_line, printable
from tfprov.hosts.base import peer_is_listening
from tfprov.hosts.bounds import FIRST_LINE, LOGIN_TIMEOUT, OutputTooLong
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.connection import Connection
from tfprov.hosts.ssh.errors import ConnectionLost, TimedOut, channel_errors
from tfprov.hosts.ssh.exec import (
    PROBE,
    AccountUnusable,
    Completed,
    Input,
    RunningCommand,
    account_error,
    endless_output_error,
)
from tfprov.hosts.ssh.http_gate import TokenGate
from tfprov.hosts.ssh.local_forward import LocalForward, open_direct_channel, open_unix_stream
from tfprov.hosts.ssh.shell import command_line, held_command
from tfprov.hosts.ssh.stream import Stream
from tfprov.hosts.trace import traced

_SUSPICIOUS_SILENCE = 3.0
"""Seconds without output after which the account is checked."""


class HeldCommand:
    """A command that runs until `close`; `first_line` is the first line of its output.

    It also ends with the connection, including after a loss.
    """

    def __init__(self, stream: Stream, first_line: str) -> None:
        self._stream = stream
        self.first_line = first_line

    @property
    def alive(self) -> bool:
        """Whether the command runs, as far as is known to this side."""
        return self._stream.is_open

    def wait(self, seconds: float) -> int:
        """Return the exit code of a command that exits by itself. Raises TimedOut after `seconds`."""
        return self._stream.wait(seconds)

    def error_text(self) -> str:
        """Return its standard error on one line."""
        return self._stream.error_text()

    def close(self) -> None:
        """End the command. Idempotent."""
        self._stream.close()

    def __enter__(self) -> "HeldCommand":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_result(future: "Future[Connection]") -> None:
    """Close a connection that became ready after its host was closed."""
    if future.exception() is None:
        future.result().close()


class SSHHost:
    """The host of `target`, connected on first use. Thread-safe."""

    def __init__(self, target: SSHTarget) -> None:
        self.target = target
        self._connecting = threading.Lock()  # held while a host is waited for; `close` needs the other one alone
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._pending: Future[Connection] | None = None
        self._release_idle: list[Callable[[], None]] = []
        self._closed = False
        self._runs_commands = False

    @property
    def user(self) -> str:
        """The user name of the login; before it, the inventory's, which may be empty."""
        return self._connection.user if self._connection else self.target.user or ""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""
        return self.target.name

    def connect_in(self, pool: Executor) -> None:
        """Connect in a thread of `pool`; the first call that needs the connection waits for it and raises its error."""
        self._pending = pool.submit(Connection, self.target, self._release_idle)

    def open(self) -> Connection:
        """Return the connection, connecting if there is none. Raises Unreachable."""
        with self._connecting:
            with self._lock:
                is_closed, connection, pending = self._closed, self._connection, self._pending
                if is_closed:
                    raise HostError(self.host, "the connection was closed")
                if connection is not None and connection.alive:
                    return connection
                self._pending = None
            if connection is not None:
                connection.close()
            connection = pending.result() if pending else Connection(self.target, self._release_idle)
            with self._lock:
                if not self._closed:
                    self._connection = connection
                    return connection
            connection.close()
            raise HostError(self.host, "the connection was closed")

    def close(self) -> None:
        """Close the connection with all its channels; one that is being opened is closed then. Idempotent."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            pending, self._pending = self._pending, None
        if connection is not None:
            connection.close()
        if pending is not None and not pending.cancel():
            pending.add_done_callback(_close_result)

    def __enter__(self) -> "SSHHost":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        argv: Sequence[str],
        *,
        input: Input | None = None,  # noqa: A002  as in subprocess.run
        timeout: float | None = None,
        sudo: bool = False,
    ) -> Completed:
        """Run `argv` to its end; arguments need no quoting.

        `input` is sent to its standard input. Raises TimedOut after `timeout` seconds (default: the target's
        `command_timeout`; math.inf for none), which does not end the command on the host, and ConnectionLost.
        """
        limit = self.target.command_timeout if timeout is None else timeout
        with traced(self.host, f"ssh: {printable(shlex.join(argv))}"), self.stream(argv, sudo=sudo) as stream:
            completed = RunningCommand(stream, input).wait(limit)
        sudo_errors = [line for line in completed.stderr.splitlines() if line.startswith(b"sudo: ")]
        if sudo and completed.code == 1 and sudo_errors:
            fix = (
                f"allow {self.user or 'this user'} to use sudo without a password (NOPASSWD), or unset `ansible_become`"
            )
            raise HostError(self.host, one_line(sudo_errors[0].decode("utf-8", errors="replace")), fix)
        return completed

    def stream(self, argv: Sequence[str], *, sudo: bool = False) -> Stream:
        """Start `argv` and return its standard input and output as a stream. The caller closes it."""
        action = f"`{printable(' '.join(argv))}`"
        connection, channel, release = self._open_session()
        stream = Stream(connection, channel, action, release)
        try:
            with channel_errors(self.host, action):
                channel.exec_command(command_line(argv, sudo=sudo))
        except ValueError as error:
            stream.close()
            raise HostError(self.host, f"{action}: {error}") from error
        except HostError as error:
            stream.close()
            raise connection.channel_error(action) from error
        return stream

    def unix_stream(self, path: str) -> Stream | None:
        """Return a stream to the unix socket at `path`, which takes no session; None if sshd cannot connect to it."""
        return open_unix_stream(self.open(), path)

    def _open_session(self) -> tuple[Connection, Any, Callable[[], None]]:
        """Return connection, new session channel, and the function that releases its slot.

        Replaces a lost connection once: no request was sent over it yet.
        """
        connection = self.open()
        try:
            return *connection.open_session(self.target.command_timeout), connection.session_slots.release
        except ConnectionLost:
            if connection.alive:
                raise
        connection = self.open()
        return *connection.open_session(self.target.command_timeout), connection.session_slots.release

    def open_session(self) -> tuple[Any, Callable[[], None]]:
        """Return a new session channel, and the function that gives its place back."""
        _, channel, release = self._open_session()
        return channel, release

    def hold(self, argv: Sequence[str], *, sudo: bool = False, timeout: float | None = None) -> HeldCommand:
        """Start `argv`, wait for its first line of output or its end, and keep it running until the result is closed.

        Its standard input is empty. Raises TimedOut if there is neither after `timeout` seconds.
        """
        stream = self.stream(held_command(argv), sudo=sudo)
        try:
            stream.settimeout(self.target.command_timeout if timeout is None else timeout)
            first_line = self.receive_first(stream, partial(stream.makefile("rb", 1).readline, FIRST_LINE))
            stream.settimeout(None)
        except BaseException:
            stream.close()
            raise
        return HeldCommand(stream, first_line.decode("utf-8", errors="replace").rstrip("\r\n"))

    def check_account(self, timeout: float | None = None) -> None:
        """Connect and run a command with known output. Raises AccountUnusable if the account does not run it."""
        try:
            completed = self.run(PROBE, timeout=timeout)
        except OutputTooLong as error:
            raise endless_output_error(self.host, self.user) from error
        problem = account_error(self.host, self.user, completed)
        if problem is not None:
            raise problem
        self._runs_commands = True

    def explain(self, error: HostError) -> HostError:
        """Return AccountUnusable if that is the cause of `error`, else `error`.

        For malformed output of a command. An account is checked until it has passed once.
        """
        if self._runs_commands or isinstance(error, ConnectionLost):
            return error
        try:
            self.check_account(min(LOGIN_TIMEOUT, self.target.command_timeout))
        except AccountUnusable as cause:
            return cause
        except HostError:  # less specific than `error`
            return error
        return error

    def receive_first(self, stream: Stream, receive: Callable[[], bytes]) -> bytes:
        """Return the first `receive()` of `stream`, within the stream's own timeout.

        A shell that a start-up file runs instead of the command waits for input without output, so a silent stream leads
        to a check of the account. Raises AccountUnusable, or the errors of `receive`.
        """
        limit = stream.gettimeout()
        if self._runs_commands or (limit is not None and limit <= _SUSPICIOUS_SILENCE):
            return receive()
        stream.settimeout(_SUSPICIOUS_SILENCE)
        try:
            return receive()
        except TimedOut as error:
            if (cause := self.explain(error)) is not error:
                raise cause from error
        finally:
            stream.settimeout(limit)
        return receive()

    @contextmanager
    def remote_forward(self, serve: Callable[[Stream], None]) -> Iterator[int]:
        """Yield a port of the host's loopback; `serve` is called with each connection to it, in a thread of its own.

        The connection is closed when `serve` returns. Raises ForwardingForbidden if sshd does not allow the forward.
        """
        connection = self.open()
        with connection.forwards.listen(serve) as port:
            yield port

    @contextmanager
    def local_forward(self, address: str, port: int, local_port: int = 0, *, gate: TokenGate) -> Iterator[int]:
        """Yield a port of this machine's loopback that forwards HTTP to `address:port` as seen from the host.

        It is `local_port`, or any free port for 0; `gate` refuses requests without its token. Raises ForwardingForbidden
        if sshd does not allow the forward. If nothing listens at the destination, connections are closed.
        """
        with LocalForward(self.open, address, port, local_port, gate=gate) as forward:
            yield forward.port

    def is_listening(self, address: str, port: int) -> bool:
        """Whether something listens at `address:port` as seen from the host. Raises ForwardingForbidden."""
        channel = open_direct_channel(self.open(), address, port)
        if channel is None:
            return False
        try:
            return peer_is_listening(channel)
        finally:
            channel.close()

    def on_shortage(self, release_idle: Callable[[], None]) -> None:
        """Register `release_idle`, called when all sessions are taken, to close idle ones."""
        self._release_idle.append(release_idle)
