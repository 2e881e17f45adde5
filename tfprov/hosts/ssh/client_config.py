"""Resolve a host to its route with ssh_config(5): addresses, users, gateways, key files and known_hosts files.

paramiko matches the stanzas and expands the %-tokens. This module adds what paramiko lacks: `Include`, and gateways
whose own stanzas have a ProxyJump.
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

from tfprov.errors import printable
from tfprov.hosts.ssh.errors import config_errors
from tfprov.hosts.ssh.known_hosts import SSH_PORT, expanded, file_tokens, known_hosts_files, with_tokens

RETRY_PAUSES = (0.3, 1.0, 2.5)
"""Seconds between attempts after sshd dropped the connection: beyond MaxStartups it drops a share of new connections."""
KEEPALIVE_INTERVAL = 10.0
"""Seconds between keepalive requests; below the minute after which some gateways drop idle connections."""
KEEPALIVE_SILENCE = 20.0
"""Seconds without a byte from the host, after a keepalive request, before the connection is closed."""


@dataclass(frozen=True)
class SSHTarget:
    """The SSH settings of one host. None and empty values come from ssh_config(5), then from SSH's defaults.

    `name` is the host's name in the inventory, `address` its `ansible_host`. `proxy_jump`, `proxy_command`, and
    `identities_only` to `address_family` have the syntax of ssh_config and apply to the host, not to its gateways.
    `ssh_config` is a file instead of the user's and the system's, `user_config` and `system_config`; all may be missing.
    `known_hosts` replaces the files of ssh_config; with `accept_new`, an unknown host key is added to the first of them.
    Times are in seconds: `command_timeout` limits a command, `retry_pauses` separate attempts to connect.
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
    user_config: Path | None = None
    system_config: Path | None = None
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


_MAX_INCLUDE_DEPTH = 16
"""Maximum depth of Include, as in OpenSSH's readconf.c."""
_MAX_HOPS = 8
"""Maximum number of gateways: more are taken for a circle."""


@dataclass(frozen=True)
class Hop:
    """One SSH server of a route; the last hop is the host itself. `label` names it in messages.

    `host_key_alias` is its name in known_hosts, with `host_key_port`. `identities_only`: offer only the agent's keys that
    are also in a key file. `authentications` are the methods to try, in order; empty for the defaults.
    `host_key_algorithms`, `address_family` and `identity_agent` have the syntax of ssh_config.
    """

    label: str
    address: str
    port: int
    user: str
    host_key_alias: str
    key_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    identities_only: bool = False
    proxy_command: str | None = None
    authentications: tuple[str, ...] = ()
    host_key_algorithms: str | None = None
    address_family: str = "any"
    has_alias: bool = False
    identity_agent: str = "SSH_AUTH_SOCK"

    @property
    def host_key_port(self) -> int:
        """The port that belongs to its name in known_hosts; ssh looks for a HostKeyAlias without one."""
        return SSH_PORT if self.has_alias else self.port

    @property
    def endpoint(self) -> str:
        """`address:port`, with brackets around an IPv6 address."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def where(self) -> str:
        """The endpoint, with the ProxyCommand that leads to it."""
        return f"{self.endpoint} (through `{self.proxy_command}`)" if self.proxy_command else self.endpoint


def route(target: SSHTarget) -> tuple[Hop, ...]:
    """Return the hops to `target` in order, `target` last. Raises HostError for an invalid ssh_config."""
    path, system = target.ssh_config or target.user_config, _system_lines(target)
    with config_errors(target.name, path):
        lines = _read_lines(path, Path("~/.ssh").expanduser()) if path else ()
        return _Router(target, (*lines, "Host *", *system)).route(target.address, target.port, target.user, last=True)


def _system_lines(target: SSHTarget) -> tuple[str, ...]:
    """Return the lines of the system's configuration file, which a file of the inventory replaces."""
    path = None if target.ssh_config else target.system_config
    if path is None:
        return ()
    with config_errors(target.name, path):
        lines = tuple(_read_lines(path, path.parent))
        paramiko.SSHConfig.from_text("\n".join(lines))  # here its mistakes are not taken for those of the user's file
    return lines


