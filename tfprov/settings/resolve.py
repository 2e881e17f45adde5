"""The variables of every host to checked settings, with each complaint at the line that causes it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from pydantic import ValidationError

from tfprov.errors import InvalidInput, Problem, shown
from tfprov.model.inventory import NAMESPACE, ROLES, Inventory
from tfprov.model.node import Items, Mapping, Node, Scalar, find, plain, scalars
from tfprov.model.settings import Settings, implied_wiring
from tfprov.model.validators import wrong_address
from tfprov.settings.cluster_rules import builders, empty_roles, in_reach, no_roles, shared, strays, twice
from tfprov.settings.connection import Connection, connection, connection_of
from tfprov.settings.connection_vars import ADDRESSES
from tfprov.settings.container_rules import at_odds
from tfprov.settings.pydantic_errors import Explainer
from tfprov.settings.role_settings import DEFAULT_COMMANDS, RoleSettings, meant_for
from tfprov.settings.settings_cache import Checked, Sharing
from tfprov.settings.task_templates import LATE, OF_CLUSTER, for_task, render_late
from tfprov.templating.errors import UNDEFINED
from tfprov.templating.host_values import Faults, Variables, is_secret, opened, render
from tfprov.templating.magic_vars import variables
from tfprov.vault.decrypt import is_decryption_problem
from tfprov.wiring import FLAGS
from tfprov.yamltext.yaml11 import lint_keys, lint_values

__all__ = ["RoleSettings", "Rule", "connection_of", "resolve"]

_ELSEWHERE = {
    "args": "command",
    "cmd": "command",
    "count": "tasks_per_host",
    "directory": "dir",
    "entrypoint": "command",
    "environment": "env",
    "gpu_count": "gpus",
    "mem_limit": "memory",
    "name": "cluster",
    "replicas": "tasks_per_host",
    "stop_grace_period": "stop_grace",
    "volumes": "mounts",
    "workers": "tasks_per_host",
}
"""What other tools call some of these settings."""
_explainer = Explainer(Settings, NAMESPACE, "see what `tfprov init` writes", inside=False, others=_ELSEWHERE)


Rule = Callable[[Sequence[RoleSettings]], Iterator[Problem]]


def resolve(
    inventory: Inventory, broken: Sequence[Problem] = (), rules: Sequence[Rule] = ()
) -> tuple[RoleSettings, ...]:
    """Return the settings of every role on every host that has one; InvalidInput carries all problems of all hosts.

    `broken` are problems of the inventory's structure: with them, nothing is said that could follow from what was
    left out because of them. `rules` must hold of all roles besides those that always must.
    """
    faults = Faults(list(broken))
    reached: dict[str, Connection] = {}
    found = list(_all(inventory, faults, reached, whole=not broken))
    if not broken:
        faults.problems.extend(_amiss(inventory, found, reached))
        faults.problems.extend(problem for rule in rules for problem in rule(found))
        if not found and not faults.problems:
            faults.problems.append(no_roles(inventory))
    if faults.problems:
        # A variable may be in a file that stays encrypted, about which enough is said.
        unknown = any(map(is_decryption_problem, broken))
        raise InvalidInput(one for one in faults.problems if not unknown or not one.what.startswith(UNDEFINED))
    return tuple(found)


def _amiss(inventory: Inventory, found: list[RoleSettings], reached: dict[str, Connection]) -> Iterator[Problem]:
    """What is wrong with the hosts as a whole."""
    yield from strays(inventory)
    yield from empty_roles(inventory)
    yield from shared(inventory, found)
    yield from twice(reached)
    yield from builders(inventory, found)
    yield from in_reach(found)


def _all(
    inventory: Inventory, faults: Faults, reached: dict[str, Connection], *, whole: bool
) -> Iterator[RoleSettings]:
    sharing = Sharing()
    for role in ROLES:
        for host in inventory.members(role):
            try:
                yield _one(inventory, (role, host), reached, sharing, whole=whole)
            except InvalidInput as error:
                faults.problems.extend(error.problems)


def _one(
    inventory: Inventory, place: tuple[str, str], reached: dict[str, Connection], sharing: Sharing, *, whole: bool
) -> RoleSettings:
    role, host = place
    nodes = inventory.variables(host, role=role)
    context = variables(inventory, host, nodes)
    faults = Faults()
    way = reached[host] = connection(inventory, host, nodes, context, faults)
    written = nodes.get(NAMESPACE)
    if written is None:
        at, what = inventory.groups["all"].at, f"no settings: nothing is called `{NAMESPACE}`"
        raise InvalidInput([*faults.problems, *([Problem(at, what, "see what `tfprov init` writes")] if whole else [])])
    if not isinstance(written, Mapping):
        in_braces = isinstance(written, Scalar) and re.match(r"\s*\{[^{%#]", str(written.data))
        fix = "write it as YAML, such as into group_vars/all.yml" if in_braces else "write one setting per line"
        faults.add(written.at, f"`{NAMESPACE}` must be a mapping", fix)
        raise InvalidInput(faults.problems)
    written = meant_for(inventory, host, role, written)
    found = sharing.checked(role, written, context, partial(_checked, role, written, context, whole=whole))
    faults.problems.extend(_misplaced(nodes, problem) for problem in found.problems)
    values = found.values
    address = (values.address if values else None) or ("127.0.0.1" if way.local else way.address)
    told = values is not None and (values.address or way.local)  # in plain, by a setting of its own
    if values is not None and not told and any(_is_secret(nodes.get(name), context) for name in ADDRESSES):
        what = "`ansible_host` is secret, and all tasks are told it on their command lines"
        faults.add(way.at, what, "set `address` under `tfprov:`, or write it in plain")
    elif values is not None and (reason := wrong_address(address)):
        fix = "set `address` under `tfprov:`" if address.isascii() else "give its address as `ansible_host`"
        faults.add(way.at, f"the address of {shown(host)} {reason}", fix)
    if values is None or faults.problems:
        raise InvalidInput(faults.problems)
    return RoleSettings(role, host, values, found.rendered, context, address, way, inventory.groups[role].at)


def _misplaced(nodes: Mapping, problem: Problem) -> Problem:
    """Return a complaint about a missing setting at the variable of the same name, where there is one beside `tfprov:`."""
    name = re.match(r"`(\w+)` is missing (?:under|for)", problem.what)
    if name is None or name[1] not in nodes.entries:
        return problem
    what = f"`{name[1]}` stands beside `{NAMESPACE}:`, where it is a variable and no setting"
    return Problem(nodes.key_at(name[1]), what, f"put it under `{NAMESPACE}:`")


def _checked(role: str, written: Mapping, context: Variables, *, whole: bool) -> Checked:
    """Render and check settings, with no regard to how their host is reached."""
    faults = Faults()
    rendered = _rendered(written, context, faults)
    _try_late(role, rendered, context, faults)
    values = _validated(rendered, faults, whole=whole)
    if whole and role not in DEFAULT_COMMANDS and _lacks_command(rendered):
        at, fix = find(rendered, ["command"])[1], "for example `command: [python, linear.py]`"
        faults.add(at, f"`command` is missing for the role `{role}`", fix)
    return Checked(rendered, values, tuple(faults.problems))


def _is_secret(node: Node | None, context: Variables) -> bool:
    return node is not None and is_secret(node, context)


def _rendered(written: Mapping, context: Variables, faults: Faults) -> Mapping:
    entries = {
        key: opened(node, faults) if key in LATE else render(node, context, faults)
        for key, node in written.entries.items()
    }
    for key in entries.keys() & Settings.model_fields.keys() - set(LATE):
        for value in scalars(entries[key]):
            if value.secret and value.at not in faults.at:
                what = f"`{key}` is secret, and tfprov shows it in plans and labels"
                faults.add(value.at, what, "write it in plain; only `env` and passwords stay secret")
    return Mapping(entries, written.at, written.keys)


def _try_late(role: str, node: Mapping, context: Variables, faults: Faults) -> None:
    """Render what is rendered for each task once already, so that its problems are told with all the others."""
    cluster = node.get("cluster")
    name = cluster.text if isinstance(cluster, Scalar) else ""
    fixed = {key: _without_index(node.entries[key]) for key in LATE if key in node.entries}
    data = "/data" if isinstance(node.get("data"), Mapping) else None
    render_late(Mapping(fixed), for_task(context, name, f"{_job(role, node)}/0", "/checkpoints", data), faults)


def _job(role: str, node: Mapping) -> str:
    """Return the job that a role's tasks have, as far as it is known before the settings are checked."""
    wiring, strategy = (_word(node.get(name)) for name in ("wiring", "strategy"))
    named = strategy != "multi_worker_mirrored" and (wiring or implied_wiring(strategy)) == "tf_config"
    return "worker" if role == "chief" and not named else role


