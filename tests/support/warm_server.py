"""A process behind `tests.support.warm`: imports once what many programs import, and forks itself for every one.

    python -m tests.support.warm_server SOCKET INTERPRETER PADDING READY

The name of SOCKET decides what it imports (`PRELOADED`). It listens there, which it writes to the descriptor READY, until
its standard input ends: when the test process has gone. PADDING and the variable of that name make room for what /proc
shows of a fork. A fork is a process like any other: its own pid, descriptors, working directory, environment (also in
/proc/PID/environ), session, signals and exit code. TensorFlow has no threads before its first session, so that a fork
after the import lacks nothing.

A supervisor (`python -m tfprov.hosts.process.supervisor`) starts its task by a fork of itself where the task's command is
INTERPRETER: only so is the task the supervisor's own child, which it waits for and signals.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tfprov
from tests.support.spark_preload import PRELOADED as SPARK_WORKER

_OF_VERBS = ("fabric", "docker", "rich.live", "numpy.random")
PRELOADED = {
    "verbs": _OF_VERBS,
    "programs": ("tensorflow", "tensorflow.compat.v1", "keras", *_OF_VERBS),
    "spark": ("pyspark.sql.streaming.python_streaming_source_runner", *SPARK_WORKER, "numpy.random"),
}
"""What is imported beside all of tfprov. A fork without TensorFlow is made and ended in half of the time, as half as much
memory is to be mapped for it."""
MAXIMUM = 1024 * 1024
"""Bytes of a request."""
DECIDED_AT_START = ("LANG", "LC_", "PYTHON", "MALLOC_", "LD_", "OPENBLAS_", "OMP_")
"""Prefixes of variables that an interpreter, or TensorFlow's import, reads once."""
DECIDED_LATER = (
    *("PYTHONUNBUFFERED", "PYTHONPATH", "PYTHONSAFEPATH"),
    *("PYTHON_UNIX_DOMAIN_ENABLED", "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"),
)
"""Exceptions to these, which a fork can follow; the latter are for Spark's workers."""


@dataclass(frozen=True)
class Program:
    """What a fork becomes: `python argv…`. `descriptors` are its standard input, output and error."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    descriptors: Sequence[int]
    session: bool
    """Whether it leads a session of its own."""
    cores: Sequence[int]


class Forked(BaseException):
    """Raised in a new process: unwinds to `main`, so that what the parent holds is closed and the program can end well."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program


