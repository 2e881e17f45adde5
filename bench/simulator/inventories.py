"""Inventories of simulated hosts, for each contender."""

import json
from dataclasses import dataclass
from pathlib import Path

from .faults import Fault
from .simulation import Simulation, address_of

_ANSIBLE = """\
[defaults]
forks = 32
[ssh_connection]
pipelining = True
ssh_args = -F /dev/null -o UserKnownHostsFile={known_hosts} -o ControlMaster=no
"""
_COMMANDS = {
    "ps": "docker ps",
    "run": "docker run --detach --name peer debian:12",
    "rm": "docker rm --force peer",
}
"""The deploys of the peers."""
_PLAYBOOK = "- {{hosts: all, gather_facts: false, tasks: [{{raw: {}}}]}}\n"
_DEPLOY = "from pyinfra.operations import server\n\nserver.shell(commands=[{!r}])\n"


@dataclass(frozen=True)
class Hosts:
    """The files of a number of hosts: tfprov's `inventory`, and the directory of the `peers`."""

    peers: Path
    inventory: Path


def write_hosts(directory: Path, simulation: Simulation, number: int, task_port: int = 2222) -> Hosts:
    """Write the inventories of `number` hosts of a simulation; their tasks share this machine's `task_port`."""
    directory.mkdir()
    server, port = simulation.server, simulation.port
    addresses = [address_of(f"h{host}") for host in range(number)]
    known_hosts = directory / "known_hosts"
    known_hosts.write_text("".join(f"[{address}]:{port} {server.public()}\n" for address in addresses))
    connection = {
        "ansible_port": port,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(server.user_key),
        "ansible_ssh_common_args": f"-F /dev/null -o UserKnownHostsFile={known_hosts}",
    }
    hosts: dict[str, dict[str, object]] = {
        f"h{n}": {"ansible_host": address, "net": f"10{address[3:]}"} for n, address in enumerate(addresses)
    }
    for name, variables in hosts.items():
        if simulation.faults.get(name) is Fault.NO_SSHD:
            variables["ansible_port"] = simulation.closed_port
    settings = {
        "cluster": f"scale{number}", "image": {"name": "debian:12"}, "code": None, "command": ["sleep", "1000"],
        "ready": "start", "checkpoints": "none", "port": task_port,
        "address": "{{ net }}", "bind": "0.0.0.0", "allow_insecure_network": True,
    }  # fmt: skip
    names = list(hosts)
    inventory = {
        "all": {
            "vars": {**connection, "tfprov": settings},
            "children": {
                "ps": {"hosts": {names[0]: hosts[names[0]]}},
                "worker": {"hosts": {name: hosts[name] for name in names[1:]}},
            },
        }
    }
    (directory / "inventory.yml").write_text(json.dumps(inventory))
    peers = directory / "peers"  # tfprov would read ansible.cfg beside its inventory
    peers.mkdir()
    (peers / "ansible.json").write_text(json.dumps({"all": {"vars": connection, "hosts": hosts}}))
    (peers / "ansible.cfg").write_text(_ANSIBLE.format(known_hosts=known_hosts))
    common = {
        "ssh_user": "root", "ssh_port": port, "ssh_key": str(server.user_key),
        "ssh_known_hosts_file": str(known_hosts), "ssh_strict_host_key_checking": "yes",
    }  # fmt: skip
    (peers / "pyinfra_hosts.py").write_text(f"hosts = ({addresses!r}, {common!r})\n")
    for name, command in _COMMANDS.items():
        (peers / f"{name}.yml").write_text(_PLAYBOOK.format(command))
        (peers / f"{name}.py").write_text(_DEPLOY.format(command))
    return Hosts(peers, directory / "inventory.yml")
