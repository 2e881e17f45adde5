"""~/.ssh/config, read as `ssh` reads it: who to connect to, through whom, and which files hold the keys.

paramiko matches the stanzas and fills in the %-tokens. What it leaves out is done here: `Include`, and gateways whose
stanzas lead to further gateways.
"""

import getpass
import glob
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from tfprov.errors import HostError, one_line, shown

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


SSH_PORT = 22
_GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_USER_KNOWN_HOSTS = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
_INCLUDES = 16
"""How deep files may include each other, as in OpenSSH's readconf.c."""
_HOPS = 8
"""How many gateways may stand before a host: more is a circle."""


@dataclass(frozen=True)
class Hop:
    """One SSH server on the way; the last one is the host itself. `label` names it in messages.

    `known_as` is what known_hosts calls it, without the port. `identities_only`: offer no key of the agent that is not in a
    file. `authentications` are the methods to try, in order; empty for the usual ones. `host_key_algorithms` and
    `address_family` have the form they have in ssh_config.
    """

    label: str
    address: str
    port: int
    user: str
    known_as: str
    key_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    identities_only: bool = False
    proxy_command: str | None = None
    authentications: tuple[str, ...] = ()
    host_key_algorithms: str | None = None
    address_family: str = "any"

    @property
    def endpoint(self) -> str:
        """Return `address:port`, with brackets around an IPv6 address."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def where(self) -> str:
        """Return the endpoint, and the program that leads to it."""
        return f"{self.endpoint} (through `{self.proxy_command}`)" if self.proxy_command else self.endpoint


def route(target: Target) -> tuple[Hop, ...]:
    """Return the servers to go through in their order, `target` last. Raises HostError when the file cannot be used."""
    try:
        lines = _lines(target.ssh_config, _INCLUDES) if target.ssh_config else ()
        return _Router(target, tuple(lines)).route(target.address, target.port, target.user, last=True)
    except (paramiko.SSHException, OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(target.name, f"{target.ssh_config}: {one_line(str(error))}", "correct the file") from error


@dataclass(frozen=True)
class _Router:
    target: Target
    lines: tuple[str, ...]

    def route(
        self, name: str, port: int | None, user: str | None, *, last: bool = False, depth: int = 0
    ) -> tuple[Hop, ...]:
        """Return the hops to the server that is called `name` in the configuration, itself included."""
        if depth > _HOPS:
            raise ValueError(f"ProxyJump goes round in a circle at {shown(name)}")
        found = self._look_up(name, port, user, last=last)
        hop = self._hop(name, found, last=last)
        jumps = _jumps(found.get("proxyjump"), name, hop)
        before: tuple[Hop, ...] = ()
        for number, (jump_user, jump_name, jump_port) in enumerate(jumps):
            way = self.route(jump_name, jump_port, jump_user, depth=depth + 1)
            before += way if number == 0 else way[-1:]  # as ssh does: only the first may need gateways of its own
        return (*before, hop)

    def _look_up(self, name: str, port: int | None, user: str | None, *, last: bool) -> dict[str, Any]:
        """Return the stanzas' values for `name`. The first value wins there, so ours are put before the file's."""
        ours = {
            "Port": port,
            "User": user,
            **(self._for_the_host() if last else {}),
        }
        lines = [f"{key} {value}" for key, value in ours.items() if value is not None]
        config = paramiko.SSHConfig.from_text("\n".join(["Host *", *lines, "Host *", *self.lines]))
        return dict(config.lookup(name))

    def _for_the_host(self) -> dict[str, Any]:
        """Return what ssh does not pass on to gateways."""
        target = self.target
        only = None if target.identities_only is None else "yes" if target.identities_only else "no"
        return {
            "ProxyJump": target.proxy_jump,
            "ProxyCommand": target.proxy_command,
            "IdentitiesOnly": only,
            "PreferredAuthentications": ",".join(target.authentications) or None,
            "HostKeyAlgorithms": target.host_key_algorithms,
            "AddressFamily": target.address_family,
        }

    def _hop(self, name: str, found: dict[str, Any], *, last: bool) -> Hop:
        own_files = self.target.key_files if last else ()
        files = (*own_files, *(_path(item) for item in found.get("identityfile", ()) if item.lower() != "none"))
        return Hop(
            label=self.target.name if last else f"{self.target.name}: gateway {name}",
            address=found["hostname"],
            port=int(found.get("port", SSH_PORT)),
            user=found.get("user") or getpass.getuser(),
            known_as=found.get("hostkeyalias") or found["hostname"],
            key_files=tuple(dict.fromkeys(files)),
            known_hosts=self.target.known_hosts or _known_hosts(found),
            identities_only=str(found.get("identitiesonly")).lower() in ("yes", "true"),
            proxy_command=None if found.get("proxyjump", "none").lower() != "none" else found.get("proxycommand"),
            authentications=tuple(filter(None, re.split(r"[\s,]+", found.get("preferredauthentications", "").lower()))),
            host_key_algorithms=found.get("hostkeyalgorithms"),
            address_family=str(found.get("addressfamily", "any")).lower(),
        )


def _known_hosts(found: dict[str, Any]) -> tuple[Path, ...]:
    user, system = found.get("userknownhostsfile", _USER_KNOWN_HOSTS), found.get("globalknownhostsfile")
    return tuple(_path(item) for item in shlex.split(f"{user} {system or _GLOBAL_KNOWN_HOSTS}") if item != "none")


def _path(text: str) -> Path:
    return Path(text.replace("%d", "~")).expanduser()


def _jumps(value: str | None, name: str, hop: Hop) -> Iterator[tuple[str | None, str, int | None]]:
    """Yield user, name and port of every gateway that ProxyJump asks for.

    A server is not its own gateway: with `Host *` and `ProxyJump bastion`, the bastion is reached directly.
    """
    for item in (value or "none").split(","):
        if item.strip().lower() == "none":
            continue
        user, jump, port = _jump(item.strip())
        if jump in (name, hop.address):
            return
        yield user, jump, port


def _jump(item: str) -> tuple[str | None, str, int | None]:
    user, _, rest = item.removeprefix("ssh://").rstrip("/").rpartition("@")
    name, _, port = rest[1:].partition("]") if rest.startswith("[") else rest.partition(":")
    port = port.removeprefix(":")
    if not name or (port and not port.isdecimal()):
        raise ValueError(f"ProxyJump {shown(item)} is not [user@]host[:port]")
    return user or None, name, int(port) if port else None


def _lines(path: Path, depth: int) -> Iterator[str]:
    """Yield the lines of a configuration file with those of the files that it includes; none when it is missing."""
    try:
        lines = path.expanduser().read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    stanza = "Host *"
    for line in lines:
        key, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if key.lower() == "include" and depth:
            for each in _included(value, path):
                yield from _lines(each, depth - 1)
            yield stanza  # what follows belongs where it stands, not to the last stanza of the included file
            continue
        if key.lower() in ("host", "match"):
            stanza = line
        yield line


def _included(value: str, path: Path) -> Iterator[Path]:
    """Yield the files that an `Include` names; ssh looks for them in ~/.ssh, which is where its file lies."""
    for pattern in shlex.split(value):
        whole = path.expanduser().parent / Path(pattern).expanduser()
        yield from map(Path, sorted(glob.glob(str(whole))))  # noqa: PTH207  the pattern may be absolute
