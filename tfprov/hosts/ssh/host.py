"""A host over SSH: commands, streams and port forwards, all on one connection.

Everything here raises HostError or Unreachable, one line that names the host. A connection that was lost is made anew by
the next call; whoever was using it is told that the outcome is unknown.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from tfprov.errors import HostError, one_line, shown
from tfprov.hosts.bounds import FIRST_LINE, LOGIN, TooMuch, stays_open
from tfprov.hosts.ssh.client_config import Target
from tfprov.hosts.ssh.connection import Link
from tfprov.hosts.ssh.errors import ConnectionLost, TimedOut, talking
from tfprov.hosts.ssh.exec import ECHO, Completed, Input, NoCommands, Run, complaint, endless
from tfprov.hosts.ssh.http_gate import Gate
from tfprov.hosts.ssh.local_forward import LocalForward, channel_to
from tfprov.hosts.ssh.shell import command_line, holding
from tfprov.hosts.ssh.stream import Stream

_SUSPECT = 3.0
"""Seconds of silence after which it is asked whether the account runs commands at all."""


class Hold:
    """A command that lives exactly as long as this object is open; `said` is the first line that it printed.

    It ends with the connection too, however that ends.
    """

    def __init__(self, stream: Stream, said: str) -> None:
        self._stream = stream
        self.said = said

    @property
    def alive(self) -> bool:
        """Whether the command still runs, as far as is known here."""
        return self._stream.open

    def wait(self, seconds: float) -> int:
        """Return the exit code of a command that has ended by itself. Raises TimedOut after `seconds`."""
        return self._stream.wait(seconds)

    def complaint(self) -> str:
        """Return what it printed on its standard error, on one line."""
        return self._stream.complaint()

    def close(self) -> None:
        """End the command; a second time does nothing."""
        self._stream.close()

    def __enter__(self) -> "Hold":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _closed(begun: "Future[Link]") -> None:
    """Close a connection that nobody needed."""
    if begun.exception() is None:
        begun.result().close()


class SSH:
    """The host that `target` describes. Nothing is connected before it is needed; all methods are safe in any thread."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._begun: Future[Link] | None = None
        self._let_go: list[Callable[[], None]] = []
        self._closed = False
        self._runs_commands = False

    @property
    def user(self) -> str:
        """Return the name that was logged in with; before that, the inventory's, which may be empty."""
        return self._link.user if self._link else self.target.user or ""

    @property
    def host(self) -> str:
        """Return the host's name in the inventory."""
        return self.target.name

    def begin(self, pool: Executor) -> None:
        """Start to connect in `pool`; the first who needs the connection waits for it, and is told how it went."""
        self._begun = pool.submit(Link, self.target, self._let_go)

    def open(self) -> Link:
        """Connect, unless that is done already. Raises Unreachable."""
        with self._lock:
            if self._closed:
                raise HostError(self.host, "the connection was closed")
            if self._link is None or not self._link.alive:
                if self._link is not None:
                    self._link.close()
                begun, self._begun = self._begun, None
                self._link = begun.result() if begun else Link(self.target, self._let_go)
            return self._link

    def close(self) -> None:
        """Close the connection and all that runs over it; a second time does nothing."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
            begun, self._begun = self._begun, None
        if link is not None:
            link.close()
        if begun is not None and not begun.cancel():
            begun.add_done_callback(_closed)

    def __enter__(self) -> "SSH":
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
        """Run `argv` to its end and return what became of it; every argument arrives as it is.

        `input` is sent to its standard input. Raises TimedOut after `timeout` seconds (default: the target's limit;
        math.inf for none), which does not end the command on the host; ConnectionLost when the outcome is unknown.
        """
        limit = self.target.command_timeout if timeout is None else timeout
        with self.stream(argv, sudo=sudo) as stream:
            done = Run(stream, input).completed(limit)
        asked = [line for line in done.stderr.splitlines() if line.startswith(b"sudo: ")]
        if sudo and done.code == 1 and asked:
            fix = (
                f"allow {self.user or 'this user'} to use sudo without a password (NOPASSWD), or unset `ansible_become`"
            )
            raise HostError(self.host, one_line(asked[0].decode("utf-8", errors="replace")), fix)
        return done

    def stream(self, argv: Sequence[str], *, sudo: bool = False) -> Stream:
        """Start `argv` and return its standard input and output as a stream, which the caller closes."""
        doing = f"`{shown(' '.join(argv))}`"
        link, channel, give = self._session()
        stream = Stream(link, channel, doing, give)
        try:
            with talking(self.host, doing):
                channel.exec_command(command_line(argv, sudo=sudo))
        except ValueError as error:
            stream.close()
            raise HostError(self.host, f"{doing}: {error}") from error
        except HostError as error:
            stream.close()
            raise link.lost(doing) from error
        return stream

    def _session(self) -> tuple[Link, Any, Callable[[], None]]:
        """Return a new session with its connection and what gives its slot back.

        A connection that turns out to be gone is made anew: nothing was asked of it yet.
        """
        link = self.open()
        try:
            return *link.session(self.target.command_timeout), link.slots.give
        except ConnectionLost:
            if link.alive:
                raise
        link = self.open()
        return *link.session(self.target.command_timeout), link.slots.give

    def hold(self, argv: Sequence[str], *, sudo: bool = False, timeout: float | None = None) -> Hold:
        """Start `argv`, which shall live as long as what is returned, and wait until it prints a line, or ends.

        Its standard input is empty. Raises TimedOut when it has done neither after `timeout` seconds.
        """
        stream = self.stream(holding(argv), sudo=sudo)
        try:
            stream.settimeout(self.target.command_timeout if timeout is None else timeout)
            said = self.patiently(stream, partial(stream.makefile("rb", 1).readline, FIRST_LINE))
            stream.settimeout(None)
        except BaseException:
            stream.close()
            raise
        return Hold(stream, said.decode("utf-8", errors="replace").rstrip("\r\n"))

    def try_account(self, timeout: float | None = None) -> None:
        """Connect, and run a command whose output is known. Raises NoCommands where the account does not run it."""
        try:
            done = self.run(ECHO, timeout=timeout)
        except TooMuch as error:
            raise endless(self.host, self.user) from error
        found = complaint(self.host, self.user, done)
        if found is not None:
            raise found
        self._runs_commands = True

    def explained(self, error: HostError) -> HostError:
        """Return why the account runs no commands, where that is what is behind `error`; else `error`.

        For answers that no program would give. A host is asked until it has answered well once.
        """
        if self._runs_commands or isinstance(error, ConnectionLost):
            return error
        try:
            self.try_account(min(LOGIN, self.target.command_timeout))
        except NoCommands as found:
            return found
        except HostError:  # it says less than what is known already
            return error
        return error

    def patiently(self, stream: Stream, receive: Callable[[], bytes]) -> bytes:
        """Return what `receive` reads first from `stream`, within the stream's own limit.

        A shell that a start-up file has put in place of the command waits for more: what is silent for a moment is
        looked into. Raises NoCommands, or what `receive` raises.
        """
        limit = stream.gettimeout()
        if self._runs_commands or (limit is not None and limit <= _SUSPECT):
            return receive()
        stream.settimeout(_SUSPECT)
        try:
            return receive()
        except TimedOut as error:
            if (found := self.explained(error)) is not error:
                raise found from error
        finally:
            stream.settimeout(limit)
        return receive()

    @contextmanager
    def reverse_forward(self, serve: Callable[[Stream], None]) -> Iterator[int]:
        """Yield a port on the host's loopback; every connection to it is given to `serve`, in a thread of its own.

        The connection is closed when `serve` returns. Raises ForwardingForbidden when sshd does not allow it.
        """
        link = self.open()
        with link.forwards.listening(serve) as port:
            yield port

    @contextmanager
    def local_forward(self, address: str, port: int, at: int = 0, *, gate: Gate) -> Iterator[int]:
        """Yield a port on this machine's loopback that leads to `address:port` as the host sees it: `at`, or any for 0.

        It carries HTTP, and lets through whom `gate` lets in. Raises ForwardingForbidden when sshd does not allow it; that
        nothing listens there is seen by who connects.
        """
        with LocalForward(self.open, address, port, at, gate=gate) as forward:
            yield forward.port

    def answers(self, address: str, port: int) -> bool:
        """Return whether something serves at `address:port` as the host sees it. Raises ForwardingForbidden."""
        channel = channel_to(self.open(), address, port)
        if channel is None:
            return False
        try:
            return stays_open(channel)
        finally:
            channel.close()

    def on_shortage(self, let_go: Callable[[], None]) -> None:
        """Call `let_go` when all sessions are taken: it closes those that it keeps for later."""
        self._let_go.append(let_go)
