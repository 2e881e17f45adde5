"""The lock on a host, with the program that really holds it: here in a shell of this machine instead of one over SSH."""

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_cluster import make_context
from tests.support.reporters import RecordingReporter
from tests.support.waiting import until
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.lock.holder import LockHolder
from tfprov.engine.lock.host_lock import ChildProcess, HostLock, LocalHost, LockPaths
from tfprov.errors import HostError, Locked, Unreachable
from tfprov.hosts.process.proc import identity

ME = LockHolder.current("up")


def names(directory: Path) -> list[str]:
    return [path.name for path in (directory / ".tfprov").iterdir()]


def below(directory: Path) -> LockPaths:
    """Return places in a directory of a test, for a host without an engine unless there is a `socket`."""
    return LockPaths(str(directory), str(directory / "socket"), str(directory))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., HostLock]]:
    """Makes locks of the cluster `linear` that are let go at the end."""
    with ExitStack() as stack:

        def make(facts: LockHolder = ME) -> HostLock:
            lock = HostLock(LocalHost("h1"), "linear", facts, secrets.token_hex(8), below(tmp_path))
            stack.callback(lock.free)
            return lock

        yield make


def test_the_error_of_a_second_run_names_the_holder_of_the_lock_and_the_fix(made: Callable[..., HostLock]) -> None:
    first = made(replace(ME, user="anna", controller="laptop", pid=1, since="12:03:05", process=""))
    first.take()
    with pytest.raises(Locked) as caught:
        made().take()
    assert str(caught.value) == (
        "cluster linear is in use by `tfprov up` of anna@laptop (pid 1, since 12:03:05), says h1; wait for it, or stop it; "
        "if its machine is gone, sshd on h1 frees the lock when it notices (ClientAliveInterval in its sshd_config)"
    )
    assert first.alive


def test_a_lock_that_is_let_go_can_be_taken_and_leaves_its_file(made: Callable[..., HostLock], tmp_path: Path) -> None:
    for _ in range(2):
        lock = made()
        lock.take()
        lock.free()
        assert not lock.alive
    assert names(tmp_path) == ["linear.lock"]
    assert (tmp_path / ".tfprov" / "linear.lock").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / ".tfprov").stat().st_mode & 0o777 == 0o700


def test_a_shorter_name_leaves_nothing_of_a_longer_one(made: Callable[..., HostLock]) -> None:
    long = made(replace(ME, user="x" * 50, process=""))
    long.take()
    long.free()
    made(replace(ME, user="b", process="")).take()
    with pytest.raises(Locked, match="of b@"):
        made().take()


