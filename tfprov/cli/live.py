"""The last line of a terminal, which changes in place: what is printed goes above it and stays.

It never takes a second row. A line that wraps has to be taken back row by row, and after the window was made narrower
nobody knows how many rows that are: a row too many erases what was printed. So the text is cut to the width, the terminal
is told not to wrap it should the width have changed meanwhile, and the cursor is never moved up.
"""

import contextlib
from collections.abc import Callable
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from tfprov.cli.screening import on_one_line, screened

_ERASE = "\r\x1b[K"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_CUT = "…"


class LiveLine:
    """The line on `stream`, a terminal that is `columns()` cells wide. Not safe to be used by two threads at once."""

    def __init__(self, stream: TextIO, columns: Callable[[], int]) -> None:
        self._stream, self._columns = stream, columns
        self._text = ""

    def show(self, text: str) -> None:
        """Show `text` in place of what the line has shown; empty for no line."""
        # A terminal that was closed has no width and takes no text; that it was is told by a signal.
        with contextlib.suppress(OSError):
            if text := screened(on_one_line(text), colours=False):
                # The last column stays free: a terminal that has written there may wrap all the same.
                self._write(f"\r{_NO_WRAP}{fitting(text, self._columns() - 1)}\x1b[K{_WRAP}")
            elif self._text:
                self._write(_ERASE)
        self._text = text

    def print(self, text: str) -> None:
        """Write `text` and a line end above the line."""
        with contextlib.suppress(OSError):
            self._write(f"{_ERASE if self._text else ''}{screened(text, colours=True)}\n")
        self.show(self._text)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def fitting(text: str, cells: int) -> str:
    """Return as much of `text` as fits into so many cells of a terminal, with an ellipsis where something is cut."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - len(_CUT)) + _CUT if cells > 0 else ""
