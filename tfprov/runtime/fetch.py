"""Fetches the files of a data set into a directory; a file gets its name once its sha256 is verified.

    python -m tfprov.runtime.fetch DIRECTORY

The first line of the standard input says what to fetch, as JSON:

    {"files": [{"name": "train.tfrecords", "url": "https://…", "sha256": "…"}], "pause": 1.0}

Every line of the standard output says how it goes: {"at": bytes, "of": bytes, or 0 where nobody knows}, {"note": text},
and at the end {"done": bytes received} or {"wrong": text, "fix": text}. It ends as well with another byte on its standard
input, or with its end: whoever asked has gone. The next fetch goes on with what was received.

Standard library only, and nothing of ours: its text is handed to the Python of any image, from 3.8 on.
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
TRIES = 5
"""Tries in a row that bring nothing, after which it is given up."""
SILENCE = 60.0
"""Seconds without a byte that end a try."""
_EVERY = 0.25
"""Seconds between two lines about how far it is."""
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers that may be another one a moment later."""
_ANSWERS = {
    401: ("the server wants a password (401)", "give a `url` that needs none"),
    403: ("the server does not hand it out (403)", "correct `url`, or its permissions there"),
    404: ("is not there (404)", "correct `url`"),
}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Wrong(Exception):
    """What another try would not mend, with the fix."""

    def __init__(self, what: str, fix: str = "look at the server, and at the way to it") -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class Broken(Wrong):
    """What the next try may not meet again."""


class Told:
    """Says how it goes: `done` are the bytes of the files before, `received` those that came over the network."""

    def __init__(self) -> None:
        self.done = self.received = 0
        self._next = 0.0

    def at(self, position: int, size: int) -> None:
        """Say that a file of `size` bytes (0: unknown) is there up to `position`, unless that was said just now."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            say(at=self.done + position, of=self.done + size if size else 0)


def say(**facts: Any) -> None:
    """Write one line of JSON."""
    sys.stdout.write(f"{json.dumps(facts)}\n")
    sys.stdout.flush()


def main(directory: Path) -> int:
    """Fetch what the standard input asks for; return the exit code."""
    try:
        order = json.loads(_first_line())
        threading.Thread(target=_leave_with_input, daemon=True).start()
        lock = _locked(directory)
        os.fchdir(lock)  # it may get another name while this waits for it
        told = Told()
        for file in order["files"]:
            fetch(file, Path(), told, order.get("pause", 1.0))
        os.fsync(lock)  # it is the directory, whose names have to outlive a power cut
        say(done=told.received)
    except (Wrong, OSError) as error:
        wrong = error if isinstance(error, Wrong) else _of_disk(error)
        say(wrong=wrong.what, fix=wrong.fix)
        return 1
    return 0


def _first_line() -> bytes:
    line = more = os.read(0, CHUNK)  # not through sys.stdin, which reads ahead what another thread waits for
    while more and b"\n" not in line:
        line += (more := os.read(0, CHUNK))
    return line if line.endswith(b"\n") and line.count(b"\n") == 1 else os._exit(3)


def _leave_with_input() -> None:
    os.read(0, 1)
    os._exit(3)


def _locked(directory: Path) -> int:
    """Take the directory for this process alone: the kernel gives it back however this ends."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(note="the same data is being fetched there already: waiting for that")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def fetch(file: dict[str, str], directory: Path, told: Told, pause: float) -> None:
    """Have the file in `directory`, whole and verified; raises Wrong, or OSError when it cannot be kept there."""
    final, part = directory / file["name"], directory / f".{file['name']}.part"
    if not final.is_file() or _digest(final, told).hexdigest() != file["sha256"]:
        where = f"{file['name']} from {_place(file['url'])}"
        try:
            _until_whole(file, part, told, pause)
        except Wrong as wrong:
            raise Wrong(f"{where}: {wrong.what}", wrong.fix) from None
        part.chmod(0o444)  # the tasks may run as somebody else than this
        part.replace(final)
    told.done += final.stat().st_size


def _until_whole(file: dict[str, str], part: Path, told: Told, pause: float) -> None:
    tries, farthest = 0, _size(part)
    while True:
        try:
            return _receive(file, part, told)
        except Broken as broken:
            tries = 1 if _size(part) > farthest else tries + 1
            farthest = max(farthest, _size(part))
            if tries >= TRIES:
                raise Wrong(broken.what, broken.fix) from None
            say(note=f"{file['name']}: {broken.what}; trying again")
            time.sleep(pause * 2 ** (tries - 1))


