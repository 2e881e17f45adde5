"""What must hold of all roles on all hosts together."""

import difflib
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AbstractMapping

from tfprov.errors import InvalidInput, Position, Problem, shown
from tfprov.model.cluster import is_loopback
from tfprov.model.inventory import NAMESPACE, ROLES, Inventory
from tfprov.model.node import Mapping, Node, find
from tfprov.model.settings import SHARED
from tfprov.settings.connection import SSH_PORT, Connection, resolve_connection
from tfprov.settings.role_settings import RoleSettings
from tfprov.wiring import READERS

_FOLLOW = ("runtime", "wiring")
"""Settings that follow from others where they are not stated: of those, what differs is told."""


def check_shared_settings(inventory: Inventory, found: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every setting that differs between two roles, and must not."""
    fix = "one inventory is one cluster: state it once, for `all`"
    for name in SHARED:
        values = [getattr(role.values, name) for role in found]
        if all(value == values[0] for value in values):
            continue
        usual, told = _usual(inventory, found, name), set()
        expected = getattr(usual.values, name)
        for other, value in zip(found, values, strict=True):
            if value == expected or other.at(name) in told:
                continue
            told.add(other.at(name))
            one, two = (f"{role.role} on {role.host}" for role in (other, usual))
            if not (isinstance(value, str) and isinstance(expected, str)):
                yield Problem(other.at(name), f"`{name}` is another one for {one} than for {two}", fix)
            elif name not in _FOLLOW or name in other.node or name in usual.node:
                yield Problem(other.at(name), f"`{name}` is `{value}` for {one} and `{expected}` for {two}", fix)


def _usual(inventory: Inventory, found: Sequence[RoleSettings], name: str) -> RoleSettings:
    """Return a role whose setting is what all should have: what is stated for `all`, else the first one's."""
    for_all = [
        inventory.groups["all"].vars,
        *(one for beside in inventory.vars_files for one in beside.groups.get("all", ())),
    ]
    stated = {find(variables, [NAMESPACE, name])[1] for variables in for_all if _has(variables, name)}
    return next((role for role in found if role.at(name) in stated), found[0])


def _has(variables: Node, name: str) -> bool:
    settings = find(variables, [NAMESPACE])[0]
    return isinstance(settings, Mapping) and name in settings.entries


def check_duplicate_hosts(ways: AbstractMapping[str, Connection]) -> Iterator[Problem]:
    """Yield a problem for every host that is another host under a second name."""
    seen: dict[tuple[str | int | None, ...], Connection] = {}
    for way in ways.values():
        # Behind different gateways, one address means different machines.
        place = (way.address, way.port or SSH_PORT, way.proxy_jump, way.proxy_command)
        first = way if way.local else seen.setdefault(place, way)
        if first is not way:
            what = f"{way.host} has the address and the SSH port of {first.host} ({way.address}:{way.port or SSH_PORT})"
            yield Problem(way.at, what, "put one host into both groups, or set `tasks_per_host`")


def check_build_hosts(inventory: Inventory, found: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield what is wrong with the hosts that `build_on` names."""
    asked: dict[Position, str] = {}
    for role in found:
        if role.values.image and role.values.image.build_on is not None:
            asked[role.at("image", "build_on")] = role.values.image.build_on
    for at, host in asked.items():
        if host not in inventory.hosts:
            yield Problem(at, f"`image.build_on`: no host `{shown(host)}` in the inventory", _meant(inventory, host))
            continue
        try:
            resolve_connection(inventory, host)
        except InvalidInput as error:
            yield from error.problems


def _meant(inventory: Inventory, name: str) -> str:
    if name in inventory.groups:
        return f"`{name}` is a group: name one of its hosts"
    close = difflib.get_close_matches(name, inventory.hosts, n=1)
    return f"did you mean `{shown(close[0])}`?" if close else "name one of its hosts, or remove it"


def check_loopback(found: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every loopback address of tasks in containers, where it is the container's own."""
    members = [role for role in found if role.role not in READERS and role.values.runtime == "docker"]
    if sum(role.values.tasks_per_host for role in members) < 2:
        return
    for role in members:
        written = role.values.address is not None
        if is_loopback(role.address) and (written or not role.local):
            at = role.at("address") if written else role.where
            own = "leave `address` out, or give an address of this machine"
            fix = own if role.local else "set `address` to the one it has on the network"
            yield Problem(at, f"tasks in containers cannot reach each other at {role.address}", fix)
        if role.values.bind is not None and is_loopback(role.values.bind):
            what = f"tasks in containers cannot reach a port that is published on {role.values.bind}"
            yield Problem(role.at("bind"), what, "leave `bind` out, or give an address of the host")


def check_processes(found: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every other machine on which tasks would be processes."""
    what = "is reached over SSH, and `runtime: process` runs tasks on this machine only"
    fix = "give an `image`, or set `ansible_connection: local`"
    for role in found:
        if role.values.runtime == "process" and not role.local:
            yield Problem(role.where, f"{role.host} {what}", fix)


_ALIKE = 0.82
"""`wroker` is as near to `worker` as 0.83, and the group `work` as near as 0.8."""


def check_misspelt_roles(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every group that is called almost like a role and seems to stand in its place.

    A group `workers` above the group `worker` is fine.
    """
    for name, role, _ in _alike(inventory):
        if not _is_of_another(inventory, name, role):
            yield Problem(inventory.groups[name].at, f"the group `{name}` is not a role", f"did you mean `{role}`?")


def check_similar_groups(inventory: Inventory) -> Iterator[Problem]:
    """Yield a warning for every group such as `workers`, beside a `worker` that has hosts, of which hosts have no role."""
    for name, role, idle in _alike(inventory):
        if _is_of_another(inventory, name, role):
            hosts = f"{shown(idle[0])} and {len(idle) - 1} more of its hosts" if len(idle) > 1 else shown(idle[0])
            what = f"the group `{name}` is not a role, and {hosts} {'have' if len(idle) > 1 else 'has'} none"
            yield Problem(inventory.groups[name].at, what, f"put them into `{role}` if they are to train")


def _alike(inventory: Inventory) -> Iterator[tuple[str, str, list[str]]]:
    """Yield every group that is called almost like a role, with that role, and those of its hosts that have no role."""
    placed = {host for role in ROLES for host in inventory.members(role)}
    for name in inventory.groups:
        members = inventory.members(name)
        role = _role_like(name) if members and name not in ROLES else None
        idle = [host for host in members if host not in placed]
        if role and (role not in inventory.groups or idle):
            yield name, role, idle


def _is_of_another(inventory: Inventory, name: str, role: str) -> bool:
    """Whether a group is meant for something else: the role has hosts, and the name is longer, not misspelt."""
    return name.lower() != role and name.lower().startswith(role) and bool(inventory.members(role))


def check_empty_roles(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every role that is there without a host."""
    for role in ROLES:
        if role in inventory.groups and not inventory.members(role):
            at = inventory.groups[role].at
            yield Problem(at, f"the group `{role}` has no hosts", "add one, or remove the group")


def no_roles_problem(inventory: Inventory) -> Problem:
    """Say that there is nothing to run."""
    hosts = "no host has a role" if inventory.hosts else "no hosts"
    return Problem(inventory.groups["all"].at, hosts, "put hosts into the groups `ps` and `worker`")


def _role_like(name: str) -> str | None:
    close = difflib.get_close_matches(name.lower(), ROLES, n=1, cutoff=_ALIKE)
    return close[0] if close else None
