"""A docker SDK client that limits the size and duration of every answer, by `bounds`.

Every answer passes through `request`, which reads all but streams; `answers` validates JSON. Streams are read in
chunks, whatever lengths they announce.
"""

import json
import logging
import math
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import docker
import requests
import urllib3

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.bounds import AnswerTooLong
from tfprov.hosts.docker.engine_api import answers
from tfprov.hosts.docker.engine_api.answers import (
    MalformedAnswer,
    not_json,
    object_of,
    optional,
    parse_json,
    read_name,
    read_text,
)
from tfprov.hosts.docker.engine_api.dial import EngineTimeouts
from tfprov.hosts.ssh.errors import TimedOut
from tfprov.hosts.trace import traced

_HEADER = struct.Struct(">BxxxL")
_QUERY_METHODS = ("GET", "HEAD")
_MAX_SILENCE = 3600
"""Seconds without a byte where the engine works before it answers: a pull, an export, waiting for a container."""


# Without a handler, Python prints urllib3's warnings about headers with a traceback.
logging.getLogger("urllib3").addHandler(logging.NullHandler())

_Client: Any = docker.APIClient  # its type stubs lack most of the overridden methods


class Client(_Client):  # type: ignore[misc]
    """The client for API `version` over `adapter`."""

    def __init__(self, adapter: Any, version: str, timeouts: EngineTimeouts, host: str = "engine") -> None:
        # With an explicit version the constructor does not connect, so the address does not matter.
        super().__init__(base_url="http://engine:1", version=version, timeout=max(1, int(timeouts.action)))
        self.trust_env = False  # HTTP proxies are not for engines
        self.adapters.clear()
        self.mount("http+docker://", adapter)
        self.base_url = "http+docker://engine"
        self.headers["Accept-Encoding"] = "identity"  # compressed bytes could expand without limit
        self._timeouts, self._default_timeout, self._host = timeouts, self.timeout, host

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request; called by the SDK. Raises MalformedAnswer, AnswerTooLong, and the errors of requests."""
        verb, streamed = str(method).upper(), bool(options.pop("stream", False))
        requested_timeout = options.get("timeout", self._default_timeout)
        options |= {"stream": True, "allow_redirects": False}

        def request_within(limit: float) -> requests.Response:
            options["timeout"] = limit
            path = re.sub(r"^.*?/v[0-9.]+", "", str(url))
            with traced(self._host, f"engine: {verb} {path}", asks=verb in _QUERY_METHODS):
                response = super(Client, self).request(method, url, *args, **options)
            try:
                return self._read(response, streamed=streamed)
            except BaseException:
                response.close()
                raise
            finally:
                if (sock := _socket_of(response)) is not None:
                    sock.deadline = None

        if requested_timeout != self._default_timeout:
            return request_within(requested_timeout or _MAX_SILENCE)
        if verb not in _QUERY_METHODS:
            return request_within(self._timeouts.action)
        try:
            return request_within(self._timeouts.query)
        except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError, TimedOut):
            if not self._responds_to_ping():
                raise
        return request_within(self._timeouts.busy)

    def get_image(self, image: str, chunk_size: int | None = None) -> Iterator[bytes]:
        """Return an image as an archive, in pieces, without changing the limit of other requests as with the SDK."""
        # A large image is collected before it is sent.
        response = self._get(self._url("/images/{0}/get", image), stream=True, timeout=_MAX_SILENCE)
        pieces: Iterator[bytes] = self._stream_raw_result(response, chunk_size, decode=False)
        return pieces

    def load_image(self, data: Iterator[bytes], quiet: bool | None = None) -> Iterator[Any]:
        """Load an archive of images, and yield the engine's messages; the SDK allows no time for unpacking."""
        params = {} if quiet is None else {"quiet": quiet}
        response = self._post(
            self._url("/images/load"), data=data, params=params, stream=True, timeout=_MAX_SILENCE
        )  # large layers are unpacked without a message
        self._raise_for_status(response)
        return self._stream_helper(response, decode=True)

    def build_with_buildkit(self, context: Iterator[bytes], params: dict[str, str], timeout: float) -> Iterator[Any]:
        """Build the image of `context`, a tar archive, and yield BuildKit's messages; the SDK knows the classic builder."""
        response = self._post(
            self._url("/build"), data=context, params={"version": "2", **params}, stream=True, timeout=timeout,
            headers={"Content-Type": "application/x-tar"},
        )  # fmt: skip
        return self._stream_helper(response, decode=True)

    def stop_running(self, container: str, grace: int) -> bool:
        """Stop a container, as the SDK's `stop` does; return False for one that had ended before."""
        url = self._url("/containers/{0}/stop", container)
        response = self._post(url, params={"t": grace}, timeout=self._default_timeout + grace)
        self._raise_for_status(response)
        return bool(response.status_code != 304)

    def _responds_to_ping(self) -> bool:
        """Whether the engine answers a ping: while it sends a container's file, it answers nothing about that container."""
        options = {"timeout": self._timeouts.ping, "stream": True, "allow_redirects": False}
        try:
            with super().request("GET", f"{self.base_url}/_ping", **options) as answer:
                return bool(answer.status_code == 200)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, HostError):
            return False

    def _read(self, response: requests.Response, *, streamed: bool) -> requests.Response:
        """Read the body unless it is a stream; of an error, only the beginning."""
        response.encoding = "utf-8"  # guessing the encoding would read the body several times
        verb, code = response.request.method, response.status_code
        if 300 <= code < 400 and code != 304:  # not modified: already in the requested state
            raise MalformedAnswer(f"a redirect (status {code})")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise MalformedAnswer("a compressed answer")
        if code >= 400:
            _set_content(response, json.dumps({"message": _read_error(response)}).encode())
        elif verb == "HEAD":
            _set_content(response, b"")
        elif not streamed:
            _set_content(response, _read_content(response))
        return response

    def _result(self, response: requests.Response, json: bool = False, binary: bool = False) -> Any:
        self._raise_for_status(response)
        if json:
            request = response.request
            return answers.parse_answer(str(request.method), request.path_url, response.content)
        return response.content if binary else response.text

    def _stream_helper(self, response: requests.Response, decode: bool = False) -> Iterator[Any]:
        """Yield the progress of an action: chunks, or messages with `decode`."""
        self._raise_for_status(response)
        if decode:
            yield from _parse_lines(bounds.read_chunks(lambda size: _read_available(response, size)))
        else:
            yield from bounds.read_chunks(lambda size: _read_available(response, size))

    def _multiplexed_response_stream_helper(self, response: requests.Response) -> Iterator[bytes]:
        """Yield a container's output; only a followed log may be silent without limit."""
        remaining = self._log_limit(response)
        while header := _read_exactly(response, _HEADER.size):
            if len(header) < _HEADER.size:
                raise EOFError("the log ended within a frame")
            for piece in bounds.read_chunks(lambda size: _read_available(response, size), _HEADER.unpack(header)[1]):
                remaining -= len(piece)
                if remaining < 0:
                    raise AnswerTooLong(f"a log longer than {bounds.format_size(bounds.LOG)}")
                yield piece

    def _stream_raw_result(self, response: requests.Response, *_sizes: Any, **_options: Any) -> Iterator[Any]:
        self._log_limit(response)
        yield from bounds.read_chunks(lambda size: _read_available(response, size))

    def _check_is_tty(self, container: str) -> bool:
        """Return that a container has no terminal: tfprov creates none with one. The SDK's own method asks the engine."""
        del container
        return False

    def _log_limit(self, response: requests.Response) -> float:
        """Return the size limit of a log in bytes; a followed one gets none, and no time limit."""
        self._raise_for_status(response)
        if "follow=1" not in response.url:
            return bounds.LOG
        self._disable_socket_timeout(self._get_raw_response_socket(response))
        return math.inf

    def _get_raw_response_socket(self, response: requests.Response) -> Any:
        self._raise_for_status(response)
        body = getattr(getattr(response.raw, "_fp", None), "fp", None)
        if getattr(body, "raw", None) is None:
            raise MalformedAnswer("an end where a stream begins")
        return super()._get_raw_response_socket(response)