class Server:
    """Forks for each connection, reports the child's pid, and then its exit code."""

    def __init__(self, listener: socket.socket) -> None:
        self.watched = selectors.DefaultSelector()
        self.watched.register(listener, selectors.EVENT_READ)
        self.watched.register(0, selectors.EVENT_READ)
        self.listener = listener
        self.connections: set[socket.socket] = set()

    def serve(self) -> None:
        """Return when standard input ends; raises Forked in the children."""
        while True:
            for key, _ in self.watched.select():
                if key.fd == 0:
                    return
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    self.connections.add(connection)
                    with contextlib.suppress(OSError, ValueError):  # the client has gone meanwhile
                        self._answer(connection)
                # Not unregistered by an earlier event of this round, nor is its number that of a newer descriptor.
                elif self.watched.get_map().get(key.fd) is key:
                    key.data()

    def _answer(self, connection: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(connection, MAXIMUM, 3)
        while not data.endswith(b"\n"):
            if not (more := connection.recv(MAXIMUM)):
                raise ValueError("the request ended early")
            data += more
        request = json.loads(data)
        bound = request.pop("bound")
        if not forkable(request["argv"], request["env"], os.environ):
            connection.sendall(b'{"pid": null}\n')
            self._forget(connection, descriptors)
            return
        pid = os.fork()
        if pid == 0:
            for each in self.connections:
                each.close()
            self.watched.close()
            raise Forked(Program(**request, descriptors=descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        self._watch(connection, pid, bound=bound)
        connection.sendall(json.dumps({"pid": pid}).encode() + b"\n")

    def _forget(self, connection: socket.socket, descriptors: Sequence[int] = ()) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        connection.close()
        self.connections.discard(connection)

    def _watch(self, connection: socket.socket, pid: int, *, bound: bool) -> None:
        """Report the end of a child; end a bound one when its client goes."""
        child = os.pidfd_open(pid)

        def ended() -> None:
            self.watched.unregister(child)
            os.close(child)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if connection in self.watched.get_map():
                self.watched.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps({"code": code}).encode() + b"\n")
            self._forget(connection)

        def hung_up() -> None:
            self.watched.unregister(connection)
            signal.pidfd_send_signal(child, signal.SIGKILL)

        self.watched.register(child, selectors.EVENT_READ, ended)
        if bound:
            self.watched.register(connection, selectors.EVENT_READ, hung_up)


def forkable(argv: Sequence[str], env: Mapping[str, str], here: Mapping[str, str]) -> bool:
    """Whether a fork of an interpreter with the environment `here` is the same as `python argv…` with `env`.

    It is not with options of the interpreter, nor where a variable differs that is read once, at the start.
    """
    if not argv or (argv[0].startswith("-") and argv[0] not in {"-m", "-c"}):
        return False
    names = {name for name in {*env, *here} if name.startswith(DECIDED_AT_START) and name not in DECIDED_LATER}
    return all(env.get(name) == here.get(name) for name in names)


def spawning(interpreter: str) -> Callable[..., Any]:
    """Return what a supervisor starts its task with: subprocess.Popen, but a fork where the command is `interpreter`."""

    def spawn(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, **options: Any) -> Any:
        command = shutil.which(argv[0], path=env.get("PATH"))
        if command != interpreter or not forkable(argv[1:], env, os.environ):
            return subprocess.Popen(argv, env=env, cwd=cwd, **options)
        if pid := os.fork():
            return Child(pid)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            streams = [nothing.fileno(), options["stdout"].fileno(), options["stderr"].fileno()]
            descriptors = [os.dup(stream) for stream in streams]
        cores = sorted(os.sched_getaffinity(0))
        raise Forked(Program(argv[1:], env, str(cwd), descriptors, session=True, cores=cores))

    return spawn


@dataclass
class Child:
    """As much of a subprocess.Popen as a supervisor uses."""

    pid: int

    def wait(self) -> int:
        """Return its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def become(program: Program) -> None:
    """Take over all that a program gets from who starts it."""
    for number, descriptor in enumerate(program.descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if program.session:
        os.setsid()
    os.sched_setaffinity(0, program.cores)
    os.chdir(program.cwd)
    os.environ.clear()
    os.environ.update(program.env)
    _show(program)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    random.seed()
    sys.modules["numpy"].random.seed()
    unbuffered = bool(program.env.get("PYTHONUNBUFFERED"))
    # Anew: the former one keeps whether its file had places to seek to.
    binary = open(1, "wb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(
        binary, sys.stdout.encoding, sys.stdout.errors, line_buffering=binary.isatty(), write_through=unbuffered
    )
    sys.stderr.reconfigure(write_through=unbuffered)  # type: ignore[union-attr]


def _show(program: Program) -> None:
    """Let /proc/PID/cmdline and environ, by which others recognise a process, tell what this one is now."""
    fields = [int(field) for field in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1:]]
    environment = [f"{name}={value}" for name, value in program.env.items()]
    # Fields 48 to 51 of proc(5): the addresses where the arguments begin and end, and the environment.
    arguments = ["python", *program.argv]
    for words, (begin, end) in ((arguments, fields[44:46]), (environment, fields[46:48])):
        text = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - begin - 1]
        ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def run(argv: Sequence[str], interpreter: str) -> None:
    """Run `python argv…`."""
    sys.executable = interpreter
    sys.excepthook = _report
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    first, *rest = argv
    if first == "-m":
        sys.path[:0] = [] if os.environ.get("PYTHONSAFEPATH") else [str(Path.cwd())]
        sys.argv = rest
        if rest[0] == "tfprov.hosts.process.supervisor":
            supervisor = importlib.import_module("tfprov.hosts.process.supervisor")
            sys.exit(supervisor.main(spawning(interpreter)))
        sys.modules.pop(rest[0], None) if rest[0] != "tfprov" else None  # it runs anew, as a program
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    if first == "-c":
        source, sys.argv, file = rest[0], ["-c", *rest[1:]], "<string>"
        sys.path.insert(0, "")
    else:
        source, sys.argv, file = Path(first).read_text(), [*argv], first
        sys.path.insert(0, str(Path(first).resolve().parent))
    module = types.ModuleType("__main__")
    if first != "-c":
        module.__file__ = file
    sys.modules["__main__"] = module
    exec(compile(source, file, "exec"), module.__dict__)


def _report(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """Print an exception as the interpreter does: from the program's first frame on."""
    frame = trace
    while frame:
        if frame.tb_frame.f_code.co_filename in {__file__, runpy.__file__, "<frozen runpy>"}:
            trace = frame.tb_next
        frame = frame.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def listen(address: str, ready: int) -> Program | None:
    """Serve at `address`; return None at the end, and in a fork what it is to become."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(ready, b"ready")
        os.close(ready)
        try:
            Server(listener).serve()
        except Forked as fork:
            return fork.program
    return None


def run_to_its_end(argv: Sequence[str], interpreter: str) -> Program:
    """Run a program and end this process as it ends; in the fork of a supervisor return the task that it is to become."""
    try:
        run(argv, interpreter)
        code = 0
    except Forked as fork:
        return fork.program
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    # As the interpreter ends, but for the last of it: it would go through all that was ever imported, half a second long.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  there is no public one
    atexit._run_exitfuncs()  # noqa: SLF001  as above
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or the program has closed it
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def main() -> None:
    """Import, listen, and run in each fork what was asked for: here, where nothing of the server is in use any more."""
    address, interpreter = sys.argv[1:3]
    ours = (module.name for module in pkgutil.walk_packages(tfprov.__path__, "tfprov."))
    for name in (*PRELOADED[Path(address).name], *(name for name in ours if not name.endswith("__main__"))):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a child's first collection does not write to, and so copy, every page
    program = listen(address, int(sys.argv[-1]))
    while program:
        become(program)
        program = run_to_its_end(program.argv, interpreter)


if __name__ == "__main__":
    main()
