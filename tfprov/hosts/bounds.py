"""Limits of size and time for the answers of hosts and engines, which may be broken or hostile.

Data held in memory has a limit in bytes, waiting one in seconds. Endless data, such as a training's log or a checkpoint's
archive, is read a CHUNK at a time without a total limit.
"""

from collections.abc import Callable, Iterator

from tfprov.errors import HostError

CHUNK = 64 * 1024
"""Bytes of a stream per read: a chunk or a frame may announce any length."""
ENGINE_ANSWER = 16 * 1024 * 1024
"""Bytes of an engine's answer: a list of ten thousand containers has about 15 MiB."""
ENGINE_COMPLAINT = 4 * 1024
"""Bytes kept of an engine's error: a message shows 300 characters."""
ENGINE_LINE = 1024 * 1024
"""Bytes of one progress message of a build, pull or load: an instruction, or a line of output."""
STATE_FILE = 1024 * 1024
"""Bytes of a `checkpoint` file: one that names 10,000 checkpoints has half of it."""
LOG = 64 * 1024 * 1024
"""Bytes of a container's log without `follow`: engines keep 20 MiB of it."""
COMMAND_OUTPUT = 16 * 1024 * 1024
"""Bytes of a command's standard output: the longest list of tfprov's own, all listening ports, has less than 1 MiB; a
playbook's `command` is the user's."""
COMMAND_ERRORS = COMMAND_OUTPUT
"""Bytes of its standard error, which a playbook may use as well."""
EXEC_OUTPUT = 64 * 1024 * 1024
"""Bytes of output of tfprov's own programs in containers: FILES names of the greatest usual length."""
GREETING = 64 * 1024
"""Bytes that a server sends before its SSH version: OpenSSH reads at most 1,024 lines of 255 characters."""
PACKET = 1024 * 1024
"""Bytes of an SSH packet: OpenSSH's have at most 256 KiB, and those of channels what `ssh.receive_buffer` allows."""
FIRST_LINE = 64 * 1024
"""Bytes of the first line of a held command."""
ARCHIVE_HEADER = 1024 * 1024
"""Bytes between two members of an archive: long names and extended headers are held in memory."""
FILES = 200_000
"""Files of one directory: enough for a checkpoint directory in which nothing was ever removed."""
NESTED = 100
"""Directories within one another below a checkpoint directory: a path of 4 KiB has room for 2,000."""

LOGIN_TIMEOUT = 20.0
"""Seconds for the command that checks an account after another command failed."""
QUERY_TIMEOUT = 15.0
"""Seconds without a byte after which a query to an engine fails, unless it answers a ping."""
PING_TIMEOUT = 5.0
"""Seconds for a ping: with QUERY_TIMEOUT, the 20 seconds after which a hanging engine is reported."""
BUSY_TIMEOUT = 60.0
"""Seconds without a byte for an engine that answers pings: it locks a container while sending a file of it."""
ACTION_TIMEOUT = 120.0
"""Seconds without a byte during an action of an engine: unpacking a layer to a slow disk is silent for a while."""
TOTAL_FACTOR = 2
"""Total time of an answer's headers as a multiple of its silence limit: one that arrives bytewise ends, too."""


class AnswerTooLong(Exception):
    """An answer exceeds its size limit."""


class OutputTooLong(HostError):
    """A host sent more than the limit."""


def format_size(size: int) -> str:
    """Return a number of bytes as `16 MiB` or `4 KiB`."""
    return f"{size // 1024**2} MiB" if size >= 1024**2 else f"{size // 1024} KiB"


def too_much_error(host: str, output: str, limit: int, fix: str) -> OutputTooLong:
    """Return the error for output of a host, described by `output`, longer than `limit` bytes."""
    return OutputTooLong(host, f"{output} is longer than {format_size(limit)}: the rest is not read", fix)


class BoundedBuffer:
    """Collects chunks. Raises the result of `error` beyond `limit` bytes."""

    def __init__(self, limit: int, error: Callable[[int], Exception]) -> None:
        self._limit, self._error = limit, error
        self._data = bytearray()

    def append(self, chunk: bytes) -> None:
        """Add a chunk."""
        if len(self._data) + len(chunk) > self._limit:
            self._data.clear()
            raise self._error(self._limit)
        self._data += chunk

    def __bytes__(self) -> bytes:
        return bytes(self._data)


def read_chunks(read: Callable[[int], bytes], limit: int | None = None) -> Iterator[bytes]:
    """Yield what `read(size)` returns, a PIECE at a time, until it returns nothing, or up to `limit` bytes."""
    remaining = limit
    while remaining is None or remaining > 0:
        data = read(CHUNK if remaining is None else min(CHUNK, remaining))
        if not data:
            return
        remaining = None if remaining is None else remaining - len(data)
        yield data
