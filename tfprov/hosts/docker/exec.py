"""Run programs inside containers, and beside stopped ones, closing the connection afterwards."""

import io
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from signal import Signals
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.bounds import AnswerTooLong
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.terminal import ExecMode, attach

_SIGNAL_SCRIPT = """sent=1
for status in /proc/[0-9]*/status; do
    pid= mask=
    while read -r key value _; do
        case $key in Pid:) pid=$value ;; SigCgt:) mask=$value ;; esac
    done 2>/dev/null <"$status" || continue
    case $mask in $1) kill -s "$2" "$pid" && sent=0 ;; esac
done
exit $sent"""
"""Sends a signal to every process whose mask of caught signals matches $1. The engine would send it only to the first
process, an init that forwards it to a program which may not handle it and would end."""

_EXIT_CODE_TIMEOUT = 10.0
"""Seconds for an engine to record the exit code after the output has ended."""
_HEADER = struct.Struct(">BxxxL")

OutputCallback = Callable[[int, bytes], object]
"""Called with the file descriptor (1 or 2) and the bytes of a program's output."""


class CapturedOutput:
    """Captures a program's output by file descriptor. Raises AnswerTooLong beyond EXEC_OUTPUT bytes."""

    def __init__(self) -> None:
        self._buffers = {descriptor: bounds.BoundedBuffer(bounds.EXEC_OUTPUT, self._error) for descriptor in (1, 2)}

    @staticmethod
    def _error(limit: int) -> AnswerTooLong:
        return AnswerTooLong(f"more than {bounds.format_size(limit)} of a program's output")

    def append(self, descriptor: int, data: bytes) -> None:
        """Append output. See OutputCallback."""
        if descriptor in self._buffers:
            self._buffers[descriptor].append(data)

    def __getitem__(self, descriptor: int) -> bytes:
        return bytes(self._buffers[descriptor])


def forward_output(descriptor: int, data: bytes) -> None:
    """Write output unchanged to tfprov's standard output or error. See OutputCallback.

    Other descriptors, which only a hostile engine sends, are dropped: here they may be connections or files.
    """
    remaining = memoryview(data)
    while remaining and descriptor in {1, 2}:
        remaining = remaining[os.write(descriptor, remaining) :]


def run(
    api: "docker.APIClient", container: str, argv: Sequence[str], output: OutputCallback, silence: float | None = None
) -> int:
    """Run `argv` in a running container; return its exit code. `silence` limits its silence in seconds; None for no limit.

    The SDK's own reader leaves the connection to the garbage collector, once a second while a training is watched;
    `socket=True` gives access to the response.
    """
    created = api.exec_create(container, list(argv))
    stream: Any = api.exec_start(created["Id"], socket=True)
    try:
        for descriptor, data in read_frames(stream, silence):
            output(descriptor, data)
    finally:
        stream._response.close()  # noqa: SLF001  there is no public access
    return exit_code(api, created["Id"])


def exit_code(api: "docker.APIClient", created: str) -> int:
    """Wait until the engine has recorded the exit code, possibly after the end of the output; -1 if it does not."""
    deadline = time.monotonic() + _EXIT_CODE_TIMEOUT
    while (code := api.exec_inspect(created).get("ExitCode")) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return -1 if code is None else int(code)


def get_sender(attached: Any) -> Callable[[bytes], None]:
    """Return the function that sends to an attached program; for a local engine the SDK wraps the socket."""
    send: Callable[[bytes], None] = getattr(attached, "sendall", None) or attached._sock.sendall  # noqa: SLF001
    return send