@dataclass(frozen=True)
class _Router:
    target: SSHTarget
    lines: tuple[str, ...]

    def route(
        self, name: str, port: int | None, user: str | None, *, last: bool = False, depth: int = 0
    ) -> tuple[Hop, ...]:
        """Return the hops to the server that ssh_config calls `name`, itself included."""
        if depth > _MAX_HOPS:
            raise ValueError(f"ProxyJump goes round in a circle at {printable(name)}")
        options = self._look_up(name, port, user, last=last)
        hop = self._make_hop(name, options, last=last)
        jumps = _parse_proxy_jump(options.get("proxyjump"), name, hop)
        gateways: tuple[Hop, ...] = ()
        for number, (jump_user, jump_name, jump_port) in enumerate(jumps):
            hops = self.route(jump_name, jump_port, jump_user, depth=depth + 1)
            gateways += hops if number == 0 else hops[-1:]  # as in ssh: only the first gateway may have a ProxyJump
        return (*gateways, hop)

    def _look_up(self, name: str, port: int | None, user: str | None, *, last: bool) -> dict[str, Any]:
        """Return the ssh_config options of `name`. The first value wins, so overrides precede the file."""
        overrides = {"Port": port, "User": user, **(self._target_options() if last else {})}
        lines = [f"{key} {value}" for key, value in overrides.items() if value is not None]
        config = paramiko.SSHConfig.from_text("\n".join(["Host *", *lines, "Host *", *self.lines]))
        return _with_one_proxy(dict(config.lookup(name)))

    def _target_options(self) -> dict[str, Any]:
        """Return the options that apply to the target only: ssh does not pass them on to gateways."""
        target = self.target
        identities_only = None if target.identities_only is None else "yes" if target.identities_only else "no"
        return {
            "ProxyJump": target.proxy_jump,
            "ProxyCommand": target.proxy_command,
            "IdentitiesOnly": identities_only,
            "PreferredAuthentications": ",".join(target.authentications) or None,
            "HostKeyAlgorithms": target.host_key_algorithms,
            "AddressFamily": target.address_family,
        }

    def _make_hop(self, name: str, options: dict[str, Any], *, last: bool) -> Hop:
        configured = self.target.key_files if last else ()
        files = (*configured, *(expanded(item) for item in options.get("identityfile", ()) if item.lower() != "none"))
        tokens = file_tokens(name, options)
        agent = next(iter(shlex.split(options.get("identityagent") or "")), "SSH_AUTH_SOCK")
        return Hop(
            label=self.target.name if last else f"{self.target.name}: gateway {name}",
            address=options["hostname"],
            port=int(options.get("port", SSH_PORT)),
            user=options.get("user") or getpass.getuser(),
            host_key_alias=options.get("hostkeyalias") or options["hostname"],
            key_files=tuple(dict.fromkeys(files)),
            known_hosts=known_hosts_files(options, tokens, self.target.known_hosts),
            identities_only=str(options.get("identitiesonly")).lower() in ("yes", "true"),
            proxy_command=with_tokens(options.get("proxycommand") or "", {"%%": "%", "%n": name}) or None,
            authentications=tuple(re.findall(r"[^\s,]+", options.get("preferredauthentications", "").lower())),
            host_key_algorithms=options.get("hostkeyalgorithms"),
            address_family=str(options.get("addressfamily", "any")).lower(),
            has_alias=bool(options.get("hostkeyalias")),
            identity_agent=str(expanded(with_tokens(agent, tokens))),
        )


