"""Opens sockets to the engine that `docker` on a host uses: its unix socket, or `docker system dial-stdio`.

The program takes 0.1 s of a host's CPU to start and copies every byte twice; sshd connects to the socket by itself. What
`docker` would use decides: its variables and its context, which a shell on the host knows.
"""

import re
import time
from collections.abc import Callable, Sequence

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine_api.dial import DialStream, EngineStream
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.hosts.ssh.host import SSHHost

DOCKER = ("docker",)
SCRIPT = """[ -z "$DOCKER_CONTEXT" ] || exit
case $DOCKER_HOST in
unix:///*) path=${DOCKER_HOST#unix://} ;;
"") grep -qs currentContext "${DOCKER_CONFIG:-$HOME/.docker}/config.json" && exit; path=/var/run/docker.sock ;;
*) exit ;;
esac
if ! command -v docker >/dev/null; then
    [ -S "$path" ] || exit
    [ -w "$path" ] || { echo "locked $path"; exit; }
fi
echo "socket $path"
"""
"""Prints the path of the unix socket that `docker` connects to, if it is one that can be known without starting it.

A host may have an engine and no `docker`: Debian has it in a package of its own from 13 on. Nothing but this script can
tell then that the account may not connect.
"""
_LOCKED = re.compile(r"locked /[^\n]*\n")
_PATH = re.compile(r"socket (/[^\0\n\ufffd]*)\n")
_SHELL_SECONDS = 5.0
"""Seconds for the shell's answer; without one, `docker system dial-stdio` shows what is wrong with the account."""
_LONGEST = 4096


class HostDial:
    """Call it for a new socket to the engine that `command` uses on the host of `ssh`. Thread-safe.

    The socket itself is tried for `docker` without arguments, by users who need no sudo.
    """

    def __init__(self, ssh: SSHHost, command: Sequence[str]) -> None:
        self._ssh, self._command = ssh, tuple(command)
        self._path: str | None = None
        self._may_be_direct = self._command == DOCKER and not ssh.target.become

    def __call__(self) -> EngineStream:
        """Connect. Raises HostError."""
        return self._direct() or DialStream(self._ssh, (*self._command, "system", "dial-stdio"))

    def _direct(self) -> EngineStream | None:
        if not self._may_be_direct:
            return None
        try:
            self._path = self._path or engine_socket(self._ssh)
            stream = self._ssh.unix_stream(self._path) if self._path else None
        except ConnectionLost:  # nothing was sent yet: starting the program makes a new connection
            return None
        if stream is None:  # no right to connect, no such socket, or no engine behind it: `docker` explains it
            self._may_be_direct = False
            return None
        return EngineStream(stream)


def engine_socket(ssh: SSHHost, now: Callable[[], float] = time.monotonic) -> str | None:
    """Return the path of the unix socket that `docker` on the host uses; None if that cannot be known.

    HostError where there is no `docker`, and the account may not connect.
    """
    deadline = now() + _SHELL_SECONDS  # of all of it: a start-up file may print a dot a second
    try:
        with ssh.stream(["sh", "-c", SCRIPT]) as stream:
            stream.shutdown_write()
            text = b""
            while len(text) < _LONGEST:
                stream.settimeout(max(0.001, deadline - now()))
                if not (data := stream.recv(_LONGEST)):
                    break
                text += data
                if now() > deadline:
                    return None
    except Unreachable:  # each further try would take the whole connect timeout
        raise
    except HostError:
        return None
    output = text.decode("utf-8", errors="replace")
    if _LOCKED.fullmatch(output):
        fix = (
            "add the user to the group `docker` there (that is root on the host); `ansible_become` needs `docker` there"
        )
        raise HostError(ssh.host, f"{ssh.user} may not use its Docker engine", fix)
    return read_path(output)


def read_path(output: str) -> str | None:
    """Return the path in the output of SCRIPT; None if there is none, or anything beside it."""
    match = _PATH.fullmatch(output)
    return match[1] if match else None
