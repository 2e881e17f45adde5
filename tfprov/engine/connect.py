"""The machines of a cluster in Docker: from what the inventory says of them to connections, addresses and runtimes."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tfprov.engine.host_registry import Record
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSH
from tfprov.model.inventory import Inventory
from tfprov.settings.connection import Connection, resolve_connection
from tfprov.settings.resolve import RoleSettings

_USER_CONFIG = Path("~/.ssh/config")


@dataclass(frozen=True)
class Connections:
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


def reach(inventory: Inventory, roles: tuple[RoleSettings, ...], home: Path, *, accept_new: bool) -> Connections:
    """Return the way to every host of a cluster; nothing is connected yet."""
    present = {role.host: role.connection for role in roles}
    recorded = {host: way for host, way in Record(home).read().items() if host not in present}
    builder = _builder(inventory, roles, present)
    ways = {**present, **recorded, **builder}
    over = {host: SSH(_target(way, accept_new=accept_new)) for host, way in ways.items() if not way.local}
    return Connections(present, recorded, builder, over)


def _builder(
    inventory: Inventory, roles: tuple[RoleSettings, ...], present: Mapping[str, Connection]
) -> dict[str, Connection]:
    """Return the way to the host that builds, where it has no role of its own."""
    image = roles[0].values.image
    host = image.build_on if image else None
    return {host: resolve_connection(inventory, host)} if host and host not in present else {}


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
