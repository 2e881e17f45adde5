"""Runs a task's program beside the mirror of its checkpoint directory.

    python -m tfprov.runtime.mirror.task [--group] -- PROGRAM [ARGUMENT...]

TFPROV_CHECKPOINT_URL is the remote directory and TFPROV_CHECKPOINT_DIR the local one. Before the program starts, its newest
checkpoint is restored; while it runs, a thread mirrors every new one; after its end, what is left. The program is a child:
it gets the signals that this process gets, and its exit code becomes that of this process. With `--group`, signals go to
all processes of the group, as the supervisor of the process runtime sends them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfprov.filesystems.remote_dir import ClientMissing, OpenRemote, RemoteError, open_remote
from tfprov.runtime.mirror.loop import MirrorLoop
from tfprov.runtime.mirror.restore import Owner, Refused

URL, DIRECTORY = "TFPROV_CHECKPOINT_URL", "TFPROV_CHECKPOINT_DIR"
CONFIG_ERROR = 78
"""The exit code for a directory that cannot be used: EX_CONFIG. A restart would not help."""
UNREACHABLE = 75
"""The exit code for a remote directory that cannot be reached at the start, or is behind at the end: EX_TEMPFAIL."""
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WAITED = (*_FORWARDED, signal.SIGCHLD)


def say(line: str) -> None:
    """Print a line of tfprov's own among those of the program."""
    sys.stderr.write(f"tfprov: {line}\n")
    sys.stderr.flush()


class Stopped(Exception):
    """A signal ended the task before its program had started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(argv: Sequence[str], env: Mapping[str, str], opened: OpenRemote = open_remote) -> int:
    """Run the program of the command line; return the exit code."""
    group = argv[:1] == ["--group"]
    command = list(argv[argv.index("--") + 1 :])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)  # before there are other threads, which inherit it
    try:
        loop = _prepared(env, opened)
    except Stopped as stopped:
        return 128 + stopped.number
    except RemoteError as error:
        return _refuse(error, in_container=not group)
    except OSError as error:  # the local disk, which may be full
        say(f"{error.filename or env[DIRECTORY]} cannot be written: {error.strerror}; look at the disk of this host")
        return 1
    try:
        pid = os.posix_spawnp(command[0], command, dict(os.environ), setsigmask=before, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        say(f"{command[0]} cannot be started: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    loop.start()
    code, stopped_by_us = wait(pid, group=group)
    loop.stop(_is_ended_in, patient=not stopped_by_us)
    return UNREACHABLE if loop.problem and code == 0 else code


def _refuse(error: RemoteError, *, in_container: bool) -> int:
    fix = error.fix
    if isinstance(error, ClientMissing):
        package, extra = error.scheme.package, error.scheme.extra
        fix = f"install it for this Python: pip install {package}, or 'tfprov[{extra}]' with tfprov"
        if in_container:
            fix = f"add `pip install {package}` to the image (`image.build_args: {{CLIENTS: {package}}}` for tfprov's own)"
    say(f"{error.message}{f'; {fix}' if fix else ''}")
    return CONFIG_ERROR if isinstance(error, (ClientMissing, Refused)) else UNREACHABLE


def _prepared(env: Mapping[str, str], opened: OpenRemote) -> MirrorLoop:
    """Return the mirror once the directory is restored; a server that does not answer is asked again for a while."""
    owner = Owner(env.get("TFPROV_CLUSTER", ""), env.get("TFPROV_RUN", ""))
    return MirrorLoop.begin(opened(env[URL], env), Path(env[DIRECTORY]), owner, say, _pause)


def _pause(seconds: float) -> None:
    """Wait. Raises Stopped for a signal that would have ended the program."""
    received = signal.sigtimedwait(_ENDING, seconds)
    if received is not None:
        raise Stopped(received.si_signo)


def _is_ended_in(seconds: float) -> bool:
    """Wait; return whether a signal asks this task to end."""
    return signal.sigtimedwait(_ENDING, seconds) is not None


def wait(pid: int, *, group: bool) -> tuple[int, bool]:
    """Pass signals on until the program ends; return its exit code, 128 + N after signal N, and whether it was stopped."""
    is_stopped = False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), is_stopped
        received = signal.sigtimedwait(WAITED, 60.0)
        if received is None or received.si_signo == signal.SIGCHLD:
            continue
        if received.si_pid == os.getpid():  # what this process has sent to its group
            continue
        is_stopped = is_stopped or received.si_signo in (signal.SIGTERM, signal.SIGINT)
        _forward(received.si_signo, pid, group=group)


def _forward(number: int, pid: int, *, group: bool) -> None:
    try:
        if group:
            os.killpg(os.getpgrp(), number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:  # it has just ended
        return


if __name__ == "__main__":
    exit_code = main(sys.argv[1:], os.environ)
    # A request in progress must not keep the task: the interpreter would wait for the threads of clients.
    sys.stdout.flush()
    os._exit(exit_code)