def test_of_two_at_once_exactly_one_gets_it(made: Callable[..., HostLock]) -> None:
    results: list[str] = []

    def attempt(lock: HostLock) -> None:
        try:
            lock.take()
            results.append("held")
        except Locked:
            results.append("locked")

    threads = [threading.Thread(target=attempt, args=(made(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["held", "locked", "locked", "locked"]


HOLDER = """
import sys
from tfprov.engine.lock.holder import LockHolder
from tfprov.engine.lock.host_lock import HostLock, LocalHost, LockPaths
lock = HostLock(LocalHost("h1"), "linear", LockHolder.current("run"), "theirs", LockPaths(own=sys.argv[1], socket=""))
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_holder_on_a_host_that_is_killed_leaves_nothing_to_unlock(
    made: Callable[..., HostLock], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(Locked, match=rf"`tfprov run` of .+ \(pid {process.pid},"):
            made().take()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        made().take()


class Orphaned:
    """A way to a host that notices nothing: what was held stays held when the connection is lost."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.lost: list[ChildProcess] = []

    def hold(self, argv: Sequence[str]) -> "Deaf":
        held = LocalHost(self.host).hold(argv)
        self.lost.append(held)
        return Deaf(held)

    def explain(self, error: HostError) -> HostError:
        return error


class Deaf:
    def __init__(self, held: ChildProcess) -> None:
        self.first_line, self.error_text = held.first_line, held.error_text
        self.alive = held.alive

    def close(self) -> None:
        self.alive = False


@pytest.fixture
def orphaned() -> Iterator[Orphaned]:
    way = Orphaned("h1")
    yield way
    for held in way.lost:
        held.close()


def test_a_run_gets_its_own_lost_lock_back(orphaned: Orphaned, tmp_path: Path) -> None:
    for _ in range(2):
        lock = HostLock(orphaned, "linear", replace(ME, process=""), "ours", below(tmp_path))
        lock.take()
    assert lock.alive
    until(lambda: not orphaned.lost[0].alive)


def test_a_lost_lock_of_somebody_else_is_respected(orphaned: Orphaned, tmp_path: Path) -> None:
    HostLock(orphaned, "linear", replace(ME, process=""), "theirs", below(tmp_path)).take()
    with pytest.raises(Locked):
        HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path)).take()


def test_a_lock_of_a_process_that_is_known_to_be_dead_is_taken_over(orphaned: Orphaned, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        facts = replace(ME, pid=process.pid, process=identity(process.pid) or "")
        HostLock(orphaned, "linear", facts, "theirs", below(tmp_path)).take()
        with pytest.raises(Locked):
            HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path)).take()
        process.kill()
    after = HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path))
    after.take()
    until(lambda: not orphaned.lost[0].alive)
    after.free()


@pytest.mark.parametrize(
    "changes",
    [{"process": ""}, {"table": ""}, {"table": "pid:[1]"}, {"process": "another-boot:1"}],
    ids=["no identity", "no table", "another table", "another boot"],
)
def test_a_process_that_cannot_be_seen_from_here_is_never_taken_for_dead(changes: dict[str, Any]) -> None:
    dead = replace(ME, pid=2**22 + 1)
    assert dead.is_dead() == bool(ME.process and ME.table)
    assert not replace(dead, **changes).is_dead()
    assert not ME.is_dead()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "null", "[" * 5000, '{"verb": 1}', json.dumps(asdict(ME) | {"pid": "1"})],
    ids=["nothing", "cut", "a list", "empty", "null", "deep", "too few", "a pid that is text"],
)
def test_facts_that_are_none_are_not_read(text: str) -> None:
    assert LockHolder.read(text) is None


def test_facts_come_back_as_they_were_and_steer_no_terminal() -> None:
    facts = replace(ME, user="\x1b[2J" + "x" * 500, verb="up\nerror: no")
    assert LockHolder.read(facts.to_text()) == facts
    assert str(facts).isprintable()
    assert len(str(facts)) < 400


@pytest.mark.parametrize("content", ["", "nonsense", "1 2 3", "\xff\xfe", "$(touch pwned) `x` %s"], ids=range(5))
def test_whatever_is_written_there_the_lock_is_another_runs(
    made: Callable[..., HostLock], tmp_path: Path, content: str
) -> None:
    made().take()
    (tmp_path / ".tfprov" / "linear.lock").write_text(content)
    with pytest.raises(
        Locked,
        match=r"^cluster linear is in use by another run, says h1; wait for it, or stop it; if its machine is "
        r"gone, sshd on h1 frees the lock when it notices \(ClientAliveInterval in its sshd_config\)$",
    ):
        made().take()
    assert names(tmp_path) == ["linear.lock"]


def engine_of_group(directory: Path, group: int) -> Path:
    """Put an engine's socket into `directory`; return where the users of its group have their locks."""
    (directory / "socket").touch()
    os.chown(directory / "socket", -1, group)
    return directory / f".tfprov-{group}"


IN_THE_WAY: dict[str, Callable[[Path, Path], object]] = {
    "a link to a file": lambda path, precious: path.symlink_to(precious),
    "a link to nowhere": lambda path, precious: path.symlink_to(precious.with_name("elsewhere")),
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a directory": lambda path, _: path.mkdir(),
}


