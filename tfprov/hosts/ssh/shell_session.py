"""A login shell, or a command, on a host through tfprov's own SSH connection, with this terminal."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, Queue
from typing import Any

from tfprov.hosts.docker.exec import forward_output
from tfprov.hosts.ssh.errors import channel_errors
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.shell import join
from tfprov.hosts.terminal import ExecMode, attach, window_size

_READ = 64 * 1024
WAITING = 32
"""Pieces of output that wait to be written. Beyond them the host waits, as it does behind ssh."""


class ShellSession:
    """A RemoteProgram on a host, with or without a terminal."""

    def __init__(self, ssh: SSHHost, channel: Any, mode: ExecMode) -> None:
        self._ssh, self._channel, self._mode = ssh, channel, mode

    def send(self, data: bytes) -> None:
        """See RemoteProgram."""
        with channel_errors(self._ssh.host, "the session"):
            self._channel.sendall(data)

    def end_input(self) -> None:
        """See RemoteProgram."""
        with channel_errors(self._ssh.host, "the session"):
            self._channel.shutdown_write()

    def resize(self, rows: int, columns: int) -> None:
        """See RemoteProgram."""
        with channel_errors(self._ssh.host, "the session"):
            self._channel.resize_pty(columns, rows)

    def output(self) -> Iterator[tuple[int, bytes]]:
        """See RemoteProgram."""
        pieces: Queue[tuple[int, bytes]] = Queue(WAITING)
        is_over = threading.Event()
        for descriptor, receive in ((1, self._channel.recv), (2, self._channel.recv_stderr)):
            threading.Thread(target=_read, args=(descriptor, receive, pieces, is_over), daemon=True).start()
        ended = 0
        try:
            while ended < 2:
                descriptor, data = pieces.get()
                if data:
                    yield descriptor, data
                else:
                    ended += 1
        finally:
            is_over.set()
            with suppress(Empty):  # room for threads that wait for it
                while True:
                    pieces.get_nowait()


def _read(descriptor: int, receive: Any, pieces: "Queue[tuple[int, bytes]]", is_over: threading.Event) -> None:
    try:
        while not is_over.is_set() and (data := receive(_READ)):
            pieces.put((descriptor, data))
    except OSError:  # the connection ended: the exit code says so
        pass
    finally:
        pieces.put((descriptor, b""))


def run_session(ssh: SSHHost, command: Sequence[str], mode: ExecMode) -> int:
    """Run the login shell, or `command`, with this terminal or standard input; return its exit code."""
    channel, release = ssh.open_session()
    try:
        with channel_errors(ssh.host, "the session"):
            if mode.tty:
                rows, columns = window_size(0) or (24, 80)
                channel.get_pty(os.environ.get("TERM") or "xterm", columns, rows)
            if command:
                channel.exec_command(join(command))
            else:
                channel.invoke_shell()
        attach(ShellSession(ssh, channel, mode), mode, forward_output)
        with channel_errors(ssh.host, "the session"):
            code = channel.recv_exit_status()
        if code < 0:
            raise ssh.open().channel_error("the session")
        return int(code)
    finally:
        channel.close()
        release()
