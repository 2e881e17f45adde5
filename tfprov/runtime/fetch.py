"""Fetches the files of a data set into a directory; a file gets its name once its sha256 is verified.

    python -m tfprov.runtime.fetch DIRECTORY

The first line of the standard input is the request, as JSON:

    {"files": [{"name": "train.tfrecords", "url": "https://…", "sha256": "…"}], "pause": 1.0}

Every line of the standard output reports progress: {"at": bytes, "of": bytes, or 0 if unknown}, {"note": text}, and at
the end {"done": bytes received} or {"wrong": text, "fix": text}. Another byte on the standard input, or its end, stops
the fetch: the caller has gone. The next fetch resumes the partial files.

Standard library only, and no tfprov import: the Python of any image, from 3.8 on, runs this text.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

CHUNK = 1 << 20
"""Bytes of a file held in memory."""
MAX_FRUITLESS_TRIES = 5
"""Tries in a row without new bytes, after which the fetch fails."""
READ_TIMEOUT = 60.0
"""Seconds without a byte that end a try."""
_PROGRESS_INTERVAL = 0.25
"""Seconds between two progress lines."""
_RETRYABLE_STATUSES = (408, 425, 429, 500, 502, 503, 504)
"""HTTP status codes worth another try."""
_STATUS_ERRORS = {
    401: ("the server wants a password (401)", "give a `url` that needs none"),
    403: ("the server does not hand it out (403)", "correct `url`, or its permissions there"),
    404: ("is not there (404)", "correct `url`"),
}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FetchError(Exception):
    """An error that another try would not fix, with its fix."""

    def __init__(self, message: str, fix: str = "look at the server, and at the way to it") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class RetryableError(FetchError):
    """An error that the next try may not meet."""


class DownloadProgress:
    """Reports progress: `done` are the bytes of completed files, `received` those from the network."""

    def __init__(self) -> None:
        self.done = self.received = 0
        self._read_chunk = 0.0

    def at(self, position: int, size: int) -> None:
        """Report that `position` of `size` bytes (0: unknown) of a file are there, at most every `_PROGRESS_INTERVAL`."""
        if time.monotonic() >= self._read_chunk:
            self._read_chunk = time.monotonic() + _PROGRESS_INTERVAL
            write_line(at=self.done + position, of=self.done + size if size else 0)


def write_line(**facts: Any) -> None:
    """Write one line of JSON."""
    sys.stdout.write(f"{json.dumps(facts)}\n")
    sys.stdout.flush()


def main(directory: Path) -> int:
    """Fetch the files the standard input requests; return the exit code."""
    try:
        request_line = json.loads(read_request())
        threading.Thread(target=leave_with_input, daemon=True).start()
        lock = lock_directory(directory)
        os.fchdir(lock)  # it may be renamed during the wait
        progress = DownloadProgress()
        for file in request_line["files"]:
            fetch(file, Path(), progress, request_line.get("pause", 1.0))
        os.fsync(lock)  # the directory: its names have to survive a power cut
        write_line(done=progress.received)
    except (FetchError, OSError) as error:
        wrong = error if isinstance(error, FetchError) else disk_error(error)
        write_line(wrong=wrong.message, fix=wrong.fix)
        return 1
    return 0


def read_request() -> bytes:
    """Return the first line of the standard input; ends the process without one."""
    line = more = os.read(0, CHUNK)  # not through sys.stdin, whose buffer would take bytes another thread waits for
    while more and b"\n" not in line:
        line += (more := os.read(0, CHUNK))
    return line if line.endswith(b"\n") and line.count(b"\n") == 1 else os._exit(3)


def leave_with_input() -> None:
    """End the process with its standard input."""
    os.read(0, 1)
    os._exit(3)


def lock_directory(directory: Path) -> int:
    """Lock the directory for this process; the kernel releases it when the process ends."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        write_line(note="the same data is being fetched there already: waiting for that")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def fetch(file: dict[str, str], directory: Path, progress: DownloadProgress, pause: float) -> None:
    """Fetch the file into `directory` and verify it. Raises FetchError, or OSError when it cannot be written."""
    final, part = directory / file["name"], directory / f".{file['name']}.part"
    if not final.is_file() or hash_file(final, progress).hexdigest() != file["sha256"]:
        where = f"{file['name']} from {_strip_query(file['url'])}"
        try:
            _receive_with_retries(file, part, progress, pause)
        except FetchError as wrong:
            raise FetchError(f"{where}: {wrong.message}", wrong.fix) from None
        part.chmod(0o444)  # tasks may run as another user
        part.replace(final)
    progress.done += final.stat().st_size


def _receive_with_retries(file: dict[str, str], part: Path, progress: DownloadProgress, pause: float) -> None:
    tries, largest_size = 0, _size(part)
    while True:
        try:
            return _receive(file, part, progress)
        except RetryableError as broken:
            tries = 1 if _size(part) > largest_size else tries + 1
            largest_size = max(largest_size, _size(part))
            if tries >= MAX_FRUITLESS_TRIES:
                raise FetchError(broken.message, broken.fix) from None
            write_line(note=f"{file['name']}: {broken.message}; trying again")
            time.sleep(pause * 2 ** (tries - 1))


