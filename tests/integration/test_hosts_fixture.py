"""The fixtures of other tests: a private engine, and four hosts with sshd and an engine each."""

import os
import subprocess
import sys
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

import docker
import pytest

from tests.support.engine import Engine, answers
from tests.support.images import Images
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until

SERVE = ["nc", "-ll", "-p", "2222", "-e", "/bin/cat"]


@pytest.fixture
def tiny(lab: Lab, images: Images) -> str:
    """Return the name of the small image, which all hosts have."""
    image = images.tiny()
    lab.load(image)
    return image


def test_four_hosts_are_reached_by_the_keys_their_known_hosts_file_has(lab: Lab) -> None:
    assert [host.name for host in lab.hosts] == ["node1", "node2", "node3", "node4"]
    assert len({host.public_key for host in lab.hosts}) == 4
    for host in lab.hosts:
        done = host.ssh("hostname; docker info --format '{{.Name}} {{.Driver}}'")
        assert (done.returncode, done.stdout) == (0, f"{host.name}\n{host.name} overlay2\n"), done.stderr


def test_only_who_is_in_its_group_may_use_docker(lab: Lab) -> None:
    host = lab.hosts[0]
    assert host.ssh("docker ps -q", user="root").returncode == 0
    assert "permission denied" in host.ssh("docker ps -q", user="plain").stderr
    assert host.ssh("sudo -n docker ps -q", user="admin").returncode == 0
    assert host.ssh("sudo -n true", user="plain").returncode != 0


def test_containers_on_different_hosts_reach_each_other_at_published_ports(lab: Lab, tiny: str) -> None:
    server, client = lab.hosts[0], lab.hosts[3]
    server.client.containers.run(tiny, SERVE, detach=True, init=True, ports={"2222/tcp": (server.address, 2222)})
    # More than once: on a busy machine the first packet finds no neighbour in time, which tasks try again as well.
    greet = f"for n in $(seq 100); do echo hello | nc -w 5 {server.address} 2222 && exit; sleep 0.2; done; exit 1"
    assert client.client.containers.run(tiny, ["sh", "-c", greet], remove=True) == b"hello\n"


def test_containers_keep_to_their_limits(lab: Lab, tiny: str) -> None:
    limit = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
    ran = lab.hosts[0].client.containers.run(tiny, ["sh", "-c", f"{limit} || true"], mem_limit="64m", remove=True)
    assert ran == b"67108864\n"


def test_the_stand_in_trains_and_saves_as_a_program_would(lab: Lab, tiny: str) -> None:
    ps, worker = lab.hosts[:2]
    flags = [f"--ps_hosts={ps.address}:2222", f"--worker_hosts={worker.address}:2222", "--step_seconds=0"]
    started = {}
    for job, host in (("ps", ps), ("worker", worker)):
        started[job] = host.client.containers.run(
            tiny,
            ["task", f"--job_name={job}", "--task_index=0", *flags],
            detach=True,
            ports={"2222/tcp": (host.address, 2222)},
        )
    assert started["worker"].wait(timeout=LONG) == {"Error": None, "StatusCode": 0}
    assert b"saved /checkpoints/model.ckpt-20\ndone: step=20\n" in started["worker"].logs()
    started["ps"].stop(timeout=120)
    assert started["ps"].wait()["StatusCode"] == 143


def test_every_test_finds_the_hosts_as_new(lab: Lab, tiny: str) -> None:
    used, frozen, deaf, wrong, off = [*lab.hosts, lab.add()]
    used.client.containers.run(tiny, ["sleep", "3600"], detach=True)
    frozen.pause()
    deaf.drop()
    wrong.change_key()
    off.stop()
    assert wrong.ssh("true").returncode == 255
    assert "Host key verification failed" in wrong.ssh("true").stderr
    assert "timed out" in deaf.ssh("true", patience=1).stderr.lower()
    lab.restore()
    assert [host.name for host in lab.hosts] == ["node1", "node2", "node3", "node4"]
    for host in lab.hosts:
        assert host.ssh("docker ps -aq").stdout == ""


