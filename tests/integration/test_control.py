"""Concurrent controllers and lost hosts in the lab: the lock, and commands without a host."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from tests.support.lab_cluster import LabCluster, open_lab_cluster, standin
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until
from tfprov.engine.lock.cluster_lock import lockable_over_ssh
from tfprov.engine.lock.holder import LockHolder
from tfprov.engine.lock.host_lock import HostLock
from tfprov.errors import HostError, Locked, Unreachable
from tfprov.hosts.docker.labels import container_name
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost

ME = LockHolder.current("up")


def target(host: Host, user: str) -> SSHTarget:
    return SSHTarget(host.name, host.address, user=user, key_files=(host.bed.key,), known_hosts=(host.bed.known_hosts,))


Locks = Callable[..., HostLock]

KILL = """for p in /proc/[0-9]*; do
    case $(tr "\\0" " " <$p/cmdline) in "sshd: trainer"*) kill -9 ${p#/proc/};; esac
done"""
"""Ends the connections of the user trainer, on the host, without a word to the other side."""


@pytest.fixture
def locks(lab: Lab) -> Iterator[Locks]:
    """Makes locks of the cluster `linear` on node1, each of a user with a connection of its own."""
    host = lab.hosts[0]
    host.disturbed = True  # what lies in its /tmp is not for the next test
    with ExitStack() as stack:

        def make(user: str = "trainer", token: str = "", facts: LockHolder = ME, **values: Any) -> HostLock:
            ssh = stack.enter_context(SSHHost(replace(target(host, user), become=user == "admin", **values)))
            return HostLock(lockable_over_ssh(ssh), "linear", facts, token or f"{user}-{id(ssh)}")

        yield make


@pytest.mark.parametrize(
    ("first", "second"), [("trainer", "root"), ("root", "trainer"), ("admin", "trainer"), ("trainer", "trainer")]
)
def test_users_of_the_same_host_exclude_each_other(locks: Locks, first: str, second: str) -> None:
    holder = locks(first, facts=LockHolder("run", "anna", "laptop", 4711, "12:03:05"))
    holder.take()
    refused = locks(second)
    with pytest.raises(Locked, match=r"in use by `tfprov run` of anna@laptop \(pid 4711, since 12:03:05\), says node1"):
        refused.take()
    holder.free()
    until(lambda: _is_free(refused), "the lock is free")
    with pytest.raises(Locked, match=rf"`tfprov up` of {ME.user}@{ME.controller} \(pid {ME.pid}, "):
        locks(first).take()


HOLDER = """
import sys
from pathlib import Path
from typing import Any
from tfprov.engine.lock.holder import LockHolder
from tfprov.engine.lock.host_lock import HostLock
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.client_config import SSHTarget
name, address, key, known = sys.argv[1:]
ssh = SSHHost(SSHTarget(name, address, user="trainer", key_files=(Path(key),), known_hosts=(Path(known),)))
lock = HostLock(ssh, "linear", LockHolder.current("run"), "theirs")
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_controller_that_is_killed_leaves_nothing_to_unlock(locks: Locks, lab: Lab) -> None:
    host = lab.hosts[0]
    command = [sys.executable, "-c", HOLDER, host.name, host.address, str(host.bed.key), str(host.bed.known_hosts)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        other = locks("root")
        with pytest.raises(Locked, match=rf"`tfprov run` of .+ \(pid {process.pid},"):
            other.take()
        process.kill()
        process.wait()
        until(lambda: _is_free(other), "the lock is free")


def _is_free(lock: HostLock) -> bool:
    try:
        lock.take()
    except Locked:
        return False
    return True


def test_a_connection_that_is_cut_frees_the_lock_and_is_noticed(locks: Locks, lab: Lab) -> None:
    holder, host = locks("trainer"), lab.hosts[0]
    holder.take()
    host.run("sh", "-c", f"{KILL} 2>/dev/null; true")
    until(lambda: not holder.alive, "the holder knows")
    until(lambda: _is_free(locks("root")), "the lock is free")


def test_a_run_whose_network_failed_gets_its_own_lock_back(locks: Locks, lab: Lab) -> None:
    host = lab.hosts[0]
    living = LockHolder("run", "anna", "laptop", 4711, "12:03:05")
    holder = locks("trainer", "ours", living)
    holder.take()
    # This connection alone, and for good: as for somebody who comes back with another address. The host does not learn of
    # its end.
    port, ours = port_of(holder), transport_of(holder)
    for way in (("-I", "INPUT", "-p", "tcp", "--sport", port), ("-I", "OUTPUT", "-p", "tcp", "--dport", port)):
        host.run("iptables", "-w", *way, "-j", "DROP")
    ours.close()
    until(lambda: not holder.alive, "the holder knows")
    with pytest.raises(Locked, match="anna@laptop"):
        locks("trainer", "theirs").take()
    again = locks("trainer", "ours", living)
    again.take()
    assert again.alive


def transport_of(lock: HostLock) -> paramiko.Transport:
    """Return the connection of `lock`."""
    assert isinstance(lock.lockable, SSHHost)
    transport = lock.lockable.open().transport
    assert isinstance(transport, paramiko.Transport)
    return transport


def port_of(lock: HostLock) -> str:
    """Return the port from which the connection of `lock` was made."""
    sock: Any = transport_of(lock).sock
    return str(sock.getsockname()[1])


def test_a_host_without_flock_and_an_unreachable_host_are_named(locks: Locks, lab: Lab) -> None:
    host = lab.hosts[0]
    host.hide("/usr/bin/flock")
    with pytest.raises(HostError, match="node1: there is no `flock`, which the lock needs; install util-linux there"):
        locks().take()
    lost = locks("root")
    host.service("sshd", "stop")
    host.stop()
    with pytest.raises(Unreachable, match="node1: "):
        lost.take()


def test_a_user_outside_of_the_engines_group_neither_holds_the_lock_nor_has_root_write_elsewhere(
    locks: Locks, lab: Lab
) -> None:
    host = lab.hosts[0]
    shared = f"/tmp/.tfprov-{host.run('stat', '-c', '%g', '/var/run/docker.sock').strip()}"
    host.run("su", "plain", "-s", "/bin/sh", "-c", f"ln -s /etc {shared}")
    before = host.run("ls", "-ld", "/etc"), host.run("ls", "/etc")
    with pytest.raises(HostError, match=f"node1: {shared} of user plain is not the directory for locks"):
        locks("root").take()
    assert (host.run("ls", "-ld", "/etc"), host.run("ls", "/etc")) == before
    host.run("rm", shared)
    holder = locks("trainer")
    holder.take()
    tries = "flock -n {0}/linear.lock true || flock -n {0} true || mkfifo {0}/x || mv {0} {0}.x || rm -r {0} || ls {0}"
    code = host.run("su", "plain", "-s", "/bin/sh", "-c", f"({tries.format(shared)}) >/dev/null 2>&1; echo $?")
    assert code.strip() != "0"
    assert holder.alive
    with pytest.raises(Locked):
        locks("root").take()


# --- whole commands --------------------------------------------------------------------------------------------------


@pytest.fixture
def three(lab: Lab, tiny_archive: Path, tmp_path: Path) -> Iterator[LabCluster]:
    """A ps and two workers on three hosts, training for a long time."""
    for made in open_lab_cluster(lab, tmp_path):
        write(made, tiny_archive)
        yield made


def write(made: LabCluster, tiny_archive: Path, **settings: Any) -> None:
    one, two, other, _ = made.lab.hosts
    made.write({"ps": [one], "worker": [two, other]}, {**standin(tiny_archive), **settings})


def errors(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("error: ")]


def test_two_controllers_of_a_cluster_exclude_each_other(three: LabCluster, tiny_archive: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = LabCluster(three.lab, tmp_path / "other")
    write(other, tiny_archive)
    write(three, tiny_archive, start_timeout=600, command=["sleep", "1000"], flags={}, wiring="tf_config")
    process = three.start("up")
    until(lambda: sum(map(len, three.containers().values())) == 3, "the tasks run", of=process)
    for verb in ("up", "down"):
        (line,) = errors(other(verb, code=3))
        message = (
            rf"cluster lab is in use by `tfprov up` of \S+@\S+ \(pid {process.pid}, since .*\), says node1; wait for it"
        )
        assert re.search(message, line), line
    process.kill()
    process.wait()
    other("down", "--discard")
    assert not any(three.containers().values())


def test_a_lost_host_is_reported_in_one_line_and_nothing_is_started(three: LabCluster) -> None:
    three.lab.hosts[2].service("sshd", "stop")
    printed = three("up", code=4)
    assert len(errors(printed)) == 1
    assert errors(printed)[0].startswith("error: node3: ")
    assert not any(three.containers().values())
    three.lab.hosts[1].service("sshd", "stop")
    assert [line.split(":")[1] for line in errors(three("up", code=4))] == [" node2", " node3"]


def test_status_and_down_work_without_a_lost_host(three: LabCluster) -> None:
    three("up")
    host = three.lab.hosts[2]
    host.service("sshd", "stop")
    printed = three("status", code=4)
    assert re.search(r"^worker/1 +unreachable ", printed, re.MULTILINE)
    assert re.search(r"^worker/0 +running ", printed, re.MULTILINE)
    assert [line[:14] for line in errors(printed)] == ["error: node3: "]
    output = three("status", "--json", code=4)
    data = json.loads(output[: output.rindex("}") + 1])
    assert [task["state"] for task in data["tasks"]] == ["running", "running", "unreachable"]
    assert "up: worker/0" in three("logs", "worker/0")
    three("exec", "worker/0", "--", "true")
    assert "gathered into" in three("gather")
    printed = three("down", code=4)
    assert [line[:14] for line in errors(printed)] == ["error: node3: "]
    assert [len(ids) for ids in three.containers().values()] == [0, 0, 1, 0]
    host.service("sshd", "start")
    three("down")
    assert not any(three.containers().values())


def test_without_the_first_host_the_lock_is_held_on_the_next(three: LabCluster) -> None:
    three("up")
    three.lab.hosts[0].service("sshd", "stop")
    assert errors(three("up", code=4))
    printed = three("down", code=4)
    assert "node1 cannot be reached: the lock is held on node2" in printed
    assert [len(ids) for ids in three.containers().values()] == [1, 0, 0, 0]


def test_a_worker_that_cannot_reach_its_ps_is_named_and_nothing_is_left(three: LabCluster, tiny_archive: Path) -> None:
    one, _, other, _ = three.lab.hosts
    write(
        three,
        tiny_archive,
        start_timeout=30,
        command=["sh", "-c", "nc -ll -p 2222 -e /bin/cat"],
        flags={},
        wiring="tf_config",
    )
    one.drop_from(other, 2222)
    printed = three("up", code=1)
    peer = rf"worker/1: cannot reach ps/0 at {one.address}:2222 from node3 after 30 s; does a firewall stand between them\?"
    assert re.search(peer, printed), printed
    assert re.search("nothing was left half-started: stopped ps/0, worker/0, worker/1", printed)
    assert not any(three.containers().values())


def test_a_training_is_followed_past_a_host_that_is_lost(three: LabCluster, tiny_archive: Path) -> None:
    write(three, tiny_archive, flags={"train_steps": 20, "step_seconds": 0.1, "hold_at": 10})
    process = three.start("run")
    assert process.stdout is not None
    host = three.lab.hosts[2]
    lines: list[str] = []

    def read_to(text: str) -> None:
        for line in process.stdout or ():
            lines.append(line)
            if text in line:
                return
        pytest.fail(f"never printed: {text}:\n{''.join(lines)}")

    read_to("worker/0 | step 5")
    host.disturbed = True
    host.service("sshd", "stop")
    host.run("sh", "-c", f"{KILL} 2>/dev/null; true")
    read_to("node3 cannot be reached since ")
    host.service("sshd", "start")
    read_to("node3 is back after ")
    assert three.lab.hosts[1].run_in(container_name("lab", "worker/0"), "touch", "/checkpoints/go") == (0, "")
    rest = process.stdout.read()
    assert process.wait(LONG) == 0, rest
    assert "done: step=20" in rest
    assert not any(three.containers().values())
