"""The machines of a cluster in Docker: from what the inventory says of them to connections, addresses and runtimes."""

import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tfprov.engine.host_registry import Delivered, Record
from tfprov.errors import HostError, InvalidInput, Problem, Usage, shown
from tfprov.hosts.docker.engine import LOCAL, Engine
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.hosts.machine import LocalMachine, Machine, SSHMachine
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSH
from tfprov.model.inventory import Inventory
from tfprov.planning.desired import Place
from tfprov.settings.connection import Connection, connection_of
from tfprov.settings.resolve import RoleSettings

_USER_CONFIG = Path("~/.ssh/config")


@dataclass(frozen=True)
class Reach:
    """How to reach every host: `present` has a role, `recorded` left the inventory, and a `builder` only builds.

    `over` holds the SSH connection of every host that is not this machine.
    """

    present: Mapping[str, Connection]
    recorded: Mapping[str, Connection]
    builder: Mapping[str, Connection]
    over: Mapping[str, SSH]

    @property
    def ways(self) -> dict[str, Connection]:
        """The way to every host."""
        return {**self.present, **self.recorded, **self.builder}

    def begin(self, forks: int) -> None:
        """Start to connect to every host that has tasks, or had; `forks` at a time."""
        pool = ThreadPoolExecutor(max_workers=forks)
        for host, ssh in self.over.items():
            if host not in self.builder:
                ssh.connect_in(pool)
        pool.shutdown(wait=False)

    def close(self) -> None:
        """End the connections, also those that are being made."""
        for ssh in self.over.values():
            ssh.close()


def reach(inventory: Inventory, roles: tuple[RoleSettings, ...], home: Path, *, accept_new: bool) -> Reach:
    """Return the way to every host of a cluster; nothing is connected yet."""
    present = {role.host: role.way for role in roles}
    recorded = {host: way for host, way in Record(home).read().items() if host not in present}
    builder = _builder(inventory, roles, present)
    ways = {**present, **recorded, **builder}
    over = {host: SSH(_target(way, accept_new=accept_new)) for host, way in ways.items() if not way.local}
    return Reach(present, recorded, builder, over)


def _builder(
    inventory: Inventory, roles: tuple[RoleSettings, ...], present: Mapping[str, Connection]
) -> dict[str, Connection]:
    """Return the way to the host that builds, where it has no role of its own."""
    image = roles[0].values.image
    host = image.build_on if image else None
    return {host: connection_of(inventory, host)} if host and host not in present else {}


def _target(way: Connection, *, accept_new: bool) -> SSHTarget:
    return SSHTarget(
        name=way.host,
        address=way.address,
        port=way.port,
        user=way.user,
        key_files=way.key_files,
        password=way.password,
        become=way.become,
        proxy_jump=way.proxy_jump,
        proxy_command=way.proxy_command,
        ssh_config=way.ssh_config or _USER_CONFIG.expanduser(),
        known_hosts=way.known_hosts,
        accept_new=accept_new or way.accept_new,
        identities_only=way.identities_only,
        authentications=way.authentications,
        host_key_algorithms=way.host_key_algorithms,
        address_family=way.address_family,
        connect_timeout=way.timeout,
    )


_USUAL_GATEWAY = "172.17.0.1"
"""Of Docker's bridge, where nobody has configured another."""


def machines(found: Reach, environ: Mapping[str, str]) -> dict[str, Machine]:
    """Return the machine of every host; nothing is asked of it yet."""
    return {
        host: LocalMachine(host, engine_socket(environ)) if way.local else SSHMachine(found.over[host])
        for host, way in found.ways.items()
    }


def engine_socket(environ: Mapping[str, str]) -> Path:
    """Return the socket of this machine's engine: what DOCKER_HOST names, else Docker's own place."""
    stated = environ.get("DOCKER_HOST", "")
    if stated and not stated.startswith("unix://"):
        fix = "unset it, or name a unix socket, such as unix:///var/run/docker.sock"
        raise Usage(f"DOCKER_HOST is {shown(stated)}: only a unix socket is used", fix)
    return Path(stated.removeprefix("unix://")) if stated else LOCAL


def runtimes(
    found: Mapping[str, Machine], cluster: str, codes: Callable[[str], bytes], delivered: Delivered, *, fetches: bool
) -> dict[str, DockerRuntime]:
    """Return the docker runtime of every machine; `fetches` says whether the cluster has data that hosts fetch."""

    def runtime(machine: Machine) -> DockerRuntime:
        engine, deliveries = machine.engine, delivered.on(machine.host)
        return DockerRuntime(
            engine, cluster, machine.serves, machine.run, codes, fetches=fetches, deliveries=deliveries
        )

    return {host: runtime(machine) for host, machine in found.items()}


def addressed(roles: Sequence[RoleSettings], found: Mapping[str, Machine]) -> tuple[RoleSettings, ...]:
    """Give the roles of this machine an address at which its containers reach each other.

    Inside a container 127.0.0.1 is the container itself; the gateway of Docker's bridge is this machine.
    """
    gateways: dict[str, str] = {}
    result = []
    for role in roles:
        inside = role.local and role.values.address is None
        if inside and role.host not in gateways:
            gateways[role.host] = _gateway(found[role.host].engine)
        result.append(replace(role, address=gateways[role.host]) if inside else role)
    return tuple(result)


def elsewhere(roles: Sequence[RoleSettings]) -> tuple[RoleSettings, ...]:
    """Give the roles of this machine an address as `addressed` does, where its engine cannot be asked for one."""
    return tuple(
        replace(role, address=_USUAL_GATEWAY) if role.local and role.values.address is None else role for role in roles
    )


def _gateway(engine: Engine) -> str:
    with engine.errors():
        facts: dict[str, Any] = engine.api.inspect_network("bridge")
    gateway = next((entry["Gateway"] for entry in facts["IPAM"].get("Config") or () if entry.get("Gateway")), None)
    if gateway is None:
        fix = "set `address` under `tfprov:` to an address of this machine"
        raise HostError(engine.host, "its Docker engine has no bridge network", fix)
    return str(gateway)


def published(roles: Sequence[RoleSettings]) -> dict[Place, str]:
    """Return the address on which each role's ports are published on its host; InvalidInput for a name that has none."""
    names = {role.host: role for role in roles if role.serves_at is None}
    resolved: dict[str, str] = {}
    problems = []
    for host, role in names.items():
        try:
            resolved[host] = _resolved(role.address)
        except OSError:
            problems.append(_nameless(role))
    if problems:
        raise InvalidInput(problems)
    return {(role.role, role.host): role.serves_at or resolved[role.host] for role in roles}


def _nameless(role: RoleSettings) -> Problem:
    """Say which of the places that may name an address has one that does not resolve."""
    what = f"the name {shown(role.address)} has no IPv4 address"
    if role.values.address is not None:
        return Problem(role.at("address"), what, "correct `address`, or look at DNS")
    fix = (
        "give its address as `ansible_host`" if role.address == role.host else "correct `ansible_host`, or look at DNS"
    )
    return Problem(role.where, what, fix)


def _resolved(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        return str(socket.getaddrinfo(address, None, socket.AF_INET)[0][4][0])
