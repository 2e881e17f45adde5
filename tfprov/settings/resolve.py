"""Resolves the variables of every host to checked settings, and reports each problem at the line that causes it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import ValidationError

from tfprov.errors import InvalidInput, Problem, printable
from tfprov.model.inventory import NAMESPACE, ROLES, Inventory
from tfprov.model.setting_types import implied_wiring
from tfprov.model.settings import Settings
from tfprov.model.validators import address_error
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar, find, plain, scalars
from tfprov.settings.cluster_rules import (
    check_build_hosts,
    check_duplicate_hosts,
    check_empty_roles,
    check_misspelt_roles,
    check_networks,
    check_shared_settings,
    no_roles_problem,
)
from tfprov.settings.connection import ConnectionSettings, build_connection, resolve_connection
from tfprov.settings.connection_vars import ADDRESSES
from tfprov.settings.env_file import with_env_files
from tfprov.settings.pydantic_errors import ErrorExplainer
from tfprov.settings.role_rules import check_default_flags, check_role_settings, lint_settings, scalar_text
from tfprov.settings.role_settings import RoleSettings, has_default_command, settings_for_role
from tfprov.templating.errors import UNDEFINED
from tfprov.templating.host_values import TemplateProblems, Variables, decrypt_node, is_secret, render
from tfprov.templating.magic_vars import (
    CLUSTER_VARIABLES,
    TASK_SETTINGS,
    HostVars,
    add_task_variables,
    names_used,
    render_task_settings,
)
from tfprov.vault.decrypt import is_decryption_problem

__all__ = ["RoleSettings", "Rule", "resolve", "resolve_connection"]

_OTHER_TOOLS = {
    "args": "command", "cmd": "command", "count": "tasks_per_host", "directory": "dir", "entrypoint": "command",
    "environment": "env", "gpu_count": "gpus", "mem_limit": "memory", "name": "cluster", "replicas": "tasks_per_host",
    "stop_grace_period": "stop_grace", "volumes": "mounts", "workers": "tasks_per_host",
}  # fmt: skip
"""Names that other tools have for some of these settings."""
_explainer = ErrorExplainer(Settings, NAMESPACE, "see what `tfprov init` writes", inside=False, others=_OTHER_TOOLS)

Rule = Callable[[Sequence[RoleSettings]], Iterator[Problem]]
"""Yields problems of all roles together."""


_MAX_ENTRIES = 8
"""Results kept for the same settings: with more, they differ from host to host anyway."""


@dataclass(frozen=True)
class CheckedSettings:
    """Settings after rendering and checking; `values` are None if they are invalid. `unread` are problems of `env_file`."""

    rendered: Mapping
    values: Settings | None
    problems: tuple[Problem, ...]
    unread: tuple[Problem, ...]


@dataclass(frozen=True)
class _CacheEntry:
    """A result and its inputs: the settings as written, and the names that their templates looked up."""

    written: Mapping
    context: Variables
    names: frozenset[str]
    checked: CheckedSettings


@dataclass
class SettingsCache:
    """The cached results of one inventory."""

    entries: dict[tuple[str, int], list[_CacheEntry]] = field(default_factory=dict)

    def checked(
        self, role: str, written: Mapping, context: Variables, check: Callable[[], CheckedSettings]
    ) -> CheckedSettings:
        """Return what `check` makes of `written` in `context`; a cached result where it would be the same."""
        key = (role, id(written))  # unique, because the entry keeps `written` alive
        entries = self.entries.setdefault(key, [])
        for entry in entries:
            if context.agrees_with(entry.context, entry.names):
                return entry.checked
        with context.recorded() as names:
            checked = check()
        if len(entries) < _MAX_ENTRIES:
            entries.append(_CacheEntry(written, context, frozenset(names), checked))
        return checked


def resolve(
    inventory: Inventory, broken: Sequence[Problem] = (), rules: Sequence[Rule] = (), *, needs_files: bool = True
) -> tuple[RoleSettings, ...]:
    """Return the settings of every role on every host that has one; InvalidInput carries all problems of all hosts.

    `broken` are problems of the inventory's structure. With them, problems that could follow from what was left out
    because of them are not reported. `rules` are checked besides those that always hold. Unless settings `needs_files`,
    those of an `env_file` that cannot be read are left out, with the problem in the role.
    """
    resolver = _Resolver(inventory, whole=not broken)
    problems = list(broken)
    roles = list(resolver.roles(problems))
    if needs_files or problems:
        problems.extend(problem for role in roles for problem in role.unread)
    if not broken:
        problems.extend(_cluster_problems(inventory, roles, resolver.connections))
        problems.extend(problem for rule in rules for problem in rule(roles))
        if not roles and not problems:
            problems.append(no_roles_problem(inventory))
    if problems:
        # An undefined variable may be defined in a file that could not be decrypted, which is reported already.
        unknown = any(map(is_decryption_problem, broken))
        raise InvalidInput(p for p in problems if not unknown or not p.what.startswith(UNDEFINED))
    return tuple(roles)


def _cluster_problems(
    inventory: Inventory, roles: list[RoleSettings], connections: dict[str, ConnectionSettings]
) -> Iterator[Problem]:
    yield from check_misspelt_roles(inventory)
    yield from check_empty_roles(inventory)
    yield from check_shared_settings(inventory, roles)
    yield from check_duplicate_hosts(connections)
    yield from check_build_hosts(inventory, roles)
    yield from check_networks(roles)


class _Resolver:
    """Resolves the roles of one inventory. `connections` has those of the hosts so far.

    Unless `whole`, settings may be missing: a part of the inventory could not be read.
    """

    def __init__(self, inventory: Inventory, *, whole: bool) -> None:
        self.inventory, self.whole = inventory, whole
        self.connections: dict[str, ConnectionSettings] = {}
        self._hostvars, self._cache = HostVars(inventory), SettingsCache()

    def roles(self, problems: list[Problem]) -> Iterator[RoleSettings]:
        """Yield the settings of every role on every host; those with problems are left out, and the problems added."""
        for role in ROLES:
            for host in self.inventory.members(role):
                try:
                    yield self._role(role, host)
                except InvalidInput as error:
                    problems.extend(error.problems)

    def _role(self, role: str, host: str) -> RoleSettings:
        inventory, faults = self.inventory, TemplateProblems()
        nodes = inventory.variables(host, role=role)
        context = self._hostvars.bind(host, nodes)
        connection = self.connections[host] = build_connection(inventory, host, nodes, context, faults)
        written = settings_for_role(inventory, host, role, self._written(nodes, faults))
        check = partial(_check, role, written, context, whole=self.whole)
        checked = self._cache.checked(role, written, context, check)
        faults.problems.extend(_misplaced(nodes, problem) for problem in checked.problems)
        address = _address(host, checked.values, connection, nodes, context, faults)
        if checked.values is None or faults.problems:
            raise InvalidInput([*faults.problems, *checked.unread])
        at = inventory.groups[role].at
        return RoleSettings(
            role, host, checked.values, checked.rendered, context, address, connection, at, checked.unread
        )

    def _written(self, nodes: Mapping, faults: TemplateProblems) -> Mapping:
        """Return the mapping under `tfprov:`; InvalidInput where there is none."""
        written = nodes.get(NAMESPACE)
        if isinstance(written, Mapping):
            return written
        if written is not None:
            in_braces = isinstance(written, Scalar) and re.match(r"\s*\{[^{%#]", str(written.data))
            fix = "write it as YAML, such as into group_vars/all.yml" if in_braces else "write one setting per line"
            faults.add(written.at, f"`{NAMESPACE}` must be a mapping", fix)
        elif self.whole:
            what = f"no settings: nothing is called `{NAMESPACE}`"
            faults.add(self.inventory.groups["all"].at, what, "see what `tfprov init` writes")
        raise InvalidInput(faults.problems)


def _address(  # noqa: PLR0913, PLR0917  all that the address of a host depends on
    host: str,
    values: Settings | None,
    connection: ConnectionSettings,
    nodes: Mapping,
    context: Variables,
    faults: TemplateProblems,
) -> str:
    """Return the address at which other tasks reach `host`; without `values`, it is not checked."""
    address = (values.address if values else None) or ("127.0.0.1" if connection.local else connection.address)
    if values is None:
        return address
    is_public = values.address or connection.local
    if not is_public and any(_is_secret(nodes.get(name), context) for name in ADDRESSES):
        what = "`ansible_host` is secret, but all tasks have it on their command lines"
        faults.add(connection.at, what, "set `address` under `tfprov:`, or write it in plain")
    elif reason := address_error(address):
        fix = "set `address` under `tfprov:`" if address.isascii() else "give its address as `ansible_host`"
        faults.add(connection.at, f"the address of {printable(host)} {reason}", fix)
    return address


def _misplaced(nodes: Mapping, problem: Problem) -> Problem:
    """Return a problem of a missing setting at the variable of the same name, where one stands beside `tfprov:`."""
    name = re.match(r"`(\w+)` is missing (?:under|for)", problem.what)
    if name is None or name[1] not in nodes.entries:
        return problem
    what = f"`{name[1]}` stands beside `{NAMESPACE}:`, where it is a variable and no setting"
    return Problem(nodes.key_at(name[1]), what, f"put it under `{NAMESPACE}:`")


def _check(role: str, written: Mapping, context: Variables, *, whole: bool) -> CheckedSettings:
    """Render and check the settings of a role."""
    faults, unread = TemplateProblems(), TemplateProblems()
    rendered = with_env_files(_render(written, context, faults), unread)
    faults.at |= unread.at
    _try_task_settings(role, rendered, context, faults)
    values = _validate(rendered, faults, whole=whole)
    if whole and not has_default_command(role, rendered) and _lacks_command(rendered):
        at, fix = find(rendered, ["command"])[1], "for example `command: [python, linear.py]`"
        faults.add(at, f"`command` is missing for the role `{role}`", fix)
    return CheckedSettings(rendered, values, tuple(faults.problems), tuple(unread.problems))


def _is_secret(node: Node | None, context: Variables) -> bool:
    return node is not None and is_secret(node, context)


def _render(written: Mapping, context: Variables, faults: TemplateProblems) -> Mapping:
    entries = {
        key: decrypt_node(node, faults) if key in TASK_SETTINGS else render(node, context, faults)
        for key, node in written.entries.items()
    }
    for key in entries.keys() & Settings.model_fields.keys() - set(TASK_SETTINGS):
        for value in scalars(entries[key], without="url" if key == "notify" else None):  # whose URL is never shown
            if value.secret and value.at not in faults.at:
                what = f"`{key}` is secret, and tfprov shows it in plans and labels"
                faults.add(value.at, what, "write it in plain; only `env` and passwords stay secret")
    return Mapping(entries, written.at, written.keys)


def _try_task_settings(role: str, node: Mapping, context: Variables, faults: TemplateProblems) -> None:
    """Render the settings of a task once already, so that their problems are reported with all others."""
    cluster = node.get("cluster")
    name = cluster.text if isinstance(cluster, Scalar) else ""
    data = "/data" if isinstance(node.get("data"), Mapping) else None
    variables = add_task_variables(context, name, f"{_job(role, node)}/0", "/checkpoints", data)
    fixed = {key: _without_index(node.entries[key], variables) for key in TASK_SETTINGS if key in node.entries}
    render_task_settings(Mapping(fixed), variables, faults)


def _job(role: str, node: Mapping) -> str:
    """Return the job of a role's tasks, as far as it is known before the settings are checked."""
    wiring, strategy = (scalar_text(node.get(name)) for name in ("wiring", "strategy"))
    has_chief = strategy != "multi_worker_mirrored" and (wiring or implied_wiring(strategy)) == "tf_config"
    return "worker" if role == "chief" and not has_chief else role


