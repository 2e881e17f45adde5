"""Words for the shell of a host: every argument arrives as it is, whatever it holds."""

import shlex
from collections.abc import Sequence

_RUN = '"$@"; exit $?'
_HOLD = """exec 3<&0
"$@" </dev/null 3<&- & child=$!
(trap '' TERM; cat <&3; kill 0; sleep 2; kill -9 0) >/dev/null 2>&1 & watch=$!
exec 3<&-
wait "$child"; code=$?
kill -9 "$watch"
exit "$code"
"""
"""Runs "$@" until it ends or standard input does. sshd gives every session a process group of its own: kill 0 ends all of
it, and kill -9 what has not listened. The watcher holds neither output open, so that the channel ends with the program."""


def command_line(argv: Sequence[str], *, sudo: bool = False) -> str:
    """Return `argv` as a line for the login shell, which runs it under `sh` as root with `sudo`.

    `sh` stays between, and so its exit code is 128 + N after signal N: sshd's own message for that is not read by
    paramiko. The words reach it as "$@", where none is taken for an option, a keyword or an assignment. Raises
    ValueError for a null byte, which no argument can hold.
    """
    words = ["sudo", "-n", "--", *argv] if sudo else argv
    if any("\0" in word for word in words) or not argv:
        raise ValueError("a command must not be empty, or hold a null byte")
    return f"exec {shlex.join(['sh', '-c', _RUN, 'sh', *words])}"


def holding(argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` for exactly as long as its own standard input is open."""
    return ["sh", "-c", _HOLD, "sh", *argv]
