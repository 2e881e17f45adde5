"""One command on a host, from its start to its end: fed and read at the same time, so that neither side waits."""

import math
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tfprov.errors import HostError, Unreachable, one_line, shown
from tfprov.hosts import bounds
from tfprov.hosts.ssh.errors import TimedOut
from tfprov.hosts.ssh.stream import Stream

_READ = 1024 * 1024
Input = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Completed:
    """A command that ended. `code` is 128 + N after signal N; the outputs are the bytes that it printed."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Return the standard output; what is not UTF-8 shows as U+FFFD."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def complaint(self) -> str:
        """Return the standard error on one line, for a message."""
        return one_line(self.stderr.decode("utf-8", errors="replace"))


class Run:
    """Feeds `given` to the program behind `stream` and collects what it prints."""

    def __init__(self, stream: Stream, given: Input | None) -> None:
        self._stream = stream
        self._out = bounds.Kept(bounds.COMMAND_OUTPUT, self._too_much("output"))
        self._err = bounds.Kept(bounds.COMMAND_ERRORS, self._too_much("standard error"))
        self._failure: BaseException | None = None
        readers = (lambda: self._collect(stream.recv, self._out), lambda: self._collect(stream.recv_errors, self._err))
        self._readers = [self._start(reader) for reader in readers]
        if given:
            self._start(lambda: self._feed(given))
        else:
            stream.shutdown_write()

    def completed(self, limit: float) -> Completed:
        """Wait up to `limit` seconds for the end. Raises TimedOut, TooMuch, ConnectionLost, and what the input raised."""
        deadline = time.monotonic() + limit
        code = self._wait(limit)
        for reader in self._readers:
            reader.join(None if math.isinf(limit) else max(0.0, deadline - time.monotonic()))
            if reader.is_alive():
                raise self._late(limit)
        if self._failure is not None:
            raise self._failure
        return Completed(code, bytes(self._out), bytes(self._err))

    def _wait(self, limit: float) -> int:
        try:
            return self._stream.wait(limit)
        except TimedOut:
            raise self._late(limit) from None
        except HostError as error:
            raise self._failure or error from error

    def _late(self, limit: float) -> TimedOut:
        what = f"{self._stream.doing} did not end within {limit:g} s, and may still be running"
        return TimedOut(self._stream.host, what)

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="tfprov-ssh-run", daemon=True)
        thread.start()
        return thread

    def _too_much(self, what: str) -> Callable[[int], bounds.TooMuch]:
        fix = "look at the start-up files of its login shell, such as ~/.bashrc"
        return lambda limit: bounds.too_much(self._stream.host, f"the {what} of {self._stream.doing}", limit, fix)

    def _collect(self, receive: Callable[[int], bytes], kept: bounds.Kept) -> None:
        try:
            while data := receive(_READ):
                kept.take(data)
        except bounds.TooMuch as error:
            self._failure = error
            self._stream.close()
        except HostError:  # the end of the connection: wait() says so
            return

    def _feed(self, given: Input) -> None:
        try:
            for piece in (given,) if isinstance(given, bytes) else given:
                self._stream.sendall(piece)
            self._stream.shutdown_write()
        except HostError:  # the program did not read to the end: its exit code says what that means
            return
        except Exception as error:
            self._failure = error
            self._stream.close()


ECHO = ("printf", "%s-%s\\n", "tfprov", "asks")
"""Prints a word that is not part of the command, which some forced commands print in their refusal."""
_WORD = b"tfprov-asks"

_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"account is currently not available|account is (currently )?disabled|\bnologin\b",
        "the account {user} has no login shell (`{text}`)",
        "give it one there: `chsh -s /bin/bash {user}`, or correct `ansible_user`",
    ),
    (
        r"git-shell|interactive git shell|fatal: unrecognized command",
        "the login shell of {user} is git-shell, which runs only Git's commands",
        "give the account another one there: `chsh -s /bin/bash {user}`, or correct `ansible_user`",
    ),
    (
        r"sftp connections only|only sftp|scponly|rssh",
        "its sshd allows {user} only to copy files (`{text}`)",
        "remove `ForceCommand internal-sftp` for this user from its sshd_config, or correct `ansible_user`",
    ),
    (
        r"password (has )?expired|change your password|password change required",
        "the password of {user} has expired (`{text}`)",
        "log in there once and change it, or lift the limit: `chage -M -1 {user}`",
    ),
    (
        r"is not recognized",
        "the login shell of {user} is none of Unix (`{text}`)",
        "use a host with Linux, or OpenSSH's DefaultShell set to a POSIX shell",
    ),
    (
        r"restricted",
        "the login shell of {user} is a restricted one, as rbash (`{text}`)",
        "give the account another one there: `chsh -s /bin/bash {user}`, or correct `ansible_user`",
    ),
    (
        r"\bsh: (command )?not found|\bsh: no such file",
        "{user} has no `sh` in its PATH (`{text}`)",
        "correct PATH in the start-up files of its login shell (~/.bashrc)",
    ),
)
"""Pattern in lower or upper case, what to say, how to mend it. The first that fits decides."""


class NoCommands(Unreachable):
    """The host was reached, and its account runs no commands as they are sent."""


def complaint(host: str, user: str, done: Completed) -> NoCommands | None:
    """Return what is in the way of commands of `user`, by what became of ECHO; None when they run as they are sent."""
    lines = done.stdout.splitlines()
    if lines == [_WORD]:
        return None
    if _WORD in lines:
        others = one_line(b" ".join(line for line in lines if line != _WORD).decode("utf-8", errors="replace"))
        what = f"a start-up file of {user}'s login shell prints `{shown(others)}` before every command"
        fix = "let it print only in a terminal: `case $- in *i*) ;; *) return ;; esac` as first line of ~/.bashrc"
        return NoCommands(host, what, fix)
    text = one_line((done.stdout + b"\n" + done.stderr).decode("utf-8", errors="replace"))
    if not text:
        return NoCommands(host, *_silent(user, done.code))
    for pattern, what, fix in _KNOWN:
        if re.search(pattern, text, re.IGNORECASE):
            facts = {"user": user, "text": shown(text)}
            return NoCommands(host, what.format(**facts), fix.format(**facts))
    what = f"the login of {user} does not run the command that it is sent: it prints `{shown(text)}` and ends with"
    fix = "look at its ~/.bashrc, and for a forced command: `command=` in authorized_keys, ForceCommand in sshd_config"
    return NoCommands(host, f"{what} exit code {done.code}", fix)


def endless(host: str, user: str) -> NoCommands:
    """Return the error for an account whose login prints more than is read, whatever it was asked to do."""
    what = f"the login shell of {user} prints without end before every command"
    return NoCommands(host, what, "look at its start-up files, such as ~/.bashrc: they must print only in a terminal")


def _silent(user: str, code: int) -> tuple[str, str]:
    """Return what a login without a word can be: the exit code tells which is likely, and not more."""
    what = f"the login shell of {user} ends with exit code {code} before it runs a command, and prints nothing"
    shell = f"the account has no shell (/bin/false): `chsh -s /bin/bash {user}`"
    file = "a start-up file exits, or starts another shell: take `exit` or `exec` out of ~/.bashrc"
    first, second = (shell, file) if code == 1 else (file, shell)
    return what, f"either {first}; or {second}"
