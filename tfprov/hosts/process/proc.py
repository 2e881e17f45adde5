"""Facts about this machine's processes, from /proc."""

import contextlib
import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> str | None:
    """Return what tells this process from every other that ever had its pid: the boot and its start time; None if dead.

    A zombie counts as dead. The start time is field 22 of /proc/PID/stat, in clock ticks since the boot (proc(5)): unlike
    a wall clock time it does not move when the clock is set.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{_boot()}:{fields[19]}"


def is_alive(pid: int | None, known: str | None) -> bool:
    """Whether `pid` is still the process that had the identity `known`."""
    return pid is not None and known is not None and identity(pid) == known


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that `pid` leads; a group that is gone is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def signal_handlers(group: int, number: signal.Signals) -> bool:
    """Send a signal to the processes of a group that handle it; return whether any does. It would end the others."""
    sent = False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended
            pid = int(process.name)
            if os.getpgid(pid) == group and _handles((process / "status").read_text(), number):
                os.kill(pid, number)
                sent = True
    return sent


def _handles(status: str, number: signal.Signals) -> bool:
    """Whether the mask of caught signals in a /proc/PID/status has `number`: its lowest bit is signal 1 (proc(5))."""
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def has_group(pid: int, mark: str) -> bool:
    """Whether anything lives in the process group that `pid` led, with `mark` (`NAME=value`) in its environment.

    The mark tells what the dead leader left behind from a stranger's group that got the same number since.
    """
    return any(mark.encode() in environment for environment in _environments(pid))


def _environments(group: int) -> Iterator[list[bytes]]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
            if its_group == str(group) and state not in "ZX":
                yield (process / "environ").read_bytes().split(b"\0")


def port_owner(address: str, port: int) -> str | None:
    """Return who listens on `port` of an address of this machine, as `name (pid N)`; None when it can be bound.

    Asked before a task starts, because TensorFlow's servers share a port (SO_REUSEPORT) instead of failing. Raises
    OSError when the address is not one of this machine's.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OSError(error.errno, f"cannot serve on {address}:{port}: {error.strerror}") from None
            return _listener(port) or "another process"
    return _listener(port)


def _listener(port: int) -> str | None:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        listening = (row.split() for row in rows)
        inodes |= {f[9] for f in listening if f[3] == "0A" and int(f[1].rpartition(":")[2], 16) == port}
    return _holder(inodes) if inodes else None


def _holder(inodes: set[str]) -> str:
    links = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            if any(_leads_to(fd) in links for fd in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return "another user's process"


def _leads_to(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed since it was listed
        return ""


def until(done: Callable[[], bool], seconds: float) -> None:
    """Wait until `done`, for `seconds` at most."""
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
