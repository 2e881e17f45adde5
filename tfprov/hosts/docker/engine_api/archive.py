"""An archive of a container's files, as an engine sends it: on a connection of its own until the end, without the SDK."""

import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPResponse
from typing import Any, cast

from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_api.answers import MalformedAnswer, parse_file_status
from tfprov.hosts.docker.engine_api.dial import EngineTimeouts
from tfprov.hosts.docker.engine_api.pipeline import REQUEST, Answer, Reader, read_body, short_path
from tfprov.hosts.http_body import iter_chunked
from tfprov.hosts.trace import traced

_STATUS = "X-Docker-Container-Path-Stat"


class ArchiveAnswer:
    """The answer to a request for the archive at `path`: an iterator of its pieces. Close it.

    `error` is the answer if its status is one of an error, else None. `keep` gets the connection at the archive's end.
    Raises HTTPException, OSError, EOFError, and HostError of a connection over SSH; MalformedAnswer and AnswerTooLong.
    """

    def __init__(
        self,
        host: str,
        dial: Callable[[], Any],
        path: str,
        timeouts: EngineTimeouts,
        keep: Callable[[Any], None],
    ) -> None:
        self._sock, self._keep = dial(), keep
        self._is_open = True
        try:
            with traced(host, f"engine: GET {short_path(path)}", asks=True):
                self._request(path, timeouts.action)
            failed = self._response.status >= 300
            self.error = Answer(path, self._response.status, read_body(self._response)) if failed else None
            self._sock.deadline = None
        except BaseException:
            self.close()
            raise
        self._pieces = self._read()

    def _request(self, path: str, silence: float) -> None:
        self._sock.settimeout(silence)
        self._sock.deadline = time.monotonic() + bounds.TOTAL_FACTOR * silence  # of its headers
        self._reader = Reader(self._sock, lambda: False)
        self._sock.sendall(REQUEST.format(path).encode())
        self._response = HTTPResponse(cast(Any, self._reader), method="GET")
        self._response.begin()
        if self._response.getheader("Content-Encoding", "identity") != "identity":
            raise MalformedAnswer("a compressed answer")

    @property
    def status(self) -> Mapping[str, Any]:
        """The engine's status of the file or directory: `name`, `size`, `mode`, `mtime`."""
        return parse_file_status(self._response.getheader(_STATUS, ""))

    def _read(self) -> Iterator[bytes | memoryview]:
        if self._response.chunked:
            yield from iter_chunked(self._reader)
            if not self._response.will_close:
                self._is_open = False
                self._keep(self._sock)
        else:
            yield from bounds.read_chunks(self._response.read1)

    def __iter__(self) -> "ArchiveAnswer":
        return self

    def __next__(self) -> bytes | memoryview:
        return next(self._pieces)

    def close(self) -> None:
        """Close the connection, unless it was kept. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._sock.close()
