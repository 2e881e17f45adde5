"""The command `docker` of a simulated host: `docker system dial-stdio` is an engine with no containers and no images."""

import sys

_VERSION = b'{"Version": "24.0.0", "ApiVersion": "1.43", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}'


def answer(path: str) -> tuple[int, bytes]:
    """Return the status and the body for a request."""
    name = path.partition("?")[0]
    if name.endswith("/_ping"):
        return 200, b"OK"
    if name.endswith("/version"):
        return 200, _VERSION
    if name.endswith(("/containers/json", "/images/json")):
        return 200, b"[]"
    if name.endswith("/volumes"):
        return 200, b'{"Volumes": [], "Warnings": null}'
    return 404, b'{"message": "there is no such thing"}'


def serve() -> None:
    """Answer the requests on the standard input until it ends."""
    while line := sys.stdin.buffer.readline():
        length = 0
        while (header := sys.stdin.buffer.readline().strip().lower()) != b"":
            if header.startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        sys.stdin.buffer.read(length)
        status, body = answer(line.split()[1].decode())
        kind = b"application/json" if body[:1] in (b"{", b"[") else b"text/plain"
        head = b"HTTP/1.1 %d x\r\nContent-Type: %s\r\nApi-Version: 1.43\r\nOSType: linux\r\nContent-Length: %d\r\n\r\n"
        sys.stdout.buffer.write(head % (status, kind, len(body)) + body)
        sys.stdout.buffer.flush()


if "dial-stdio" in sys.argv:
    serve()
