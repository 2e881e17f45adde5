"""How a host is reached: Ansible's connection variables, checked."""

import difflib
from dataclasses import dataclass
from typing import Any

from tfprov.config.explain import said
from tfprov.config.surprise import surprises
from tfprov.config.templates import Faults, Variables, render
from tfprov.errors import Position, shown
from tfprov.model.checks import wrong_address
from tfprov.model.inventory import Inventory
from tfprov.model.node import Mapping, plain

NAMES = ("ansible_host", "ansible_port", "ansible_user", "ansible_connection")
_OLD = {"ansible_ssh_host": "ansible_host", "ansible_ssh_port": "ansible_port", "ansible_ssh_user": "ansible_user"}
"""Names from before Ansible 2.0, which Ansible still reads."""
SSH_PORT = 22


@dataclass(frozen=True)
class Connection:
    """The way to a host; `at` is where its address is written. `port` and `user` are None for SSH's own defaults."""

    host: str
    at: Position
    address: str
    port: int | None
    user: str | None
    local: bool


def connection(inventory: Inventory, host: str, nodes: Mapping, context: Variables, faults: Faults) -> Connection:
    """Return the connection that `nodes`, the variables of `host`, describe; what is wrong goes into `faults`."""
    values: dict[str, Any] = {}
    _check_names(nodes, faults)
    for name in (name for name in NAMES if name in nodes.entries):
        node = nodes.entries[name]
        found = list(surprises(node))
        faults.problems.extend(found)
        value = plain(render(node, context, faults))
        if found or node.at in faults.at:
            continue
        if wrong := _wrong(name, value):
            faults.add(node.at, *wrong)
        else:
            values[name] = value
    local = values.get("ansible_connection", "local" if host == "localhost" else "ssh") == "local"
    at = nodes.entries["ansible_host"].at if "ansible_host" in nodes.entries else inventory.hosts[host].at
    port = values.get("ansible_port")
    return Connection(
        host,
        at,
        values.get("ansible_host", host),
        None if port is None else int(port),
        values.get("ansible_user"),
        local,
    )


def _check_names(nodes: Mapping, faults: Faults) -> None:
    for name in nodes:
        if name in _OLD:
            faults.add(nodes.key_at(name), f"`{name}` is the old name of `{_OLD[name]}`", f"write `{_OLD[name]}`")
        elif meant := _meant(name):
            faults.add(nodes.key_at(name), f"unknown variable `{shown(name)}`", f"did you mean `{meant}`?")


def _meant(name: str) -> str | None:
    # 0.9 lets `ansible_hostname` pass, which is a fact, and finds `ansible_prot`.
    close = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.9) if name.startswith("ansible_") else []
    return close[0] if close and name not in NAMES else None


def _wrong(name: str, value: Any) -> tuple[str, str] | None:
    given = said(value)
    if name == "ansible_port":
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 6 else value
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= 65535:
            return None
        return f"`ansible_port` must be a port from 1 to 65535, not {given}", "for example `ansible_port: 22`"
    if not isinstance(value, str) or not value:
        return f"`{name}` must be text, not {given}", "write a name, or quote it"
    if name == "ansible_connection":
        fix = "use `local` or `ssh`"
        return None if value in ("local", "ssh") else (f"`ansible_connection: {shown(value)}` is not supported", fix)
    return _wrong_text(name, value)


def _wrong_text(name: str, value: str) -> tuple[str, str] | None:
    said = f"`{name}: {shown(value)}`"
    if name == "ansible_host" and "@" in value:
        return f"{said} holds a user", "give the user as `ansible_user`"
    if any(c.isspace() or not c.isprintable() for c in value) or value.startswith("-"):
        return f"{said} holds a blank or starts with a dash", "correct it"
    if name == "ansible_host" and value.count(":") == 1:
        return f"{said} holds a port", "give the port as `ansible_port`"
    if name == "ansible_host" and ":" not in value and (reason := wrong_address(value)):
        return f"`{name}` {reason}", "for example `ansible_host: 10.0.0.11`"
    return None
