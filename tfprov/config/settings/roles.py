"""Groups that were probably meant to be roles."""

import difflib
from collections.abc import Iterator

from tfprov.errors import Problem, shown
from tfprov.model.inventory import ROLES, Inventory

_ALIKE = 0.82
"""`wroker` is as near to `worker` as 0.83, and the group `work` as near as 0.8."""


def strays(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every group that is called almost like a role and seems to stand in its place.

    A group `workers` above the group `worker` is fine.
    """
    for name, role, _ in _alike(inventory):
        if not _is_of_another(inventory, name, role):
            yield Problem(inventory.groups[name].at, f"the group `{name}` is not a role", f"did you mean `{role}`?")


def beside_roles(inventory: Inventory) -> Iterator[Problem]:
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


def empty_roles(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every role that is there without a host."""
    for role in ROLES:
        if role in inventory.groups and not inventory.members(role):
            at = inventory.groups[role].at
            yield Problem(at, f"the group `{role}` has no hosts", "add one, or remove the group")


def no_roles(inventory: Inventory) -> Problem:
    """Say that there is nothing to run."""
    hosts = "no host has a role" if inventory.hosts else "no hosts"
    return Problem(inventory.groups["all"].at, hosts, "put hosts into the groups `ps` and `worker`")


def _role_like(name: str) -> str | None:
    close = difflib.get_close_matches(name.lower(), ROLES, n=1, cutoff=_ALIKE)
    return close[0] if close else None
