"""The errors of tfprov, with the exit code of each.

    TfprovError                 1   a host or a task failed
    ├── InvalidInput            2   invalid files or values; carries all Problems, not just the first
    ├── Usage                   2   an invalid command line
    ├── HostError               1   an operation on one host failed
    │   └── Unreachable         4   no connection to the host
    ├── TaskFailed              1   a TensorFlow task failed; carries the last lines of its log; the chief's own code
    │                               for `run` and `wait`, unless it is one of OWN_CODES
    ├── GatherError             1   a checkpoint could not be gathered whole
    ├── DeliveryError           1   an image could not be built, stored or read
    ├── Locked                  3   another run holds the lock of the cluster
    ├── DeadlineExceeded      124   `deadline` was over, and the run was ended
    └── CombinedError           more than one of these; 4 with an Unreachable, else the highest code

Messages are one line: where, what, the fix. This module imports nothing else of tfprov.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

LONGEST = 60
"""Maximum characters of a value in a message."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells report it."""
TERMINATED = 143
"""Exit code after SIGTERM, which otherwise acts like Ctrl-C: 128 + SIGTERM."""
HUNG_UP = 129
"""Exit code after the terminal was closed: 128 + SIGHUP."""
UNREAD = 141
"""Exit code when the reader of the output is gone (`tfprov status | true`): 128 + SIGPIPE."""
DEADLINE = 124
"""Exit code when `deadline` is over, as `timeout` has it."""
OWN_CODES = frozenset((2, 3, 4, DEADLINE, HUNG_UP, INTERRUPTED, TERMINATED, UNREAD))
"""Exit codes with a meaning of their own: if a training ends with one of them, `run` and `wait` end with 1."""


class HangUp(BaseException):
    """The terminal was closed: tfprov ends at once, and the training goes on; `args[0]` is whether a supervisor follows.

    Steps and plays must not treat it like Ctrl-C: closing a laptop must not end the training.
    """


class Terminated(KeyboardInterrupt):
    """SIGTERM, which acts like Ctrl-C and has another exit code."""


_HIDDEN: set[str] = set()
_MIN_SECRET = 8
"""Minimum characters of a masked secret: a shorter one may be a word that messages need, such as `true`."""


def hide_secret(secret: str) -> None:
    """Mask `secret`, and each long line of it, in all error messages of this process.

    tfprov's own messages never repeat secrets; this is for the messages of libraries.
    """
    text = secret.strip()
    _HIDDEN.update(part for part in (text, *map(str.strip, text.splitlines())) if len(part) >= _MIN_SECRET)


def mask_secrets(text: str) -> str:
    """Return `text` with every registered secret masked."""
    if not _HIDDEN or len(text) < _MIN_SECRET:
        return text
    for secret in sorted((hidden for hidden in _HIDDEN if hidden in text), key=len, reverse=True):
        text = text.replace(secret, "******")
    return text


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the one of the `known` names that `name` probably misspells; None without a similar one."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def suggest(name: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """Return the fix for an unknown name: one of the `known` names if it is similar, else `otherwise`."""
    close = closest(name, known, cutoff=cutoff)
    return otherwise if close is None else f"did you mean `{printable(close)}`?"


def printable(value: object) -> str:
    """Return a user's value for a message: on one line, shortened, without control characters, secrets masked."""
    if isinstance(value, bool):
        return str(value).lower()
    text = mask_secrets(str(value))
    return _escaped(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def one_line(text: str) -> str:
    """Return a library's message on one line, with backticks for quotes."""
    return _escaped(" ".join(mask_secrets(text).split()).replace("'", "`").rstrip("."))


def _escaped(text: str) -> str:
    if text.isprintable():  # nearly every text, of which the loop is 5 % of the CPU time of a `down`
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in a user's file. Line and column count from 1; line 0 is the whole file, column 0 the whole line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return _escaped(f"{self.file}:{self.line}:{self.column}".removesuffix(":0") if self.line else self.file)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem in a user's file: where, what, and the fix."""

    at: Position
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return self._format("error")

    def as_warning(self) -> str:
        """Return the message as a warning."""
        return self._format("warning")

    def _format(self, kind: str) -> str:
        message = f"{self.at}: {kind}: {self.what}"
        return mask_secrets(f"{message}; {self.fix}" if self.fix else message)


Warn = Callable[[Problem], None]
"""Receives a problem to print as a warning."""


def ignore_warning(_: Problem) -> None:
    """Drop a warning, for a second load of the same inventory."""


class TfprovError(Exception):
    """The base of all errors; `exit_code` is the exit code of the command."""

    exit_code = 1

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(mask_secrets(f"{what}; {fix}" if fix else what))


class InvalidInput(TfprovError):
    """Invalid files, options or values; `problems` has all of them, in the order of the files."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(sorted(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class Usage(TfprovError):
    """An invalid command line, such as an unknown task, or a pattern that matches no host."""

    exit_code = 2


class HostError(TfprovError):
    """An operation on a host failed; `reason` is the message without the host's name."""

    def __init__(self, host: str, what: str, fix: str = "") -> None:
        self.host = host
        self.reason = mask_secrets(f"{what}; {fix}" if fix else what)
        super().__init__(f"{host}: {what}", fix)


class Unreachable(HostError):
    """No connection to the host."""

    exit_code = 4


class TaskFailed(TfprovError):
    """A task failed. `code` is the exit code of the training: the chief's own, or 1 if another task ended it.

    `log` has the task's last lines, and `others` a line for each other failed task.
    """

    def __init__(
        self, task: str, what: str, log: Iterable[str] = (), code: int = 1, others: Iterable[str] = ()
    ) -> None:
        self.task, self.what, self.log, self.code, self.others = task, what, tuple(log), code, tuple(others)
        lines = "".join(f"\n  {task} | {line}" for line in self.log) + "".join(f"\n{line}" for line in self.others)
        super().__init__(f"{task}: {what}{lines}")


class GatherError(TfprovError):
    """A checkpoint could not be gathered; earlier gathered files are untouched."""


class DeliveryError(TfprovError):
    """An image could not be built, stored or read on the controller; failures on a host are HostErrors."""


class Locked(TfprovError):
    """Another run is changing this cluster; `verb` is its verb, empty if that is unknown."""

    exit_code = 3

    def __init__(self, what: str, fix: str = "", verb: str = "") -> None:
        self.verb = verb
        super().__init__(what, fix)


class DeadlineExceeded(TfprovError):
    """The time that `deadline` gives a run is over."""

    exit_code = DEADLINE


class TakenDown(TfprovError):
    """Another command took down the cluster whose training is followed, or has stopped its chief, as `down` does first."""


class CombinedError(TfprovError):
    """More than one error, in the order of their messages."""

    def __init__(self, errors: Iterable[TfprovError]) -> None:
        self.errors = tuple(errors)
        unreachable = any(isinstance(error, Unreachable) for error in self.errors)
        self.exit_code = Unreachable.exit_code if unreachable else max(error.exit_code for error in self.errors)
        super().__init__("\n".join(map(str, self.errors)))


def combine_errors(errors: Iterable[TfprovError]) -> TfprovError:
    """Return one or more `errors` as one; each message, and each unreachable host, appears once."""
    distinct: dict[tuple[str, str], TfprovError] = {}
    for error in errors:
        for part in error.errors if isinstance(error, CombinedError) else (error,):
            key = ("", part.host) if isinstance(part, Unreachable) else ("message", str(part))
            distinct.setdefault(key, part)
    unique = tuple(distinct.values())
    return unique[0] if len(unique) == 1 else CombinedError(unique)