def _with_one_proxy(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the first of ProxyCommand and ProxyJump, which wins in ssh; paramiko keeps both, in order."""
    if options.get("proxyjump", "").lower() == "none":  # `ProxyCommand none` wins over a later ProxyJump, this does not
        del options["proxyjump"]
    for later in [key for key in options if key in ("proxycommand", "proxyjump")][1:]:
        del options[later]
    return options


def _parse_proxy_jump(value: str | None, name: str, hop: Hop) -> Iterator[tuple[str | None, str, int | None]]:
    """Yield user, name and port of every gateway in a ProxyJump value.

    A server is not its own gateway: with `Host *` and `ProxyJump bastion`, the connection to the bastion is direct.
    """
    for item in (value or "none").split(","):
        if item.strip().lower() == "none":
            continue
        user, jump, port = _parse_jump(item.strip())
        if jump in (name, hop.address):
            return
        yield user, jump, port


def _parse_jump(item: str) -> tuple[str | None, str, int | None]:
    user, _, endpoint = item.removeprefix("ssh://").rstrip("/").rpartition("@")
    name, _, port = endpoint[1:].partition("]") if endpoint.startswith("[") else endpoint.partition(":")
    port = port.removeprefix(":")
    if not name or (port and not port.isdecimal()):
        raise ValueError(f"ProxyJump {printable(item)} is not [user@]host[:port]")
    return user or None, name, int(port) if port else None


_LINE = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")
"""A keyword and its arguments, with blanks, tabs or an equals sign in between."""
_COMMENT = re.compile(r'(\s*\w(?:"[^"]*"|[^"])*?)\s+#.*')
_RAW = re.compile(r"\s*(proxy|local|remote|knownhosts)command\b", re.IGNORECASE)
"""These take the rest of the line as it is."""
_QUOTED = ("userknownhostsfile", "globalknownhostsfile", "identityagent")
"""paramiko removes quotes around the whole value, which may be those of its first and last word."""


def _read_lines(path: Path, base: Path, depth: int = _MAX_INCLUDE_DEPTH, within: str = "") -> Iterator[str]:
    """Yield the lines of a configuration file and of its includes, relative to `base`; nothing for a missing file.

    `within` are the criteria of the block that includes the file: its own blocks apply where these are fulfilled, too.
    """
    try:
        lines = path.expanduser().read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    criteria, block = within, f"Match {within}" if within else "Host *"
    for text in lines:
        comment = _COMMENT.fullmatch(text)
        line = comment[1] if comment and not _RAW.match(text) else text
        match = _LINE.match(line)
        key, value = (match[1].lower(), match[2]) if match else ("", "")
        if key == "include" and depth:
            for included in _included_files(value, base):
                yield from _read_lines(included, base, depth - 1, criteria)
                yield block  # what follows belongs to this block, not to the last one of the included file
        elif key in ("host", "match"):
            criteria = " ".join(filter(None, (within, _criteria(key, value))))
            block = line if key == "host" and not within else f"Match {criteria or 'all'}"
            yield block
        else:
            yield f"{key} {shlex.join(shlex.split(value))}" if key in _QUOTED else line


_CRITERIA = ("all", "canonical", "final", "exec", "host", "localuser", "originalhost", "user")
_NOT_KNOWN = ("command", "localnetwork", "sessiontype", "tagged", "version")
"""Criteria that are not fulfilled for tfprov, whose connections have no tag, one or many commands, and no OpenSSH."""


def _criteria(key: str, value: str) -> str:
    """Return the criteria of a Host or a Match as those of a Match; empty for every host.

    paramiko takes keywords with capitals, and those that it lacks, for fulfilled.
    """
    criteria: list[str] = []
    words = shlex.split(value)
    if key == "host":
        return "" if words == ["*"] else f"originalhost {shlex.quote(','.join(words))}"
    while words:
        keyword = words.pop(0).lower()
        if keyword.lstrip("!") in _NOT_KNOWN:
            del words[:1]
            criteria += [] if keyword == "!tagged" else ["!originalhost", "*"]  # never fulfilled
            continue
        if keyword.lstrip("!") not in _CRITERIA:
            raise ValueError(f"`Match {printable(keyword)}` is not supported")
        criteria.append(keyword)
        if keyword.lstrip("!") not in ("all", "canonical", "final"):
            criteria += words[:1]
            del words[:1]
    # `all` stands alone, or behind `final`, and excludes nothing; paramiko allows it alone.
    return shlex.join(criteria[:-1] if criteria[-1:] == ["all"] else criteria)


def _included_files(value: str, base: Path) -> Iterator[Path]:
    """Yield the files that an `Include` matches: for ssh, relative ones are below `base`, wherever the file is."""
    for pattern in shlex.split(value):
        path_pattern = base / Path(pattern).expanduser()
        matches = map(Path, sorted(glob.glob(str(path_pattern))))  # noqa: PTH207  the pattern may be absolute
        yield from (match for match in matches if not match.is_dir())  # a directory is an empty file for ssh
