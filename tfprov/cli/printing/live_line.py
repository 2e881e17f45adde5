"""The last line of a terminal, which changes while lines are printed above it."""

import contextlib
from collections.abc import Callable
from typing import TextIO

from tfprov.cli.escape_sequences import on_one_line, screened

_ERASE = "\r\x1b[K"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_CUT = "…"
_UNKNOWN = 80
"""Columns of a terminal that does not know its size."""


class LiveLine:
    """The last line of a terminal `stream` that is `columns()` cells wide. Not thread-safe.

    Colours of the lines above it pass when `colours`.
    """

    def __init__(self, stream: TextIO, columns: Callable[[], int], *, colours: bool = True) -> None:
        self._stream, self._columns, self._colours = stream, columns, colours
        self._text = ""

    def show(self, text: str) -> None:
        """Replace the line by `text`; an empty text removes it."""
        # A closed terminal has no width and takes no text; SIGHUP reports it.
        with contextlib.suppress(OSError):
            if text := screened(on_one_line(text), colours=False):
                # The last column stays free: some terminals wrap after writing there, also with wrapping off.
                self._write(f"\r{_NO_WRAP}{fitting(text, (self._columns() or _UNKNOWN) - 1)}\x1b[K{_WRAP}")
            elif self._text:
                self._write(_ERASE)
        self._text = text

    def print(self, text: str) -> None:
        """Write `text` and a line end above the line."""
        with contextlib.suppress(OSError):
            self._write(f"{_ERASE if self._text else ''}{screened(text, colours=self._colours)}\n")
        self.show(self._text)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def fitting(text: str, cells: int) -> str:
    """Return as much of `text` as fits into `cells` of a terminal, with an ellipsis if it is cut."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415  only a live line needs it: 15 ms

    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - len(_CUT)) + _CUT if cells > 0 else ""
