"""Runs a program in a container, and not again after exit codes that a restart would repeat.

    python -m tfprov.runtime.restart_gate [--only CODE,CODE] [--never CODE,CODE] -- PROGRAM [ARGUMENT...]

An engine restarts a container after every exit code but 0. After a code that is to end the task, this leaves a mark in the
container's own /tmp, which outlives its restarts, and from then on ends with the same code at once, until the engine gives
up. A new container has no mark. Signals are passed on to the program.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tfprov.runtime.mirror.task import WAITED, wait

MARK = Path("/tmp/.tfprov-not-again")  # noqa: S108  of the container
"""The file with the exit code after which the program is not run again."""


def main(argv: Sequence[str], mark: Path = MARK, say: Callable[[str], object] = sys.stderr.write) -> int:
    """Run the program of the command line; return its exit code."""
    options, command = list(argv[: argv.index("--")]), list(argv[argv.index("--") + 1 :])
    if (code := _marked(mark)) is not None:
        return code
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)
    try:
        pid = os.posix_spawnp(command[0], command, dict(os.environ), setsigmask=before, setsigdef=[signal.SIGPIPE])
        code, _ = wait(pid, group=False)
    except OSError as error:
        say(f"tfprov: {command[0]} cannot be started: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    only, never = _codes(options, "--only"), _codes(options, "--never")
    if code and ((only and code not in only) or code in never):
        say(f"tfprov: the program ended with exit code {code}, after which it is not run again\n")
        try:
            mark.write_text(str(code))
        except OSError as error:
            say(f"tfprov: {mark}: {error.strerror}: the engine runs it again\n")
    return code


def _marked(mark: Path) -> int | None:
    try:
        return int(mark.read_text())
    except (OSError, ValueError):
        return None


def _codes(options: Sequence[str], name: str) -> frozenset[int]:
    text = options[options.index(name) + 1] if name in options else ""
    return frozenset(int(code) for code in text.split(",") if code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
