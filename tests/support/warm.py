"""Warm interpreters: TensorFlow and tfprov are imported once for all of pytest's processes, and programs are forks of them.

TensorFlow's import takes 5 seconds of a core and a verb's 0.4, hundreds of times; a fork takes 0.02. All else is as it
is: a process with its own pid, environment, descriptors, signals and exit code (see warm_server.py). What a fork cannot
be, an interpreter with options or with variables that it reads at its start, is started as ever.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.support.paths import ROOT
from tests.support.warm_client import ProgramConnection

INTERPRETER = """#!{real} -IS
import sys
sys.path.insert(0, {support!r})
from warm_client import stand_in
del sys.path[0]
sys.exit(stand_in({address!r}, {real!r}, sys.argv[1:]))
"""
ROOM = 64 * 1024
"""Bytes that a program's arguments, and its environment, may have where /proc shows them."""
DECIDED_BEFORE = {
    "verbs": {},
    "programs": {"TF_ENABLE_ONEDNN_OPTS": "0"},
    "spark": {"PYTHONHASHSEED": "0"},
}
"""Variables of each server, which its forks cannot change: TensorFlow decides on oneDNN at its import, and the inventories
turn it off; Spark gives this seed to its workers."""


class Process:
    """A program that runs in a fork: as much of subprocess.Popen as tests use."""

    def __init__(self, connection: ProgramConnection, stdout: IO[str] | None) -> None:
        assert connection.pid is not None
        self.pid, self.stdout = connection.pid, stdout
        self.returncode: int | None = None
        self._connection = connection
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, minus the signal that ended it, or None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises subprocess.TimeoutExpired."""
        if (code := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
                self.returncode = self._connection.code()
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its code is on the way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Return what it prints until it closes its output, and wait for its end; `timeout` is for each of the two."""
        timer = threading.Timer(timeout, self.kill) if timeout is not None else None
        if timer:
            timer.start()
        try:
            out = self.stdout.read() if self.stdout and not self.stdout.closed else ""
        finally:
            if timer:
                timer.cancel()
            if self.stdout:
                self.stdout.close()
        self.wait(timeout)
        return out, None


AnyProcess = Process | subprocess.Popen[str]


VERB = ["-m", "tfprov"]
"""How the arguments of a verb begin."""


class Interpreter:
    """The servers, and the executable `python` that is handed to whoever wants an interpreter.

    All forks of the process that makes it use one server for verbs, which need no TensorFlow, and one for all else; the
    first of them that needs a server starts it. It ends when all of them have ended.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tfprov-warm-"))
        self.path = self.directory / "bin" / "python"
        self._servers: list[subprocess.Popen[bytes]] = []
        self._maker = os.getpid()
        # Each fork holds the writing end; the servers read the end of it when the last one has gone.
        self._input, self._alive = os.pipe()
        self._starting = threading.Lock()
        address, support = str(self.directory / "programs"), str(Path(__file__).parent)
        text = INTERPRETER.format(real=sys.executable, support=support, address=address)
        self.path.parent.mkdir()
        self.path.write_text(text)
        self.path.chmod(0o755)
        for command in Path(sys.executable).parent.iterdir():  # such as tensorboard, which has its place beside Python
            if not command.name.startswith("python"):
                (self.path.parent / command.name).symlink_to(command)
        atexit.register(self.close)

    def executable(self) -> Path:
        """Return the `python` that runs programs as forks, for a script that looks for one."""
        self.server("programs")
        return self.path

    def server(self, name: str) -> str:
        """Return the address of the server for `verbs`, `programs` or `spark`, which listens."""
        address = self.directory / name
        # Another thread or fork may want it at the same time, and it takes seconds until it listens.
        with self._starting, (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not address.exists():
                self._start(address)
        return str(address)

    def _start(self, address: Path) -> None:
        """Start a server and wait until it listens."""
        # The padding is the room for the arguments and the environment of each fork.
        command = [sys.executable, "-m", "tests.support.warm_server", str(address), str(self.path), "-" * ROOM]
        env = {**os.environ, "PADDING": "-" * ROOM, **DECIDED_BEFORE[address.name]}
        ready, written = os.pipe()
        log = address.with_suffix(".log")
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*command, str(written)],
                cwd=ROOT, env=env, stdin=self._input, stdout=output, stderr=output, pass_fds=[written],
                start_new_session=True,
            )  # fmt: skip
        self._servers.append(server)
        os.close(written)
        with open(ready, "rb") as pipe:  # noqa: PTH123  a descriptor
            if not pipe.read():
                raise RuntimeError(f"the warm server did not start:\n{log.read_text(errors='replace')}")

    def popen(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdout: IO[Any] | int,
        stderr: IO[Any] | int = subprocess.STDOUT,
        session: bool = False,
    ) -> AnyProcess:
        """Start `python argv…`, without input; `stdout` is a file or subprocess.PIPE."""
        self.executable()  # also for a verb, which may start programs with it
        address = self.server("verbs" if [*argv[:2]] == VERB else "programs")
        read, out = os.pipe() if stdout == subprocess.PIPE else (-1, os.dup(_number(stdout)))
        error = os.dup(out if stderr == subprocess.STDOUT else _number(stderr))
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            connection = ProgramConnection(address, argv, env, str(cwd), [nothing, out, error], session=session)
        finally:
            for descriptor in (nothing, out, error):
                os.close(descriptor)
        if connection.pid is None:
            connection.close()
            if read >= 0:
                os.close(read)
            return subprocess.Popen(
                [sys.executable, *argv],
                env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=session,
                text=True,
            )  # fmt: skip
        return Process(connection, open(read) if read >= 0 else None)  # noqa: PTH123  a descriptor

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        apart: bool = False,
        timeout: float = 600,
    ) -> "subprocess.CompletedProcess[str]":
        """Run `python argv…` to its end; standard error is with standard output unless `apart`."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
            process = self.popen(
                argv,
                env=os.environ if env is None else env,
                cwd=cwd or Path.cwd(),
                stdout=out,
                stderr=error if apart else subprocess.STDOUT,
            )
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                out.seek(0)
                raise subprocess.TimeoutExpired([*argv], timeout, out.read()) from None
            out.seek(0)
            error.seek(0)
            return subprocess.CompletedProcess([*argv], code, out.read(), error.read())

    def close(self) -> None:
        """End the servers, unless another process uses them; what runs goes on."""
        os.close(self._alive)
        os.close(self._input)
        if os.getpid() == self._maker:
            for server in self._servers:
                server.wait()
            shutil.rmtree(self.directory, ignore_errors=True)


def _number(file: IO[Any] | int) -> int:
    return file if isinstance(file, int) else file.fileno()


@functools.cache
def interpreter() -> Interpreter:
    """Return the one of this process, and of all that are forked from it afterwards."""
    return Interpreter()
