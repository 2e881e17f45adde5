"""How much of a host's answer is read, and for how long: hosts and engines may be broken, or hostile.

What is held in memory has a number of bytes, and what is waited for a number of seconds. What may go on for ever, such as
the log of a training or the archive of a checkpoint, is read a PIECE at a time and has no end of its own.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from tfprov.errors import HostError

CHUNK = 64 * 1024
"""Bytes of a stream that are read at once: the announced length of a chunk, or of a frame, may be anything."""
ENGINE_ANSWER = 16 * 1024 * 1024
"""Bytes of an engine's answer to one question: the list of ten thousand containers has about 15 MiB."""
ENGINE_COMPLAINT = 4 * 1024
"""Bytes of an engine's error that are kept: a message shows 300 characters."""
ENGINE_LINE = 1024 * 1024
"""Bytes of one message of an engine that builds, pulls or loads: a step's instruction, or a line that it printed."""
LOG = 64 * 1024 * 1024
"""Bytes of a container's log that is not followed: its engine keeps 20 MiB of it."""
COMMAND_OUTPUT = 16 * 1024 * 1024
"""Bytes that a command prints on a host: our longest list, that of all listening ports, has less than 1 MiB; a `command`
of a playbook is a user's own."""
COMMAND_ERRORS = COMMAND_OUTPUT
"""Bytes that it prints on its standard error, which a playbook may ask for as well."""
EXEC_OUTPUT = 64 * 1024 * 1024
"""Bytes that a program of ours prints in a container: FILES names of the greatest usual length."""
GREETING = 64 * 1024
"""Bytes that a server sends before it names its version of SSH: OpenSSH reads 1,024 lines of 255 characters at most."""
PACKET = 1024 * 1024
"""Bytes of a packet of SSH; those of OpenSSH have 256 KiB at most, and those of paramiko 32 KiB."""
FIRST_LINE = 64 * 1024
"""Bytes of the line with which a command that stays says that it has begun."""
ARCHIVE_HEADER = 1024 * 1024
"""Bytes between two members of an archive: long names and extended headers, which are held whole."""
FILES = 200_000
"""Files of one directory: those of a checkpoint directory in which nothing was ever removed."""

LOGIN_TIMEOUT = 20.0
"""Seconds for a login shell to run a command that does nothing, when it is asked why another one failed."""
QUERY_TIMEOUT = 15.0
"""Seconds without a byte after which a question to an engine is given up, unless the engine still answers a PING."""
PING_TIMEOUT = 5.0
"""Seconds for that: LOOK and PING are the 20 seconds after which an engine that hangs is named."""
BUSY_TIMEOUT = 60.0
"""Seconds without a byte for an engine that answers a PING: it holds a container locked while it sends a file of it."""
ACTION_TIMEOUT = 120.0
"""Seconds without a byte while an engine does something; an unpacking layer on a slow disk is silent for a while."""
TOTAL_FACTOR = 2
"""How many times its time without a byte an answer may take as a whole: one that comes a byte at a time ends, too."""


class OutputTooLong(HostError):
    """A host sent more than is read of such an answer."""


def format_size(size: int) -> str:
    """Return a number of bytes for a message: `16 MiB`."""
    return f"{size // 1024**2} MiB" if size >= 1024**2 else f"{size // 1024} KiB"


def too_much_error(host: str, what: str, limit: int, fix: str) -> OutputTooLong:
    """Return the error for an answer of a host, `what` it is, that is longer than `limit` bytes."""
    return OutputTooLong(host, f"{what} is longer than {format_size(limit)}: the rest is not read", fix)


class BoundedBuffer:
    """Collects an answer in pieces. Raises what `error` returns when there are more than `limit` bytes of it."""

    def __init__(self, limit: int, error: Callable[[int], Exception]) -> None:
        self._limit, self._error = limit, error
        self._data = bytearray()

    def append(self, piece: bytes) -> None:
        """Add a piece."""
        if len(self._data) + len(piece) > self._limit:
            self._data.clear()
            raise self._error(self._limit)
        self._data += piece

    def __bytes__(self) -> bytes:
        return bytes(self._data)


def read_chunks(read: Callable[[int], bytes], limit: int | None = None) -> Iterator[bytes]:
    """Yield what `read(size)` returns, a PIECE at a time, until it returns nothing, or up to `limit` bytes."""
    left = limit
    while left is None or left > 0:
        data = read(CHUNK if left is None else min(CHUNK, left))
        if not data:
            return
        left = None if left is None else left - len(data)
        yield data


class Connection(Protocol):
    """A connected socket, or a channel of an SSH connection."""

    def settimeout(self, seconds: float) -> None:
        """Limit how long a read may take."""

    def recv(self, size: int, /) -> bytes:
        """Read; b"" at the end."""


PATIENCE = 0.5
"""Seconds in which Docker's proxy has closed a connection to a container where nothing listens."""


def peer_is_listening(connection: Connection) -> bool:
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
