"""The relay's line to the controller."""

from __future__ import annotations  # for every Python that an image may have

import json
import socket
import threading
from typing import Any

CONNECT = 4.0
"""Seconds to connect to another relay or to the end of a forward: hosts of one cluster are near each other."""
HEARTBEAT = 10.0
"""Seconds between two lines to the controller, which answers each."""
LOST = 45.0
"""Seconds without an answer after which the controller counts as lost, and the relay ends."""


class Controller:
    """JSON objects, one a line, through a forwarded port. The end of the connection ends the relay."""

    def __init__(self, port: int, token: str) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._connection = socket.create_connection(("127.0.0.1", port), CONNECT)
        self._connection.settimeout(LOST)
        self.send({"token": token})

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises OSError."""
        with self._lock:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def ask_source(self, digest: str, failed: list[Any]) -> dict[str, Any]:
        """Return where to get a layer: `peer`, which is None for the controller itself.

        `failed` are the numbers of the relays that did not send it, with their reasons.
        """
        self.send({"want": digest, "failed": failed})
        with self._changed:
            while digest not in self._answers:
                self._changed.wait()
            answer: dict[str, Any] = self._answers.pop(digest)
            return answer

    def beat(self) -> None:
        """Let the controller know that the relay runs, until the connection ends."""
        while True:
            threading.Event().wait(HEARTBEAT)
            try:
                self.send({})
            except OSError:
                return

    def listen(self) -> None:
        """Read answers until the connection ends or is silent."""
        try:
            for line in self._connection.makefile("rb"):
                message = json.loads(line)
                if "want" in message:
                    with self._changed:
                        self._answers[message["want"]] = message
                        self._changed.notify_all()
        except (OSError, ValueError):
            return
