"""HDFS with a time limit for every request, as fsspec's interface has it.

The client's requests to a NameNode have none: one that accepts connections and does not answer would block its caller for
ever. Its asynchronous form can be cancelled, which closes the connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from fsspec.asyn import get_loop, sync

_KEPT = 16
"""Clients that are kept. One lasts until a request has no answer, so that the oldest has been idle for minutes."""

_clients: deque[Client] = deque()
"""The newest clients of this process, used or not.

Each owns a Tokio runtime, which panics when it ends on a thread of a runtime. That is where a client ends when a cancelled
request holds it last, or when Python collects a cycle of references with it while an answer arrives.
"""


class Client(Protocol):
    """The part of `hdfs_native.AsyncClient` that is used. Its methods must be called in an event loop."""

    def list_status(self, path: str, recursive: bool = ...) -> AsyncIterator[Any]:
        """Yield what lies below a directory."""

    async def read(self, path: str) -> Any:
        """Open a file to read it."""

    async def create(self, path: str, write_options: Any = ...) -> Any:
        """Create a file, or replace it, and open it to write it."""

    async def delete(self, path: str, recursive: bool = ...) -> bool:
        """Remove a file."""


class HdfsFiles:
    """The files of a NameNode. Every method raises OSError: TimeoutError after `limit` seconds without an answer.

    `connect` makes a client, and another one after a request without an answer: its connection may be dead for good.
    """

    def __init__(self, connect: Callable[[], Client], overwrite: Any, limit: float) -> None:
        """`overwrite` are the client's options for a file that replaces another."""
        self._connect, self._overwrite, self._limit = connect, overwrite, limit
        self._client: Client | None = None

    def find(self, path: str, *, detail: bool = True) -> dict[str, dict[str, Any]]:
        """Return the files below a directory, by path. See fsspec."""
        client = self._connected()
        statuses = self._run(lambda: _each(client.list_status(path, True), self._limit))
        sizes = {status.path: status.length for status in statuses if not status.isdir}
        return {name: {"size": size, "type": "file"} if detail else {} for name, size in sizes.items()}

    def open(self, path: str, mode: str) -> HdfsFile:
        """Open a file; `mode` is `rb` or `wb`. See fsspec."""
        client = self._connected()
        file = self._wait(lambda: client.read(path) if mode == "rb" else client.create(path, self._overwrite))
        return HdfsFile(file, self._wait)

    def rm_file(self, path: str) -> None:
        """Remove a file. See fsspec."""
        client = self._connected()
        self._wait(lambda: client.delete(path, False))

    def _connected(self) -> Client:
        if self._client is None:
            self._client = self._connect()
            _clients.append(self._client)
            while len(_clients) > _KEPT:
                _clients.popleft()
        return self._client

    def _wait(self, request: Callable[[], Awaitable[Any]]) -> Any:
        return self._run(lambda: _bounded(request, self._limit))

    def _run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return sync(get_loop(), work)
        except (TimeoutError, asyncio.TimeoutError):  # the same only from Python 3.11 on
            self._client = None
            raise


async def _bounded(request: Callable[[], Awaitable[Any]], limit: float) -> Any:
    return await asyncio.wait_for(request(), limit)


async def _each(entries: AsyncIterator[Any], limit: float) -> list[Any]:
    """Return all entries of a listing, which arrives in parts: the limit is for each."""
    listed = []
    while True:
        try:
            listed.append(await asyncio.wait_for(entries.__anext__(), limit))
        except StopAsyncIteration:
            return listed


class HdfsFile:
    """An open file; `wait` limits each call. One that is not closed is not complete."""

    def __init__(self, file: Any, wait: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self._file, self._wait = file, wait

    def __enter__(self) -> HdfsFile:
        return self

    def __exit__(self, *_error: object) -> None:
        self.discard()

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer at the end."""
        return bytes(self._wait(lambda: self._file.read(size)))

    def write(self, data: bytes) -> None:
        """Write all of `data`."""
        self._wait(lambda: self._file.write(data))

    def close(self) -> None:
        """Complete a file that was written."""
        self._wait(self._file.close)

    def discard(self) -> None:
        """Let go of the file, without completing it."""
        self._file = None
