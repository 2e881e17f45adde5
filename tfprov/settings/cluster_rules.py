"""Rules about all roles on all hosts together. Each yields the problems it finds."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AbstractMapping

from tfprov.errors import InvalidInput, Position, Problem, closest, printable, suggest
from tfprov.model.cluster import is_loopback
from tfprov.model.inventory import NAMESPACE, ROLES, Inventory
from tfprov.model.setting_types import SHARED
from tfprov.model.yaml_node import Mapping, Node, find
from tfprov.settings.connection import SSH_PORT, ConnectionSettings, resolve_connection
from tfprov.settings.role_settings import RoleSettings
from tfprov.wiring import READERS, WEB

_DERIVED = ("runtime", "wiring")
"""Settings with a default derived from others: a difference between two defaults is reported for those instead."""


def check_shared_settings(inventory: Inventory, roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every setting in SHARED that differs between two roles."""
    fix = "one inventory is one cluster: state it once, for `all`"
    for name in SHARED:
        values = [getattr(role.values, name) for role in roles]
        if all(value == values[0] for value in values):
            continue
        usual, reported = _usual_role(inventory, roles, name), set()
        expected = getattr(usual.values, name)
        for role, value in zip(roles, values, strict=True):
            at = role.at(name)
            if value == expected or at in reported:
                continue
            reported.add(at)
            this, that = f"{role.role} on {role.host}", f"{usual.role} on {usual.host}"
            if not (isinstance(value, str) and isinstance(expected, str)):
                yield Problem(at, f"`{name}` differs between {this} and {that}", fix)
            elif name not in _DERIVED or name in role.node or name in usual.node:
                yield Problem(at, f"`{name}` is `{value}` for {this} and `{expected}` for {that}", fix)


def _usual_role(inventory: Inventory, roles: Sequence[RoleSettings], name: str) -> RoleSettings:
    """Return a role with the expected value of a setting: the value for `all`, else the first role's."""
    for_all = [
        inventory.groups["all"].vars,
        *(values for files in inventory.vars_files for values in files.groups.get("all", ())),
    ]
    positions = {find(variables, [NAMESPACE, name])[1] for variables in for_all if _has(variables, name)}
    return next((role for role in roles if role.at(name) in positions), roles[0])


def _has(variables: Node, name: str) -> bool:
    settings = find(variables, [NAMESPACE])[0]
    return isinstance(settings, Mapping) and name in settings.entries


def check_duplicate_hosts(connections: AbstractMapping[str, ConnectionSettings]) -> Iterator[Problem]:
    """Yield a problem for every host with the address and the port of another."""
    seen: dict[tuple[str | int | None, ...], ConnectionSettings] = {}
    for connection in connections.values():
        address, port = connection.address, connection.port or SSH_PORT
        # Behind different gateways, one address means different machines.
        endpoint = (address, port, connection.proxy_jump, connection.proxy_command)
        first = connection if connection.local else seen.setdefault(endpoint, connection)
        if first is not connection:
            what = f"{connection.host} has the address and the SSH port of {first.host} ({address}:{port})"
            yield Problem(connection.at, what, "put one host into both groups, or set `tasks_per_host`")


