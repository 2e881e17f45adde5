"""Lines of JSON on a connection that begins with a token: between the tasks of a training, and from them to the driver."""

import contextlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Message = Mapping[str, Any]
CONNECT_TIMEOUT = 10.0
"""Seconds to connect, and to send the token."""
MAX_LINE = 1024 * 1024
"""Bytes of a message."""


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._sending = connection, threading.Lock()
        self._reader = connection.makefile("rb")

    def send(self, message: Message) -> None:
        """Send a message. Raises OSError once the other end is gone."""
        data = json.dumps(message).encode() + b"\n"
        with self._sending:
            self._connection.sendall(data)

    def receive(self) -> Iterator[Message]:
        """Yield messages until the other end is gone, or sends something else."""
        with contextlib.suppress(OSError, ValueError):
            while line := self._reader.readline(MAX_LINE):
                message = json.loads(line)
                if isinstance(message, dict):
                    yield message

    def ask(self, message: Message, seconds: float) -> None:
        """Send a last message, and wait for its answer, at most `seconds`. Raises OSError once the other end is gone."""
        self._connection.settimeout(seconds)
        self.send(message)
        next(self.receive(), None)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # a thread that reads gets the end
        with contextlib.suppress(OSError):
            self._reader.close()
        self._connection.close()


def connect(host: str, port: int, token: str, name: str) -> Channel:
    """Connect to a Server as `name`. Raises OSError."""
    connection = socket.create_connection((host, port), CONNECT_TIMEOUT)
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    channel = Channel(connection)
    channel.send({"token": token, "name": name})
    return channel


class Server:
    """Accepts connections that begin with the token, and calls `handle` with a name and its channel, each in a thread."""

    def __init__(self, host: str, token: str, handle: Callable[[str, Channel], None]) -> None:
        self._token, self._handle = token, handle
        self._socket = socket.create_server((host, 0), backlog=512)
        self.port: int = self._socket.getsockname()[1]
        self._lock, self._closed = threading.Lock(), False
        self._channels: set[Channel] = set()
        threading.Thread(target=self._accept, name="tfprov-accept", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), name="tfprov-channel", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        channel = Channel(connection)
        with self._lock:
            self._channels.add(channel)
            closed = self._closed
        if closed:  # meanwhile
            channel.close()
            return
        with contextlib.suppress(OSError, ValueError):
            connection.settimeout(CONNECT_TIMEOUT)
            hello = next(channel.receive(), {})
            if hmac.compare_digest(str(hello.get("token", "")).encode(), self._token.encode()):
                connection.settimeout(None)
                self._handle(str(hello.get("name", "")), channel)
        channel.close()
        with self._lock:
            self._channels.discard(channel)

    def close(self) -> None:
        """Accept no more connections, and close those that are open."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            self._closed = True
            channels = list(self._channels)
        for channel in channels:
            channel.close()
