"""Accounts whose login does not run the commands that it is sent: what is in the way, in a user's words. Pure.

sshd hands every command to the user's login shell. An account without a shell, a restricted shell, a forced command and a
start-up file that prints or exits all answer instead of the command, or beside it; whoever expected a program's output
would take that answer for it.
"""

import re

from tfprov.errors import Unreachable, one_line, shown
from tfprov.hosts.ssh_run import Completed

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
