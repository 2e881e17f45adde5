"""The connection to a host, from Ansible's connection variables."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tfprov.errors import InvalidInput, Position, closest, printable
from tfprov.model.inventory import NAMESPACE, Inventory
from tfprov.model.validators import InvalidValue
from tfprov.model.yaml_node import Mapping, Node, plain
from tfprov.settings.connection_vars import (
    ADDRESSES,
    ARGS,
    KEY_FILES,
    PARSERS,
    PORTS,
    TIMEOUTS,
    USERS,
    check_key_file,
    expand_path,
)
from tfprov.settings.ssh_args import SshArgs
from tfprov.templating.host_values import TemplateProblems, Variables, is_secret, render
from tfprov.templating.magic_vars import HostVars
from tfprov.vault.redaction import SECRETS
from tfprov.yamltext.yaml11 import lint_values

_OTHER_VARIABLES = ("ansible_scp_extra_args",)
"""Variables of Ansible that are no misspellings, though they look like those of supported ones."""
_UNSUPPORTED = {
    **dict.fromkeys(
        ("ansible_private_key", "ansible_ssh_private_key"),
        "write the key to a file, and name that as `ansible_ssh_private_key_file`",
    ),
    **dict.fromkeys(
        ("ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase"),
        "give the key to the agent with ssh-add",
    ),
}
"""Variables that Ansible may need to log in, and what to do instead."""
_SUDO = ("sudo", "ansible.builtin.sudo")
SSH_PORT = 22
TIMEOUT = 10.0
"""Seconds to wait for a connection: Ansible's default."""


