"""Lets only requests in that come from the page itself: the token, the host's name, and a method that reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tfprov.hosts.ssh.http_gate import Refusal, TokenGate

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", _POLICY), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"), ("Cross-Origin-Resource-Policy", "same-origin"), ("X-Frame-Options", "DENY"),
)  # fmt: skip
"""Of every response: a log line that got past the templates' escaping could load and send nothing."""


def refusal(method: str, target: str, headers: Sequence[tuple[str, str]], gate: TokenGate, port: int) -> Refusal | None:
    """Return why a request is refused; None to answer it.

    The name of the host is compared, so that a page of another site whose name leads to 127.0.0.1 learns nothing.
    """
    hosts = [value for name, value in headers if name.lower() == "host"]
    if hosts not in ([f"127.0.0.1:{port}"], [f"localhost:{port}"]):
        return Refusal(403, b"This page is at 127.0.0.1 only.\n")
    if method not in ("GET", "HEAD"):
        return Refusal(405, b"This page is read-only.\n", (("Allow", "GET, HEAD"),))
    return gate.check(target, headers, port)


@dataclass(frozen=True)
class Guard:
    """ASGI middleware around `app`, which listens on `port`."""

    app: ASGIApp
    gate: TokenGate
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_encoded(HEADERS)]
            await send(message)

        refused = refusal(scope["method"], target, headers, self.gate, self.port)
        if refused is None:
            await self.app(scope, receive, guarded)
            return
        plain = (("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(refused.body))))
        start = {
            "type": "http.response.start",
            "status": refused.status,
            "headers": _encoded((*plain, *refused.headers)),
        }
        await guarded(start)
        await send({"type": "http.response.body", "body": refused.body})


def _encoded(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
