"""Command lines for a host's shell, which receives every argument unchanged."""

import shlex
from collections.abc import Sequence

_RUN_SCRIPT = '"$@"; exit $?'
_HOLD_SCRIPT = """exec 3<&0
"$@" </dev/null 3<&- & child=$!
(trap '' TERM; cat <&3; kill 0; sleep 2; kill -9 0) >/dev/null 2>&1 & watch=$!
exec 3<&-
wait "$child"; code=$?
kill -9 "$watch"
exit "$code"
"""
"""Runs "$@" until it ends or standard input does. sshd gives every session its own process group: kill 0 ends it, and
kill -9 what ignored SIGTERM. The watcher keeps neither output open, so that the channel ends with the program."""


def quote(word: str) -> str:
    """Return a word quoted for a login shell: sh, fish or csh. In fish, a backslash within quotes is special, too."""
    return "\\\\".join(shlex.quote(part) if part else "" for part in word.split("\\")) or "''"


def join(argv: Sequence[str]) -> str:
    """Return words quoted for a login shell."""
    return " ".join(map(quote, argv))


def command_line(argv: Sequence[str], *, sudo: bool = False) -> str:
    """Return `argv` quoted for the login shell, to be run by `sh`; as root with `sudo`.

    `sh` stays the parent so that the exit code is 128 + N after signal N: paramiko does not read sshd's exit-signal
    message. The arguments arrive as "$@", so that none is taken for an option, a keyword or an assignment. Raises
    ValueError for a null byte.
    """
    command = ["sudo", "-n", "--", *argv] if sudo else argv
    if any("\0" in word for word in command) or not argv:
        raise ValueError("a command must not be empty, or hold a null byte")
    return f"exec {join(['sh', '-c', _RUN_SCRIPT, 'sh', *command])}"


def held_command(argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` until its own standard input is closed."""
    return ["sh", "-c", _HOLD_SCRIPT, "sh", *argv]
