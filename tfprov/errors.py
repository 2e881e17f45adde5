"""Every error a user can meet, and the exit code each one ends in.

    TfprovError                 1   a host or a task failed
    ├── InvalidInput            2   invalid files or values; carries every Problem found, not just the first
    ├── Usage                   2   a command line that cannot mean anything
    ├── HostError               1   one host could not do what was asked
    │   └── Unreachable         4   the host could not be reached at all
    ├── TaskFailed              1   a TensorFlow task ended badly; carries the last lines of its log; the chief's own code
    │                               for `run` and `wait`, unless it is one of OWN_CODES
    ├── GatherError             1   a checkpoint could not be brought back whole
    ├── DeliveryError           1   an image could not be made, stored or read
    ├── Locked                  3   another run holds the cluster
    └── Several                     more than one of these; 4 when a host could not be reached, else their highest

Messages are one line: where, what, the fix. This module imports nothing of tfprov's.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

LONGEST = 60
"""Characters of a value that a message repeats."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells report it."""
TERMINATED = 143
"""Exit code after SIGTERM, which else does what Ctrl-C does: 128 + SIGTERM."""
HUNG_UP = 129
"""Exit code after the terminal was closed: 128 + SIGHUP."""
UNREAD = 141
"""The exit code when nobody reads the output any more (`tfprov status | true`): as of a program that SIGPIPE has ended."""
OWN_CODES = frozenset((2, 3, 4, HUNG_UP, INTERRUPTED, TERMINATED, UNREAD))
"""Exit codes that say something of tfprov: where a training ends with one of them, `run` and `wait` end with 1."""


class HangUp(BaseException):
    """The terminal was closed: tfprov ends at once, and what it has started goes on.

    No Ctrl-C, and nothing that a step or a play may take for one: who closes a laptop does not want the training to end.
    """


_HIDDEN: set[str] = set()
_SHORTEST = 8
"""Characters of a secret that is hidden wherever it stands: a shorter one may be a word that messages need, as `true`."""


def hide_secret(secret: str) -> None:
    """Never repeat `secret`, nor a long line of it, in the message of any error of this process.

    What is known to be a secret is left out where a message is made; this is for those that libraries make.
    """
    whole = secret.strip()
    _HIDDEN.update(text for text in (whole, *map(str.strip, whole.splitlines())) if len(text) >= _SHORTEST)


def mask_secrets(text: str) -> str:
    """Return `text` with every secret in it replaced."""
    if not _HIDDEN or len(text) < _SHORTEST:
        return text
    for secret in sorted((one for one in _HIDDEN if one in text), key=len, reverse=True):
        text = text.replace(secret, "******")
    return text


def shown(value: object) -> str:
    """Return what a user wrote as it stands in a message: on one line, short, and with nothing that steers a terminal."""
    if isinstance(value, bool):
        return str(value).lower()
    text = mask_secrets(str(value))
    return _escaped(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def one_line(text: str) -> str:
    """Return a library's own words without their line breaks and quotes."""
    return _escaped(" ".join(mask_secrets(text).split()).replace("'", "`").rstrip("."))


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file the user wrote; line and column count from 1, and 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return _escaped(f"{self.file}:{self.line}:{self.column}" if self.line else self.file)


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong: where, what, and what to do about it."""

    at: Position
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return self._as("error")

    def as_warning(self) -> str:
        """Return the message for something that ends nothing."""
        return self._as("warning")

    def _as(self, kind: str) -> str:
        message = f"{self.at}: {kind}: {self.what}"
        return mask_secrets(f"{message}; {self.fix}" if self.fix else message)


Warn = Callable[[Problem], None]
"""Takes a problem that ends nothing, to print it as a warning."""


def ignore_warning(_: Problem) -> None:
    """Drop a warning: for those who read an inventory a second time."""


class TfprovError(Exception):
    """The root of the tree; `exit_code` is what the command ends with."""

    exit_code = 1

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(mask_secrets(f"{what}; {fix}" if fix else what))


class InvalidInput(TfprovError):
    """Files, options or values that cannot be used; `problems` holds all of them, in the order of the files."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(sorted(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class Usage(TfprovError):
    """A command line that cannot mean anything: an unknown task, a pattern that matches no host."""

    exit_code = 2


class HostError(TfprovError):
    """A host could not do what was asked of it; `reason` is the message without the host's name."""

    def __init__(self, host: str, what: str, fix: str = "") -> None:
        self.host = host
        self.reason = mask_secrets(f"{what}; {fix}" if fix else what)
        super().__init__(f"{host}: {what}", fix)


class Unreachable(HostError):
    """No connection to the host."""

    exit_code = 4


class TaskFailed(TfprovError):
    """A task ended badly. `code` is the exit code of the training: the chief's own, or 1 when another task ended it.

    `others` are the lines for those that failed as well.
    """

    def __init__(
        self, task: str, what: str, log: Iterable[str] = (), code: int = 1, others: Iterable[str] = ()
    ) -> None:
        self.task, self.what, self.log, self.code, self.others = task, what, tuple(log), code, tuple(others)
        lines = "".join(f"\n  {task} | {line}" for line in self.log) + "".join(f"\n{line}" for line in self.others)
        super().__init__(f"{task}: {what}{lines}")


class GatherError(TfprovError):
    """A checkpoint could not be brought back; what was gathered before is untouched."""


class DeliveryError(TfprovError):
    """An image could not be made, stored or read on the controller; what a host could not do is a HostError."""


class Locked(TfprovError):
    """Another run is changing this cluster."""

    exit_code = 3


class Several(TfprovError):
    """More than one error, in the order in which they are to be told."""

    def __init__(self, errors: Iterable[TfprovError]) -> None:
        self.errors = tuple(errors)
        unreachable = any(isinstance(error, Unreachable) for error in self.errors)
        self.exit_code = Unreachable.exit_code if unreachable else max(error.exit_code for error in self.errors)
        super().__init__("\n".join(map(str, self.errors)))


def together(errors: Iterable[TfprovError]) -> TfprovError:
    """Return `errors`, of which there is at least one, as one error; each message, and each lost host, is told once."""
    told: dict[tuple[str, str], TfprovError] = {}
    for error in errors:
        for one in error.errors if isinstance(error, Several) else (error,):
            told.setdefault(("", one.host) if isinstance(one, Unreachable) else ("message", str(one)), one)
    found = tuple(told.values())
    return found[0] if len(found) == 1 else Several(found)
