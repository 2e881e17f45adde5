"""The variables of every host to checked settings, with each complaint at the line that causes it."""

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tfprov.config.templates import Variables, check, render
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.inventory import NAMESPACE, ROLES, Inventory
from tfprov.model.node import Mapping, Node, Scalar, find, plain
from tfprov.model.settings import SHARED, Settings

LATE = ("command", "flags", "env")
"""Settings that may use `task.job`, `task.index` and `checkpoint_dir`, and so are rendered for each task, not here."""


@dataclass(frozen=True)
class RoleSettings:
    """The settings of one role on one host; `node` knows where each was written, `variables` render the late ones."""

    role: str
    host: str
    values: Settings
    node: Mapping
    variables: Variables
    address: str
    local: bool

    def at(self, *path: str | int) -> Position:
        """Where the value at `path` is written, or the nearest thing around it."""
        return find(self.node, path)[1]


def resolve(inventory: Inventory) -> tuple[RoleSettings, ...]:
    """Return the settings of every role on every host that has one; InvalidInput carries all problems of all hosts."""
    problems: list[Problem] = []
    found = list(_all(inventory, problems))
    if not found and not problems:
        problems.append(_no_roles(inventory))
    problems.extend(_shared(found))
    if problems:
        raise InvalidInput(problems)
    return tuple(found)


def _all(inventory: Inventory, problems: list[Problem]) -> Iterator[RoleSettings]:
    for role in ROLES:
        for host in inventory.members(role):
            try:
                yield _one(inventory, role, host)
            except InvalidInput as error:
                problems.extend(error.problems)


def variables(inventory: Inventory, host: str, nodes: Mapping) -> Variables:
    """Return what templates can use for `host`: its variables and the names Ansible gives every host."""
    groups = [name for name in inventory.hosts[host].groups if name != "all"]
    return Variables(
        nodes,
        {
            "inventory_hostname": host,
            "inventory_hostname_short": host.split(".", maxsplit=1)[0],
            "inventory_file": inventory.path,
            "inventory_dir": str(Path(inventory.path).absolute().parent),
            "group_names": sorted(groups),
            "groups": {name: list(inventory.members(name)) for name in inventory.groups},
        },
    )


def _one(inventory: Inventory, role: str, host: str) -> RoleSettings:
    nodes = inventory.variables(host, role=role)
    context = variables(inventory, host, nodes)
    written = nodes.get(NAMESPACE) or Mapping(at=inventory.hosts[host].at)
    if not isinstance(written, Mapping):
        raise InvalidInput([Problem(written.at, f"`{NAMESPACE}` must be a mapping", "write one setting per line")])
    rendered = _rendered(written, context)
    values = _validate(rendered)
    connection = _connection(nodes, context)
    local = connection.get("ansible_connection", "local" if host == "localhost" else "ssh") == "local"
    address = values.address or ("127.0.0.1" if local else str(connection.get("ansible_host") or host))
    return RoleSettings(role, host, values, rendered, context, address, local)


def _connection(nodes: Mapping, context: Variables) -> dict[str, Any]:
    names = ("ansible_host", "ansible_port", "ansible_user", "ansible_connection")
    present = {name: nodes.entries[name] for name in names if name in nodes.entries}
    values = {name: plain(render(node, context)) for name, node in present.items()}
    problems = [Problem(present[name].at, *wrong) for name, value in values.items() if (wrong := _bad(name, value))]
    if problems:
        raise InvalidInput(problems)
    return values


def _bad(name: str, value: Any) -> tuple[str, str] | None:
    if name == "ansible_port":
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535
        return (
            None if good else (f"`ansible_port` must be a port from 1 to 65535, not `{value}`", "write it as a number")
        )
    if not isinstance(value, str) or not value:
        return f"`{name}` must be text, not `{value}`", "quote it"
    if name == "ansible_connection" and value not in ("local", "ssh"):
        return f"`ansible_connection: {value}` is not supported", "use `local` or `ssh`"
    if name == "ansible_host" and "@" in value:
        return f"`ansible_host: {value}` holds a user", "give the user as `ansible_user`"
    return None


def _rendered(written: Mapping, context: Variables) -> Mapping:
    problems: list[Problem] = []
    entries: dict[str, Node] = {}
    for key, node in written.entries.items():
        if key in LATE:
            check(node, problems)
            entries[key] = node
            continue
        try:
            entries[key] = render(node, context)
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return Mapping(entries, written.at, written.keys)


def _scalars(nodes: Iterable[Node]) -> Iterator[Scalar]:
    for node in nodes:
        if isinstance(node, Scalar):
            yield node
        else:
            yield from _scalars(node.entries.values() if isinstance(node, Mapping) else node.items)


def _surprise(node: Scalar) -> tuple[str, str] | None:
    """Say where YAML 1.1 reads something else than what stands there: `NO`, `22:22`, `012`, `2026-01-01`."""
    if node.quoted or node.data is None or isinstance(node.data, str):
        return None
    as_expected = {
        bool: node.text in ("true", "false", "True", "False"),
        int: node.text.lstrip("+-").isdigit() and str(node.data) == node.text.lstrip("+"),
        float: ":" not in node.text and "_" not in node.text and not node.text.lower().lstrip("+-").startswith("."),
    }
    if as_expected.get(type(node.data), False):
        return None
    return f"`{node.text}` is read by YAML as `{_shown(node.data)}`", f'quote it: "{node.text}"'


