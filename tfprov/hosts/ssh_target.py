"""What the caller says about a host that is reached over SSH: plain values, made from the inventory."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """The way to one host. What is None or empty here is taken from ssh_config(5), and then from SSH's own defaults.

    `name` is the host's name in the inventory, `address` its `ansible_host`. `proxy_jump` and `proxy_command` have the form
    they have in ssh_config. `known_hosts` replaces the files of ssh_config; with `accept_new`, the key of a host that
    no file knows is recorded in the first of them. Times are in seconds; `command_timeout` is for one command.
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
    connect_timeout: float = 10.0
    command_timeout: float = 60.0
