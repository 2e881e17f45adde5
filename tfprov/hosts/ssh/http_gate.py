"""Protect a forwarded HTTP port with a token: every user of this machine can connect to its loopback.

Only a browser that has opened the URL with the token gets through; it then has a cookie.
"""

import hmac
import secrets
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

_MAX_HEAD_SIZE = 64 * 1024
"""Maximum bytes of a request's head."""
_HEAD_TIMEOUT = 10.0
"""Seconds to wait for it."""
_PARAMETER = "token"
_REFUSAL = b"Not without the address that tfprov printed, with its token.\n"


@dataclass(frozen=True)
class Refusal:
    """The response to a request without the token, or with the token in its URL."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def response(self) -> bytes:
        """Return it as sent on a connection that it closes."""
        headers = (
            ("Connection", "close"), ("Cache-Control", "no-store"), ("Content-Length", str(len(self.body))),
            ("Content-Type", "text/plain; charset=utf-8"), *self.headers,
        )  # fmt: skip
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class TokenGate:
    """Checks the first request of a connection; the later ones come from the same browser."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)

    def query(self) -> str:
        """Return the query string with the token."""
        return f"?{urlencode({_PARAMETER: self.token})}"

    def cookie(self, port: int) -> str:
        """Return the cookie for `port`. Browsers send cookies to every port of a host, so its name includes the port."""
        return f"tfprov-{port}={self.token}"

    def refusal(self, head: bytes, port: int) -> bytes | None:
        """Return the response that refuses a request with this head on `port`; None to let it through."""
        first, *lines = head.decode("latin-1").split("\r\n")
        request_target = first.partition(" ")[2].partition(" ")[0]
        pairs = (line.partition(":") for line in lines)
        refusal = self.check(request_target, [(name, value.strip()) for name, _, value in pairs], port)
        return None if refusal is None else refusal.response()

    def check(self, request_target: str, headers: Iterable[tuple[str, str]], port: int) -> "Refusal | None":
        """Return why a request on `port` is refused; None to let it through.

        A URL with the token redirects to the same URL without it, so that the page's links do not contain the token.
        """
        if any(self._has_cookie(name, value, port) or self._has_bearer(name, value) for name, value in headers):
            return None
        try:
            url = urlsplit(request_target)
        except ValueError:  # such as an unclosed bracket
            return Refusal(400, _REFUSAL)
        values = parse_qsl(url.query, keep_blank_values=True)
        if not any(name == _PARAMETER and self._matches(value) for name, value in values):
            return Refusal(403, _REFUSAL)
        # A notebook has a token of its own, under the same name.
        rest = urlencode([(name, value) for name, value in values if name != _PARAMETER or not self._matches(value)])
        location = f"/{url.path.lstrip('/')}" + (
            f"?{rest}" if rest else ""
        )  # two leading slashes would name another host
        cookie = f"{self.cookie(port)}; Path=/; HttpOnly; SameSite=Strict"
        return Refusal(303, b"", (("Location", location), ("Set-Cookie", cookie), ("Referrer-Policy", "no-referrer")))

    def _has_cookie(self, name: str, value: str, port: int) -> bool:
        if name.lower() != "cookie":
            return False
        pairs = (pair.strip().partition("=") for pair in value.split(";"))
        return any(key == f"tfprov-{port}" and self._matches(cookie_value) for key, _, cookie_value in pairs)

    def _has_bearer(self, name: str, value: str) -> bool:
        """Whether a header has the token as programs send it: `Authorization: Bearer TOKEN`."""
        scheme, _, token = value.partition(" ")
        return name.lower() == "authorization" and scheme.lower() == "bearer" and self._matches(token.strip())

    def _matches(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())


def read_request_head(connection: socket.socket) -> bytes:
    """Return what was received up to the end of the first request's head; b"" if the head is incomplete or too long.

    Raises OSError, including TimeoutError.
    """
    head, deadline = b"", time.monotonic() + _HEAD_TIMEOUT
    while b"\r\n\r\n" not in head:
        connection.settimeout(max(0.001, deadline - time.monotonic()))  # 0 would mean non-blocking
        data = connection.recv(_MAX_HEAD_SIZE)
        head += data
        if not data or len(head) > _MAX_HEAD_SIZE:
            return b""
    connection.settimeout(None)
    return head
