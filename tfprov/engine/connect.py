"""Connects to the hosts of a cluster in Docker: their connection settings, and an SSH connection for each remote host."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.engine.host_registry import HostRegistry
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost
from tfprov.model.inventory import Inventory
from tfprov.settings.connection import SSH_PORT, ConnectionSettings, resolve_connection
from tfprov.settings.resolve import RoleSettings

_USER_CONFIG, _SYSTEM_CONFIG = Path("~/.ssh/config"), Path("/etc/ssh/ssh_config")


@dataclass(frozen=True)
class Connections:
    """The connection settings of every host, by group, and in `ssh` the SSH connection of every remote one.

    `present` hosts have a role, `recorded` ones left the inventory, `former` ones are where the inventory had a present
    host before, and a `builder` only builds images.
    """

    present: Mapping[str, ConnectionSettings]
    recorded: Mapping[str, ConnectionSettings]
    former: Mapping[str, ConnectionSettings]
    builder: Mapping[str, ConnectionSettings]
    ssh: Mapping[str, SSHHost]

    @property
    def left(self) -> frozenset[str]:
        """The hosts that are not in the inventory, and may still have tasks."""
        return frozenset([*self.recorded, *self.former])

    @property
    def settings(self) -> dict[str, ConnectionSettings]:
        """The connection settings of every host."""
        return {**self.present, **self.recorded, **self.former, **self.builder}

    def open_all(self, forks: int) -> None:
        """Start to connect, in the background, to every host that has or had tasks, `forks` at a time."""
        pool = ThreadPoolExecutor(max_workers=forks)
        for host, ssh in self.ssh.items():
            if host not in self.builder:
                ssh.connect_in(pool)
        pool.shutdown(wait=False)

    def close(self) -> None:
        """Close the connections, also those that are being opened."""
        for ssh in self.ssh.values():
            ssh.close()


def prepare_connections(
    inventory: Inventory, roles: tuple[RoleSettings, ...], home: Path, *, accept_new: bool
) -> Connections:
    """Return the connections of a cluster, none of them open yet."""
    present = {role.host: role.connection for role in roles}
    before = HostRegistry(home).read()
    recorded = {host: settings for host, settings in before.items() if host not in present}
    former = _former(before, present)
    builder = _builder(inventory, roles, present)
    remote = {host: s for host, s in {**present, **recorded, **former, **builder}.items() if not s.local}
    ssh = {host: SSHHost(ssh_target(settings, accept_new=accept_new)) for host, settings in remote.items()}
    return Connections(present, recorded, former, builder, ssh)


def _former(
    before: Mapping[str, ConnectionSettings], present: Mapping[str, ConnectionSettings]
) -> dict[str, ConnectionSettings]:
    """Return where the record has a host of the inventory that is elsewhere now, by a name such as `h2 (10.0.0.2)`.

    A name that another machine has now leaves tasks on the first one.
    """
    places = {_place(settings) for settings in present.values()}
    moved = [
        settings for host, settings in before.items() if host in present and _place(settings) != _place(present[host])
    ]
    named = {f"{settings.host} ({_place(settings)})": settings for settings in moved if _place(settings) not in places}
    return {name: replace(settings, host=name) for name, settings in named.items()}


def _place(settings: ConnectionSettings) -> str:
    """Return the address of a host, with an unusual port."""
    if settings.local:
        return "this machine"
    return settings.address if settings.port in (None, SSH_PORT) else f"{settings.address}:{settings.port}"


def _builder(
    inventory: Inventory, roles: tuple[RoleSettings, ...], present: Mapping[str, ConnectionSettings]
) -> dict[str, ConnectionSettings]:
    """Return the connection settings of the host that builds images, if it has no role of its own."""
    image = roles[0].values.image
    host = image.build_on if image else None
    return {host: resolve_connection(inventory, host)} if host and host not in present else {}


def ssh_target(settings: ConnectionSettings, *, accept_new: bool) -> SSHTarget:
    """Return a host's connection settings for the SSH client."""
    return SSHTarget(
        name=settings.host,
        address=settings.address,
        port=settings.port,
        user=settings.user,
        key_files=settings.key_files,
        password=settings.password,
        become=settings.become,
        proxy_jump=settings.proxy_jump,
        proxy_command=settings.proxy_command,
        ssh_config=settings.ssh_config,
        user_config=_USER_CONFIG.expanduser(),
        system_config=_SYSTEM_CONFIG,
        known_hosts=settings.known_hosts,
        accept_new=accept_new or settings.accept_new,
        identities_only=settings.identities_only,
        authentications=settings.authentications,
        host_key_algorithms=settings.host_key_algorithms,
        address_family=settings.address_family,
        connect_timeout=settings.timeout,
    )