def _receive(file: dict[str, str], part: Path, progress: DownloadProgress) -> None:
    """Complete `part` and verify it; remove it when it does not match."""
    digest, begin = hash_file(part, progress), _size(part)
    if begin and digest.hexdigest() == file["sha256"]:  # a previous fetch was killed just before the rename
        return
    with _open(file["url"], begin, part) as response, part.open("ab") as out:
        resumed = _is_resumed(response, begin, part)
        if not resumed:
            os.ftruncate(out.fileno(), 0)
            digest = hashlib.sha256()
        _copy(response, out, digest, progress, position=begin if resumed else 0)
        kind = response.headers.get_content_type()
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() == file["sha256"]:
        return
    part.unlink()
    if resumed:
        raise RetryableError("what was resumed does not fit together")
    page = " (the server sent a web page)" if kind == "text/html" else ""
    mismatch = f"its sha256 is {digest.hexdigest()}{page}, and not {file['sha256']}"
    raise FetchError(mismatch, "correct `sha256` or `url`")


def _is_resumed(response: Any, begin: int, part: Path) -> bool:
    """Whether the response continues after the first `begin` bytes; a server without ranges sends everything."""
    if response.status == 200:
        return False
    if response.status == 206 and str(response.headers.get("Content-Range")).startswith(f"bytes {begin}-"):
        return True
    part.unlink()
    raise RetryableError(f"the server ignores the requested range (answer {response.status})")


def _copy(response: Any, out: BinaryIO, digest: Any, progress: DownloadProgress, position: int) -> None:
    left = response.length or 0
    size = position + left if left else 0
    free = shutil.disk_usage(out.fileno()).free
    if left > free:
        raise FetchError(f"no space: {left} bytes are to come, and {free} are free", "free some on its disk")
    while chunk := _read_chunk(response):
        digest.update(chunk)
        out.write(chunk)
        position, left = position + len(chunk), left - len(chunk)
        progress.received += len(chunk)
        progress.at(position, size)
    if left > 0:  # http.client reports no error for a connection that breaks off
        raise RetryableError(f"the connection broke off at {position} of {size} bytes")


def _read_chunk(response: Any) -> Any:
    try:
        return response.read1(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _network_error(error, "") from None


def _open(url: str, begin: int, part: Path) -> Any:
    """Open `url` from its byte `begin` on. Raises RetryableError or FetchError."""
    range_header = {"Range": f"bytes={begin}-"} if begin else {}
    request = urllib.request.Request(url, headers={"User-Agent": "tfprov", **range_header})  # noqa: S310  the inventory was checked
    try:
        return urllib.request.build_opener(_WebRedirectHandler).open(request, timeout=READ_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            part.unlink()
            raise RetryableError("the server has less of it than was received before") from None
        raise _http_error(error) from None
    except urllib.error.URLError as error:
        raise _network_error(error.reason, url) from None
    except (OSError, http.client.HTTPException) as error:
        raise _network_error(error, url) from None


class _WebRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https only."""

    def redirect_request(self, *args: Any) -> urllib.request.Request | None:
        """Return the next request. Called by urllib."""
        scheme = urlsplit(args[-1]).scheme
        if scheme not in ("http", "https"):
            raise FetchError(f"the server redirects to {scheme}://", "give the `url` of the file itself")
        return super().redirect_request(*args)


def _http_error(error: urllib.error.HTTPError) -> FetchError | RetryableError:
    if error.code in _RETRYABLE_STATUSES:
        return RetryableError(f"the server answers {error.code}")
    if error.code in _STATUS_ERRORS:
        return FetchError(*_STATUS_ERRORS[error.code])
    if 300 <= error.code < 400:
        return FetchError("the server redirects in a circle, or out of the web", "give the `url` of the file itself")
    return FetchError(f"the server answers {error.code}", "correct `url`")


def _network_error(error: object, url: str) -> FetchError | RetryableError:
    host = urlsplit(url).hostname or "the server"
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "let the image trust who signed it, or correct `url`"
        return FetchError(f"the certificate of {host} is not trusted: {error.verify_message}", fix)
    if isinstance(error, ssl.SSLError):
        return RetryableError(f"{host} does not speak TLS as expected: {error.reason}", "correct `url`")
    if isinstance(error, socket.gaierror):
        return RetryableError(f"no address for {host}", "correct `url`, or look at the host's DNS")
    if isinstance(error, (TimeoutError, socket.timeout)):  # the same only from Python 3.10 on
        return RetryableError(f"{host} was silent for {READ_TIMEOUT:g} s")
    if isinstance(error, OSError) and error.errno:
        return RetryableError(f"{host} cannot be reached: {os.strerror(error.errno)}")
    return RetryableError(f"{host}: {' '.join(str(error).split()) or type(error).__name__}")


def disk_error(error: OSError) -> FetchError:
    """Return the error for a directory that cannot be written."""
    if error.errno in _DISK_FULL:
        return FetchError("no space left on its disk", "free some, and run this again: it goes on where it was")
    return FetchError(f"the data cannot be kept: {error.strerror or error}", "look at its disk")


def hash_file(path: Path, progress: DownloadProgress) -> Any:
    """Return the running sha256 of the file, or of nothing where it does not exist."""
    digest, position, size = hashlib.sha256(), 0, _size(path)
    if size:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                position += len(chunk)
                progress.at(position, size)
    return digest


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _strip_query(url: str) -> str:
    """Return `url` for a message, without its query, which often holds a key."""
    before, mark, _ = url.partition("?")
    return f"{before}{mark and '?...'}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
