"""A port for a TensorFlow server that stays reserved until the server has bound it."""

import socket
from types import TracebackType


class HeldPort:
    """A port of this machine that no other program gets while it is held.

    The socket is bound and does not listen. TensorFlow binds with SO_REUSEADDR, and so does this: Linux lets both have
    the port as long as one of them listens, and gives it to nobody who asks for any free port. It can stay held while the
    server runs, so that there is no moment at which the port is free.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("0.0.0.0", 0))  # noqa: S104  reserved on all addresses, and never listened on
        self.number: int = self._socket.getsockname()[1]

    def __enter__(self) -> "HeldPort":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._socket.close()
