"""Groups that were probably meant to be roles."""

import difflib
from collections.abc import Iterator

from tfprov.errors import Problem
from tfprov.model.inventory import ROLES, Inventory

_ALIKE = 0.82
"""`wroker` is as near to `worker` as 0.83, and the group `work` as near as 0.8."""


def strays(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every group that is called almost like a role and seems to stand in its place.

    A group `workers` above the group `worker` is fine.
    """
    placed = {host for role in ROLES for host in inventory.members(role)}
    for name, group in inventory.groups.items():
        members = inventory.members(name)
        role = _role_like(name) if members and name not in ROLES else None
        if role and (role not in inventory.groups or not placed.issuperset(members)):
            yield Problem(group.at, f"the group `{name}` is not a role", f"did you mean `{role}`?")


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
