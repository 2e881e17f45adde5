"""ProxyCommand: a program whose input and output take the place of the network.

Not paramiko's own: that one spins for ever when the program ends, and leaves it behind as a zombie.
"""

import contextlib
import socket
import subprocess
from typing import Any

_SECONDS = 2.0
"""How long the program may take to end once its connection is closed."""


class ProxySocket:
    """A socket whose other end is the standard input and output of `command`, run by the shell as OpenSSH does."""

    def __init__(self, command: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            end = theirs.fileno()
            command_line = ["/bin/sh", "-c", f"exec {command}"]
            self._process = subprocess.Popen(command_line, stdin=end, stdout=end, stderr=subprocess.DEVNULL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self) -> None:
        """Close the connection and end the program."""
        self._socket.close()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS)
            return
        self._process.kill()
        self._process.wait()
