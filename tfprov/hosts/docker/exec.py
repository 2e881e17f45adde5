"""Running a program inside a container, with its connection closed afterwards."""

import io
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from signal import Signals
from typing import Any

import docker

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_client import TooLong

_SIGNAL = """sent=1
for status in /proc/[0-9]*/status; do
    pid= mask=
    while read -r key value _; do
        case $key in Pid:) pid=$value ;; SigCgt:) mask=$value ;; esac
    done 2>/dev/null <"$status" || continue
    case $mask in $1) kill -s "$2" "$pid" && sent=0 ;; esac
done
exit $sent"""
"""Sends a signal to every process whose mask of caught signals looks like $1. The first process of a container, which is
all that the engine itself would send it to, hands it on to a program that may be ended by it."""

_NOTED = 10.0
"""Seconds for an engine to note how a program has ended whose output has."""
_HEADER = struct.Struct(">BxxxL")

Output = Callable[[int, bytes], object]
"""Takes what the program prints: 1 or 2, as its file descriptor, and the bytes."""


class Printed:
    """Keeps what a program of ours prints, by its file descriptor. Raises TooLong for a program that does not end."""

    def __init__(self) -> None:
        self._kept = {where: bounds.Kept(bounds.EXEC_OUTPUT, self._error) for where in (1, 2)}

    @staticmethod
    def _error(limit: int) -> TooLong:
        return TooLong(f"more than {bounds.amount(limit)} of a program's output")

    def take(self, descriptor: int, data: bytes) -> None:
        """Take in what a program has printed. See Output."""
        if descriptor in self._kept:
            self._kept[descriptor].take(data)

    def __getitem__(self, descriptor: int) -> bytes:
        return bytes(self._kept[descriptor])


def pass_on(descriptor: int, data: bytes) -> None:
    """Write what a user's own program prints to tfprov's standard output or error, byte for byte. See Output.

    Of any other descriptor, which only a hostile engine names, it is dropped: here that may be a connection or a file.
    """
    left = memoryview(data)
    while left and descriptor in {1, 2}:
        left = left[os.write(descriptor, left) :]


def run(
    api: docker.APIClient, container: str, argv: Sequence[str], output: Output, silence: float | None = None
) -> int:
    """Run `argv` in a container that runs; return its exit code. It may be silent for `silence` seconds, None for ever.

    The SDK's own reading leaves the connection to the garbage collector, which is once a second while a training is
    watched; asked for the socket, it hands out the response too.
    """
    made = api.exec_create(container, list(argv))
    stream: Any = api.exec_start(made["Id"], socket=True)
    try:
        for descriptor, data in frames(stream, silence):
            output(descriptor, data)
    finally:
        stream._response.close()  # noqa: SLF001  there is no public way to it
    return _exit_code(api, made["Id"])


def _exit_code(api: docker.APIClient, made: str) -> int:
    """Return it once the engine has noted it, which may be after the end of the output."""
    deadline = time.monotonic() + _NOTED
    while (code := api.exec_inspect(made).get("ExitCode")) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return -1 if code is None else int(code)


def sender(attached: Any) -> Callable[[bytes], None]:
    """Return what sends to the program behind the socket that the SDK returned; a local engine's wraps the real one."""
    send: Callable[[bytes], None] = getattr(attached, "sendall", None) or attached._sock.sendall  # noqa: SLF001
    return send


def frames(attached: Any, silence: float | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield what the program prints behind the socket that the SDK returned, as (descriptor, bytes).

    It may be silent for `silence` seconds, None for ever: a user's program says nothing for as long as it likes. The
    engine frames it: 8 bytes of descriptor and length, and so many more. The SDK's own reader looks into the socket,
    where output that came together with the response's headers is not any more: it is in the response's file.
    """
    getattr(attached, "_sock", attached).settimeout(silence)
    file: io.BufferedReader = attached._response.raw._fp.fp  # noqa: SLF001
    while header := file.read(_HEADER.size):
        descriptor, left = _HEADER.unpack(header)
        while left and (data := file.read1(min(left, bounds.PIECE))):
            left -= len(data)
            yield descriptor, data


def signal(api: docker.APIClient, host: str, container: str, number: Signals) -> bool:
    """Send a signal to the processes of a running container that handle it; return whether any does."""
    name = number.name.removeprefix("SIG")
    argv = ["sh", "-c", _SIGNAL, "sh", caught(number), name]
    code = run(api, container, argv, lambda _where, _data: None, bounds.ACT)
    if code not in (0, 1):
        raise HostError(host, f"a signal cannot be sent into container {container[:12]}: its image has no shell")
    return code == 0


def caught(number: int) -> str:
    """Return the shell pattern of the masks in a /proc/PID/status that have a signal: its lowest bit is signal 1."""
    digits = [digit for digit in "0123456789abcdef" if int(digit, 16) >> (number - 1) % 4 & 1]
    return f"*[{''.join(digits)}]{'?' * ((number - 1) // 4)}"


def pieces(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[bytes]:
    """Yield what `argv` prints, run in a container, or beside one that has ended; nothing where it cannot be run.

    Whether the output is whole, the output itself must say.
    """
    with engine.errors():
        try:
            yield from _within(engine, facts["Id"], argv) if facts["State"]["Running"] else _beside(engine, facts, argv)
        except docker.errors.APIError:  # its image has no such program
            return


def _within(engine: Engine, container: str, argv: Sequence[str]) -> Iterator[bytes]:
    made = engine.api.exec_create(container, list(argv), stderr=False)
    stream: Any = engine.api.exec_start(made["Id"], socket=True)
    try:
        yield from (data for descriptor, data in frames(stream, bounds.ACT) if descriptor == 1)
    finally:
        stream._response.close()  # noqa: SLF001  there is no public way to it


def _beside(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[bytes]:
    with _container(engine, facts, argv) as container:
        attached: Any = engine.api.attach_socket(container, params={"stdout": 1, "stream": 1})
        try:
            engine.api.start(container)
            yield from (data for _, data in frames(attached, bounds.ACT))
        finally:
            engine.hang_up(attached)


@contextmanager
def _container(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str]) -> Iterator[str]:
    """Have a container that only reads, and removes itself at its end, should this be cut off."""
    api = engine.api
    made = api.create_container(
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
        yield made["Id"]
    finally:
        with suppress(docker.errors.APIError):  # it has removed itself
            api.remove_container(made["Id"], force=True)
