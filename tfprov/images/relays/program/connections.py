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
            connection, _ = listener.accept()
            if slots.acquire(blocking=False):
                threading.Thread(target=run, args=(connection,), daemon=True).start()
            else:
                connection.close()

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
