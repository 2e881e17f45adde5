"""Whether something serves on a published port: to connect is not enough."""

from typing import Protocol


class Connection(Protocol):
    """A connected socket, or a channel of an SSH connection."""

    def settimeout(self, seconds: float) -> None:
        """Limit how long a read may take."""

    def recv(self, size: int, /) -> bytes:
        """Read; b"" at the end."""


PATIENCE = 0.5
"""Seconds in which Docker's proxy has closed a connection to a container where nothing listens."""


def stays_open(connection: Connection) -> bool:
    """Whether the other side keeps `connection`: it says something, as a gRPC server does, or waits to be spoken to.

    Docker's proxy accepts a connection on a published port in any case, and closes it when nobody listens behind it.
    """
    connection.settimeout(PATIENCE)
    try:
        return bool(connection.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False
