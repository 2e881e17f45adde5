"""The hosts of a cluster in Docker: their machines, addresses and runtimes."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tfprov.engine.connect import Connections
from tfprov.engine.host_registry import DeliveredImages
from tfprov.errors import HostError, InvalidInput, Problem, Usage, printable
from tfprov.hosts.base import Changes
from tfprov.hosts.docker.engine import LOCAL, Engine
from tfprov.hosts.docker.labels import CLUSTER, TASK
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.hosts.machine import LocalMachine, Machine, SSHMachine
from tfprov.planning.desired import RoleHost
from tfprov.settings.resolve import RoleSettings

_USUAL_GATEWAY = "172.17.0.1"
"""The default gateway of Docker's bridge."""


def machines(connections: Connections, environ: Mapping[str, str]) -> dict[str, Machine]:
    """Return the machine of every host, without connecting."""
    return {
        host: LocalMachine(host, engine_socket(environ)) if settings.local else SSHMachine(connections.ssh[host])
        for host, settings in connections.settings.items()
    }


def engine_socket(environ: Mapping[str, str]) -> Path:
    """Return the socket of this machine's engine: DOCKER_HOST, else Docker's default."""
    docker_host = environ.get("DOCKER_HOST", "")
    if docker_host and not docker_host.startswith("unix://"):
        fix = "unset it, or name a unix socket, such as unix:///var/run/docker.sock"
        raise Usage(f"DOCKER_HOST is {printable(docker_host)}: only a unix socket is used", fix)
    return Path(docker_host.removeprefix("unix://")) if docker_host else LOCAL


def runtimes(
    by_host: Mapping[str, Machine],
    cluster: str,
    codes: Callable[[str], bytes],
    delivered: DeliveredImages,
    *,
    fetches: bool,
) -> dict[str, DockerRuntime]:
    """Return the docker runtime of every machine; `fetches` says whether the cluster has data that hosts fetch."""

    def runtime(machine: Machine) -> DockerRuntime:
        engine, deliveries = machine.engine, delivered.on(machine.host)
        return DockerRuntime(
            engine, cluster, machine.is_listening, machine.run, codes, fetches=fetches, deliveries=deliveries
        )

    return {host: runtime(machine) for host, machine in by_host.items()}


def changes(by_host: Mapping[str, Machine], cluster: str) -> dict[str, Callable[[], Changes]]:
    """Return, for every machine, the function that begins to report the changes of the cluster's containers."""
    return {host: partial(machine.engine.changes, f"{CLUSTER}={cluster}", TASK) for host, machine in by_host.items()}


def with_gateway_addresses(roles: Sequence[RoleSettings], by_host: Mapping[str, Machine]) -> tuple[RoleSettings, ...]:
    """Give the roles of this machine an address at which its containers reach each other.

    Inside a container 127.0.0.1 is the container itself; the gateway of Docker's bridge is this machine.
    """
    gateways: dict[str, str] = {}
    result = []
    for role in roles:
        inside = role.local and role.values.address is None
        if inside and role.host not in gateways:
            gateways[role.host] = _gateway(by_host[role.host].engine)
        result.append(replace(role, address=gateways[role.host]) if inside else role)
    return tuple(result)


def with_default_addresses(roles: Sequence[RoleSettings]) -> tuple[RoleSettings, ...]:
    """Give the roles of this machine Docker's default gateway as address, for an engine that does not answer."""
    return tuple(
        replace(role, address=_USUAL_GATEWAY) if role.local and role.values.address is None else role for role in roles
    )


def _gateway(engine: Engine) -> str:
    facts: dict[str, Any] = engine.ask("/networks/bridge")[0]
    gateway = next((entry["Gateway"] for entry in facts["IPAM"].get("Config") or () if entry.get("Gateway")), None)
    if gateway is None:
        fix = "set `address` under `tfprov:` to an address of this machine"
        raise HostError(engine.host, "its Docker engine has no bridge network", fix)
    return str(gateway)


def publish_addresses(roles: Sequence[RoleSettings]) -> dict[RoleHost, str]:
    """Return the address on which each role publishes its ports on its host; InvalidInput for unknown names."""
    names = {role.host: role for role in roles if role.bind_address is None}
    resolved: dict[str, str] = {}
    problems = []
    for host, role in names.items():
        try:
            resolved[host] = _resolve(role.address)
        except OSError:
            problems.append(_unresolvable(role))
    if problems:
        raise InvalidInput(problems)
    return {(role.role, role.host): role.bind_address or resolved[role.host] for role in roles}


def _unresolvable(role: RoleSettings) -> Problem:
    """Return the problem of a name that does not resolve, at the setting that has it."""
    what = f"the name {printable(role.address)} has no IPv4 address"
    if role.values.address is not None:
        return Problem(role.at("address"), what, "correct `address`, or look at DNS")
    fix = (
        "give its address as `ansible_host`" if role.address == role.host else "correct `ansible_host`, or look at DNS"
    )
    return Problem(role.where, what, fix)


def _resolve(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        return str(socket.getaddrinfo(address, None, socket.AF_INET)[0][4][0])