SNAPSHOT = """
find / -xdev '(' -path /proc -o -path /sys -o -path /run -o -path /var/log -o -path /var/lib/docker \\
    -o -path '/tmp/containerd.*' ')' -prune -o -printf '%p %y %m %U:%G %l\\n' | sort
find /etc /home /root /srv /tmp /usr/bin /usr/local /usr/sbin -xdev -path '/tmp/containerd.*' -prune -o \\
    -type f -size -2000k -exec sha256sum {} + | sort
for table in filter nat mangle raw; do iptables -t "$table" -S; done
for process in /proc/[0-9]*; do
    name=$(readlink "$process/exe" 2>/dev/null) && tr '\\0' ' ' <"$process/cmdline" | sed "s|^|$name |;s|$|\\n|"
done >/run/snapshot && grep -v -e '/sh ' -e '/dash ' -e /bin/sed -e /bin/tr -e /bin/readlink /run/snapshot | sort
ip -brief address show | sed -E 's/ +(UP|DOWN) +/ /'  # a bridge is up until its last link has gone, some time later
sysctl -a 2>/dev/null | grep -E '^net.ipv4.(ip_forward|conf.(all|default|eth0))'
docker ps -aq
docker volume ls -q
docker network ls --format '{{.Name}} {{.Driver}}'
id -nG trainer plain admin 2>/dev/null; cat /proc/1/cgroup
"""
"""All that a test may look at on a host: files, rules, programs, addresses, and what the engine has but images."""


def disturb(host: Host, other: Host, tiny: str) -> None:
    """Do to a host what tests do."""
    assert host.ssh("sudo true", user="admin").returncode == 0  # it leaves a mark in its user's home
    host.client.containers.run(tiny, ["sleep", "3600"], name="foreign", detach=True, ports={"2222/tcp": 2222})
    host.client.volumes.create("foreign")
    host.client.networks.create("foreign")
    host.sshd_option("AllowTcpForwarding no")
    host.change_key()
    host.listen(2223)
    host.drop_from(other, 2222)
    host.drop(2224)
    host.run("iptables", "-w", "-I", "DOCKER-USER", "-s", other.address, "-p", "tcp", "-j", "REJECT")
    host.hide("/usr/bin/flock")
    host.run("sh", "-c", ": >/etc/ssh/authorized_keys; ln -s /etc/passwd /tmp/.lock; mkdir /tmp/folder; >/tmp/folder/x")
    host.run("sh", "-c", 'printf "#!/bin/sh\\n" >/usr/local/bin/date; chmod 755 /usr/local/bin/date')
    host.hide_docker()
    host.pause()


def test_a_reset_host_is_like_a_new_host(lab: Lab, tiny: str) -> None:
    host = lab.add()
    lab.load(tiny, [host])
    new, made = host.run("sh", "-c", SNAPSHOT), host.id
    disturb(host, lab.hosts[0], tiny)
    assert host.reset()
    assert (host.id, host.disturbed) == (made, False), "it was not made anew"
    changes = list(unified_diff(new.splitlines(), host.run("sh", "-c", SNAPSHOT).splitlines(), n=0, lineterm=""))
    assert not changes, "\n".join(changes)
    assert host.ssh("docker image ls -q; flock --version").returncode == 0
    assert host.client.images.get(tiny), "images alone stay"


CHANGES = {
    "echo x >>/etc/passwd": "sed -i '$d' /etc/passwd",
    "mv /usr/bin/cat /usr/bin/dog": "mv /usr/bin/dog /usr/bin/cat",
    "touch /root/x": "rm /root/x",
    "mkdir /srv/x": "rmdir /srv/x",
    "chmod 700 /usr/bin/cat": "chmod 755 /usr/bin/cat",
}
"""Of a kind that no test makes, and what takes each back."""


def test_a_host_on_which_something_else_was_changed_is_not_called_reset(lab: Lab) -> None:
    host = lab.hosts[0]
    made = host.id
    for change, back in CHANGES.items():
        host.run("sh", "-c", change)
        assert not host.reset(), change
        host.run("sh", "-c", back)
        assert host.reset(), (back, host.engine_answers(), host.changed_paths())
    host.disturbed = True
    host.run("sh", "-c", next(iter(CHANGES)))
    lab.restore()
    assert host.id != made