def read_frames(attached: Any, silence: float | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the output of an attached program as (descriptor, bytes).

    `silence` limits the seconds without output; None for no limit, as for a user's program. The engine sends frames: 8
    bytes of descriptor and length, then the data. The SDK's own reader reads the socket and misses output that arrived
    with the response's headers: that is in the response's buffered file.
    """
    getattr(attached, "_sock", attached).settimeout(silence)
    file: io.BufferedReader = attached._response.raw._fp.fp  # noqa: SLF001
    while header := file.read(_HEADER.size):
        descriptor, remaining = _HEADER.unpack(header)
        while remaining and (data := file.read1(min(remaining, bounds.CHUNK))):
            remaining -= len(data)
            yield descriptor, data


def signal(api: "docker.APIClient", host: str, container: str, number: Signals) -> bool:
    """Send a signal to the processes of a running container that handle it; return whether there are any."""
    name = number.name.removeprefix("SIG")
    argv = ["sh", "-c", _SIGNAL_SCRIPT, "sh", signal_mask_pattern(number), name]
    code = run(api, container, argv, lambda _where, _data: None, bounds.ACTION_TIMEOUT)
    if code not in (0, 1):
        raise HostError(host, f"cannot send a signal into container {container[:12]}: its image has no shell")
    return code == 0


def signal_mask_pattern(number: int) -> str:
    """Return the shell pattern that matches the signal masks of /proc/PID/status containing `number`."""
    digits = [digit for digit in "0123456789abcdef" if int(digit, 16) >> (number - 1) % 4 & 1]
    return f"*[{''.join(digits)}]{'?' * ((number - 1) // 4)}"


def stream_output(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[bytes]:
    """Yield the output of `argv`, run in a container, or beside a stopped one; nothing if it cannot run.

    The output itself must tell whether it is complete.
    """
    with engine.errors():
        try:
            yield from (
                _exec_output(engine, facts["Id"], argv)
                if facts["State"]["Running"]
                else _helper_output(engine, facts, argv)
            )
        except docker.errors.APIError:  # its image has no such program
            return


def _exec_output(engine: Engine, container: str, argv: Sequence[str]) -> Iterator[bytes]:
    created = engine.api.exec_create(container, list(argv), stderr=False)
    stream: Any = engine.api.exec_start(created["Id"], socket=True)
    try:
        yield from (data for descriptor, data in read_frames(stream, bounds.ACTION_TIMEOUT) if descriptor == 1)
    finally:
        stream._response.close()  # noqa: SLF001  there is no public access


def _helper_output(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[bytes]:
    with _helper_container(engine, facts, argv) as container:
        attached: Any = engine.api.attach_socket(container, params={"stdout": 1, "stream": 1})
        try:
            engine.api.start(container)
            yield from (data for _, data in read_frames(attached, bounds.ACTION_TIMEOUT))
        finally:
            engine.close_attached(attached)


@contextmanager
def _helper_container(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[str]:
    """Create a container with read-only access to the volumes, which removes itself at its end if this is interrupted."""
    api = engine.api
    created = api.create_container(
        image=facts["Image"],
        command=list(argv),
        entrypoint=[],
        user="0",
        host_config=api.create_host_config(
            volumes_from=[f"{facts['Id']}:ro"],
            network_mode="none",
            auto_remove=True,
            log_config=docker.types.LogConfig(type="none"),
            security_opt=["no-new-privileges"],
        ),
    )
    try:
        yield created["Id"]
    finally:
        with suppress(docker.errors.APIError):  # it has removed itself
            api.remove_container(created["Id"], force=True)


_RESIZE_TRIES, _RESIZE_PAUSE = 10, 0.05
"""How often, and with how many seconds in between, an engine is told the size of a terminal."""


class AttachedProgram:
    """A RemoteProgram in a container."""

    def __init__(self, api: "docker.APIClient", container: str, argv: Sequence[str], mode: ExecMode) -> None:
        self._api, self._mode = api, mode
        environment = {"TERM": os.environ["TERM"]} if mode.tty and os.environ.get("TERM") else None
        created = api.exec_create(
            container, list(argv), stdin=mode.stdin, tty=mode.tty, environment=environment
        )  # fmt: skip
        self.id: str = created["Id"]
        self._stream: Any = api.exec_start(self.id, tty=mode.tty, socket=True)

    def send(self, data: bytes) -> None:
        """See RemoteProgram."""
        get_sender(self._stream)(data)

    def end_input(self) -> None:
        """See RemoteProgram. The connection's other half stays open for the output."""
        peer = getattr(self._stream, "_sock", None) or getattr(self._stream, "sock", self._stream)
        with suppress(OSError):
            peer.shutdown(socket.SHUT_WR)

    def resize(self, rows: int, columns: int) -> None:
        """See RemoteProgram."""
        for _ in range(_RESIZE_TRIES):  # an engine refuses while the program starts
            with suppress(docker.errors.APIError):
                self._api.exec_resize(self.id, height=rows, width=columns)
                return
            time.sleep(_RESIZE_PAUSE)

    def output(self) -> Iterator[tuple[int, bytes]]:
        """See RemoteProgram. A terminal has one output, without frames."""
        if not self._mode.tty:
            yield from read_frames(self._stream)
            return
        getattr(self._stream, "_sock", self._stream).settimeout(None)
        file: io.BufferedReader = self._stream._response.raw._fp.fp  # noqa: SLF001  as in read_frames
        while data := file.read1(bounds.CHUNK):
            yield 1, data

    def close(self) -> None:
        """Close the connection."""
        self._stream._response.close()  # noqa: SLF001


def run_attached(api: "docker.APIClient", container: str, argv: Sequence[str], mode: ExecMode) -> int:
    """Run `argv` in a running container, connected as `mode` says; return its exit code."""
    program = AttachedProgram(api, container, argv, mode)
    try:
        attach(program, mode, forward_output)
    finally:
        program.close()
    return exit_code(api, program.id)