def test_what_is_in_the_way_of_a_lock_is_left_alone_and_its_owner_is_named(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    for number, (kind, make) in enumerate(IN_THE_WAY.items()):
        for is_file in (True, False):
            directory = tmp_path / f"{number}-{is_file}"
            directory.mkdir()
            precious = directory / "precious"
            precious.write_text("mine")
            group = os.getgid()
            shared = engine_of_group(directory, group)
            if is_file:
                shared.mkdir(mode=0o770)
                make(shared / "linear.lock", precious)
            elif kind == "a directory":
                shared.mkdir()
                shared.chmod(0o777)
            else:
                make(shared, precious)
            what = "a file that can be locked" if is_file else "the directory for locks of the engine's users"
            path = shared / "linear.lock" if is_file else shared
            with pytest.raises(HostError) as caught:
                HostLock(LocalHost("h1"), "linear", ME, "ours", below(directory)).take()
            assert str(caught.value) == f"h1: {path} of user {me} is not {what}; have its owner or root remove it there"

            assert precious.read_text() == "mine"
            assert not (directory / "elsewhere").exists()


def test_users_of_an_engine_share_a_directory_that_is_their_groups_alone(tmp_path: Path) -> None:
    shared = engine_of_group(tmp_path, os.getgid())
    lock = HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path))
    lock.take()
    assert (shared.stat().st_mode & 0o7777, shared.stat().st_gid) == (0o2770, os.getgid())
    assert (shared / "linear.lock").stat().st_mode & 0o777 == 0o660
    assert sorted(path.name for path in tmp_path.iterdir()) == [shared.name, "socket"]
    with pytest.raises(Locked):
        HostLock(LocalHost("h1"), "linear", ME, "theirs", below(tmp_path)).take()
    lock.free()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a directory of another group")
def test_a_directory_of_somebody_outside_of_the_engines_group_is_not_used(tmp_path: Path) -> None:
    shared = engine_of_group(tmp_path, 12345)
    shared.mkdir(mode=0o770)
    os.chown(shared, 65534, 65534)
    with pytest.raises(
        HostError,
        match=r"^h1: .*/\.tfprov-12345 of user nobody is not the directory for locks of the engine's users; "
        r"have its owner or root remove it there$",
    ):
        HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path)).take()
    assert list(shared.iterdir()) == []


def test_the_owner_of_a_lock_file_cannot_redirect_the_write(tmp_path: Path) -> None:
    """The path leads elsewhere as soon as the lock is held: only what was locked is written."""
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "bin").mkdir()
    flock = tmp_path / "bin" / "flock"
    swap = f'rm -f "{tmp_path}/.tfprov/linear.lock"; ln -s "{tmp_path}/precious" "{tmp_path}/.tfprov/linear.lock"'
    flock.write_text(f'#!/bin/sh\n{shutil.which("flock")} "$@" || exit\n{swap}\n')
    flock.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}/bin", prepend=os.pathsep)
        lock = HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path))
        lock.take()
        lock.free()
    assert (tmp_path / "precious").read_text() == "mine"


def test_the_error_of_a_host_without_flock_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sh", "cat", "sleep"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="h1: there is no `flock`, which the lock needs; install util-linux there"):
        HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path)).take()


def test_a_place_where_nothing_can_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        HostError,
        match=r"^h1: the lock of cluster linear could not be taken: mkdir: .*; look at the "
        r"permissions and the disk of that directory there$",
    ):
        HostLock(LocalHost("h1"), "linear", ME, "ours", below(tmp_path / "file")).take()


# --- both halves -----------------------------------------------------------------------------------------------------