def test_a_frozen_host_takes_its_containers_along(lab: Lab, tiny: str) -> None:
    host = lab.hosts[0]
    ticker = ["sh", "-c", "while sleep 0.1; do date +%s; done"]
    task = host.client.containers.run(tiny, ticker, detach=True)
    until(task.logs, "the container to print")
    host.pause()
    assert host.ssh("true", patience=3).returncode == 255  # long enough to be seen in whole seconds
    host.unpause()
    assert host.ssh("true").returncode == 0

    def longest() -> int:
        seconds = [int(line) for line in task.logs().split()]
        return max((after - before for before, after in pairwise(seconds)), default=0)

    until(lambda: longest() > 1, "the container to go on")


def test_an_engine_can_be_killed_and_its_containers_live_on(lab: Lab, tiny: str) -> None:
    host = lab.hosts[0]
    host.client.containers.run(tiny, ["sleep", "600"], detach=True)
    host.service("engine", "kill")
    assert "Is the docker daemon running" in host.ssh("docker ps").stderr
    assert "sleep 600" in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_a_host_can_be_small_and_switched_off_and_on(lab: Lab, tiny: str) -> None:
    small = lab.add(disk="1m")
    archive = lab.images.archive(tiny).read_bytes()
    with pytest.raises(docker.errors.ImageLoadError, match="no space left"):
        small.client.images.load(archive)
    lab.hosts[0].restart()
    assert lab.hosts[0].client.images.get(tiny)


def test_sshd_can_forbid_forwarding_and_docker_can_be_hidden(lab: Lab) -> None:
    host = lab.hosts[0]
    host.sshd_option("AllowTcpForwarding no")
    assert "allowtcpforwarding no" in host.run("/usr/sbin/sshd", "-T")
    host.hide_docker()
    assert host.ssh("docker ps").returncode == 127
    host.service("sshd", "stop")
    assert "Connection refused" in host.ssh("true").stderr


def test_unread_output_is_saved(lab: Lab, tiny: str, tmp_path: Path) -> None:
    lab.hosts[0].client.containers.run(tiny, ["echo", "last words"], name="talker")
    lab.hosts[1].stop()
    lab.save(tmp_path)
    assert "last words" in (tmp_path / "node1.talker.log").read_text()
    assert '"/talker"' in (tmp_path / "node1.talker.json").read_text()
    assert "API listen on" in (tmp_path / "node1.log").read_text()
    assert (tmp_path / "node2.log").exists()


def test_tasks_of_the_train_image_are_not_root_and_may_write_checkpoints(engine: Engine, images: Images) -> None:
    look = "id -u; touch /checkpoints/x && echo mine; touch /opt/venv/x 2>/dev/null || echo not mine"
    ran = engine.client.containers.run(images.train(), ["sh", "-c", look], remove=True)
    assert ran == b"1000\nmine\nnot mine\n"


def test_the_train_image_keeps_nothing_that_only_its_build_needed(engine: Engine, images: Images) -> None:
    look = "ls /opt; find / -xdev '(' -name ca.crt -o -name pip.conf -o -name '*.whl' -path '/opt/*' ')'"
    ran = engine.client.containers.run(images.train(), ["sh", "-c", look], user="0", remove=True)
    assert ran == b"venv\n"


def test_the_train_image_has_tensorflow_whole(engine: Engine, images: Images) -> None:
    program = (
        "import tensorflow as tf, tensorboard; print(tf.reduce_sum(tf.ones([3])).numpy(), tensorboard.__version__)"
    )
    ran = engine.client.containers.run(images.train(), ["python", "-c", program], remove=True, network_mode="none")
    assert ran.startswith(b"3.0 2.")


PROGRAM = """
import sys, time
from pathlib import Path
from tests.support.engine import Engine
engine = Engine(Path(sys.argv[1]))
engine.start()
print(engine.run, engine.network.name, flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("engine")
def test_a_session_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path], stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout
        run, name = session.stdout.readline().split()
        socket = Path(run, "docker.sock")
        assert answers(socket)
        session.kill()
    until(lambda: not answers(socket), "the engine to end with the session")
    until(lambda: not processes_of(run), "its processes to end")
    again = Engine(tmp_path)
    again.start()
    again.stop()
    assert not Path(run).exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{name}"))
    assert name not in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert name not in subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    assert name not in Path("/proc/self/mounts").read_text()


def processes_of(run: str) -> list[str]:
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        result += [process.name for word in words if word.startswith(os.fsencode(run))]
    return result
