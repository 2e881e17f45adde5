"""The lock of a cluster, which every verb that changes it takes: `ClusterLock`.

It locks a file on the controller, and then, in Docker, a file on the cluster's first host (`host_lock`), against other
controllers. Both are freed when their holder ends, so a killed run leaves no lock behind.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.atomic_write import private_directory
from tfprov.engine.context import Context
from tfprov.engine.lock.holder import UNKNOWN, LockHolder
from tfprov.engine.lock.host_lock import LOCK_PATHS, HeldProcess, HostLock, LocalHost, LockableHost, LockPaths
from tfprov.errors import HostError, Locked, TfprovError, Unreachable

if TYPE_CHECKING:  # the process runtime does not import it
    from tfprov.hosts.ssh.host import SSHHost


_POLL = 1.0
"""Seconds between two tries to take the lock of a `gather`."""


@contextmanager
def hold_file(path: Path, cluster: str, holder: LockHolder) -> Iterator[None]:
    """Lock the file at `path` for the block; the kernel frees it when the process ends. Locked names the holder."""
    try:
        private_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        what = f"cluster {cluster} cannot be locked: {error.filename}: {error.strerror}"
        raise TfprovError(what, "check its permissions, and the room on its disk") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = LockHolder.read(os.pread(descriptor, 4096, 0).decode(errors="replace"))
            what, verb = f"cluster {cluster} is in use by {other or UNKNOWN}", other.verb if other else ""
            raise Locked(what, "wait for it, or stop it", verb) from None
        with suppress(OSError):  # a full disk, which a `down` may free
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.to_text().encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lockable_host(context: Context, host: str) -> LockableHost:
    """Return `host`, one of the machines of `context`, as a host to lock."""
    from tfprov.hosts.machine import SSHMachine  # noqa: PLC0415  the process runtime does not import it

    machine = context.machines[host]
    return lockable_over_ssh(machine.ssh) if isinstance(machine, SSHMachine) else LocalHost(host)


def lockable_over_ssh(ssh: "SSHHost") -> LockableHost:
    """Return the host of a connection to lock: as root if its engine is used as root."""
    return _AsRoot(ssh) if ssh.target.become else ssh


class _AsRoot:
    """A host that is locked with sudo: root is among the users of every engine."""

    def __init__(self, ssh: "SSHHost") -> None:
        self._ssh, self.host = ssh, ssh.host

    def hold(self, argv: Sequence[str]) -> HeldProcess:
        """See LockableHost."""
        return self._ssh.hold(argv, sudo=True)

    def explain(self, error: HostError) -> HostError:
        """See LockableHost."""
        return self._ssh.explain(error)


class ClusterLock:
    """The lock of the cluster of `context`, for one run of `verb`: a file here, and one on the first host. See `take`.

    With `tolerant`, the first reachable host replaces an unreachable first one: `down` and `gather` must not wait for a
    lost host. `lockable` returns a host to lock, and `paths` are the lock files' directories on it.
    """

    def __init__(
        self,
        context: Context,
        verb: str,
        *,
        tolerant: bool = False,
        lockable: Callable[[Context, str], LockableHost] = lockable_host,
        paths: LockPaths = LOCK_PATHS,
    ) -> None:
        self._context, self._tolerant, self._lockable, self._paths = context, tolerant, lockable, paths
        self._holder, self._token = LockHolder.current(verb), secrets.token_hex(8)
        self._local = ExitStack()
        self._is_held = False
        self._on_host: HostLock | None = None

    @property
    def is_held(self) -> bool:
        """Whether it was taken and not freed since."""
        return self._is_held

    def take(self, *, tolerant: bool = False, patient: bool = False) -> None:
        """Take the lock, again if it was lost with its connection; does nothing if it is held.

        With `patient`, wait for a `gather` of another process: it changes nothing that the holder would have to know.
        Raises Locked, which names the holder, and Unreachable for the first host, unless `tolerant`.
        """
        if self._is_held and (self._on_host is None or self._on_host.alive):
            return
        if self._on_host is not None:
            self._context.report.note(f"the lock on {self._on_host.host} was lost with its connection; taking it again")
            self._on_host.free()
            self._on_host = None
        waits = False
        while True:
            try:
                self._take(tolerant or self._tolerant)
            except BaseException as error:
                self.free()
                if not (patient and isinstance(error, Locked) and error.verb == "gather"):
                    raise
                if not waits:
                    self._context.report.note(f"{str(error).partition('; ')[0]}: waiting for its end")
                waits = True
            else:
                return
            self._context.clock.sleep(_POLL)

    def free(self) -> None:
        """Free the lock. Idempotent."""
        if self._on_host is not None:
            self._on_host.free()
            self._on_host = None
        self._local.close()
        self._is_held = False

    def _take(self, tolerant: bool) -> None:
        cluster = self._context.cluster.name
        if not self._is_held:
            self._local.enter_context(hold_file(self._context.home / "lock", cluster, self._holder))
            self._is_held = True
        unreachable: list[str] = []
        for host in self._hosts()[: None if tolerant else 1]:
            try:
                self._on_host = self._take_on(host, tolerant)
                break
            except Unreachable as error:
                if not tolerant:
                    raise
                self._context.unresponsive[host] = error
                unreachable.append(host)
        if unreachable:
            where = f"on {self._on_host.host}" if self._on_host is not None else "on this machine only"
            self._context.report.note(f"{', '.join(unreachable)} cannot be reached: the lock is held {where}")

    def _hosts(self) -> list[str]:
        hosts = dict.fromkeys(task.host for task in self._context.cluster.tasks)
        return [host for host in hosts if host in self._context.machines]

    def _take_on(self, host: str, tolerant: bool) -> HostLock:
        known = self._context.unresponsive.get(host)
        if tolerant and isinstance(known, Unreachable):
            raise known
        lockable = self._lockable(self._context, host)
        lock = HostLock(lockable, self._context.cluster.name, self._holder, self._token, self._paths)
        lock.take()
        return lock

    def __enter__(self) -> "ClusterLock":
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
