"""The output of a program on a host, between its channel and this terminal."""

import threading
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.waiting import until
from tfprov.hosts.ssh.shell_session import WAITING, ShellSession, run_session
from tfprov.hosts.terminal import NO_INPUT

PIECES = 5000
SSH: Any = None  # an output needs none


class Channel:
    """Sends PIECES pieces as fast as they are read; `ahead` is how many more of them than `written` were ever read."""

    def __init__(self, end: Callable[[], bytes] = bytes) -> None:
        self.received = self.written = self.ahead = 0
        self._end = end

    def recv(self, _size: int) -> bytes:
        if self.received == PIECES:
            return self._end()
        self.received += 1
        self.ahead = max(self.ahead, self.received - self.written)
        return b"%d" % self.received

    def recv_stderr(self, _size: int) -> bytes:
        return b""


def lost() -> bytes:
    raise OSError("the connection ended")


@pytest.mark.parametrize("end", [bytes, lost])
def test_a_program_that_prints_faster_than_it_is_read_waits(end: Callable[[], bytes]) -> None:
    channel = Channel(end)
    for _, data in ShellSession(SSH, channel, NO_INPUT).output():
        channel.written += 1
        assert data == b"%d" % channel.written
    assert channel.written == PIECES
    assert channel.ahead <= WAITING + 2, "one is being read, and one being written"


def test_output_that_nobody_reads_to_its_end_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    channel = Channel()
    output = cast("Generator[tuple[int, bytes]]", ShellSession(SSH, channel, NO_INPUT).output())
    assert next(output) == (1, b"1")
    until(lambda: channel.received > WAITING, "the thread waits for room")
    output.close()
    until(lambda: before.issuperset(threading.enumerate()), "it has ended")
    assert channel.received < PIECES


class CommandChannel:
    """Takes one command, which prints nothing and ends with 3."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def exec_command(self, line: str) -> None:
        self.lines.append(line)

    def recv(self, _size: int) -> bytes:
        return b""

    recv_stderr = recv

    def recv_exit_status(self) -> int:
        return 3

    def close(self) -> None:
        self.lines.append("closed")


def test_a_command_is_quoted_for_any_login_shell() -> None:
    channel = CommandChannel()
    ssh: Any = SimpleNamespace(host="h1", open_session=lambda: (channel, lambda: channel.lines.append("released")))
    assert run_session(ssh, ["grep", "\\d", "a b"], NO_INPUT) == 3
    assert channel.lines == ["grep \\\\d 'a b'", "closed", "released"]