def _shown(data: Any) -> str:
    return str(data).lower() if isinstance(data, bool) else str(data)


def _validate(node: Mapping) -> Settings:
    problems = [Problem(scalar.at, *wrong) for scalar in _scalars([node]) if (wrong := _surprise(scalar))]
    told = {problem.at for problem in problems}
    try:
        values = Settings.model_validate(plain(node))
    except ValidationError as error:
        problems.extend(_problems(node, error, told))
    if problems:
        raise InvalidInput(problems)
    return values


def _problems(node: Mapping, error: ValidationError, told: set[Position]) -> Iterator[Problem]:
    """One problem per setting: pydantic reports a value that may be of several types once for each of them."""
    by_path: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for item in error.errors():
        by_path.setdefault(tuple(step for step in item["loc"] if not _is_type(step)), []).append(item)
    for path, items in by_path.items():
        if find(node, path)[0].at in told:
            continue
        own = next((item for item in items if item["type"] == "value_error"), items[0])
        what, fix = _explain(own, path) if own["type"] == "value_error" or len(items) == 1 else _no_single(own, path)
        yield Problem(find(node, path)[1], what, fix)


def _is_type(step: object) -> bool:
    return str(step) in ("str", "int", "float", "bool", "[key]") or str(step).startswith("function-")


def _no_single(error: ErrorDetails, path: tuple[str | int, ...]) -> tuple[str, str]:
    return f"`{_name(path)}` must be a single value, not {_kind(error['input'])}", _example(path)


def _name(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path)) or NAMESPACE


def _explain(error: ErrorDetails, path: tuple[str | int, ...]) -> tuple[str, str]:
    kind, value, limits, name = error["type"], error["input"], error.get("ctx", {}), _name(path)
    shown = f"`{_shown(value)[:60]}`"
    if kind == "missing":
        return f"`{name}` is missing under `{NAMESPACE}:`", _example(path)
    if kind == "extra_forbidden":
        known = sorted(_model(path[:-1]).model_fields)
        close = difflib.get_close_matches(str(path[-1]), known, n=1)
        return f"unknown key `{name}`", f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(known)}"
    if kind == "value_error":
        return f"`{name}` {limits['error']}" if path else str(limits["error"]), _example(path)
    if kind == "literal_error":
        return f"`{name}` must be {limits['expected'].replace(chr(39), '`')}, not {shown}", "use one of these"
    if kind in ("greater_than_equal", "less_than_equal"):
        word, limit = ("at least", limits.get("ge")) if "ge" in limits else ("at most", limits.get("le"))
        return f"`{name}` must be {word} {limit}, not {value}", _example(path)
    if kind == "too_short":
        return f"`{name}` must not be empty", _example(path)
    return f"`{name}` must be {_wanted(kind)}, not {_kind(value)}", _example(path)


def _wanted(kind: str) -> str:
    forms = {"string": "text", "list": "a list", "dict": "a mapping", "model": "a mapping", "int": "a whole number"}
    return next((form for word, form in forms.items() if kind.startswith(word)), "a single value")


def _kind(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if isinstance(value, str) and value.isdigit():
        return f'the text "{value}"'
    return "nothing" if value is None else f"`{_shown(value)[:60]}`"


def _model(path: tuple[str | int, ...]) -> type[BaseModel]:
    model: type[BaseModel] = Settings
    for step in path:
        annotation = model.model_fields[str(step)].annotation if str(step) in model.model_fields else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
    return model


def _example(path: tuple[str | int, ...]) -> str:
    """Show how the setting is written: the example of the innermost key of `path` that has one."""
    for end in range(len(path), 0, -1):
        field = _model(path[: end - 1]).model_fields.get(str(path[end - 1]))
        if field is not None and field.examples:
            return f"for example `{path[end - 1]}: {json.dumps(field.examples[0])}`"
    return "see the reference of settings"


def _shared(found: list[RoleSettings]) -> Iterator[Problem]:
    for name in SHARED:
        for other in found:
            first, value = getattr(found[0].values, name), getattr(other.values, name)
            if value != first:
                what = f"`{name}` is `{value}` on {other.host} and `{first}` on {found[0].host}"
                yield Problem(other.at(name), what, "one inventory is one cluster: state it once, for `all`")


def _no_roles(inventory: Inventory) -> Problem:
    at = inventory.groups["all"].at
    for name, group in inventory.groups.items():
        if close := difflib.get_close_matches(name, ROLES, n=1):
            what = f"the group `{name}` is not a role, and no host has one" if inventory.members(name) else ""
            return Problem(
                group.at,
                what or f"the group `{name}` has no hosts",
                f"did you mean `{close[0]}`?" if what else "add one",
            )
    return Problem(at, "no host has a role", "put hosts into the groups `ps` and `worker`")
