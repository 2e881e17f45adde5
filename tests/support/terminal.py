"""A pseudo-terminal, and the screen that a user would see."""

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pyte


class Terminal:
    """A terminal of `columns` by `rows`; `out` writes to it, and `lines` returns what has been on it and still is."""

    def __init__(self, columns: int, rows: int) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._master, self._slave = pty.openpty()
        self.resize(columns)
        self.out: TextIO = os.fdopen(self._slave, "w", closefd=False)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def resize(self, columns: int) -> None:
        """Make the window wider or narrower; the text on it stays where it is, as in xterm."""
        with self._lock:
            self._screen.resize(columns=columns)
            size = struct.pack("HHHH", self._screen.lines, columns, 0, 0)
            fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # nobody has the other end open any more
                return
            with self._lock:
                self._stream.feed(data)

    def close(self) -> None:
        """Wait until all that was written is on the screen."""
        self.out.close()
        os.close(self._slave)
        self._thread.join()
        os.close(self._master)

    def lines(self) -> list[str]:
        """Return the lines that have left the screen at its top, and those on it, without blanks at their ends."""
        return ["".join(data for data, _, _ in line).rstrip() for line in self.cells()]

    def cells(self) -> list[list[tuple[str, str, bool]]]:
        """Return the same lines, each character with the name of its colour and whether it is bold."""
        with self._lock:
            rows = [*self._screen.history.top, *(self._screen.buffer[row] for row in range(self._screen.lines))]
            return [
                [(line[c].data, line[c].fg, line[c].bold) for c in range(max(line, default=-1) + 1)] for line in rows
            ]


@contextmanager
def terminal(columns: int, rows: int = 24) -> Iterator[Terminal]:
    """Yield a Terminal, of which all is on the screen at the end."""
    made = Terminal(columns, rows)
    try:
        yield made
    finally:
        made.close()
