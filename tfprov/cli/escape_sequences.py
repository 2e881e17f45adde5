r"""Filters output for a terminal: text, line ends, tabs and colours pass; other control sequences do not.

Logs, errors and names come from programs and hosts. A control sequence in them could overwrite earlier lines, hide text,
write to the clipboard or have the terminal type a command. All output of tfprov goes through a `Screened` stream, but for
the live line and documents that are written to a file or a pipe.
"""

import codecs
import os
import re
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from typing import Any, TextIO

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Replaces a control character that belongs to no complete sequence."""
_RESET = "\x1b[0m"
_ASCII_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 controls, line separators, surrogates, and what changes the direction of writing."""
_SEQUENCE = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]{0,64}m)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: the cursor, erasing, modes
    # OSC, DCS, SOS, PM and APC, with the text they carry: titles, links, the clipboard
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"
    rf"|{_UNSAFE.pattern}"
)
_JSON_ESCAPED = re.compile(_UNSAFE.pattern.replace("\x00-\x08\x0b-\x1f", ""))


def has_colours(stream: TextIO, choice: bool | None = None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether output to `stream` has colours: as `choice` says, else on a terminal that is not asked to do without.

    NO_COLOR counts when it is not empty; a terminal of type `dumb` has no colours.
    """
    if choice is not None:
        return choice
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


class Screened:
    """A text stream in front of `raw`, through which nothing steers a terminal.

    Colours pass when `colours`; by default see `has_colours`. Everything else of a stream is that of `raw`, but
    for `buffer`: bytes cannot be screened.
    """

    def __init__(self, raw: TextIO, *, colours: bool | None = None) -> None:
        self.raw, self.colours = raw, colours

    def write(self, text: str) -> int:
        """Write `text` without control sequences; return its length."""
        self.raw.write(screened(text, colours=has_colours(self.raw, self.colours)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of `lines`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.raw, name)


def screened(text: str, *, colours: bool) -> str:
    """Return `text` without control sequences; colours stay when `colours`, and end where their line ends.

    Complete sequences are removed. The rest of an incomplete one, and any other control character, becomes U+FFFD.
    """
    if _is_harmless(text):
        return text
    return "\n".join(_screened_line(line, colours) for line in text.split("\n"))


def _screened_line(line: str, colours: bool) -> str:
    left_open = False

    def kept(match: re.Match[str]) -> str:
        nonlocal left_open
        if match["colour"]:
            left_open = match[0].strip("\x1b[0;m") != ""
            return match[0] if colours else ""
        return "" if len(match[0]) > 1 or (match[0] == "\r" and match.end() == len(line)) else REPLACEMENT

    shown = _SEQUENCE.sub(kept, line)
    return shown + _RESET if left_open and colours else shown


def _is_harmless(text: str) -> bool:
    if text.isascii():  # a thousand times faster than an expression: inventories have megabytes
        return len(text.encode("ascii").translate(None, _ASCII_CONTROLS)) == len(text)
    return _UNSAFE.search(text) is None


def on_one_line(text: str) -> str:
    """Return `text` without line ends: a program or host must not forge lines of tfprov."""
    return text.replace("\r\n", "\n").replace("\n", REPLACEMENT)


def json_screened(text: str) -> str:
    """Return equivalent JSON with control characters as escapes."""
    if _is_harmless(text):
        return text
    return _JSON_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_ESCAPED = "tfprov.escaped"
"""Error handler of streams: what an encoding such as Latin-1 lacks, say a progress bar, becomes an escape of JSON."""


_FAILING = ("strict", "surrogateescape")
"""Error handlers of standard output that fail for characters; the second one is Python's in the locale C."""


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


codecs.register_error(_ESCAPED, _escape_unencodable)


def write_any_text(stream: TextIO) -> None:
    """Have a stream take all text, whatever its encoding."""
    if isinstance(stream, TextIOWrapper) and stream.errors in _FAILING:
        stream.reconfigure(errors=_ESCAPED)


def write_document(text: str, stream: TextIO | Screened) -> None:
    """Write a document, such as YAML: screened to a terminal, unchanged to a file or a pipe.

    There it is UTF-8 in any locale: whoever reads YAML or JSON takes it for that.
    """
    out = stream.raw if isinstance(stream, Screened) and not stream.isatty() else stream
    if isinstance(out, TextIOWrapper) and not out.isatty():
        out.flush()
        out.buffer.write(text.encode("utf-8", _ESCAPED))
    else:
        out.write(text)
    stream.flush()
