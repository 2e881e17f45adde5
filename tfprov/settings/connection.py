"""How a host is reached: Ansible's connection variables, checked."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tfprov.errors import InvalidInput, Position, shown
from tfprov.model.inventory import Inventory
from tfprov.model.node import Mapping, Node, plain
from tfprov.model.validators import Wrong
from tfprov.settings.connection_vars import (
    ADDRESSES,
    ARGS,
    KEY_FILES,
    PORTS,
    READERS,
    TIMEOUTS,
    USERS,
    check_key_file,
    expanded,
)
from tfprov.settings.ssh_args import SshArgs
from tfprov.templating.host_values import Faults, Variables, is_secret, render
from tfprov.templating.magic_vars import variables
from tfprov.vault.redaction import SECRETS
from tfprov.yamltext.yaml11 import lint_values

_ALSO_ANSIBLES = ("ansible_scp_extra_args", "ansible_sftp_extra_args")
"""Variables that are so called, and no misspelling of ours."""
_NOT_HERE = {
    **dict.fromkeys(
        ("ansible_private_key", "ansible_ssh_private_key"),
        "write the key to a file, and name that as `ansible_ssh_private_key_file`",
    ),
    **dict.fromkeys(
        ("ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase"),
        "give the key to the agent with ssh-add",
    ),
}
"""Variables without which Ansible would not get in, and what to do instead."""
_SUDO = ("sudo", "ansible.builtin.sudo")
SSH_PORT = 22
TIMEOUT = 10.0
"""Seconds to wait for a connection: Ansible's default."""


@dataclass(frozen=True)
class Connection:
    """The way to a host; `at` is where its address is written. `port` and `user` are None for SSH's own defaults.

    `key_files` come before the keys that SSH would try by itself. `known_hosts` replace its own files, and with
    `accept_new` the first of them remembers a host that none knows. `proxy_jump` and `proxy_command` have the form they
    have in ssh_config(5), as have the last four, and `ssh_config` is such a file, None for the user's own. With `become`,
    what is run there is run as root. `timeout` is for connecting, in seconds.
    """

    host: str
    at: Position
    address: str
    port: int | None
    user: str | None
    local: bool
    key_files: tuple[Path, ...] = ()
    password: str | None = field(default=None, repr=False)
    become: bool = False
    timeout: float = TIMEOUT
    proxy_jump: str | None = None
    proxy_command: str | None = None
    ssh_config: Path | None = None
    known_hosts: tuple[Path, ...] = ()
    accept_new: bool = False
    identities_only: bool | None = None
    authentications: tuple[str, ...] = ()
    host_key_algorithms: str | None = None
    address_family: str | None = None


def connection_of(inventory: Inventory, host: str) -> Connection:
    """Return the way to `host`, which needs no role; InvalidInput carries all that is wrong with it."""
    nodes, faults = inventory.variables(host), Faults()
    way = connection(inventory, host, nodes, variables(inventory, host, nodes), faults)
    if faults.problems:
        raise InvalidInput(faults.problems)
    return way


def connection(inventory: Inventory, host: str, nodes: Mapping, context: Variables, faults: Faults) -> Connection:
    """Return the connection that `nodes`, the variables of `host`, describe; what is wrong goes into `faults`."""
    check_names(nodes, faults)
    values = dict(_values(nodes, context, faults))
    local = values.get("ansible_connection", "local" if host == "localhost" else "ssh") == "local"
    if values.get("ansible_become"):
        _check_become(nodes, values, faults)
    args = SshArgs() if local else _arguments(nodes, values, faults)
    if not local:
        _check_keys(nodes, values, faults)
        for name in (name for name in _NOT_HERE if name in nodes.entries):
            faults.add(nodes.key_at(name), f"`{name}` is not supported", _NOT_HERE[name])
    at = inventory.hosts[host].at
    named = [expanded(values[name]) for name in KEY_FILES if name in values][-1:]
    return Connection(
        host,
        _last({name: nodes.entries[name].at for name in ADDRESSES if name in nodes.entries}, ADDRESSES, at),
        _last(values, ADDRESSES, host),
        _last(values, PORTS, args.port),
        _last(values, USERS, args.user),
        local,
        key_files=(*named, *args.key_files),
        password=_last(values, SECRETS, None),
        become=values.get("ansible_become", False),
        timeout=_last(values, TIMEOUTS, args.timeout or TIMEOUT),
        proxy_jump=args.proxy_jump,
        proxy_command=args.proxy_command,
        ssh_config=args.ssh_config,
        known_hosts=args.known_hosts,
        accept_new=args.accept_new or False,
        identities_only=args.identities_only,
        authentications=args.authentications,
        host_key_algorithms=args.host_key_algorithms,
        address_family=args.address_family,
    )


