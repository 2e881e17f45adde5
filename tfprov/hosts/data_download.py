"""How a host is told to fetch a data set, and how it answers: `tfprov.runtime.fetch`, as it is spoken to from here."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tfprov.errors import HostError, one_line
from tfprov.model.state import DataSet
from tfprov.paths import PACKAGE

PROGRAM = PACKAGE / "runtime" / "fetch.py"
"""Needs nothing but Python, so its text can be handed to any."""
_LONGEST = 1024 * 1024
"""Bytes that are kept of a line that does not end."""
_AGAIN = "run this again: it goes on where it was"


class Telling:
    """Who is told how it goes: `moved` gets the bytes that are there and those that there are to be, `note` a line.

    `pause` is the seconds before the second try of something that broke; it doubles with each one that brings nothing.
    """

    def __init__(self, moved: Callable[[int, int], None], note: Callable[[str], None], pause: float = 1.0) -> None:
        self.moved, self.note, self.pause = moved, note, pause
        self.is_cut = False
        self._lock = threading.Lock()
        self._send: Callable[[bytes], object] | None = None

    def cut(self) -> None:
        """End the fetch now: it can be gone on with. Called by another thread."""
        with self._lock:
            self.is_cut = True
            self._end()

    @contextmanager
    def sending(self, send: Callable[[bytes], object]) -> Iterator[None]:
        """Let `cut` end, through `send`, the fetch that is under way."""
        with self._lock:
            self._send = send
            if self.is_cut:
                self._end()
        try:
            yield
        finally:
            with self._lock:
                self._send = None

    def _end(self) -> None:
        if self._send is not None:
            with suppress(OSError, HostError):  # it has ended by itself
                self._send(b"\n")


def order(data: DataSet, pause: float) -> bytes:
    """Return the line that asks for `data`."""
    files = [{"name": file.name, "url": file.url, "sha256": file.sha256} for file in data.files]
    return json.dumps({"files": files, "pause": pause}).encode() + b"\n"


def lacking(host: str, task: str) -> HostError:
    """Return the error for a task that would find no data."""
    return HostError(host, f"the data of {task} is not there", "fetch it with `tfprov up`")


class Answers:
    """Takes what a fetch prints on `host`, in pieces of any size."""

    def __init__(self, host: str, telling: Telling) -> None:
        self._host, self._telling = host, telling
        self._rest = self._complaint = b""
        self._done: int | None = None

    def take(self, descriptor: int, data: bytes) -> None:
        """Take what came from its standard output (1) or error (2). Raises HostError once it says that it failed."""
        if descriptor != 1:
            self._complaint = (self._complaint + data)[-2000:]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:_LONGEST]
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return  # not its own: an image may print something when Python starts
        if not isinstance(said, dict):
            return
        if "wrong" in said:
            raise HostError(self._host, one_line(str(said["wrong"])), one_line(str(said.get("fix", ""))))
        if "note" in said:
            self._telling.note(f"{self._host}: {one_line(str(said['note']))}")
        if isinstance(at := said.get("at"), int) and isinstance(of := said.get("of"), int):
            self._telling.moved(at, of)
        if isinstance(done := said.get("done"), int):
            self._done = done
            self._telling.moved(done, done)

    def end(self) -> None:
        """Raise HostError unless it said that all is there."""
        if self._done is None:
            ended = ["interrupted" if self._telling.is_cut else "it was ended"]
            last = self._complaint.decode("utf-8", "replace").strip().splitlines()[-1:] or ended
            raise HostError(self._host, f"the data was not fetched to its end: {one_line(last[0])[:200]}", _AGAIN)
