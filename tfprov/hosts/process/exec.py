"""A program beside a task of this machine: it inherits this process's terminal, or its standard input."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tfprov.errors import Terminated
from tfprov.hosts.terminal import ExecMode, kept_terminal

_KEYS = (signal.SIGINT, signal.SIGQUIT)
"""The signals of Ctrl-C and Ctrl-\\, which a terminal sends to tfprov as well."""


def run(argv: Sequence[str], env: Mapping[str, str], directory: Path, mode: ExecMode) -> int:
    """Run `argv` in `directory`; return its exit code, 128 + N after signal N. Raises OSError."""
    with ExitStack() as stack:
        if mode.tty:
            stack.enter_context(kept_terminal(0, raw=False))
            stack.enter_context(_left_to_the_program())
        stdin = None if mode.stdin or mode.tty else subprocess.DEVNULL
        code = _run_to_its_end(argv, env, directory, stdin)
    return code if code >= 0 else 128 - code


def _run_to_its_end(argv: Sequence[str], env: Mapping[str, str], directory: Path, stdin: int | None) -> int:
    """Return the code of a program, which after Ctrl-C or SIGTERM ends by itself: subprocess.run() would kill it."""
    process = None
    try:
        with _interrupts_held_back():
            process = subprocess.Popen(list(argv), env=dict(env), cwd=directory, stdin=stdin)
        return process.wait()
    except KeyboardInterrupt as interrupt:
        if process:
            if isinstance(interrupt, Terminated):  # a terminal sends Ctrl-C to both
                process.terminate()
            process.wait()
        raise
    finally:
        if process:
            process.kill()  # after a second Ctrl-C; nothing if it has ended


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold back what interrupts tfprov until the block has ended: in the middle of Popen(), it would lose the process.

    Handlers, unlike a mask, are not inherited by the program; a signal that is ignored, as under nohup, remains so. Other
    threads than the main one are not interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda number, _frame: arrived.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for one in arrived:
        signal.raise_signal(one)


@contextmanager
def _left_to_the_program() -> Iterator[None]:
    """Leave Ctrl-C to the program. Handlers, unlike an ignored signal, are not inherited by it."""
    before = {number: signal.signal(number, lambda *_: None) for number in _KEYS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
