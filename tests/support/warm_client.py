"""Clients of the warm server: a request for a program, and its stand-in executable. Standard library only."""

import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any


class ProgramConnection:
    """One program at the server behind `address`; `pid` is None where only a true interpreter will do."""

    def __init__(
        self,
        address: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        descriptors: Sequence[int],
        *,
        session: bool = False,
        bound: bool = False,
    ) -> None:
        """Start `python argv…`; `descriptors` are its standard input, output and error; a `bound` one ends with us."""
        request = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": cwd,
            "session": session,
            "cores": sorted(os.sched_getaffinity(0)),
            "bound": bound,
        }
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(address)
        data = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(self._socket, [data], list(descriptors))
        if rest := data[sent:]:  # not without: a refusal may have closed it already
            self._socket.sendall(rest)
        self._answers = self._socket.makefile("rb")
        self.pid: int | None = self._answer()["pid"]

    def _answer(self) -> dict[str, Any]:
        if not (line := self._answers.readline()):
            raise ConnectionError("the warm server has ended; what it printed is in its log")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def fileno(self) -> int:
        """Readable when the program has ended."""
        return self._socket.fileno()

    def code(self) -> int:
        """Wait for the end; return the exit code, or minus the signal."""
        code: int = self._answer()["code"]
        self.close()
        return code

    def close(self) -> None:
        """Forget the program; it goes on."""
        self._answers.close()
        self._socket.close()


def stand_in(address: str, interpreter: str, argv: Sequence[str]) -> int:
    """Run `interpreter argv…` in this process's place, and end as it does."""
    connection = ProgramConnection(address, argv, os.environ, os.getcwd(), [0, 1, 2], bound=True)  # noqa: PTH109  no pathlib: it starts slowly
    if connection.pid is None:
        os.execv(interpreter, [interpreter, *argv])
    code = connection.code()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code
