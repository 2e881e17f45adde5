"""With which words a program ended, and whether another start would end the same way. Pure, standard library only."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

QUICK = 5.0
"""Seconds after its start within which a program that fails has not begun to train."""
LINES = 200
"""Lines of a log's end in which the words are looked for."""
_LONGEST = 300
"""Characters of the words that are kept: the message of a TensorFlow error may hold a whole tensor."""

_TRACEBACK = re.compile(r"^(?:\S.*\s)?Traceback \(most recent call last\):\s*$")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)(?::.*)?$")
_COMPLAINT = re.compile(r"Unknown command line flag|\b(?:error|fatal|can't open file|check failed)\b", re.IGNORECASE)
_VALUE = r"-?\d[\d.e+…-]*+"
_VALUES = re.compile(rf"(?<![\w.+-]){_VALUE}(?:[\[\](), ]++{_VALUE}){{11,}}")
_FEW = 3
"""Values that are kept of more than eleven."""
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_STAMP = re.compile(r"^[IWEF]?\d{4}[-\d]*[ T]\d\d:\d\d:\d\d\S*|0x[0-9a-f]+")
"""What differs between two endings of one kind: the time, and the addresses of objects."""

_LASTING = re.compile(
    r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError)\b"
    r"|^AttributeError: (?:partially initialized )?module "
    r"|unrecognized arguments|No such option|Unknown command line flag|can't open file"
)
"""What fails whenever it is tried, however long it took to get there: TensorFlow's import takes a while."""
_PASSING = re.compile(
    r"\b(?:Unavailable|Aborted|DeadlineExceeded|ConnectionRefused|ConnectionReset|ConnectionAborted|BrokenPipe|Timeout)"
    r"(?:Error)?\b|connection (?:refused|reset)|socket closed|timed out|failed to connect|address already in use"
    r"|temporar|try again|name resolution|unreachable|lost peer|no route to host",
    re.IGNORECASE,
)
"""What may be over by the next start: peers that are not up yet, a port that is still taken."""
_FROM_OUTSIDE = (129, 130, 137, 143)
"""Exit codes of those that a signal of somebody else's ended: SIGHUP, SIGINT, SIGKILL and SIGTERM."""


@dataclass(frozen=True)
class Life:
    """One run of a program that failed: its exit code, how many seconds it took, and its last words."""

    code: int
    seconds: float
    words: str


def last_words(lines: Sequence[str]) -> str:
    """Return the line in which a program said why it ended: its exception, or else what it printed last; empty for none."""
    at = _exception_at(lines)
    if at is None:
        return ""
    words = lines[at].strip()
    if words.endswith(":"):
        words = " ".join([words, *(line.strip() for line in lines[at + 1 :] if line.strip())][:2])
    words = condensed("".join(c if c.isprintable() else "\ufffd" for c in _COLOURS.sub("", words)))
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def condensed(line: str) -> str:
    """Return `line` with the first values of each tensor that TensorFlow has printed into it."""
    return _VALUES.sub(lambda found: " ".join([*found[0].split()[:_FEW], "…"]), line)


def _exception_at(lines: Sequence[str]) -> int | None:
    begin = next((n for n in reversed(range(len(lines))) if _TRACEBACK.match(lines[n])), None)
    if begin is not None:
        # The frames are indented, and the exception is the first line that is not.
        ending = (n for n in range(begin + 1, len(lines)) if lines[n].strip() and not lines[n][0].isspace())
        if (at := next(ending, None)) is not None:
            return at
    for pattern in (_EXCEPTION, _COMPLAINT):
        if (at := next((n for n in reversed(range(len(lines))) if pattern.search(lines[n])), None)) is not None:
            return at
    return next((n for n in reversed(range(len(lines))) if lines[n].strip()), None)


def exception_at(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return where the last exception begins in `lines`, with those that led to it, and which line names it."""
    at = _exception_at(lines)
    if at is None or not (_EXCEPTION.match(lines[at]) or any(map(_TRACEBACK.match, lines[:at]))):
        return None
    begin = _report_begin(lines, at)
    return None if begin is None else (begin, at)


_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


def _report_begin(lines: Sequence[str], at: int) -> int | None:
    heads = [n for n in range(at) if _TRACEBACK.match(lines[n])]
    if not heads:  # a syntax error of the program itself has no traceback
        frame = [n for n in range(at) if lines[n].startswith('  File "')]
        return frame[-1] if frame else None
    begin = heads.pop()
    while heads and any(line.startswith(_CHAINED) for line in lines[heads[-1] : begin][-3:]):
        begin = heads.pop()
    return begin


def is_hopeless(before: Life, now: Life) -> bool:
    """Whether to start a program once more is of no use: it failed twice at once, and with the same words."""
    same = before.code == now.code and _constant(before.words) == _constant(now.words) != ""
    if not same or now.code == 0 or from_outside(now.code) or is_passing(now.words):
        return False
    return bool(_LASTING.search(now.words)) or max(before.seconds, now.seconds) <= QUICK


def from_outside(code: int | None) -> bool:
    """Whether an exit code is that of a program which somebody else ended, so that what it printed last is no reason."""
    return code in _FROM_OUTSIDE


def is_passing(words: str) -> bool:
    """Whether these words are those of a program that lost another one, or of something else that may be over soon."""
    return bool(_PASSING.search(words))


def _constant(words: str) -> str:
    return _STAMP.sub("", words).strip()