def _socket_of(response: requests.Response) -> Any:
    """Return the response's socket, which has a deadline; None if it has been released."""
    return getattr(getattr(response.raw, "_connection", None), "stream", None)


def _set_content(response: requests.Response, content: bytes) -> None:
    """Set the response's body and release its connection for reuse."""
    response._content, response._content_consumed = content, True  # type: ignore[attr-defined]  # noqa: SLF001
    response.raw.release_conn()


def _read_content(response: requests.Response) -> bytes:
    buffer = bounds.BoundedBuffer(
        bounds.ENGINE_ANSWER, lambda limit: AnswerTooLong(f"an answer longer than {bounds.format_size(limit)}")
    )
    for piece in bounds.read_chunks(response.raw.read):
        buffer.append(piece)
    return bytes(buffer)


def _read_error(response: requests.Response) -> str:
    data = b"".join(bounds.read_chunks(response.raw.read, bounds.ENGINE_COMPLAINT))
    if len(data) == bounds.ENGINE_COMPLAINT:
        response.close()  # unread bytes remain
    return answers.error_message(data)


def _read_available(response: requests.Response, size: int) -> bytes:
    """Return available data, at most `size` bytes: a followed line must not wait for a full chunk."""
    if getattr(response, "_content_consumed", False):
        return b""
    data: bytes = response.raw.read1(size, decode_content=False)
    return data


