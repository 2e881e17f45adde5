"""Connections of the relay: TLS with one certificate, listeners, and reading."""

from __future__ import annotations  # for every Python that an image may have

import socket
import ssl
import threading
from typing import Any

MAX_HEAD = 16 * 1024
"""Bytes of a request with its headers."""
MAX_CONNECTIONS = 64
"""Open connections of a listener; further ones are closed at once."""
_PAUSE = 0.1
"""Seconds after a connection that could not be accepted."""


PIECE = 256 * 1024
"""Bytes received, written and sent at a time."""


class Broken(Exception):
    """A source did not send a layer, or a client sent no request; the argument is the reason."""


def read_until(connection: Any, end: bytes, limit: int = MAX_HEAD) -> tuple[bytes, bytes]:
    """Return what arrives up to `end`, and what came after it. Raises Broken."""
    data = b""
    while end not in data:
        if len(data) > limit:
            raise Broken("a head without an end")
        piece = connection.recv(4096)
        if not piece:
            raise Broken("closed early")
        data += piece
    head, _, rest = data.partition(end)
    return head, rest


class Secure:
    """TLS over a connected socket, in large pieces: an SSLSocket asks the kernel for each record of 16 KiB.

    Of its own thread only. The first call makes the handshake.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, *, server: bool) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)

    def recv(self, size: int) -> bytes:
        """As that of a socket."""
        return b"" if (data := self._done(lambda: self._tls.read(size))) is None else data

    def recv_into(self, view: memoryview) -> int:
        """As that of a socket."""
        return self._done(lambda: self._tls.read(len(view), view)) or 0

    def sendall(self, data: bytes) -> None:
        """As that of a socket."""
        self._done(lambda: self._tls.write(data))

    def settimeout(self, seconds: float) -> None:
        """As that of a socket."""
        self._plain.settimeout(seconds)

    def _done(self, step: Any) -> Any:
        """Do a step of TLS, with all that it has to receive and to send; None at the end of the connection."""
        while True:
            wants = False
            result = None
            try:
                result = step()
            except ssl.SSLWantReadError:
                wants = True
            except ssl.SSLZeroReturnError:
                return None
            finally:
                if self._outgoing.pending:
                    self._plain.sendall(self._outgoing.read())
            if not wants:
                return result
            data = self._plain.recv(PIECE)
            if not data:
                return None
            self._incoming.write(data)

    def __enter__(self) -> Secure:
        return self

    def __exit__(self, *_: object) -> None:
        self._plain.close()


def fill(connection: Any, view: memoryview) -> int:
    """Receive into `view` until it is full or the connection ends; return the number of bytes."""
    size = 0
    while size < len(view):
        received = connection.recv_into(view[size:])
        if not received:
            break
        size += received
    return size


class Leading:
    """A connection of which some bytes were read already."""

    def __init__(self, connection: socket.socket, rest: bytes) -> None:
        self._connection, self._rest = connection, rest

    def recv_into(self, view: memoryview) -> int:
        """As that of a socket."""
        if self._rest:
            size = min(len(view), len(self._rest))
            view[:size], self._rest = self._rest[:size], self._rest[size:]
            return size
        return self._connection.recv_into(view)

    def __enter__(self) -> Leading:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def listen(address: str, serve: Any) -> int:
    """Serve connections to `address`, each in a thread of its own; return the port."""
    listener = socket.socket()
    listener.bind((address, 0))
    listener.listen(128)
    slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def run(connection: socket.socket) -> None:
        try:
            with connection:
                serve(connection)
        except (Broken, OSError, ValueError):  # it went away, or sent what is no request
            pass
        finally:
            slots.release()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # no descriptor is left, or the network refused it: the next may be served
                threading.Event().wait(_PAUSE)
                continue
            if not slots.acquire(blocking=False):
                connection.close()
                continue
            try:
                threading.Thread(target=run, args=(connection,), daemon=True).start()
            except RuntimeError:  # no thread can be started now: the next may be served
                connection.close()
                slots.release()
                threading.Event().wait(_PAUSE)

    threading.Thread(target=accept, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def contexts(certificate: str) -> list[ssl.SSLContext]:
    """Return the TLS contexts of a server and a client: both show `certificate`, with its key, and accept no other."""
    made = []
    for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(kind)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate)
        context.load_verify_locations(certificate)
        made.append(context)
    return made