def check_build_hosts(inventory: Inventory, roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield the problems of the hosts in `image.build_on`."""
    hosts: dict[Position, str] = {}
    for role in roles:
        if role.values.image and role.values.image.build_on is not None:
            hosts[role.at("image", "build_on")] = role.values.image.build_on
    for at, host in hosts.items():
        if host not in inventory.hosts:
            yield Problem(
                at, f"`image.build_on`: no host `{printable(host)}` in the inventory", _suggest_host(inventory, host)
            )
            continue
        try:
            resolve_connection(inventory, host)
        except InvalidInput as error:
            yield from error.problems


def _suggest_host(inventory: Inventory, name: str) -> str:
    if name in inventory.groups:
        return f"`{name}` is a group: name one of its hosts"
    return suggest(name, inventory.hosts, "name one of its hosts, or remove it")


def check_networks(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for what no other task can reach, and for what strangers could.

    The loopback address of tasks in containers means the container itself, and `network: host` opens a server that has no
    password to all networks.
    """
    for role in roles:
        if role.role in WEB and role.values.network == "host":
            what = f"`network: host` would open the {role.role} in all networks of its host"
            yield Problem(role.at("network"), what, "remove it: the SSH connection leads to it")
    members = [role for role in roles if role.role not in READERS and role.values.runtime == "docker"]
    if sum(role.values.tasks_per_host for role in members) < 2:
        return
    for role in members:
        is_set = role.values.address is not None
        if is_loopback(role.address) and (is_set or not role.local):
            at = role.at("address") if is_set else role.where
            own = "leave `address` out, or give an address of this machine"
            fix = own if role.local else "set `address` to the one it has on the network"
            yield Problem(at, f"tasks in containers cannot reach each other at {role.address}", fix)
        if role.values.bind is not None and is_loopback(role.values.bind):
            what = f"tasks in containers cannot reach a port that is published on {role.values.bind}"
            yield Problem(role.at("bind"), what, "leave `bind` out, or give an address of the host")


_MOVING = re.compile(
    r"(?:.*-)?(?:latest|nightly|devel|dev|edge|main|master|stable|rolling|testing|unstable|snapshot)(?:-.*)?"
)
"""Tags that their publishers move to other images, by the conventions of the registries' large projects."""


def check_image_tags(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a warning for an image name whose tag moves: hosts that pull on different days get different images."""
    image = roles[0].values.image
    if image is None or image.name is None or "@" in image.name:
        return
    tag = image.name.rpartition("/")[2].partition(":")[2]
    if not tag or _MOVING.fullmatch(tag):
        what = f"the tag `{tag or 'latest'}` of `image.name` moves" + (
            "" if tag else ", and it is the one without a tag"
        )
        yield Problem(
            roles[0].at("image", "name"),
            what,
            "name a version, or a digest (`@sha256:…`), so that all hosts run the same",
        )


def check_runtime_in_image(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a warning for each use of tfprov.runtime in an image by name, to which it is delivered with `code` only."""
    chief = "chief" if any(role.role == "chief" for role in roles) else "worker"
    seen = set()
    for role in roles:
        values = role.values
        if values.image is None or values.image.name is None or values.code is not None or role.role in seen:
            continue
        mirrors = role.role == chief and values.checkpoints.remote is not None
        if mirrors or (not values.command and _is_part_of_tfprov(role)):
            seen.add(role.role)
            user = "`checkpoints.dir`" if mirrors else f"the program of {role.role}"
            fix = "set `code`, with which it is delivered, or add `pip install tfprov` to the image"
            yield Problem(role.at("image", "name"), f"{user} is part of tfprov, which this image may lack", fix)


def check_copies_in_image(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a warning for remote data in an image by name: it is copied before `code` is there, by tfprov.runtime."""
    for role in roles:
        values = role.values
        if role.reads_data and values.data and values.data.remote and values.image and values.image.name is not None:
            what = f"{values.data.remote} is copied by a part of tfprov, which this image may lack"
            fix = "add `pip install tfprov` and the client to the image, or use `image: {build: …}`"
            yield Problem(role.at("image", "name"), what, fix)
            return


def _is_part_of_tfprov(role: RoleSettings) -> bool:
    if role.role == "serving":
        return role.values.serving.server == "tfprov"
    return role.role != "tensorboard"


def check_processes(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every remote host with `runtime: process`."""
    what = "is reached over SSH, and `runtime: process` runs tasks on this machine only"
    fix = "give an `image`, or set `ansible_connection: local`"
    for role in roles:
        if role.values.runtime == "process" and not role.local:
            yield Problem(role.where, f"{role.host} {what}", fix)


_CUTOFF = 0.82
"""Similarity to a role's name: `wroker` has 0.83, and the group `work` 0.8."""


def check_misspelt_roles(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every group whose name looks like a misspelt role.

    A group `workers` above the group `worker` is fine.
    """
    for name, role, _ in _similar_groups(inventory):
        if not _is_separate(inventory, name, role):
            yield Problem(inventory.groups[name].at, f"the group `{name}` is not a role", f"did you mean `{role}`?")


def check_similar_groups(inventory: Inventory) -> Iterator[Problem]:
    """Yield a warning for every group such as `workers`, beside a `worker` with hosts, that has hosts without a role."""
    for name, role, idle in _similar_groups(inventory):
        if _is_separate(inventory, name, role):
            hosts = (
                f"{printable(idle[0])} and {len(idle) - 1} more of its hosts" if len(idle) > 1 else printable(idle[0])
            )
            what = f"the group `{name}` is not a role, and {hosts} {'have' if len(idle) > 1 else 'has'} none"
            yield Problem(inventory.groups[name].at, what, f"put them into `{role}` if they are to train")


def _similar_groups(inventory: Inventory) -> Iterator[tuple[str, str, list[str]]]:
    """Yield every group with a name similar to a role's, that role, and the hosts of the group without a role."""
    with_role = {host for role in ROLES for host in inventory.members(role)}
    for name in inventory.groups:
        members = inventory.members(name)
        role = _similar_role(name) if members and name not in ROLES else None
        idle = [host for host in members if host not in with_role]
        if role and (role not in inventory.groups or idle):
            yield name, role, idle


def _is_separate(inventory: Inventory, name: str, role: str) -> bool:
    """Whether a group has a purpose of its own: the role has hosts, and the name is longer, not misspelt."""
    return name.lower() != role and name.lower().startswith(role) and bool(inventory.members(role))


def check_empty_roles(inventory: Inventory) -> Iterator[Problem]:
    """Yield a problem for every role's group without hosts."""
    for role in ROLES:
        if role in inventory.groups and not inventory.members(role):
            at = inventory.groups[role].at
            yield Problem(at, f"the group `{role}` has no hosts", "add one, or remove the group")


def no_roles_problem(inventory: Inventory) -> Problem:
    """Return the problem of an inventory without roles."""
    hosts = "no host has a role" if inventory.hosts else "no hosts"
    return Problem(inventory.groups["all"].at, hosts, "put hosts into the groups `ps` and `worker`")


def _similar_role(name: str) -> str | None:
    return closest(name.lower(), ROLES, cutoff=_CUTOFF)
