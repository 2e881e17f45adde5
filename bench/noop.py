"""Nothing to do on four hosts with a container each: `tfprov up`, beside Ansible and pyinfra that look after the same.

Each has a container of its own on every host, of the same image, and has put it there in an earlier run.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.paths import STANDIN

from .bed import Bed
from .measure import Figure, Ran, compared, in_turn, run, say, seconds

_COMMAND = ["sh", "-c", "exec sleep 100000"]

# `default` pull policy and comparisons: what a user writes who wants the container to run.
_PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - community.docker.docker_container:
        name: bench-ansible
        image: {image}
        command: {command}
        state: started
"""

_ANSIBLE = """\
[defaults]
forks = 8
interpreter_python = /usr/bin/python3
[ssh_connection]
pipelining = True
ssh_args = {flags} -o ControlMaster=auto -o ControlPersist=60s
control_path_dir = {sockets}
"""

_PYINFRA = """\
from pyinfra.operations import docker

docker.container(name="bench", container="bench-pyinfra", image={image!r}, command={command!r})
"""


_KEPT = "ansible, connections kept"
_GOALS: dict[str, float | None] = {"ansible": 0.25, _KEPT: None, "pyinfra": 1.0}
_INCLUDES = (
    "whole commands on the same 4 hosts, interpreter's start and SSH connections included. ansible-playbook: "
    "community.docker.docker_container, pipelining, 8 forks, no facts; `kept`: over the SSH connections that its last run "
    "left open (ControlPersist). pyinfra: docker.container"
)


class Contenders:
    """What each needs to look after its containers, in `directory`; `peers` is where the peers' commands are."""

    def __init__(self, bed: Bed, peers: Path) -> None:
        self.bed, self.peers = bed, peers
        self.directory = bed.directory / "noop"
        self.directory.mkdir()
        self.image = bed.images.tiny()
        self.env = bed.env
        self.sockets = self.directory / "cp"

    def tfprov(self) -> Callable[[], Ran]:
        """Return what runs `tfprov up`: one ps and three workers."""
        settings = {
            "image": {"archive": str(self.bed.archive(self.image))},
            "code": str(STANDIN),
            "command": _COMMAND,
            "ready": "start",
        }
        roles = {"ps": self.bed.hosts[:1], "worker": self.bed.hosts[1:]}
        cluster = self.bed.cluster(self.directory, roles, settings)
        return lambda: run(cluster.command("up"), cluster.env, self.directory)

    def ansible(self, *, warm: bool) -> Callable[[], Ran]:
        """Return what plays the playbook; `warm` leaves it the SSH connections of its last run, which it keeps for 60 s."""
        inventory = {"all": {"hosts": {host.name: host.variables() for host in self.bed.hosts}}}
        (self.directory / "ansible.yml").write_text(json.dumps(inventory))
        playbook = _PLAYBOOK.format(image=self.image, command=json.dumps(_COMMAND))
        (self.directory / "playbook.yml").write_text(playbook)
        (self.directory / "ansible.cfg").write_text(_ANSIBLE.format(flags=self.bed.ssh_flags, sockets=self.sockets))
        command = [str(self.peers / "ansible-playbook"), "-i", "ansible.yml", "playbook.yml"]

        def play() -> Ran:
            if not warm:
                self.hang_up()
            return run(command, self._env(), self.directory)

        return play

    def hang_up(self) -> None:
        """End the SSH connections that Ansible leaves open."""
        for socket in self.sockets.glob("*") if self.sockets.exists() else ():
            subprocess.run(
                ["ssh", "-F", "/dev/null", "-S", str(socket), "-O", "exit", "host"], capture_output=True, check=False
            )

    def pyinfra(self) -> Callable[[], Ran]:
        """Return what runs pyinfra's deploy."""
        hosts = [
            (host.address, {"ssh_user": host.user, "ssh_key": str(self.bed.lab.bed.key)}) for host in self.bed.hosts
        ]
        known = {"ssh_known_hosts_file": str(self.bed.lab.bed.known_hosts), "ssh_strict_host_key_checking": "yes"}
        (self.directory / "hosts.py").write_text(f"hosts = ({hosts!r}, {known!r})\n")
        deploy = _PYINFRA.format(image=self.image, command="sh -c 'exec sleep 100000'")
        (self.directory / "deploy.py").write_text(deploy)
        command = [str(self.peers / "pyinfra"), "-y", "hosts.py", "deploy.py"]
        return lambda: run(command, self._env(), self.directory)

    def containers(self) -> set[str]:
        """Return the ids of all containers of all hosts."""
        return {str(made.id) for host in self.bed.hosts for made in host.client.containers.list(all=True)}

    def _env(self) -> Mapping[str, str]:
        """Return the peers' environment: their settings, and none of the controller's engine."""
        env = {name: value for name, value in self.env.items() if name != "DOCKER_HOST"}
        return {**env, "ANSIBLE_CONFIG": str(self.directory / "ansible.cfg"), "PATH": f"{self.peers}:{env['PATH']}"}


def figures(bed: Bed, peers: Path, rounds: int) -> list[Figure]:
    """Measure each contender `rounds` times."""
    say("the small image on 4 hosts")
    contenders = Contenders(bed, peers)
    bed.lab.load(contenders.image)
    runs = {"tfprov": contenders.tfprov()}
    if (peers / "ansible-playbook").exists():
        runs |= {
            "ansible": contenders.ansible(warm=False),
            _KEPT: contenders.ansible(warm=True),
            "pyinfra": contenders.pyinfra(),
        }
    try:
        say(f"nothing to do, {rounds} rounds")
        for start in runs.values():
            start()  # brings its containers there
        before = contenders.containers()
        times = in_turn(runs, rounds)
        assert contenders.containers() == before, "somebody had something to do"
    finally:
        contenders.hang_up()
    what = "nothing to do on 4 hosts"
    if set(times) == {"tfprov"}:
        return [Figure(what, seconds(times["tfprov"]), "not installed", includes=_INCLUDES)]
    return [
        compared(f"{what}; {peer}", times["tfprov"], times[peer], _GOALS[peer], _INCLUDES if number == 0 else "")
        for number, peer in enumerate(_GOALS)
    ]
