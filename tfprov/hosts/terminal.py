"""Connects this terminal, or standard input alone, with a program on a host: keys, output, the window's size."""

import fcntl
import os
import selectors
import signal
import struct
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from tfprov.errors import HostError

_READ = 64 * 1024


@dataclass(frozen=True)
class ExecMode:
    """What of this process a program is connected with: standard input, and a terminal."""

    stdin: bool = False
    tty: bool = False


NO_INPUT = ExecMode()
"""Output only."""


class RemoteProgram(Protocol):
    """A program that runs on a host."""

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises HostError, or OSError, once it does not read any more."""

    def end_input(self) -> None:
        """Close its standard input."""

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal."""

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Yield its output until its end, as the descriptor (1 or 2) and bytes."""


def window_size(descriptor: int) -> tuple[int, int] | None:
    """Return rows and columns of a terminal; None for one without a size."""
    try:
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return None
    return (rows, columns) if rows and columns else None


@contextmanager
def kept_terminal(descriptor: int, *, raw: bool) -> Iterator[None]:
    """Restore the settings of a terminal at the end, whatever happens; `raw` passes every key on, also Ctrl-C."""
    before = termios.tcgetattr(descriptor)
    try:
        if raw:
            tty.setraw(descriptor)
        yield
    finally:
        # Not TCSAFLUSH: what is typed ahead belongs to the shell.
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def attach(program: RemoteProgram, mode: ExecMode, write: Callable[[int, bytes], object]) -> None:
    """Pass keys and data on to `program`, and its output to `write`, until its output ends."""
    with ExitStack() as stack:
        if mode.tty:
            stack.enter_context(kept_terminal(0, raw=True))
        if mode.stdin or mode.tty:
            stack.enter_context(_input(program, mode))
        for descriptor, data in program.output():
            write(descriptor, data)


@contextmanager
def _input(program: RemoteProgram, mode: ExecMode) -> Iterator[None]:
    """Have a thread send standard input, and the window's size whenever it changes."""
    wake, waker = os.pipe()
    with _on_resize(waker) if mode.tty else nullcontext():
        thread = threading.Thread(target=_send, args=(program, mode, wake), name="tfprov-input", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.write(waker, b"q")
            thread.join(1.0)  # it may be sending to a program that does not read
    os.close(waker)


@contextmanager
def _on_resize(waker: int) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def resized(_number: int, _frame: FrameType | None) -> None:
        os.write(waker, b"w")

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _send(program: RemoteProgram, mode: ExecMode, wake: int) -> None:
    """Send standard input until it ends, or `q` comes from `wake`; `w` is a change of the window."""
    try:
        _send_input(program, mode, wake)
    except (HostError, OSError):
        with suppress(HostError, OSError):
            program.end_input()  # a program that still runs would wait for it for ever


def _send_input(program: RemoteProgram, mode: ExecMode, wake: int) -> None:
    with selectors.DefaultSelector() as selector:
        _resize(program, mode)
        selector.register(wake, selectors.EVENT_READ)
        with suppress(PermissionError):  # a file is always ready, and epoll refuses it
            selector.register(0, selectors.EVENT_READ)
        is_file = len(selector.get_map()) == 1
        reads = mode.stdin
        while True:
            ready = {key.fd for key, _ in selector.select(0 if is_file and reads else None)}
            if wake in ready:
                if b"q" in os.read(wake, 64):
                    return
                _resize(program, mode)
            if reads and (is_file or 0 in ready):
                data = os.read(0, _READ)
                if data:
                    program.send(data)
                    continue
                reads = False
                program.end_input()
                if not is_file:
                    selector.unregister(0)


def _resize(program: RemoteProgram, mode: ExecMode) -> None:
    if mode.tty and (size := window_size(0)) is not None:
        program.resize(*size)
