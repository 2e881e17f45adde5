"""Find the log line that names a program's failure, and decide whether a restart would fail the same way.

Pure, standard library only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

QUICK = 5.0
"""Seconds after a start within which a failing program has not trained yet."""
LINES = 200
"""Lines searched at the end of a log."""
_MAX_LENGTH = 300
"""Maximum characters of last words: a TensorFlow error may contain a whole tensor."""

_TRACEBACK = re.compile(r"^(?:\S.*\s)?Traceback \(most recent call last\):\s*$")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)(?::.*)?$")
_ERROR_LINE = re.compile(r"Unknown command line flag|\b(?:error|fatal|can't open file|check failed)\b", re.IGNORECASE)
_REASON = re.compile(r"tfprov: error: .*")
"""The reason for which the runtime in a task ended it, see `runtime.signals.exit_now`; as the last line it counts more than
a traceback. Another thread's line may be in front of it: that of an ignored exception, which often has the same cause."""
_VALUE = r"-?\d[\d.e+…-]*+"
_VALUES = re.compile(rf"(?<![\w.+-]){_VALUE}(?:[\[\](), ]++{_VALUE}){{11,}}")
_KEPT_VALUES = 3
"""Values kept of a series of more than eleven."""
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_VARIABLE_PARTS = re.compile(r"^[IWEF]?\d{4}[-\d]*[ T]\d\d:\d\d:\d\d\S*|0x[0-9a-f]+")
"""Parts that differ between equal failures: times and object addresses."""

_PERMANENT = re.compile(
    r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError)\b"
    r"|^AttributeError: (?:partially initialized )?module "
    r"|unrecognized arguments|No such option|Unknown command line flag|can't open file"
)
"""Failures that repeat at every start, however late they occur: importing TensorFlow takes a while."""
_TRANSIENT = re.compile(
    r"\b(?:Unavailable|Aborted|DeadlineExceeded|ConnectionRefused|ConnectionReset|ConnectionAborted|BrokenPipe|Timeout)"
    r"(?:Error)?\b|connection (?:refused|reset)|socket closed|timed out|failed to connect|address already in use"
    r"|temporar|try again|name resolution|unreachable|lost (?:another task|[a-z]\w*/\d+)|no answer from|no route to host",
    re.IGNORECASE,
)
"""Failures that may be over by the next start: a peer is not up yet, a port is still in use."""
_EXTERNAL_CODES = (129, 130, 137, 143)
"""Exit codes after a signal from outside: SIGHUP, SIGINT, SIGKILL and SIGTERM."""


@dataclass(frozen=True)
class FailedRun:
    """A failed run of a program: exit code, duration in seconds, and last words."""

    code: int
    seconds: float
    words: str


def is_restarted(code: int, only: Sequence[int], never: Sequence[int]) -> bool:
    """Whether a policy restarts after exit code `code`: one of `only`, if there are any, and none of `never`."""
    return code != 0 and (not only or code in only) and code not in never


def last_words(lines: Sequence[str]) -> str:
    """Return a program's last words: the runtime's reason, the line of its exception, or else its last line; or ""."""
    words = _reason(lines) or _exception(lines)
    words = shorten_tensors("".join(c if c.isprintable() else "\ufffd" for c in _COLOURS.sub("", words)))
    return words if len(words) <= _MAX_LENGTH else f"{words[:_MAX_LENGTH]}…"


def _reason(lines: Sequence[str]) -> str:
    last = next((line for line in reversed(lines) if line.strip()), "")
    match = _REASON.search(last)
    return match[0].rstrip() if match else ""


def _exception(lines: Sequence[str]) -> str:
    at = _find_exception(lines)
    if at is None:
        return ""
    words = lines[at].strip()
    if not words.endswith(":"):
        return words
    return " ".join([words, *(line.strip() for line in lines[at + 1 :] if line.strip())][:2])


def shorten_tensors(line: str) -> str:
    """Return `line` with each printed tensor shortened to its first values."""
    return _VALUES.sub(lambda match: " ".join([*match[0].split()[:_KEPT_VALUES], "…"]), line)


def _find_exception(lines: Sequence[str]) -> int | None:
    start = next((n for n in reversed(range(len(lines))) if _TRACEBACK.match(lines[n])), None)
    if start is not None:
        # The frames are indented; the exception is the first line that is not.
        unindented = (n for n in range(start + 1, len(lines)) if lines[n].strip() and not lines[n][0].isspace())
        if (at := next(unindented, None)) is not None:
            return at
    for pattern in (_EXCEPTION, _ERROR_LINE):
        if (at := next((n for n in reversed(range(len(lines))) if pattern.search(lines[n])), None)) is not None:
            return at
    return next((n for n in reversed(range(len(lines))) if lines[n].strip()), None)


def exception_at(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the first line of the last exception's report, with chained exceptions, and the line that names it.

    None if no exception has ended the program.
    """
    at = None if _reason(lines) else _find_exception(lines)
    if at is None or not (_EXCEPTION.match(lines[at]) or any(map(_TRACEBACK.match, lines[:at]))):
        return None
    start = _report_start(lines, at)
    return None if start is None else (start, at)


_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


def _report_start(lines: Sequence[str], at: int) -> int | None:
    tracebacks = [n for n in range(at) if _TRACEBACK.match(lines[n])]
    if not tracebacks:  # a syntax error in the program itself has no traceback
        frame = [n for n in range(at) if lines[n].startswith('  File "')]
        return frame[-1] if frame else None
    start = tracebacks.pop()
    while tracebacks and any(line.startswith(_CHAINED) for line in lines[tracebacks[-1] : start][-3:]):
        start = tracebacks.pop()
    return start


def is_hopeless(before: FailedRun, now: FailedRun) -> bool:
    """Whether another restart is useless: the program failed twice right after its start, with the same words."""
    is_same = (
        before.code == now.code and _without_variable_parts(before.words) == _without_variable_parts(now.words) != ""
    )
    if not is_same or now.code == 0 or is_ended_externally(now.code) or is_transient(now.words):
        return False
    return bool(_PERMANENT.search(now.words)) or max(before.seconds, now.seconds) <= QUICK


def is_ended_externally(code: int | None) -> bool:
    """Whether an exit code means an end from outside, so that the last output is not the reason."""
    return code in _EXTERNAL_CODES


def is_transient(words: str) -> bool:
    """Whether last words describe a failure that may be over soon, such as a lost peer."""
    return bool(_TRANSIENT.search(words))


def _without_variable_parts(words: str) -> str:
    return _VARIABLE_PARTS.sub("", words).strip()
