"""Who gets through a forwarded port to a web page: a browser that has been at the address with the token, and nobody else.

Every user of this machine can connect to its loopback.
"""

import hmac
import secrets
import socket
import time
from urllib.parse import parse_qsl, urlencode, urlsplit

_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""
_PATIENCE = 10.0
"""Seconds that a browser may take to send it."""
_PARAMETER = "token"
_REFUSAL = b"Not without the address that `tfprov tensorboard` printed, with its token.\n"


class Gate:
    """Decides by the first request of a connection; the rest of the connection belongs to the same browser."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)

    def query(self) -> str:
        """Return what follows the path of the address that lets a browser in."""
        return f"?{urlencode({_PARAMETER: self.token})}"

    def cookie(self, port: int) -> str:
        """Return the cookie that a browser is let in with: a browser sends it to every port, so its name has ours."""
        return f"tfprov-{port}={self.token}"

    def refusal(self, head: bytes, port: int) -> bytes | None:
        """Return what is answered to a request on `port` instead of letting it through; None to let it through.

        The address with the token leads to the same one without it, so that the token is in no link that the page makes.
        """
        first, *lines = head.decode("latin-1").split("\r\n")
        if any(self._is_ours(line, port) for line in lines):
            return None
        target = first.partition(" ")[2].partition(" ")[0]
        try:
            asked = urlsplit(target)
        except ValueError:  # such as an address with a bracket that is not closed
            return _answer("400 Bad Request", _REFUSAL)
        values = parse_qsl(asked.query, keep_blank_values=True)
        if not any(name == _PARAMETER and self._matches(value) for name, value in values):
            return _answer("403 Forbidden", _REFUSAL)
        rest = urlencode([(name, value) for name, value in values if name != _PARAMETER])
        place = f"/{asked.path.lstrip('/')}" + (f"?{rest}" if rest else "")  # two slashes would lead to another machine
        cookie = f"Set-Cookie: {self.cookie(port)}; Path=/; HttpOnly; SameSite=Strict"
        return _answer("303 See Other", b"", f"Location: {place}", cookie, "Referrer-Policy: no-referrer")

    def _is_ours(self, line: str, port: int) -> bool:
        name, _, value = line.partition(":")
        if name.lower() != "cookie":
            return False
        pairs = (pair.strip().partition("=") for pair in value.split(";"))
        return any(key == f"tfprov-{port}" and self._matches(given) for key, _, given in pairs)

    def _matches(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())


def _answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Connection: close", "Cache-Control: no-store", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: text/plain; charset=utf-8", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def first_request(connection: socket.socket) -> bytes:
    """Return what a browser sent up to the end of its first request's head; b"" when that did not come whole.

    Raises OSError, TimeoutError among them.
    """
    found, deadline = b"", time.monotonic() + _PATIENCE
    while b"\r\n\r\n" not in found:
        connection.settimeout(max(0.001, deadline - time.monotonic()))  # 0 would not wait at all, and not be a timeout
        data = connection.recv(_HEAD)
        found += data
        if not data or len(found) > _HEAD:
            return b""
    connection.settimeout(None)
    return found
