"""A connection in memory: what a client has sent, and what it is answered, without a thread or a socket."""

import re


class Wire:
    """The server's end of a connection over which `pieces` come, and then its end; `seconds` are the timeouts set."""

    def __init__(self, *pieces: bytes) -> None:
        self.sent = b""
        self.seconds: list[float | None] = []
        self.is_closed = False
        self._pieces = [*pieces]

    def recv(self, size: int, /) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if rest := piece[size:]:
            self._pieces.insert(0, rest)
        return piece[:size]

    def sendall(self, data: bytes, /) -> None:
        self.sent += data

    def settimeout(self, seconds: float | None, /) -> None:
        self.seconds.append(seconds)

    def shutdown(self, how: int, /) -> None:
        self._pieces.clear()

    def close(self) -> None:
        self.is_closed = True

    @property
    def left(self) -> int:
        """The number of pieces that were not read."""
        return len(self._pieces)

    @property
    def answer(self) -> list[str]:
        """The lines of the answer, without the time of day."""
        return re.sub(r"Date: [^\r]*\r\n", "", self.sent.decode("latin-1")).split("\r\n")
