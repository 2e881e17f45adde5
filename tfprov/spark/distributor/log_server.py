"""The driver's end of all tasks: their output as it comes, and the first failure, at once."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable

from tfprov.spark.distributor.messages import Channel, Server
from tfprov.spark.distributor.program import LAST_LINES

OnLine = Callable[[str, str], None]
"""Called with a task and a line of its output, by several threads, one at a time."""


class LogServer:
    """Receives the output of tasks; `on_lost` is called once, with the first task whose connection ended before it did.

    A task that connects again belongs to a second attempt of the stage, which Spark starts after a loss. The exit code of a
    task is answered: every line before it has been passed on by then.
    """

    def __init__(self, host: str, token: str, on_line: OnLine, on_lost: Callable[[str], None]) -> None:
        self.lost: str | None = None
        self._lines: dict[str, deque[str]] = {}
        self._on_line, self._on_lost = on_line, on_lost
        self._lock = threading.Lock()
        self._closed = False
        self._server = Server(host, token, self._handle)
        self.port = self._server.port

    def last_lines(self, task: str) -> tuple[str, ...]:
        """Return the last lines of a task."""
        with self._lock:
            return tuple(self._lines.get(task, ()))

    def _handle(self, task: str, channel: Channel) -> None:
        with self._lock:
            is_first = task not in self._lines
            self._lines.setdefault(task, deque(maxlen=LAST_LINES))
        if not is_first:
            return
        ended = False
        for message in channel.receive():
            if "line" in message:
                with self._lock:
                    self._lines[task].append(str(message["line"]))
                    self._on_line(task, str(message["line"]))
            if "code" in message:
                ended = True
                with contextlib.suppress(OSError):  # the task waits for it no longer
                    channel.send({"passed_on": True})
        if not ended:
            self._lose(task)

    def _lose(self, task: str) -> None:
        with self._lock:
            is_first = self.lost is None and not self._closed
            self.lost = self.lost or task
        if is_first:
            self._on_lost(task)

    def close(self) -> None:
        """Close all connections; none counts as lost any more."""
        with self._lock:
            self._closed = True
        self._server.close()