def _word(node: Node | None) -> str | None:
    return str(node.data) if isinstance(node, Scalar) else None


def _without_index(node: Node) -> Node:
    """Leave alone what depends on the index or the cluster, which are not known yet: right for the task, wrong before."""
    if isinstance(node, Mapping):
        return Mapping({key: _without_index(value) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(map(_without_index, node.items)), node.at)
    return replace(node, literal=True) if any(name in str(node.data) for name in ("index", *OF_CLUSTER)) else node


def _validated(node: Mapping, faults: Faults, *, whole: bool) -> Settings | None:
    """Return the settings in `node`, or None and the reasons in `faults`; unless `whole`, some may be missing."""
    for problem in _surprises(node):
        faults.add(problem.at, problem.what, problem.fix)
    try:
        values = Settings.model_validate(plain(node))
    except ValidationError as error:
        missing = not whole and all(item["type"] == "missing" for item in error.errors())
        faults.problems.extend(() if missing else _explainer.problems(node, error, faults.at))
        faults.problems.extend(_usual_flags(node))
        return None
    faults.problems.extend([*_reserved(node, values), *_unsaid(node, values), *at_odds(node, values, whole=whole)])
    return values


def _surprises(node: Mapping) -> Iterator[Problem]:
    """Yield what YAML reads otherwise than it looks, in values and in the names of what becomes text."""
    yield from lint_values(node)
    for path in (["flags"], ["env"], ["image", "build_args"]):
        names = find(node, path)[0]
        if isinstance(names, Mapping) and names is not find(node, path[:-1])[0]:
            yield from lint_keys(names)
            if path != ["flags"]:  # a flag goes out as it was written
                yield from lint_values(names, as_text=True)


def _lacks_command(node: Mapping) -> bool:
    command = node.get("command")
    is_null = isinstance(command, Scalar) and command.data is None
    return is_null or (command is None and "command" not in _explainer.meant(node))


def _reserved(node: Mapping, values: Settings) -> Iterator[Problem]:
    """The wiring's flags in the command would be given twice, and the program would believe the last one."""
    called = [values.flag_names.get(name, name) for name in FLAGS] if values.by_flags else []
    names = [name for name in called if name]
    for number, word in enumerate(values.command or ()):
        if word.partition("=")[0] in {f"--{name}" for name in names}:
            what = f"`{word.partition('=')[0]}` is set by tfprov for every task"
            yield Problem(find(node, ["command", number])[1], what, "remove it, or set `wiring: tf_config`")
    for name in values.flags:
        if name in names:
            yield _twice(node, name)
    for flag, name in values.flag_names.items():
        if names.count(name) > 1:
            at = find(node, ["wiring", "flags", flag])[1]
            yield Problem(
                at, f"`wiring.flags.{flag}` is `--{name}` as another one is", "give each flag a name of its own"
            )


def _usual_flags(node: Mapping) -> Iterator[Problem]:
    """The same of settings that are wrong otherwise, so that one problem does not hide another."""
    wiring, strategy, flags = _word(node.get("wiring")), _word(node.get("strategy")), node.get("flags")
    by_flags = strategy != "single" and (wiring or implied_wiring(strategy)) == "flags"
    if by_flags and not isinstance(node.get("wiring"), Mapping) and isinstance(flags, Mapping):
        yield from (_twice(node, name) for name in flags.entries if name in FLAGS)


def _twice(node: Mapping, flag: str) -> Problem:
    what = f"`flags.{flag}` is set by tfprov for every task"
    return Problem(find(node, ["flags", flag])[1], what, "remove it, or set `wiring: tf_config`")


def _unsaid(node: Mapping, values: Settings) -> Iterator[Problem]:
    """The flags have no word for a chief, whom some strategies need."""
    if values.strategy in ("in_graph", "parameter_server") and values.wiring != "tf_config":
        what = f"`wiring: flags` cannot name the chief that `strategy: {values.strategy}` needs"
        yield Problem(find(node, ["wiring"])[1], what, "remove it: programs of this strategy read TF_CONFIG")
