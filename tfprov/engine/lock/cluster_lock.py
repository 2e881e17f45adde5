"""One run at a time changes a cluster. The lock is freed with its holder: there is nothing to unlock.

It has two halves, taken in this order: a file on the controller, and a file on the cluster's first host, for others who
work on the same cluster from elsewhere. Under the process runtime, whose hosts are this machine, there is only the first.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.atomic_write import private_directory
from tfprov.engine.context import Context
from tfprov.engine.lock.holder import UNKNOWN, LockHolder
from tfprov.engine.lock.host_lock import LOCK_PATHS, HeldProcess, HostLock, LocalHost, LockableHost, LockPaths
from tfprov.errors import HostError, Locked, Unreachable

if TYPE_CHECKING:  # who has machines has imported it; others need not
    from tfprov.hosts.ssh.host import SSHHost


@contextmanager
def held(path: Path, cluster: str, facts: LockHolder) -> Iterator[None]:
    """Hold the lock at `path` for the time of the block; Locked names who has it.

    The kernel frees it with its holder: there is nothing to unlock.
    """
    private_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = LockHolder.read(os.pread(descriptor, 4096, 0).decode(errors="replace")) or UNKNOWN
            raise Locked(f"cluster {cluster} is in use by {holder}", "wait for it, or stop it") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, facts.to_text().encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lockable_host(context: Context, host: str) -> LockableHost:
    """Return how a command is held on `host`, which is one of the machines of `context`."""
    from tfprov.hosts.machine import SSHMachine  # noqa: PLC0415  who has machines has imported it; others need not

    machine = context.machines[host]
    return lockable_over_ssh(machine.ssh) if isinstance(machine, SSHMachine) else LocalHost(host)


def lockable_over_ssh(ssh: "SSHHost") -> LockableHost:
    """Return how a command is held over a connection: as root, where the engine there is used as root."""
    return _AsRoot(ssh) if ssh.target.become else ssh


class _AsRoot:
    """A host on which commands are held with sudo: root is among the users of every engine."""

    def __init__(self, ssh: "SSHHost") -> None:
        self._ssh, self.host = ssh, ssh.host

    def hold(self, argv: Sequence[str]) -> HeldProcess:
        """See LockableHost."""
        return self._ssh.hold(argv, sudo=True)

    def explain(self, error: HostError) -> HostError:
        """See LockableHost."""
        return self._ssh.explain(error)


class ClusterLock:
    """The lock of the cluster of `context`, for one run of `verb`; nothing is held before `take`.

    With `tolerant`, the first host that can be reached stands in for the first one: taking a cluster down, and bringing
    its checkpoints home, must not wait for a host that is lost. `way` says how a command is held on a host, and
    `where` where the lock file lies on it.
    """

    def __init__(
        self,
        context: Context,
        verb: str,
        *,
        tolerant: bool = False,
        way: Callable[[Context, str], LockableHost] = lockable_host,
        where: LockPaths = LOCK_PATHS,
    ) -> None:
        self._context, self._tolerant, self._way, self._where = context, tolerant, way, where
        self._facts, self._token = LockHolder.current(verb), secrets.token_hex(8)
        self._local = ExitStack()
        self._is_held = False
        self._on_host: HostLock | None = None

    @property
    def is_held(self) -> bool:
        """Whether it was taken, and not let go since."""
        return self._is_held

    def take(self, *, tolerant: bool = False) -> None:
        """Take it, or make sure that it is still there: one that was lost with its connection is taken again.

        Locked names who has it; Unreachable, unless `tolerant`, when the host of the lock cannot be reached.
        """
        if self._is_held and (self._on_host is None or self._on_host.alive):
            return
        if self._on_host is not None:
            self._context.report.note(f"the lock on {self._on_host.host} was lost with its connection; taking it again")
            self._on_host.free()
            self._on_host = None
        try:
            self._take(tolerant or self._tolerant)
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Let it go; a second time does nothing."""
        if self._on_host is not None:
            self._on_host.free()
            self._on_host = None
        self._local.close()
        self._is_held = False

    def _take(self, tolerant: bool) -> None:
        cluster = self._context.cluster.name
        if not self._is_held:
            self._local.enter_context(held(self._context.home / "lock", cluster, self._facts))
            self._is_held = True
        passed: list[str] = []
        for host in self._hosts()[: None if tolerant else 1]:
            try:
                self._on_host = self._taken(host, tolerant)
                break
            except Unreachable as error:
                if not tolerant:
                    raise
                self._context.unresponsive[host] = error
                passed.append(host)
        if passed:
            where = f"on {self._on_host.host}" if self._on_host is not None else "on this machine only"
            self._context.report.note(f"{', '.join(passed)} cannot be reached: the lock is held {where}")

    def _hosts(self) -> list[str]:
        hosts = dict.fromkeys(task.host for task in self._context.cluster.tasks)
        return [host for host in hosts if host in self._context.machines]

    def _taken(self, host: str, tolerant: bool) -> HostLock:
        known = self._context.unresponsive.get(host)
        if tolerant and isinstance(known, Unreachable):
            raise known
        way = self._way(self._context, host)
        lock = HostLock(way, self._context.cluster.name, self._facts, self._token, self._where)
        lock.take()
        return lock

    def __enter__(self) -> "ClusterLock":
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