def _receive(file: dict[str, str], part: Path, told: Told) -> None:
    """Bring `part` from what is there to the whole file, and verify it; one that is wrong is removed."""
    digest, begin = _digest(part, told), _size(part)
    if begin and digest.hexdigest() == file["sha256"]:  # it was ended in the moment before the file got its name
        return
    with _asked(file["url"], begin, part) as answer, part.open("ab") as out:
        resumed = _resumes(answer, begin, part)
        if not resumed:
            os.ftruncate(out.fileno(), 0)
            digest = hashlib.sha256()
        _copy(answer, out, digest, told, position=begin if resumed else 0)
        kind = answer.headers.get_content_type()
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() == file["sha256"]:
        return
    part.unlink()
    if resumed:
        raise Broken("what was resumed does not fit together")
    page = " (the server sent a web page)" if kind == "text/html" else ""
    mismatch = f"its sha256 is {digest.hexdigest()}{page}, and not {file['sha256']}"
    raise Wrong(mismatch, "correct `sha256` or `url`")


def _resumes(answer: Any, begin: int, part: Path) -> bool:
    """Whether what is sent follows on the first `begin` bytes; a server that cannot do that sends everything."""
    if answer.status == 200:
        return False
    if answer.status == 206 and str(answer.headers.get("Content-Range")).startswith(f"bytes {begin}-"):
        return True
    part.unlink()
    raise Broken(f"the server does not send what it was asked for (answer {answer.status})")


def _copy(answer: Any, out: BinaryIO, digest: Any, told: Told, position: int) -> None:
    left = answer.length or 0
    size = position + left if left else 0
    free = shutil.disk_usage(out.fileno()).free
    if left > free:
        raise Wrong(f"no space: {left} bytes are to come, and {free} are free", "free some on its disk")
    while chunk := _next(answer):
        digest.update(chunk)
        out.write(chunk)
        position, left = position + len(chunk), left - len(chunk)
        told.received += len(chunk)
        told.at(position, size)
    if left > 0:  # http.client takes a connection that ends for the end
        raise Broken(f"the connection broke off at {position} of {size} bytes")


def _next(answer: Any) -> Any:
    try:
        return answer.read1(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _of_network(error, "") from None


def _asked(url: str, begin: int, part: Path) -> Any:
    """Open `url` from its byte `begin` on; raises Broken or Wrong."""
    ranged = {"Range": f"bytes={begin}-"} if begin else {}
    request = urllib.request.Request(url, headers={"User-Agent": "tfprov", **ranged})  # noqa: S310  the inventory was checked
    try:
        return urllib.request.build_opener(_Redirects).open(request, timeout=SILENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            part.unlink()
            raise Broken("the server has less of it than was received before") from None
        raise _of_answer(error) from None
    except urllib.error.URLError as error:
        raise _of_network(error.reason, url) from None
    except (OSError, http.client.HTTPException) as error:
        raise _of_network(error, url) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to web servers only."""

    def redirect_request(self, *args: Any) -> urllib.request.Request | None:
        """Return the next request. Called by urllib."""
        scheme = urlsplit(args[-1]).scheme
        if scheme not in ("http", "https"):
            raise Wrong(f"the server redirects to {scheme}://", "give the `url` of the file itself")
        return super().redirect_request(*args)


def _of_answer(error: urllib.error.HTTPError) -> Wrong | Broken:
    if error.code in _AGAIN:
        return Broken(f"the server answers {error.code}")
    if error.code in _ANSWERS:
        return Wrong(*_ANSWERS[error.code])
    if 300 <= error.code < 400:
        return Wrong("the server redirects in a circle, or out of the web", "give the `url` of the file itself")
    return Wrong(f"the server answers {error.code}", "correct `url`")


def _of_network(error: object, url: str) -> Wrong | Broken:
    host = urlsplit(url).hostname or "the server"
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "let the image trust who signed it, or correct `url`"
        return Wrong(f"the certificate of {host} is not trusted: {error.verify_message}", fix)
    if isinstance(error, ssl.SSLError):
        return Broken(f"{host} does not speak TLS as expected: {error.reason}", "correct `url`")
    if isinstance(error, socket.gaierror):
        return Broken(f"no address found for {host}", "correct `url`, or look at the host's DNS")
    if isinstance(error, TimeoutError):
        return Broken(f"{host} was silent for {SILENCE:g} s")
    if isinstance(error, OSError) and error.errno:
        return Broken(f"{host} cannot be reached: {os.strerror(error.errno)}")
    return Broken(f"{host}: {' '.join(str(error).split()) or type(error).__name__}")


def _of_disk(error: OSError) -> Wrong:
    if error.errno in _FULL:
        return Wrong("no space left on its disk", "free some, and run this again: it goes on where it was")
    return Wrong(f"the data cannot be kept: {error.strerror or error}", "look at its disk")


def _digest(path: Path, told: Told) -> Any:
    """Return the sha256 of what is there, to be gone on with; of nothing, where nothing is."""
    digest, position, size = hashlib.sha256(), 0, _size(path)
    if size:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                position += len(chunk)
                told.at(position, size)
    return digest


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _place(url: str) -> str:
    """Return a URL as a message shows it: what stands behind `?` is often a key."""
    before, mark, _ = url.partition("?")
    return f"{before}{mark and '?...'}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