def _read_exactly(response: requests.Response, size: int) -> bytes:
    return b"".join(bounds.read_chunks(lambda remaining: _read_available(response, remaining), size))


def _parse_lines(pieces: Iterator[bytes]) -> Iterator[Any]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield from _parse_messages(line)
        if len(rest) > bounds.ENGINE_LINE:
            raise AnswerTooLong(f"a message longer than {bounds.format_size(bounds.ENGINE_LINE)}")
    yield from _parse_messages(rest)


_TEXT = optional(read_text)
_AUX = optional(object_of(ID=optional(read_name)))
_MESSAGE = object_of(
    error=_TEXT, errorDetail=optional(object_of(message=_TEXT)), stream=_TEXT,
    aux=lambda aux, path: aux if isinstance(aux, str) else _AUX(aux, path),
)  # fmt: skip
"""A progress message of a build, pull, push or load; BuildKit's have a text beside."""


def _parse_messages(line: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the progress messages of a line: usually one."""
    if not line.strip():
        return
    try:
        yield _read_message(parse_json(line))
    except MalformedAnswer as error:
        values = list(_split_values(line))
        if len(values) < 2:
            raise error from None
        yield from map(_read_message, values)


def _read_message(value: Any) -> Mapping[str, Any]:
    """Read a message; its error is `error`, which later versions of the API may leave out beside `errorDetail`."""
    message: dict[str, Any] = _MESSAGE(value, "")
    detail = message.get("errorDetail")
    error = message.pop("error", None) or (
        None if detail is None else detail.get("message") or "an error without a text"
    )
    return message | {"error": error} if error else message


def _split_values(line: bytes) -> Iterator[Any]:
    """Yield concatenated JSON values. Raises MalformedAnswer at anything else."""
    rest = line.decode("utf-8", errors="replace").strip()
    while rest:
        try:
            value, end = json.JSONDecoder(parse_constant=not_json).raw_decode(rest)
        except (ValueError, RecursionError):
            raise MalformedAnswer("no JSON") from None
        yield value
        rest = rest[end:].lstrip()
