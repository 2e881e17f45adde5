"""Starts the supervisor of a run: a process in a session of its own, without the terminal."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tfprov.atomic_write import private_directory
from tfprov.errors import TfprovError, Usage, one_line
from tfprov.history.run_dir import RunDir
from tfprov.paths import PACKAGE
from tfprov.supervision.order import SupervisorOrder

MODULE = "tfprov.cli.runs.supervise"
_RUN = f"""import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module({MODULE!r}, run_name="__main__", alter_sys=True)"""
"""Without the working directory in the path of modules: it is the user's, and may have a `json.py`."""
LOG = "supervisor.log"
"""What the supervisor prints, in the run's directory: nothing, if all goes well."""
_SECONDS, _POLL = 30.0, 0.05
"""Seconds in which it has to take its lock, and between two looks."""
_TAIL = 2000


@dataclass(frozen=True)
class Launched:
    """A supervisor that was started. It begins once `pipe` is closed."""

    directory: RunDir
    process: "subprocess.Popen[bytes]"

    def begin(self) -> None:
        """Let it begin; with the end of this process it does so by itself."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    @property
    def has_refused(self) -> bool:
        """Whether it has ended without doing anything: what it was to go on with, or with what, cannot be."""
        return self.process.wait(_SECONDS) == Usage.exit_code

    def wait(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Return when it has taken over; raise TfprovError with what it printed if it ended instead."""
        for _ in range(int(_SECONDS / _POLL)):
            if self.directory.is_supervised:
                return
            if self.process.poll() is not None:
                break
            sleep(_POLL)
        error = TfprovError(f"the supervisor of {self.directory.id} did not start: {last_words(self.directory)}")
        if self.process.poll() == Usage.exit_code:
            error.exit_code = Usage.exit_code
        raise error


def launch(directory: RunDir, order: SupervisorOrder) -> Launched:
    """Start the supervisor of a run. The order goes through a pipe: it may have passwords."""
    private_directory(directory.path)
    order.store(directory)
    log = os.open(directory.path / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _RUN, str(PACKAGE.parent), str(directory.path)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=order.directory if Path(order.directory).is_dir() else None,
            start_new_session=True,
        )
    finally:
        os.close(log)
    assert process.stdin is not None
    try:
        process.stdin.write(order.to_json().encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:  # it has ended: `wait` has what it printed
        with suppress(BrokenPipeError):
            process.stdin.close()
    return Launched(directory, process)


def last_words(directory: RunDir) -> str:
    """Return the last line that the supervisor of a run printed."""
    try:
        text = (directory.path / LOG).read_bytes()[-_TAIL:].decode("utf-8", "replace").strip()
    except OSError:
        text = ""
    return one_line(text.splitlines()[-1]) if text else "it printed nothing"