class FakeHost(LocalHost):
    """A host that can be out of reach."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.down = False
        self.held: list[ChildProcess] = []

    def hold(self, argv: Sequence[str]) -> ChildProcess:
        if self.down:
            raise Unreachable(self.host, "no answer")
        self.held.append(super().hold(argv))
        return self.held[-1]


class Cluster:
    """A ps on h1 and a worker on h2, both of them machines, for two runs with homes of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.notes = directory, RecordingReporter()
        self.hosts = {host: FakeHost(host) for host in ("h1", "h2")}

    def lock(self, home: str, name: str = "lab", **options: Any) -> ClusterLock:
        text = "all: {vars: {tfprov: {cluster: NAME, command: [x]}}}\nps: {hosts: {h1: }}\nworker: {hosts: {h2: }}"
        machines: Any = dict.fromkeys(self.hosts)
        context = replace(
            make_context(text.replace("NAME", name)), home=self.directory / home, report=self.notes, machines=machines
        )
        lockable: Any = lambda _context, host: self.hosts[host]  # noqa: E731
        return ClusterLock(context, "up", lockable=lockable, paths=below(self.directory), **options)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_two_controllers_exclude_each_other(cluster: Cluster) -> None:
    with cluster.lock("one"):
        with pytest.raises(Locked, match="says h1"), cluster.lock("two"):
            pytest.fail("two at once")
        with pytest.raises(Locked, match=r"\(pid \d+, since [^)]*\); wait"), cluster.lock("one"):
            pytest.fail("two at once")
    with cluster.lock("two"):
        pass


def test_two_clusters_on_the_same_hosts_have_two_locks(cluster: Cluster, tmp_path: Path) -> None:
    with cluster.lock("one", "one") as one, cluster.lock("two", "two") as two:
        assert (one.is_held, two.is_held) == (True, True)
        for name in ("one", "two"):
            with pytest.raises(Locked, match=f"cluster {name} is in use"), cluster.lock("three", name):
                pytest.fail("two at once")
    assert {"one.lock", "two.lock"} == set(names(tmp_path))


def test_a_refused_lock_is_not_half_held(cluster: Cluster) -> None:
    refused = cluster.lock("two")
    with cluster.lock("one"), pytest.raises(Locked):
        refused.take()
    assert not refused.is_held
    with cluster.lock("two"):
        pass


def test_a_lock_that_was_lost_is_taken_again_unless_somebody_else_has_it(cluster: Cluster) -> None:
    lock, other = cluster.lock("one"), cluster.lock("two")
    lock.take()
    lose(cluster)
    lock.take()
    assert cluster.notes.notes == ["the lock on h1 was lost with its connection; taking it again"]
    lose(cluster)
    other.take()
    with pytest.raises(Locked, match="says h1"):
        lock.take()
    assert not lock.is_held
    other.free()


def test_a_run_whose_first_host_is_lost_takes_down_what_is_left(cluster: Cluster) -> None:
    lock = cluster.lock("one")
    lock.take()
    lose(cluster)
    cluster.hosts["h1"].down = True
    with pytest.raises(Unreachable):
        lock.take()
    lock.take(tolerant=True)
    with pytest.raises(Locked, match="says h2"):
        cluster.lock("two", tolerant=True).take()
    lock.free()


def lose(cluster: Cluster) -> None:
    """Lose the connection over which the last lock on h1 is held."""
    held = cluster.hosts["h1"].held[-1]
    assert held.alive
    held.close()
    until(lambda: not held.alive)


def test_up_fails_if_the_first_host_is_unreachable(cluster: Cluster) -> None:
    cluster.hosts["h1"].down = True
    with pytest.raises(Unreachable, match="h1: no answer"):
        cluster.lock("one").take()


def test_down_locks_on_the_first_reachable_host(cluster: Cluster) -> None:
    cluster.hosts["h1"].down = True
    lock = cluster.lock("one", tolerant=True)
    lock.take()
    assert cluster.notes.notes == ["h1 cannot be reached: the lock is held on h2"]
    with pytest.raises(Locked, match="says h2"):
        cluster.lock("two", tolerant=True).take()
    lock.free()
    cluster.hosts["h2"].down = True
    with cluster.lock("three", tolerant=True):
        assert cluster.notes.notes[-1] == "h1, h2 cannot be reached: the lock is held on this machine only"
