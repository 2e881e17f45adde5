"""Connect to unix sockets of a host over SSH, as `ssh -L` does, without a program on the host that copies the data.

The channel type direct-streamlocal@openssh.com is described in OpenSSH's PROTOCOL, 2.4; sshd has it since 6.7, with
the rights of the login's user.
"""

import threading
from typing import Any

import paramiko

from tfprov.hosts.ssh.receive_buffer import PACKET, WINDOW, receiving

_KIND = "direct-streamlocal@openssh.com"


class UnixTransport(paramiko.Transport):
    """A transport that also opens channels to unix sockets, for which paramiko has no method."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._opening = threading.local()

    def open_unix_channel(self, path: str, timeout: float) -> Any:
        """Return a channel to the socket at `path`. Raises ChannelException if sshd refuses, or cannot connect to it."""
        self._opening.path = path
        try:
            channel = self.open_channel(_KIND, window_size=WINDOW, max_packet_size=PACKET, timeout=timeout)
        finally:
            self._opening.path = None
        return receiving(channel)

    def _send_user_message(self, data: Any) -> None:
        """Send a message; that of `open_unix_channel` gets the fields that paramiko does not know for its type."""
        if (path := getattr(self._opening, "path", None)) is not None:
            self._opening.path = None
            data.add_string(path)
            data.add_string("")  # both reserved
            data.add_int(0)
        super()._send_user_message(data)  # type: ignore[misc]