@dataclass(frozen=True)
class ConnectionSettings:
    """How to reach a host. `at` is the position of its address; `port` and `user` are None for SSH's defaults.

    `key_files` are tried before SSH's default keys. `known_hosts` replace the default files; with `accept_new`, unknown
    hosts are added to the first of them. `proxy_jump`, `proxy_command` and the last four fields are in the syntax of
    ssh_config(5); `ssh_config` is such a file, None for the user's own. With `become`, commands run as root. `timeout` is
    for connecting, in seconds.
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


def resolve_connection(inventory: Inventory, host: str) -> ConnectionSettings:
    """Return the connection to `host`, with or without a role; InvalidInput carries all problems."""
    nodes, faults = inventory.variables(host), TemplateProblems()
    connection = build_connection(inventory, host, nodes, HostVars(inventory).bind(host, nodes), faults)
    if faults.problems:
        raise InvalidInput(faults.problems)
    return connection


def build_connection(
    inventory: Inventory, host: str, nodes: Mapping, context: Variables, faults: TemplateProblems
) -> ConnectionSettings:
    """Return the connection in `nodes`, the variables of `host`; problems go into `faults`."""
    check_names(nodes, faults)
    values = dict(_values(nodes, context, faults))
    local = values.get("ansible_connection", "local" if host == "localhost" else "ssh") == "local"
    if values.get("ansible_become"):
        _check_become(nodes, values, context, faults)
    args = _with_variables(SshArgs(), values) if local else _ssh_args(nodes, values, context, faults)
    if not local:
        _check_key_file(nodes, values, context, faults)
        for name in (name for name in _UNSUPPORTED if name in nodes.entries):
            faults.add(nodes.key_at(name), f"`{name}` is not supported", _UNSUPPORTED[name])
    at = inventory.hosts[host].at
    return ConnectionSettings(
        host,
        _last({name: nodes.entries[name].at for name in ADDRESSES if name in nodes.entries}, ADDRESSES, at),
        _last(values, ADDRESSES, host),
        args.port,
        args.user,
        local,
        key_files=tuple(args.key_files),
        password=_last(values, SECRETS, None),
        become=values.get("ansible_become", False),
        timeout=args.timeout or TIMEOUT,
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
    """Return the value of the last of `names` that is set, as Ansible does."""
    return next((values[name] for name in reversed(names) if name in values), default)


def _values(nodes: Mapping, context: Variables, faults: TemplateProblems) -> Iterator[tuple[str, Any]]:
    """Yield the valid variables with their parsed values."""
    for name, parse in PARSERS.items():
        if name not in nodes.entries:
            continue
        node = nodes.entries[name]
        try:
            yield name, parse(name, _value(name, node, context, faults))
        except InvalidValue as error:
            _add(name, node, context, faults, (str(error), error.fix))
        except _Reported:
            pass


def _add(name: str, node: Node, context: Variables, faults: TemplateProblems, problem: tuple[str, str]) -> None:
    """Add a problem of the variable `name`, which does not repeat the value if that is secret."""
    what, fix = problem
    faults.add(node.at, f"`{name}` is secret, and invalid" if is_secret(node, context) else what, fix)


class _Reported(Exception):
    """A value is invalid, and its problems are in the faults already."""


def _value(name: str, node: Node, context: Variables, faults: TemplateProblems) -> Any:
    if name in SECRETS:
        return _password(name, node, context, faults)
    # YAML 1.1 reads `ansible_become: yes` as it looks, but not `ansible_port: 22:22`.
    problems = [] if name == "ansible_become" else list(lint_values(node))
    faults.problems.extend(problems)
    value = plain(render(node, context, faults))
    if problems or node.at in faults.at:
        raise _Reported
    return value


def _password(name: str, node: Node, context: Variables, faults: TemplateProblems) -> Any:
    """Return a password, rendered as a variable: errors about those never repeat a secret."""
    try:
        return context[name]
    except InvalidInput as error:
        faults.include(error, node.at)
        raise _Reported from None


def _check_become(nodes: Mapping, values: dict[str, Any], context: Variables, faults: TemplateProblems) -> None:
    expected = {
        "ansible_become_method": (_SUDO, "use `sudo`"),
        "ansible_become_user": (("root",), "use `root`, or remove it"),
    }
    for name, (supported, fix) in expected.items():
        if name in values and values[name] not in supported:
            what = f"`{name}: {printable(values[name])}` is not supported"
            _add(name, nodes.entries[name], context, faults, (what, fix))


def _check_key_file(nodes: Mapping, values: dict[str, Any], context: Variables, faults: TemplateProblems) -> None:
    for name in [name for name in KEY_FILES if name in values][-1:]:
        try:
            check_key_file(name, values[name])
        except InvalidValue as error:
            _add(name, nodes.entries[name], context, faults, (str(error), error.fix))


def _ssh_args(nodes: Mapping, values: dict[str, Any], context: Variables, faults: TemplateProblems) -> SshArgs:
    """Parse the arguments for `ssh`, in the order in which Ansible passes them: of several values, the first wins there."""
    args = SshArgs()
    for name in ARGS:
        before = len(args.refused)
        args.add(values.get(name, ""))
        for refused in args.refused[before:]:
            _add(name, nodes.entries[name], context, faults, (f"`{name}` {refused}", refused.fix))
        if name == "ansible_ssh_args":
            _with_variables(args, values)
    return args


def _with_variables(args: SshArgs, values: dict[str, Any]) -> SshArgs:
    """Add the variables that Ansible passes as arguments between `ansible_ssh_args` and the others."""
    args.port = args.port or _last(values, PORTS, None)
    args.user = args.user or _last(values, USERS, None)
    args.timeout = args.timeout or _last(values, TIMEOUTS, None)
    args.key_files += [expand_path(values[name]) for name in KEY_FILES if name in values][-1:]
    return args


def check_names(nodes: Mapping, faults: TemplateProblems) -> None:
    """Add a problem to `faults` for every misspelt connection variable in `nodes`, and every setting with dots."""
    for name in nodes:
        if correct := _correct_name(name):
            faults.add(nodes.key_at(name), f"unknown variable `{printable(name)}`", f"did you mean `{correct}`?")
        elif name.startswith(f"{NAMESPACE}."):
            nested = printable(name).replace(".", ": {") + ": …" + "}" * name.count(".")
            faults.add(
                nodes.key_at(name), f"`{printable(name)}` is no setting: the dots are in one name", f"write `{nested}`"
            )


@lru_cache
def _correct_name(name: str) -> str | None:
    if name in PARSERS or name in _UNSUPPORTED or name in _OTHER_VARIABLES or not name.startswith("ansible_"):
        return None
    # 0.9 passes `ansible_hostname`, which is a fact, and catches `ansible_prot`.
    return closest(name, PARSERS, cutoff=0.9)
