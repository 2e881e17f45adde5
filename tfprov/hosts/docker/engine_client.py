"""The docker SDK's client, made such that no answer is longer, or takes longer, than `bounds` says.

Every answer goes through `request`. One that is not a stream is read there; its JSON becomes values of known types in
`answers`. A stream is read a piece at a time, whatever length its chunks and frames announce.
"""

import json
import logging
import math
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import docker
import requests
import urllib3

from tfprov.hosts import bounds
from tfprov.hosts.docker import api_types
from tfprov.hosts.docker.api_types import Nonsense

_HEADER = struct.Struct(">BxxxL")
_STAT = "X-Docker-Container-Path-Stat"
_LOOKS = ("GET", "HEAD")
_LONGEST = 3600
"""Seconds without a byte where the SDK would set no limit: a pull, and a container that is waited for."""


class Patience:
    """How long an engine may be silent, in seconds; tests have less of it. `act` is for what is no question."""

    def __init__(self, act: float = bounds.ACT, look: float = bounds.LOOK, ping: float = bounds.PING) -> None:
        self.act, self.look, self.ping = act, min(look, act), min(ping, act)
        self.busy = min(act, max(self.look, bounds.BUSY))


class TooLong(Exception):
    """An answer has more bytes than are read of it."""


# Without a handler of the program's own, Python prints what urllib3 thinks of a header, with a traceback.
logging.getLogger("urllib3").addHandler(logging.NullHandler())

_Client: Any = docker.APIClient  # most of what is replaced here is not in its type