def _last(values: dict[str, Any], names: tuple[str, ...], default: Any) -> Any:
    """Return the value of the last of `names` that has one, as Ansible takes it."""
    return next((values[name] for name in reversed(names) if name in values), default)


def _values(nodes: Mapping, context: Variables, faults: Faults) -> Iterator[tuple[str, Any]]:
    """Yield the variables that are good, as what they mean."""
    for name, read in READERS.items():
        if name not in nodes.entries:
            continue
        node = nodes.entries[name]
        try:
            yield name, read(name, _value(name, node, context, faults))
        except Wrong as wrong:
            secret = is_secret(node, context)
            faults.add(node.at, f"`{name}` is secret, and not what it must be" if secret else str(wrong), wrong.fix)
        except _Told:
            pass


class _Told(Exception):
    """A value that is none, and the faults say why."""


def _value(name: str, node: Node, context: Variables, faults: Faults) -> Any:
    if name in SECRETS:
        return _secret(name, node, context, faults)
    # `ansible_become: yes` means what it looks like; `ansible_port: 22:22` does not.
    found = [] if name == "ansible_become" else list(lint_values(node))
    faults.problems.extend(found)
    value = plain(render(node, context, faults))
    if found or node.at in faults.at:
        raise _Told
    return value


def _secret(name: str, node: Node, context: Variables, faults: Faults) -> Any:
    """Return a password. It is rendered as a variable, because complaints about those never repeat a secret."""
    try:
        return context[name]
    except InvalidInput as error:
        faults.include(error, node.at)
        raise _Told from None


def _check_become(nodes: Mapping, values: dict[str, Any], faults: Faults) -> None:
    method, user = values.get("ansible_become_method", "sudo"), values.get("ansible_become_user", "root")
    if method not in _SUDO:
        at = nodes.entries["ansible_become_method"].at
        faults.add(at, f"`ansible_become_method: {shown(method)}` is not supported", "use `sudo`")
    if user != "root":
        at = nodes.entries["ansible_become_user"].at
        faults.add(at, f"`ansible_become_user: {shown(user)}` is not supported", "use `root`, or remove it")


def _check_keys(nodes: Mapping, values: dict[str, Any], faults: Faults) -> None:
    for name in [name for name in KEY_FILES if name in values][-1:]:
        try:
            check_key_file(name, values[name])
        except Wrong as wrong:
            faults.add(nodes.entries[name].at, str(wrong), wrong.fix)


def _arguments(nodes: Mapping, values: dict[str, Any], faults: Faults) -> SshArgs:
    """Return what the arguments for `ssh` say, in the order in which Ansible gives them to it."""
    args = SshArgs()
    for name in (name for name in ARGS if name in values):
        already = len(args.refused)
        args.add(values[name])
        for refused in args.refused[already:]:
            faults.add(nodes.entries[name].at, f"`{name}` {refused}", refused.fix)
    return args


def check_names(nodes: Mapping, faults: Faults) -> None:
    """Put into `faults` what `nodes` call by a name that is almost right."""
    for name in nodes:
        if meant := _meant(name):
            faults.add(nodes.key_at(name), f"unknown variable `{shown(name)}`", f"did you mean `{meant}`?")


@lru_cache
def _meant(name: str) -> str | None:
    if name in READERS or name in _NOT_HERE or name in _ALSO_ANSIBLES or not name.startswith("ansible_"):
        return None
    # 0.9 lets `ansible_hostname` pass, which is a fact, and finds `ansible_prot`.
    close = difflib.get_close_matches(name, READERS, n=1, cutoff=0.9)
    return close[0] if close else None
