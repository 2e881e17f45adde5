"""The controller's side of fetching a data set: requests to the program `tfprov.runtime.fetch`, and its output."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tfprov.errors import HostError, one_line
from tfprov.hosts.program_checks import module_command
from tfprov.model.state import DataSet
from tfprov.paths import PACKAGE

PROGRAM = PACKAGE / "runtime" / "fetch.py"
"""Needs only Python's standard library, so any Python can run its text."""
_MAX_LINE = 1024 * 1024
"""Bytes kept of an unterminated line."""
_RETRY_FIX = "run this again: it goes on where it was"


class FetchProgress:
    """Reports and cancels a fetch. `on_bytes` gets the bytes present and the total, `on_note` a line for the user.

    `retry_pause` is the pause in seconds before the first retry; it doubles with each retry that transfers nothing.
    """

    def __init__(
        self, on_bytes: Callable[[int, int], None], on_note: Callable[[str], None], retry_pause: float = 1.0
    ) -> None:
        self.on_bytes, self.on_note, self.retry_pause = on_bytes, on_note, retry_pause
        self.is_cancelled = False
        self._lock = threading.Lock()
        self._send: Callable[[bytes], object] | None = None

    def cancel(self) -> None:
        """End the fetch now, from another thread. A later fetch continues it."""
        with self._lock:
            self.is_cancelled = True
            self._send_cancel()

    @contextmanager
    def sending(self, send: Callable[[bytes], object]) -> Iterator[None]:
        """Let `cancel` end the running fetch, whose input is `send`."""
        with self._lock:
            self._send = send
            if self.is_cancelled:
                self._send_cancel()
        try:
            yield
        finally:
            with self._lock:
                self._send = None

    def _send_cancel(self) -> None:
        if self._send is not None:
            with suppress(OSError, HostError):  # it has ended by itself
                self._send(b"\n")


def fetch_request(data: DataSet, retry_pause: float) -> bytes:
    """Return the line that requests `data`."""
    if data.remote is not None:
        return json.dumps({"url": data.remote, "env": dict(data.env), "pause": retry_pause}).encode() + b"\n"
    files = [{"name": file.name, "url": file.url, "sha256": file.sha256} for file in data.files]
    return json.dumps({"files": files, "pause": retry_pause}).encode() + b"\n"


def fetch_command(data: DataSet, python: Sequence[str], program: str, directory: str) -> list[str]:
    """Return the command that fetches `data`, with `python` or, for a remote directory, a Python that has its client.

    `program` is what follows the options of `python`: the text of PROGRAM, or its path.
    """
    if data.remote is not None:
        return module_command(python[0], "tfprov.runtime.fetch_remote", directory)
    return [*python, program, directory]


def missing_data_error(host: str, task: str) -> HostError:
    """Return the error for a task whose data is missing."""
    return HostError(host, f"the data of {task} is not there", "fetch it with `tfprov up`")


class FetchOutput:
    """Parses the output of a fetch on `host`, in chunks of any size."""

    def __init__(self, host: str, progress: FetchProgress) -> None:
        self._host, self._progress = host, progress
        self._partial_line = self._stderr = b""
        self._total: int | None = None

    def append(self, descriptor: int, data: bytes) -> None:
        """Add standard output (1) or error (2). Raises HostError when the fetch reports its failure."""
        if descriptor != 1:
            self._stderr = (self._stderr + data)[-2000:]
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        self._partial_line = self._partial_line[:_MAX_LINE]
        for line in lines:
            self._handle_line(line)

    def _handle_line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return  # not from the fetch: an image may print something when Python starts
        if not isinstance(message, dict):
            return
        if "wrong" in message:
            raise HostError(self._host, one_line(str(message["wrong"])), one_line(str(message.get("fix", ""))))
        if "note" in message:
            self._progress.on_note(f"{self._host}: {one_line(str(message['note']))}")
        if isinstance(at := message.get("at"), int) and isinstance(of := message.get("of"), int):
            self._progress.on_bytes(at, of)
        if isinstance(total := message.get("done"), int):
            self._total = total
            self._progress.on_bytes(total, total)

    def finish(self) -> None:
        """Raise HostError unless the fetch reported success."""
        if self._total is None:
            default_reason = ["interrupted" if self._progress.is_cancelled else "it was ended"]
            reason = self._stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or default_reason
            raise HostError(self._host, f"the data was not fetched to its end: {one_line(reason[0])[:200]}", _RETRY_FIX)
