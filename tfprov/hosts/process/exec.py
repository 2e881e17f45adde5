"""A program beside a task of this machine: it inherits this process's terminal, or its standard input."""

import signal
import subprocess
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
        code = _wait(subprocess.Popen(list(argv), env=dict(env), cwd=directory, stdin=stdin))
    return code if code >= 0 else 128 - code


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Return the code of a program, which after Ctrl-C or SIGTERM ends by itself: subprocess.run() would kill it."""
    try:
        return process.wait()
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, Terminated):  # a terminal sends Ctrl-C to both
            process.terminate()
        process.wait()
        raise
    finally:
        process.kill()  # after a second Ctrl-C; nothing if it has ended


@contextmanager
def _left_to_the_program() -> Iterator[None]:
    """Leave Ctrl-C to the program. Handlers, unlike an ignored signal, are not inherited by it."""
    before = {number: signal.signal(number, lambda *_: None) for number in _KEYS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