class Client(_Client):  # type: ignore[misc]
    """Speaks `version` of the API through `adapter`."""

    def __init__(self, adapter: Any, version: str, patience: Patience) -> None:
        # With a version of its own, the SDK connects to nothing while it is made, so the address does not matter.
        super().__init__(base_url="http://engine:1", version=version, timeout=max(1, int(patience.act)))
        self.trust_env = False  # a proxy for the web is none for an engine
        self.adapters.clear()
        self.mount("http+docker://", adapter)
        self.base_url = "http+docker://engine"
        self.headers["Accept-Encoding"] = "identity"  # a few bytes could become any number of them
        self._patience, self._usual = patience, self.timeout

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Ask the engine; called by the SDK for every request. Raises Nonsense, TooLong, and the errors of requests."""
        verb, streamed = str(method).upper(), bool(options.pop("stream", False))
        stated = options.get("timeout", self._usual)
        options |= {"stream": True, "allow_redirects": False}

        def within(limit: float) -> requests.Response:
            options["timeout"] = limit
            response = super(Client, self).request(method, url, *args, **options)
            try:
                return self._read(response, streamed=streamed)
            except BaseException:
                response.close()
                raise
            finally:
                if (line := _line(response)) is not None:
                    line.deadline = None

        if stated != self._usual:
            return within(stated or _LONGEST)
        if verb not in _LOOKS or (streamed and "/archive" in url):
            return within(self._patience.act)
        try:
            return within(self._patience.look)
        except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError):
            if not self._answers():
                raise
        return within(self._patience.busy)

    def _answers(self) -> bool:
        """Whether the engine lives: one that sends a file of a container says nothing of that container meanwhile."""
        options = {"timeout": self._patience.ping, "stream": True, "allow_redirects": False}
        try:
            with super().request("GET", f"{self.base_url}/_ping", **options) as answer:
                return bool(answer.status_code == 200)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            return False

    def _read(self, response: requests.Response, *, streamed: bool) -> requests.Response:
        """Read what is no stream to its end, and of an error its beginning."""
        response.encoding = "utf-8"  # the guess of requests reads every byte, several times
        verb, code = response.request.method, response.status_code
        if 300 <= code < 400 and code != 304:  # that it is as it was asked to be
            raise Nonsense(f"a redirect (status {code})")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise Nonsense("a compressed answer")
        if code >= 400:
            _set(response, json.dumps({"message": _complaint(response)}).encode())
        elif verb == "HEAD":
            _set(response, b"")
        elif not streamed:
            _set(response, _content(response))
        if code < 400 and verb in _LOOKS and "/archive" in response.url:
            api_types.status_of_file(response.headers.get(_STAT, ""))
        return response

    def _result(self, response: requests.Response, json: bool = False, binary: bool = False) -> Any:
        self._raise_for_status(response)
        if json:
            request = response.request
            return api_types.answer(str(request.method), request.path_url, response.content)
        return response.content if binary else response.text

    def _stream_helper(self, response: requests.Response, decode: bool = False) -> Iterator[Any]:
        """Yield what an engine says while it works: pieces, or messages."""
        self._raise_for_status(response)
        if decode:
            yield from _messages(bounds.pieces(lambda size: _some(response, size)))
        else:
            yield from bounds.pieces(lambda size: _some(response, size))

    def _multiplexed_response_stream_helper(self, response: requests.Response) -> Iterator[bytes]:
        """Yield what a container has printed; only a log that is followed may be silent for as long as it likes."""
        left = self._unhurried(response)
        while header := _exactly(response, _HEADER.size):
            if len(header) < _HEADER.size:
                raise EOFError("the log ended within a frame")
            for piece in bounds.pieces(lambda size: _some(response, size), _HEADER.unpack(header)[1]):
                left -= len(piece)
                if left < 0:
                    raise TooLong(f"a log longer than {bounds.amount(bounds.LOG)}")
                yield piece

    def _stream_raw_result(self, response: requests.Response, *_sizes: Any, **_options: Any) -> Iterator[bytes]:
        self._unhurried(response)
        yield from bounds.pieces(lambda size: _some(response, size))

    def _unhurried(self, response: requests.Response) -> float:
        """Let a log that is followed be silent for as long as it likes; return how long a log may be, in bytes."""
        self._raise_for_status(response)
        if "follow=1" not in response.url:
            return bounds.LOG
        self._disable_socket_timeout(self._get_raw_response_socket(response))
        return math.inf

    def _get_raw_response_socket(self, response: requests.Response) -> Any:
        self._raise_for_status(response)
        body = getattr(getattr(response.raw, "_fp", None), "fp", None)
        if getattr(body, "raw", None) is None:
            raise Nonsense("an end where a stream begins")
        return super()._get_raw_response_socket(response)


def _line(response: requests.Response) -> Any:
    """Return the socket that an answer comes through, which has a deadline; None where there is none."""
    return getattr(getattr(response.raw, "_connection", None), "line", None)


def _set(response: requests.Response, content: bytes) -> None:
    """Make `content` the answer; its connection is used again where it was read to its end."""
    response._content, response._content_consumed = content, True  # type: ignore[attr-defined]  # noqa: SLF001
    response.raw.release_conn()


def _content(response: requests.Response) -> bytes:
    kept = bounds.Kept(bounds.ENGINE_ANSWER, lambda limit: TooLong(f"an answer longer than {bounds.amount(limit)}"))
    for piece in bounds.pieces(response.raw.read):
        kept.take(piece)
    return bytes(kept)


def _complaint(response: requests.Response) -> str:
    data = b"".join(bounds.pieces(response.raw.read, bounds.ENGINE_COMPLAINT))
    if len(data) == bounds.ENGINE_COMPLAINT:
        response.close()  # there is more of it
    return api_types.complaint(data)


def _some(response: requests.Response, size: int) -> bytes:
    """Return what has come, at most `size` bytes: a line that is followed must not wait until a piece is full."""
    if getattr(response, "_content_consumed", False):
        return b""
    data: bytes = response.raw.read1(size)
    return data


def _exactly(response: requests.Response, size: int) -> bytes:
    return b"".join(bounds.pieces(lambda left: _some(response, left), size))


def _messages(pieces: Iterator[bytes]) -> Iterator[Any]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield from api_types.messages(line)
        if len(rest) > bounds.ENGINE_LINE:
            raise TooLong(f"a message longer than {bounds.amount(bounds.ENGINE_LINE)}")
    yield from api_types.messages(rest)


class Timed(socket.socket):
    """A socket of this machine's engine. After `deadline`, as `time.monotonic` counts, nothing is read any more."""

    deadline: float | None = None

    def recv_into(self, *args: Any) -> int:
        """Read what has come."""
        in_time(self.deadline)
        return super().recv_into(*args)


def in_time(deadline: float | None, now: Callable[[], float] = time.monotonic) -> None:
    """Raise TimeoutError after `deadline`."""
    if deadline is not None and now() > deadline:
        raise TimeoutError("the answer does not end")