def _without_index(node: Node, variables: Variables) -> Node:
    """Return `node` with templates that use the index or the cluster marked as literal: neither is known yet."""
    if isinstance(node, Mapping):
        entries = {key: _without_index(value, variables) for key, value in node.entries.items()}
        return Mapping(entries, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(_without_index(item, variables) for item in node.items), node.at)
    is_open = "index" in str(node.data) or not names_used(node, variables).isdisjoint(CLUSTER_VARIABLES)
    return replace(node, literal=True) if is_open else node


def _validate(node: Mapping, faults: TemplateProblems, *, whole: bool) -> Settings | None:
    """Return the settings in `node`, or None with the reasons in `faults`; unless `whole`, some may be missing."""
    for problem in lint_settings(node):
        faults.add(problem.at, problem.what, problem.fix)
    try:
        values = Settings.model_validate(plain(node))
    except ValidationError as error:
        missing = not whole and all(item["type"] == "missing" for item in error.errors())
        faults.problems.extend(() if missing else _explainer.problems(node, error, faults.at))
        faults.problems.extend(check_default_flags(node))
        return None
    faults.problems.extend(check_role_settings(node, values, whole=whole))
    return values


def _lacks_command(node: Mapping) -> bool:
    command = node.get("command")
    is_null = isinstance(command, Scalar) and command.data is None
    return is_null or (command is None and "command" not in _explainer.misspelt_keys(node))
