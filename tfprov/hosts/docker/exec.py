"""Run programs inside containers, and beside stopped ones, closing the connection afterwards."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from signal import Signals
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.bounds import AnswerTooLong
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.paths import program_path
from tfprov.hosts.docker.engine_api.program import read_frames
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.engine_errors import NOT_FOUND, Refused
from tfprov.hosts.terminal import ExecMode, attach

HELPER = "tfprov.helper"
"""Label of a container that has the volumes of a task for a moment: one that is left of a killed run has no other name."""
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

_CONFLICT = 409
"""The status of an answer about a container that does not run."""
_NOT_RUNNING = -1
"""Exit code if the container could not run anything, which says nothing about its image."""
_EXIT_CODE_TIMEOUT = 10.0
"""Seconds for an engine to record the exit code after the output has ended."""
_REMOVAL_TIMEOUT = 60
"""Seconds for an engine to remove a container that has ended."""

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
    engine: Engine, container: str, argv: Sequence[str], output: OutputCallback, silence: float | None = None
) -> int:
    """Run `argv` in a running container; return its exit code. `silence` limits its silence in seconds; None for no limit.

    Raises Refused and HostError.
    """
    with engine.errors(), closing(engine.start_program(container, argv)) as program:
        for descriptor, data in program.output(silence):
            output(descriptor, data)
    return exit_code(engine, program.id)


def run_program(engine: Engine, container: str, argv: Sequence[str]) -> tuple[int | None, bytes, bytes]:
    """Run a program inside a container; return its exit code, standard output and standard error.

    The exit code is None if the image has no such program, _NOT_RUNNING if the container is gone or restarting.
    """
    output = CapturedOutput()
    try:
        code = run(engine, container, argv, output.append, bounds.ACTION_TIMEOUT)
    except Refused as error:
        return _NOT_RUNNING if error.status in (NOT_FOUND, _CONFLICT) else None, b"", b""
    return code, output[1], output[2]


def exit_code(engine: Engine, program: str) -> int:
    """Wait until the engine has recorded the exit code, possibly after the end of the output; -1 if it does not."""
    deadline = time.monotonic() + _EXIT_CODE_TIMEOUT
    while (code := _recorded_code(engine, program)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return -1 if code is None else code


def _recorded_code(engine: Engine, program: str) -> int | None:
    (details,) = engine.ask(program_path(program, "json"))
    code = details.get("ExitCode")
    return None if code is None else int(code)


def get_sender(attached: Any) -> Callable[[bytes], None]:
    """Return the function that sends to an attached program; for a local engine the SDK wraps the socket."""
    send: Callable[[bytes], None] = getattr(attached, "sendall", None) or attached._sock.sendall  # noqa: SLF001
    return send


def read_attached(attached: Any, silence: float | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the output of a container to which the SDK is attached, as (descriptor, bytes).

    `silence` limits the seconds without output; None for no limit. The SDK's own reader reads the socket and misses output
    that arrived with the response's headers: that is in the response's buffered file.
    """
    getattr(attached, "_sock", attached).settimeout(silence)
    yield from read_frames(attached._response.raw._fp.fp)  # noqa: SLF001  there is no public access


def signal(engine: Engine, container: str, number: Signals) -> bool:
    """Send a signal to the processes of a running container that handle it; return whether there are any."""
    name = number.name.removeprefix("SIG")
    argv = ["sh", "-c", _SIGNAL_SCRIPT, "sh", signal_mask_pattern(number), name]
    code = run(engine, container, argv, lambda _where, _data: None, bounds.ACTION_TIMEOUT)
    if code not in (0, 1):
        raise HostError(engine.host, f"cannot send a signal into container {container[:12]}: its image has no shell")
    return code == 0


def signal_mask_pattern(number: int) -> str:
    """Return the shell pattern that matches the signal masks of /proc/PID/status containing `number`."""
    digits = [digit for digit in "0123456789abcdef" if int(digit, 16) >> (number - 1) % 4 & 1]
    return f"*[{''.join(digits)}]{'?' * ((number - 1) // 4)}"


def stream_output(
    engine: Engine, facts: Mapping[str, Any], argv: Sequence[str], silence: float = bounds.ACTION_TIMEOUT
) -> Iterator[bytes]:
    """Yield the output of `argv`, run in a container, or beside a stopped one; nothing if it cannot run.

    `silence` limits the seconds without output. The output itself must tell whether it is complete.
    """
    if not facts["State"]["Running"]:
        with engine.errors():
            try:
                yield from _helper_output(engine, facts, argv, silence)
            except docker.errors.APIError:  # its image has no such program
                return
        return
    try:
        program = engine.start_program(facts["Id"], argv, AttachStderr=False)
    except Refused:  # its image has no such program
        return
    with engine.errors(), closing(program):
        yield from (data for descriptor, data in program.output(silence) if descriptor == 1)


def _helper_output(engine: Engine, facts: Mapping[str, Any], argv: Sequence[str], silence: float) -> Iterator[bytes]:
    with _helper_container(engine, facts, argv) as container:
        attached: Any = engine.api.attach_socket(container, params={"stdout": 1, "stream": 1})
        try:
            engine.api.start(container)
            yield from (data for _, data in read_attached(attached, silence))
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
        labels={HELPER: ""},
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
        with suppress(docker.errors.APIError):  # its output is complete, and it removes itself
            remove_ended(engine, created["Id"])


def remove_ended(engine: Engine, container: str) -> None:
    """Remove a container that removes itself at its end, and wait until it is gone: until then it uses its volumes.

    Raises the SDK's errors.
    """
    with suppress(docker.errors.NotFound):
        try:
            engine.api.remove_container(container, force=True, v=True)
        except docker.errors.APIError as error:
            if error.status_code != _CONFLICT:
                raise
            engine.api.wait(container, timeout=_REMOVAL_TIMEOUT, condition="removed")


_RESIZE_TRIES, _RESIZE_PAUSE = 10, 0.05
"""How often, and with how many seconds in between, an engine gets the size of a terminal."""


class AttachedProgram:
    """A RemoteProgram in a container."""

    def __init__(self, engine: Engine, container: str, argv: Sequence[str], mode: ExecMode) -> None:
        options: dict[str, Any] = {"AttachStdin": mode.stdin, "Tty": mode.tty}
        if mode.tty and os.environ.get("TERM"):
            options["Env"] = [f"TERM={os.environ['TERM']}"]
        self._engine = engine
        self._program = engine.start_program(container, argv, **options)
        self.id = self._program.id
        self.send, self.end_input = self._program.send, self._program.end_input
        self.close = self._program.close

    def resize(self, rows: int, columns: int) -> None:
        """See RemoteProgram."""
        for _ in range(_RESIZE_TRIES):  # an engine refuses while the program starts
            with suppress(Refused):
                self._engine.resize_program(self.id, rows, columns)
                return
            time.sleep(_RESIZE_PAUSE)

    def output(self) -> Iterator[tuple[int, bytes]]:
        """See RemoteProgram."""
        with self._engine.errors():
            yield from self._program.output(None)


def run_attached(
    engine: Engine, container: str, argv: Sequence[str], mode: ExecMode, write: OutputCallback = forward_output
) -> int:
    """Run `argv` in a running container, connected as `mode` says; return its exit code.

    Errors of `write`, as of a closed pipe, are this machine's, and raised as they are.
    """
    with closing(AttachedProgram(engine, container, argv, mode)) as program:
        attach(program, mode, write)
    return exit_code(engine, program.id)
