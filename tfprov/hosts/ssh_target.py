"""What the caller says about a host that is reached over SSH: plain values, made from the inventory."""

from dataclasses import dataclass, field
from pathlib import Path

RETRY_PAUSES = (0.3, 1.0, 2.5)
"""Seconds before another try after sshd has dropped us: beyond MaxStartups it does so to a share of all newcomers."""
KEEPALIVE_INTERVAL = 10.0
"""Seconds between two questions; often enough for the gateways that drop silent connections after a minute."""
KEEPALIVE_SILENCE = 20.0
"""Seconds without a byte from the host, after a question, that end the connection."""


@dataclass(frozen=True)
class Target:
    """The way to one host. What is None or empty here is taken from ssh_config(5), and then from SSH's own defaults.

    `name` is the host's name in the inventory, `address` its `ansible_host`. `proxy_jump`, `proxy_command`, and
    `identities_only` to `address_family` have the form they have in ssh_config, and are for the host itself. `known_hosts`
    replaces the files of ssh_config; with `accept_new`, the key of a host that no file knows is recorded in the first of
    them. Times are in seconds; `command_timeout` is for one command, `retry_pauses` lie between attempts to connect, and
    `keepalive_*` end a connection on which the host is silent.
    """

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    key_files: tuple[Path, ...] = ()
    password: str | None = field(default=None, repr=False)
    become: bool = False
    proxy_jump: str | None = None
    proxy_command: str | None = None
    ssh_config: Path | None = None
    known_hosts: tuple[Path, ...] = ()
    accept_new: bool = False
    identities_only: bool | None = None
    authentications: tuple[str, ...] = ()
    host_key_algorithms: str | None = None
    address_family: str | None = None
    connect_timeout: float = 10.0
    command_timeout: float = 60.0
    retry_pauses: tuple[float, ...] = RETRY_PAUSES
    keepalive_interval: float = KEEPALIVE_INTERVAL
    keepalive_silence: float = KEEPALIVE_SILENCE
