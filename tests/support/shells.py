"""Interactive shells in a pseudo-terminal, as a user types into them."""

import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.support.waiting import LONG, until

STARTS: Mapping[str, Sequence[str]] = {"bash": ("bash", "-i"), "zsh": ("zsh", "-i"), "fish": ("fish", "-i")}
BIN = Path(sys.executable).parent
"""Where the command `tfprov` is."""


def unavailable(shell: str) -> str | None:
    """Say why a shell cannot be tried here, or return None."""
    return None if shutil.which(shell) else f"{shell} is not installed: run `sh .ci/shells.sh`"


class Interactive:
    """A program with a terminal of its own, 100 columns wide."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._screen = pyte.HistoryScreen(100, 30, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.master, slave = pty.openpty()
        self.resize(100, 30)
        self.attributes = termios.tcgetattr(slave)
        self._slave = slave
        self.process = subprocess.Popen(
            ["setsid", "-c", *argv], stdin=slave, stdout=slave, stderr=slave, env=dict(env), cwd=cwd,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size; the programs in it get a signal."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self._stream.feed(data)

    def type(self, text: str) -> None:
        """Type a text; `\\t` is the TAB key, `\\x03` Ctrl-C."""
        os.write(self.master, text.encode())

    @property
    def text(self) -> str:
        """What is on the screen and above it."""
        with self._lock:
            above = ["".join(line[column].data for column in sorted(line)) for line in self._screen.history.top]
            return "\n".join(line.rstrip() for line in [*above, *self._screen.display])

    def shows(self, text: str, seconds: float = LONG) -> None:
        """Wait until `text` is on the screen."""
        try:
            until(lambda: text in self.text, seconds=seconds, pause=0.2)
        except AssertionError:
            raise AssertionError(f"no `{text}` on the screen:\n{self.text.rstrip()}") from None

    def current_attributes(self) -> list[object]:
        """Return the settings of the terminal now."""
        return termios.tcgetattr(self._slave)

    def end(self) -> None:
        """Hang up, as a closed window does."""
        os.close(self._slave)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._thread.join(10)
        os.close(self.master)


@contextmanager
def interactive(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[Interactive]:
    """Yield a program in a terminal, which ends with the block."""
    made = Interactive(argv, {"TERM": "xterm", **env}, cwd)
    try:
        yield made
    finally:
        made.end()
