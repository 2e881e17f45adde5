"""Ends all tasks of a training together: the first failure stops the others, and so does the end of the training.

The coordinator runs beside task 0. Every task, 0 included, is connected to it, and tells how its program ended; a lost
connection is a failure. Spark is not asked: it would start the whole stage again.
"""

import threading
from collections.abc import Callable, Collection

from tfprov.spark.distributor.messages import Channel, Server, connect

FAILED, DONE = "failed", "done"
"""Why a task has to stop: another task failed, or the training is over."""


class Coordinator:
    """Knows which tasks have ended. `trainers` are the tasks that end by themselves; `names` are all tasks."""

    def __init__(self, host: str, token: str, names: Collection[str], trainers: Collection[str]) -> None:
        self._names, self._running = frozenset(names), set(trainers)
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}
        self._stop: dict[str, str] | None = None
        self._ended: set[str] = set()
        self._all_ended = threading.Event()
        self._server = Server(host, token, self._handle)
        self.port = self._server.port

    def _handle(self, name: str, channel: Channel) -> None:
        if name not in self._names:
            return
        with self._lock:
            self._channels[name] = channel
            if self._stop is not None:
                self._send(channel)
        code = None
        for message in channel.receive():
            if "code" in message:
                code = message["code"]
                self._end(name, code == 0)
        if code is None:
            self._end(name, ok=False)

    def _end(self, name: str, ok: bool) -> None:
        with self._lock:
            self._ended.add(name)
            self._running.discard(name)
            if self._ended >= self._names:
                self._all_ended.set()
            if self._stop is None and (not ok or not self._running):
                self._stop = {"stop": DONE if ok else FAILED, "task": name}
                for channel in self._channels.values():
                    self._send(channel)

    def _send(self, channel: Channel) -> None:
        try:
            channel.send(self._stop or {})
        except OSError:
            return

    def wait(self, seconds: float) -> None:
        """Wait until all tasks have ended, at most `seconds` after the training is over."""
        while not self._all_ended.wait(1.0):
            with self._lock:
                over = self._stop is not None
            if over:
                self._all_ended.wait(seconds)
                return

    def close(self) -> None:
        """Close all connections."""
        self._server.close()


class Member:
    """A task's connection to the coordinator; calls `on_stop` once, with the reason and the task that caused it."""

    def __init__(self, host: str, port: int, token: str, name: str, on_stop: Callable[[str, str], None]) -> None:
        self._channel = connect(host, port, token, name)
        self._on_stop = on_stop
        threading.Thread(target=self._listen, name="tfprov-member", daemon=True).start()

    def _listen(self) -> None:
        for message in self._channel.receive():
            if message.get("stop") in (FAILED, DONE):
                self._on_stop(str(message["stop"]), str(message.get("task", "")))
                return
        self._on_stop(FAILED, "")  # the coordinator is gone, and its task with it

    def report(self, code: int) -> None:
        """Tell that this task's program ended with `code`."""
        try:
            self._channel.send({"code": code})
        except OSError:
            return

    def close(self) -> None:
        """Leave."""
        self._channel.close()
