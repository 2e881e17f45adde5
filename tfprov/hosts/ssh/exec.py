"""Run a command on a host: send its input and read its output concurrently, and explain accounts that run no commands."""

import math
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tfprov.errors import HostError, Unreachable, one_line, printable
from tfprov.hosts import bounds
from tfprov.hosts.ssh.errors import TimedOut
from tfprov.hosts.ssh.stream import Stream

_READ = 1024 * 1024
Input = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Completed:
    """The result of a command. `code` is 128 + N after signal N."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output; invalid UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def error_text(self) -> str:
        """Standard error on one line, for a message."""
        return one_line(self.stderr.decode("utf-8", errors="replace"))


class RunningCommand:
    """Sends `stdin` to the program of `stream` and collects its output."""

    def __init__(self, stream: Stream, stdin: Input | None) -> None:
        self._stream = stream
        self._out = bounds.BoundedBuffer(bounds.COMMAND_OUTPUT, self._overflow_error("output"))
        self._err = bounds.BoundedBuffer(bounds.COMMAND_ERRORS, self._overflow_error("standard error"))
        self._failure: BaseException | None = None
        readers = (
            lambda: self._read_into(stream.recv, self._out),
            lambda: self._read_into(stream.recv_stderr, self._err),
        )
        self._readers = [self._start_thread(reader) for reader in readers]
        if stdin:
            self._start_thread(lambda: self._feed(stdin))
        else:
            stream.shutdown_write()

    def wait(self, timeout: float) -> Completed:
        """Wait up to `timeout` seconds for the end. Raises TimedOut, TooMuch, ConnectionLost, errors of `stdin`."""
        deadline = time.monotonic() + timeout
        code = self._wait_for_exit(timeout)
        for reader in self._readers:
            reader.join(None if math.isinf(timeout) else max(0.0, deadline - time.monotonic()))
            if reader.is_alive():
                raise self._timeout_error(timeout)
        if self._failure is not None:
            raise self._failure
        return Completed(code, bytes(self._out), bytes(self._err))

    def _wait_for_exit(self, timeout: float) -> int:
        try:
            return self._stream.wait(timeout)
        except TimedOut:
            raise self._timeout_error(timeout) from None
        except HostError as error:
            raise self._failure or error from error

    def _timeout_error(self, timeout: float) -> TimedOut:
        problem = f"{self._stream.action} did not end within {timeout:g} s, and may still be running"
        return TimedOut(self._stream.host, problem)

    def _start_thread(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name="tfprov-ssh-run", daemon=True)
        thread.start()
        return thread

    def _overflow_error(self, output: str) -> Callable[[int], bounds.OutputTooLong]:
        fix = "look at the start-up files of its login shell, such as ~/.bashrc"
        return lambda limit: bounds.too_much_error(
            self._stream.host, f"the {output} of {self._stream.action}", limit, fix
        )

    def _read_into(self, receive: Callable[[int], bytes], buffer: bounds.BoundedBuffer) -> None:
        try:
            while data := receive(_READ):
                buffer.append(data)
        except bounds.OutputTooLong as error:
            self._failure = error
            self._stream.close()
        except HostError:  # the connection ended: wait() reports it
            return

    def _feed(self, stdin: Input) -> None:
        try:
            for piece in (stdin,) if isinstance(stdin, bytes) else stdin:
                self._stream.sendall(piece)
            self._stream.shutdown_write()
        except HostError:  # the program stopped reading: its exit code tells whether that is an error
            return
        except Exception as error:
            self._failure = error
            self._stream.close()


PROBE = ("printf", "%s-%s\\n", "tfprov", "asks")
"""Prints a word that is not in the command: some forced commands repeat the command when they refuse it."""
_PROBE_OUTPUT = b"tfprov-asks"

_ACCOUNT_ERRORS: tuple[tuple[str, str, str], ...] = (
    (
        r"account is currently not available|account is (currently )?disabled|\bnologin\b",
        "the account {user} has no login shell (`{text}`)",
        "set one on the host: `chsh -s /bin/bash {user}`, or correct `ansible_user`",
    ),
    (
        r"git-shell|interactive git shell|fatal: unrecognized command",
        "the login shell of {user} is git-shell, which runs only Git's commands",
        "set another one on the host: `chsh -s /bin/bash {user}`, or correct `ansible_user`",
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
        "the login shell of {user} is not a Unix shell (`{text}`)",
        "use a host with Linux, or OpenSSH's DefaultShell set to a POSIX shell",
    ),
    (
        r"restricted",
        "the login shell of {user} is restricted, like rbash (`{text}`)",
        "set another one on the host: `chsh -s /bin/bash {user}`, or correct `ansible_user`",
    ),
    (
        r"\bsh: (command )?not found|\bsh: no such file",
        "{user} has no `sh` in its PATH (`{text}`)",
        "correct PATH in the start-up files of its login shell (~/.bashrc)",
    ),
)
"""Pattern (case-insensitive), problem, fix. The first match decides."""


class AccountUnusable(Unreachable):
    """Login succeeded, but the account does not run commands as sent."""


def account_error(host: str, user: str, completed: Completed) -> AccountUnusable | None:
    """Return why `user` cannot run commands, judged by the result of PROBE; None if it ran as sent."""
    lines = completed.stdout.splitlines()
    if lines == [_PROBE_OUTPUT]:
        return None
    if _PROBE_OUTPUT in lines:
        extra_output = one_line(
            b" ".join(line for line in lines if line != _PROBE_OUTPUT).decode("utf-8", errors="replace")
        )
        problem = f"a start-up file of {user}'s login shell prints `{printable(extra_output)}` before every command"
        fix = "let it print only in a terminal: `case $- in *i*) ;; *) return ;; esac` as first line of ~/.bashrc"
        return AccountUnusable(host, problem, fix)
    text = one_line((completed.stdout + b"\n" + completed.stderr).decode("utf-8", errors="replace"))
    if not text:
        return AccountUnusable(host, *_silent_login(user, completed.code))
    for pattern, problem, fix in _ACCOUNT_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            values = {"user": user, "text": printable(text)}
            return AccountUnusable(host, problem.format(**values), fix.format(**values))
    problem = f"the account {user} does not run the command it is sent: it prints `{printable(text)}` and ends with"
    fix = "look at its ~/.bashrc, and for a forced command: `command=` in authorized_keys, ForceCommand in sshd_config"
    return AccountUnusable(host, f"{problem} exit code {completed.code}", fix)


def endless_output_error(host: str, user: str) -> AccountUnusable:
    """Return the error for an account whose login shell prints more than COMMAND_OUTPUT before any command."""
    problem = f"the login shell of {user} prints without end before every command"
    return AccountUnusable(
        host, problem, "look at its start-up files, such as ~/.bashrc: they must print only in a terminal"
    )


def _silent_login(user: str, code: int) -> tuple[str, str]:
    """Return problem and fix for a login without output: the exit code only tells which cause is more likely."""
    problem = f"the login shell of {user} ends with exit code {code} before it runs a command, and prints nothing"
    shell = f"the account has no shell (/bin/false): `chsh -s /bin/bash {user}`"
    file = "a start-up file exits, or starts another shell: take `exit` or `exec` out of ~/.bashrc"
    first, second = (shell, file) if code == 1 else (file, shell)
    return problem, f"either {first}; or {second}"
