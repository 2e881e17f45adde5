"""The processes that a test has started, by a variable of their environment, which those that they start inherit."""

import contextlib
import os
import signal
from pathlib import Path


def marked_processes(mark: str) -> list[int]:
    """Return the pids of all processes with `mark` (`NAME=value`) in their environment, except this one."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or is another user's
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return [pid for pid in pids if pid != os.getpid()]


def kill_marked_processes(mark: str) -> bool:
    """Kill those processes; return whether there were none. One may be starting another one meanwhile."""
    pids = marked_processes(mark)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return not pids
