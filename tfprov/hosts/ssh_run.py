"""One command on a host, from its start to its end: fed and read at the same time, so that neither side waits."""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tfprov.errors import HostError, one_line
from tfprov.hosts import bounds
from tfprov.hosts.foreign import TimedOut
from tfprov.hosts.ssh_stream import Stream

_READ = 1024 * 1024
Input = bytes | Iterable[bytes]


@dataclass(frozen=True)
class Completed:
    """A command that ended. `code` is 128 + N after signal N; the outputs are the bytes that it printed."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Return the standard output; what is not UTF-8 shows as U+FFFD."""
        return self.stdout.decode("utf-8", errors="replace")

    @property
    def complaint(self) -> str:
        """Return the standard error on one line, for a message."""
        return one_line(self.stderr.decode("utf-8", errors="replace"))


class Run:
    """Feeds `given` to the program behind `stream` and collects what it prints."""

    def __init__(self, stream: Stream, given: Input | None) -> None:
        self._stream = stream
        self._out = bounds.Kept(bounds.COMMAND_OUTPUT, self._too_much("output"))
        self._err = bounds.Kept(bounds.COMMAND_ERRORS, self._too_much("standard error"))
        self._failure: BaseException | None = None
        readers = (lambda: self._collect(stream.recv, self._out), lambda: self._collect(stream.recv_errors, self._err))
        self._readers = [self._start(reader) for reader in readers]
        if given:
            self._start(lambda: self._feed(given))
        else:
            stream.shutdown_write()

    def completed(self, limit: float) -> Completed:
        """Wait up to `limit` seconds for the end. Raises TimedOut, TooMuch, ConnectionLost, and what the input raised."""
        deadline = time.monotonic() + limit
        code = self._wait(limit)
        for reader in self._readers:
            reader.join(None if math.isinf(limit) else max(0.0, deadline - time.monotonic()))
            if reader.is_alive():
                raise self._late(limit)
        if self._failure is not None:
            raise self._failure
        return Completed(code, bytes(self._out), bytes(self._err))

    def _wait(self, limit: float) -> int:
        try:
            return self._stream.wait(limit)
        except TimedOut:
            raise self._late(limit) from None
        except HostError as error:
            raise self._failure or error from error

    def _late(self, limit: float) -> TimedOut:
        what = f"{self._stream.doing} did not end within {limit:g} s, and may still be running"
        return TimedOut(self._stream.host, what)

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="tfprov-ssh-run", daemon=True)
        thread.start()
        return thread

    def _too_much(self, what: str) -> Callable[[int], bounds.TooMuch]:
        fix = "look at the start-up files of its login shell, such as ~/.bashrc"
        return lambda limit: bounds.too_much(self._stream.host, f"the {what} of {self._stream.doing}", limit, fix)

    def _collect(self, receive: Callable[[int], bytes], kept: bounds.Kept) -> None:
        try:
            while data := receive(_READ):
                kept.take(data)
        except bounds.TooMuch as error:
            self._failure = error
            self._stream.close()
        except HostError:  # the end of the connection: wait() says so
            return

    def _feed(self, given: Input) -> None:
        try:
            for piece in (given,) if isinstance(given, bytes) else given:
                self._stream.sendall(piece)
            self._stream.shutdown_write()
        except HostError:  # the program did not read to the end: its exit code says what that means
            return
        except Exception as error:
            self._failure = error
            self._stream.close()
