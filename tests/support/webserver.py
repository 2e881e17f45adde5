"""A scripted web server on this machine, with failures."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tfprov.hosts.data_download import FetchProgress
from tfprov.model.state import DataFile, DataSet

Requests = list[tuple[str, str]]
SEND_BUFFER = 1 << 17
"""Bytes. What has gone out and been read by nobody lies in here and in the visitor's, which is as small until it reads."""


class WebServer:
    """Serves `files` by path. `requests` are the received ones, as path and `Range` header.

    Of the first `cuts` answers only so many bytes are sent as `cuts` says, and then the connection is closed. `answers`
    are other answers than 200, by path; `redirects` are where a path sends its visitors. With `whole`, ranges are not
    understood. A path in `held` is answered with its first half, and the rest once `release` is set. `halves` are the
    paths whose first half has gone out; of one of several MB the visitor has then read some, and kept what it read before.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.answers: dict[str, int] = {}
        self.redirects: dict[str, str] = {}
        self.whole = False
        self.held: set[str] = set()
        self.halves: list[str] = []
        self.release = threading.Event()
        self.kind = "application/octet-stream"
        self.requests: Requests = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                server.answer(self)

        self.httpd = ThreadingHTTPServer((address, 0), Handler)
        self.httpd.daemon_threads = True
        self.base = f"http://{address}:{self.httpd.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path, ranged = request.path.partition("?")[0], request.headers.get("Range") or ""
        self.requests.append((path, ranged))
        code = self.answers.get(path) or (302 if path in self.redirects else 200 if path in self.files else 404)
        content = self.files.get(path, b"") if code == 200 else b""
        begin = int(ranged.removeprefix("bytes=").partition("-")[0]) if ranged and not self.whole else 0
        if begin and begin >= len(content):
            code, content = 416, b""
        elif begin:
            code = 206
        request.send_response(code)
        if code == 206:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if path in self.redirects:
            request.send_header("Location", self.redirects[path])
        content = content[begin:] if code == 206 else content
        request.send_header("Content-Length", str(len(content)))
        request.send_header("Content-Type", self.kind)
        request.end_headers()
        self._send(request, path, content)

    def _send(self, request: BaseHTTPRequestHandler, path: str, content: bytes) -> None:
        if content and self.cuts:
            content = content[: self.cuts.pop(0)]
            request.close_connection = True
        try:
            if path in self.held:
                request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
                request.wfile.write(content[: len(content) // 2])
                request.wfile.flush()
                self.halves.append(path)
                self.release.wait(600)
                content = content[len(content) // 2 :]
            request.wfile.write(content)
        except OSError:  # the visitor has gone
            request.close_connection = True

    def put(self, path: str, content: bytes) -> DataFile:
        """Serve `content` at `path`, and return how it is asked for."""
        self.files[path] = content
        return self.named(path, hashlib.sha256(content).hexdigest())

    def named(self, path: str, sha256: str) -> DataFile:
        """Return a file that is at `path` and has, or has not, this sum."""
        return DataFile(path.rpartition("/")[2], self.base + path, sha256)

    def set_of(self, **contents: bytes) -> DataSet:
        """Serve files by their names, and return the data set that they are."""
        return DataSet(tuple(self.put(f"/{name}", content) for name, content in contents.items()))


@contextmanager
def serving(address: str = "127.0.0.1") -> Iterator[WebServer]:
    """Yield a server that answers."""
    server = WebServer(address)
    thread = threading.Thread(target=server.httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.httpd.shutdown()
        server.httpd.server_close()
        thread.join()


BIG = bytes(range(256)) * 20_000
"""Five megabytes: several chunks."""


class Listener(FetchProgress):
    """Takes what a fetch tells, and does not wait long before another try."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.moves: list[tuple[int, int]] = []
        super().__init__(lambda there, whole: self.moves.append((there, whole)), self.notes.append, retry_pause=0.001)
