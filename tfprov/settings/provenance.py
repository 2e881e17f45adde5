"""The provenance of every value of a host: the origin that wins, and those that it overrides.

Values come from the same layers as the variables themselves; secrets are masked.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tfprov.errors import InvalidInput, Position, Usage, printable, suggest
from tfprov.model.inventory import EXTRA_VARS_ORIGIN, NAMESPACE, ROLES, Inventory
from tfprov.model.sections import StrictModel
from tfprov.model.setting_types import implied_runtime, implied_wiring
from tfprov.model.settings import Settings
from tfprov.model.yaml_node import HIDDEN, Mapping, Node, Scalar, plain_masked, scalars
from tfprov.settings.pydantic_errors import model_of
from tfprov.settings.role_settings import settings_for_other_roles
from tfprov.templating.host_values import Variables, is_template, render
from tfprov.templating.magic_vars import CLUSTER_VARIABLES, TASK_SETTINGS, HostVars, add_task_variables, names_used
from tfprov.vault.decrypt import DecryptionError
from tfprov.vault.redaction import KeyPath as Path
from tfprov.vault.redaction import ShowValue, mask_value, public_env_names, reveal_value, show_public_env


@dataclass(frozen=True)
class SourceValue:
    """A value from one origin, such as "group `worker`"; `at` is its position, None for a default of the schema.

    `name` is its dotted name where that differs from the effective value's: a whole mapping, or a part of one.
    """

    written: Any
    origin: str
    at: Position | None = None
    name: str = ""


@dataclass(frozen=True)
class Origin:
    """An effective value and its provenance. `value` is rendered; `note` says why it is missing, `failed` by an error.

    `overridden` has the values that it overrides, the strongest first, and `elsewhere` those of groups of other roles.
    """

    path: Path
    value: Any
    source: SourceValue
    overridden: tuple[SourceValue, ...] = ()
    elsewhere: tuple[SourceValue, ...] = ()
    note: str = ""
    failed: bool = False
    template: bool = False

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    @property
    def is_default(self) -> bool:
        """Whether it is the default of the schema."""
        return self.source.at is None


@dataclass(frozen=True)
class HostExplanation:
    """The variables of one host, and its settings in each role, with their provenance."""

    host: str
    at: Position
    groups: tuple[str, ...]
    variables: tuple[Origin, ...]
    settings: dict[str, tuple[Origin, ...]]

    def names(self) -> list[str]:
        """Return the dotted names of all values, and of the mappings around them."""
        origins = [*self.variables, *(origin for settings in self.settings.values() for origin in settings)]
        names = (".".join(origin.path[:end]) for origin in origins for end in range(1, len(origin.path) + 1))
        return list(dict.fromkeys(names))

    def only(self, key: str) -> "HostExplanation":
        """Return only the values named `key` or below it; Usage without any."""

        def select(origins: Iterable[Origin]) -> tuple[Origin, ...]:
            return tuple(origin for origin in origins if origin.name == key or origin.name.startswith(f"{key}."))

        settings = {role: select(origins) for role, origins in self.settings.items()}
        selected = replace(self, variables=select(self.variables), settings={r: o for r, o in settings.items() if o})
        if selected.variables or selected.settings:
            return selected
        raise Usage(f"{self.host} has no `{printable(key)}`", _suggest(key, self.names()))


def explain(inventory: Inventory, host: str, role: str | None = None, *, show_secrets: bool = False) -> HostExplanation:
    """Return the provenance of every value of `host`, in one `role` or in all of its roles.

    Secrets are masked, unless `show_secrets` is set. Usage for an unknown host or role.
    """
    if host not in inventory.hosts:
        raise Usage(f"no host `{printable(host)}` in {inventory.path}", _suggest_host(inventory, host))
    roles = [name for name in ROLES if host in inventory.members(name)]
    if role is not None and role not in roles:
        fix = f"its roles are {', '.join(roles)}" if roles else "it has none"
        raise Usage(f"{host} does not have the role `{printable(role)}`", fix)
    nodes = inventory.variables(host)
    hostvars = HostVars(inventory)
    context = hostvars.bind(host, nodes)
    shows = reveal_value if show_secrets else mask_value
    stacks = _stacks(inventory, host, None, shows)
    own = [_origin(path, stack, context, shows) for path, stack in sorted(stacks.items()) if path[0] != NAMESPACE]
    settings = {name: tuple(_settings(hostvars, host, name, shows)) for name in ([role] if role else roles)}
    at, groups = inventory.hosts[host].at, inventory.hosts[host].groups
    return HostExplanation(host, at, groups, tuple(own), settings)


def _suggest_host(inventory: Inventory, name: str) -> str:
    if name in inventory.groups:
        hosts = inventory.members(name)
        return f"it is a group: name one of its hosts, such as `{hosts[0]}`" if hosts else "it is a group without hosts"
    return _suggest(name, list(inventory.hosts), "see `tfprov inventory graph`")


def _suggest(name: str, names: list[str], otherwise: str = "leave the key out to see all there is") -> str:
    # `train_steps` stands for `tfprov.flags.train_steps`.
    within = next((known for known in names if known.endswith(f".{name}")), None)
    return suggest(name, names, f"did you mean `{printable(within)}`?" if within else otherwise)


_Stack = list[tuple[Node, SourceValue]]


def _stacks(inventory: Inventory, host: str, role: str | None, shows: ShowValue) -> dict[Path, _Stack]:
    """Return the values from all origins by path, weakest first; settings are split into single values."""
    stacks: dict[Path, _Stack] = {}
    for layer in inventory.layers(host, role=role):
        for name, node in layer.vars.entries.items():
            at = layer.vars.key_at(name)
            parts = _leaves((name,), node, at) if name == NAMESPACE else [((name,), node, at)]
            for path, leaf, leaf_at in parts:
                if not (isinstance(leaf, Mapping) and any(_is_below(other, path) for other in stacks)):
                    overridden = _pop_overridden(stacks, path)
                    stacks[path] = [*overridden, (leaf, SourceValue(shows(path, leaf), layer.origin, leaf_at))]
    return stacks


def _is_below(path: Path, outer: Path) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


def _pop_overridden(stacks: dict[Path, _Stack], path: Path) -> _Stack:
    """Remove and return the values that one at `path` overrides; an empty mapping around it is merged instead."""
    overridden: _Stack = []
    for other in [key for key in stacks if key == path or _is_below(key, path) or _is_below(path, key)]:
        overridden += [
            (node, source if other == path or source.name else replace(source, name=".".join(other)))
            for node, source in stacks.pop(other)
            if not (isinstance(node, Mapping) and _is_below(path, other))
        ]
    return overridden


def _leaves(path: Path, node: Node, at: Position) -> Iterator[tuple[Path, Node, Position]]:
    if isinstance(node, Mapping) and node.entries:
        for key, value in node.entries.items():
            yield from _leaves((*path, key), value, node.key_at(key))
    else:
        yield path, node, at


def _origin(path: Path, stack: _Stack, context: Variables, shows: ShowValue) -> Origin:
    node, source = stack[-1]
    template = any(not value.literal and is_template(value.data) for value in scalars(node))
    lost = tuple(overridden for _, overridden in reversed(stack[:-1]))
    origin = Origin(path, None, source, lost, template=template)
    if template and path[0] == NAMESPACE and path[1:2] and path[1] in TASK_SETTINGS and _depends_on_task(node, context):
        return replace(origin, note="differs from task to task")
    try:
        return replace(origin, value=shows(path, render(node, context)))
    except DecryptionError as error:
        return replace(origin, value=HIDDEN, note=error.problems[0].what)
    except InvalidInput as error:
        return replace(origin, note=error.problems[0].what, failed=True)


# -- settings ---------------------------------------------------------------------------------------------------------


def _settings(hostvars: HostVars, host: str, role: str, shows: ShowValue) -> Iterator[Origin]:
    """Yield the settings of `host` in one role: those set in the inventory, then the defaults of the others."""
    inventory = hostvars.inventory
    nodes = inventory.variables(host, role=role)
    written = nodes.get(NAMESPACE)
    if isinstance(written, Mapping) and (public := public_env_names(written)):
        shows = partial(show_public_env, public, shows)
    stacks = {path: stack for path, stack in _stacks(inventory, host, role, shows).items() if path[0] == NAMESPACE}
    if isinstance(written, Mapping):
        foreign = set(settings_for_other_roles(inventory, host, role, written))
        stacks = {path: stack for path, stack in stacks.items() if not foreign & {path[1:2], path[1:3]}}
    others = _of_other_roles(inventory, host, role, shows)
    context = hostvars.bind(host, nodes)
    cluster = written.get("cluster") if isinstance(written, Mapping) else None
    data = written.get("data") if isinstance(written, Mapping) else None
    data_dir = "/data" if isinstance(data, Mapping) else None  # a placeholder: it differs from task to task
    task = add_task_variables(
        context, str(plain_masked(cluster)) if cluster else "", f"{role}/0", "/checkpoints", data_dir
    )
    order = list(Settings.model_fields)
    for path in sorted(stacks, key=lambda path: (order.index(path[1]) if path[1:2] and path[1] in order else -1, path)):
        variables = task if path[1:2] and path[1] in TASK_SETTINGS else context
        yield replace(_origin(path, stacks[path], variables, shows), elsewhere=others.get(path, ()))
    for default in _defaults(Settings, (NAMESPACE,), frozenset(stacks)):
        value = default.value
        if default.path == (NAMESPACE, "runtime") and isinstance(written, Mapping):
            image = written.get("image")
            value = implied_runtime(image.data if isinstance(image, Scalar) else image)
        if default.path == (NAMESPACE, "wiring") and isinstance(written, Mapping):
            strategy = written.get("strategy")
            value = implied_wiring(strategy.data if isinstance(strategy, Scalar) else None)
        yield replace(default, value=value, elsewhere=others.get(default.path, ()))


def _depends_on_task(node: Node, context: Variables) -> bool:
    names = ("task", "checkpoint_dir", "data_dir", *CLUSTER_VARIABLES)
    return not names_used(node, context).isdisjoint(names)


def _of_other_roles(
    inventory: Inventory, host: str, role: str, shows: ShowValue
) -> dict[Path, tuple[SourceValue, ...]]:
    values: dict[Path, tuple[SourceValue, ...]] = {}
    for layer, own in zip(inventory.layers(host), inventory.layers(host, role=role), strict=True):
        settings = layer.vars.get(NAMESPACE)
        if settings is not None and NAMESPACE not in own.vars.entries:
            for path, leaf, at in _leaves((NAMESPACE,), settings, settings.at):
                values[path] = (*values.get(path, ()), SourceValue(shows(path, leaf), layer.origin, at))
    return values


def _defaults(model: type[StrictModel], path: Path, present: frozenset[Path]) -> Iterator[Origin]:
    for name, about in model.model_fields.items():
        here = (*path, name)
        inner, below = model_of(about.annotation), any(_is_below(other, here) for other in present)
        if (
            inner is not None
            and issubclass(inner, StrictModel)
            and (below or inner is about.annotation)
            and here not in present
        ):
            yield from _defaults(inner, here, present)
        elif below or here in present:
            continue
        elif about.is_required():
            yield Origin(here, None, SourceValue(None, "no default"), note="missing", failed=True)
        else:
            default = about.get_default(call_default_factory=True)
            words = (about.description or "").partition("Default: ")[2].partition(";")[0].rstrip(".")
            origin = f"default: {words}" if words and words != "none" else "default"
            yield Origin(here, default, SourceValue(default, origin), note="none" if default is None else "")


def describe_place(source: SourceValue) -> str:
    """Return the position and the origin of a value, in words."""
    if source.at is None:
        return source.origin
    return str(source.at) if source.origin == EXTRA_VARS_ORIGIN else f"{source.at} ({source.origin})"
