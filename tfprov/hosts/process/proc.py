"""Identify, signal and search processes of this machine through /proc."""

import contextlib
import ctypes
import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
"""Of prctl(2), Linux 3.4."""


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> str | None:
    """Return the identity of a process, its boot and start time, which distinguishes reuses of the pid; None if dead.

    A zombie counts as dead. The start time is field 22 of /proc/PID/stat, in clock ticks since the boot (proc(5)): unlike
    a wall clock time it does not change when the clock is set.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{_boot()}:{fields[19]}"


def is_alive(pid: int | None, recorded_identity: str | None) -> bool:
    """Whether `pid` is still the process with `recorded_identity`."""
    return pid is not None and recorded_identity is not None and identity(pid) == recorded_identity


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that `pid` leads, if it exists."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def terminate(pid: int, *, passes_signals: bool) -> None:
    """Send SIGTERM to the process group that `pid` leads, or to `pid` alone where it passes signals on to the group.

    Processes that somebody has stopped go on, or they would be killed without having saved.
    """
    if passes_signals:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    else:
        signal_group(pid, signal.SIGTERM)
    signal_group(pid, signal.SIGCONT)


def stands_still(pid: int) -> bool:
    """Whether somebody has stopped the process, as with SIGSTOP."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def adopt_orphans() -> bool:
    """Become the parent of each descendant whose own parent ends; return whether the kernel agrees."""
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (1, 0, 0, 0))) == 0)
    except (OSError, AttributeError):  # not Linux
        return False


def reap_children(keep: int = 0) -> bool:
    """Reap ended children up to the zombie of `keep`, which it leaves; return whether there are no children."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) and ended.si_pid != keep:
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        return True
    return False


def kill_children(seconds: float) -> None:
    """Kill and reap the children of this process, and adopted ones, for at most `seconds`: root's cannot be killed."""

    def have_ended() -> bool:
        if reap_children():
            return True
        for child in _children(os.getpid()):  # its pid stays reserved until it is reaped here
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        return False

    wait_until(have_ended, seconds)


def _children(parent: int) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended
            state, its_parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if its_parent == str(parent) and state not in "ZX":
                yield int(process.name)


def signal_handlers(group: int, number: signal.Signals) -> bool:
    """Send a signal to the processes of a group that handle it, as it would end the others; return whether any does."""
    sent = False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended
            pid = int(process.name)
            if os.getpgid(pid) == group and _handles((process / "status").read_text(), number):
                os.kill(pid, number)
                sent = True
    return sent


def _handles(status: str, number: signal.Signals) -> bool:
    """Whether the mask of caught signals in a /proc/PID/status contains `number`; its lowest bit is signal 1 (proc(5))."""
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def has_group(pid: int, environment_mark: str) -> bool:
    """Whether the process group that `pid` led has a process with `environment_mark` (`NAME=value`) in its environment.

    The mark distinguishes the dead leader's children from a foreign group that reuses the number.
    """
    return any(environment_mark.encode() in environment for environment in _environments(pid))


def _environments(group: int) -> Iterator[list[bytes]]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
            if its_group == str(group) and state not in "ZX":
                yield (process / "environ").read_bytes().split(b"\0")


def port_owner(address: str, port: int) -> str | None:
    """Return what listens on `port`, as `name (pid N)` or as a task of tfprov; None if nothing does and it can be bound.

    Checked before a start, because TensorFlow's servers share a port (SO_REUSEPORT) instead of failing. Raises OSError
    if the address is not one of this machine's.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OSError(error.errno, f"cannot serve on {address}:{port}: {error.strerror}") from None
            return _find_listener(port) or "another process"
    return _find_listener(port)


def _find_listener(port: int) -> str | None:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        listening = (row.split() for row in rows)
        inodes |= {f[9] for f in listening if f[3] == "0A" and int(f[1].rpartition(":")[2], 16) == port}
    return _find_holder(inodes) if inodes else None


def _find_holder(inodes: set[str]) -> str:
    links = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            if any(_read_link(fd) in links for fd in (process / "fd").iterdir()):
                name, environment = (process / "comm").read_text().strip(), (process / "environ").read_bytes()
                return f"{task_of(environment.split(bytes(1))) or name} (pid {process.name})"
    return "another user's process"


def task_of(environment: Iterable[bytes]) -> str:
    """Return the task and the cluster that a process belongs to, by its environment; empty for none of tfprov's.

    To kill it is no use: its supervisor starts it again.
    """
    values = dict(line.decode(errors="replace").partition("=")[::2] for line in environment)
    task, cluster = values.get("TFPROV_TASK"), values.get("TFPROV_CLUSTER")
    return f"{task} of cluster {cluster}" if task and cluster else ""


def _read_link(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until `condition()` is true, at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
