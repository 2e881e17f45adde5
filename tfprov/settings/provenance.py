"""Where every effective value of a host comes from: the place that wins, and the places it wins over.

Values are looked up in the same layers as the variables themselves; what is shown of them keeps secrets secret.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tfprov.errors import InvalidInput, Position, Usage, shown
from tfprov.model.inventory import EXTRA, NAMESPACE, ROLES, Inventory
from tfprov.model.node import HIDDEN, Mapping, Node, Scalar, scalars, visible
from tfprov.model.sections import Strict
from tfprov.model.settings import Settings, implied_runtime, implied_wiring
from tfprov.settings.pydantic_errors import model_in
from tfprov.settings.role_settings import meant_for_others
from tfprov.settings.task_templates import LATE, OF_CLUSTER, for_task
from tfprov.templating.host_values import Variables, is_template, render
from tfprov.templating.magic_vars import variables
from tfprov.vault.decrypt import DecryptionError
from tfprov.vault.redaction import KeyPath as Path
from tfprov.vault.redaction import ShowValue, mask_value, public_env_names, reveal_value, show_public_env


@dataclass(frozen=True)
class Given:
    """What one place says. `origin` is the place in words, and `at` where it is; None for a default of the schema.

    `name` is what it is called there, where that is not what it is compared with: a whole mapping, or a part of it.
    """

    written: Any
    origin: str
    at: Position | None = None
    name: str = ""


@dataclass(frozen=True)
class Origin:
    """An effective value. `value` is what it is once templates are rendered; `note` says why there is none.

    `failed` says that the reason is an error. `lost` are the places that it wins over, the strongest first, and
    `elsewhere` what groups of other roles say.
    """

    path: Path
    value: Any
    given: Given
    lost: tuple[Given, ...] = ()
    elsewhere: tuple[Given, ...] = ()
    note: str = ""
    failed: bool = False
    template: bool = False

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.given.at is None


@dataclass(frozen=True)
class Explained:
    """Everything about one host: its variables, and its settings in each role."""

    host: str
    at: Position
    groups: tuple[str, ...]
    variables: tuple[Origin, ...]
    settings: dict[str, tuple[Origin, ...]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return the dotted names of all there is, and of what they are below."""
        every = [*self.variables, *(origin for found in self.settings.values() for origin in found)]
        paths = dict.fromkeys(".".join(one.path[:end]) for one in every for end in range(1, len(one.path) + 1))
        return list(paths)

    def only(self, key: str) -> "Explained":
        """Return what is called `key`, or stands below it; Usage when nothing is."""

        def chosen(origins: Iterable[Origin]) -> tuple[Origin, ...]:
            return tuple(one for one in origins if one.name == key or one.name.startswith(f"{key}."))

        settings = {role: chosen(found) for role, found in self.settings.items()}
        found = replace(self, variables=chosen(self.variables), settings={r: o for r, o in settings.items() if o})
        if found.variables or found.settings:
            return found
        raise Usage(f"{self.host} has no `{shown(key)}`", _meant(key, self.names()))


def explain(inventory: Inventory, host: str, role: str | None = None, *, show_secrets: bool = False) -> Explained:
    """Return the origin of every value of `host`, in one `role` or in all it has; Usage for an unknown host or role.

    Secrets are masked, unless `show_secrets` is set.
    """
    if host not in inventory.hosts:
        raise Usage(f"no host `{shown(host)}` in {inventory.path}", _known_host(inventory, host))
    roles = [name for name in ROLES if host in inventory.members(name)]
    if role is not None and role not in roles:
        its = f"its roles are {', '.join(roles)}" if roles else "it has none"
        raise Usage(f"{host} does not have the role `{shown(role)}`", its)
    found = inventory.hosts[host]
    nodes = inventory.variables(host)
    context = variables(inventory, host, nodes)
    shows = reveal_value if show_secrets else mask_value
    stacks = _stacked(inventory, host, None, shows)
    own = [_origin(path, given, context, shows) for path, given in sorted(stacks.items()) if path[0] != NAMESPACE]
    settings = {name: tuple(_settings(inventory, host, name, shows)) for name in ([role] if role else roles)}
    return Explained(host, found.at, found.groups, tuple(own), settings)


def _known_host(inventory: Inventory, name: str) -> str:
    if name in inventory.groups:
        hosts = inventory.members(name)
        return f"it is a group: name one of its hosts, such as `{hosts[0]}`" if hosts else "it is a group without hosts"
    return _meant(name, list(inventory.hosts), "see `tfprov inventory graph`")


def _meant(name: str, known: list[str], otherwise: str = "leave the key out to see all there is") -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if not close:  # somebody who writes `train_steps` means `tfprov.flags.train_steps`
        close = [one for one in known if one.endswith(f".{name}")]
    return f"did you mean `{shown(close[0])}`?" if close else otherwise


_Stack = list[tuple[Node, Given]]


def _stacked(inventory: Inventory, host: str, role: str | None, shows: ShowValue) -> dict[Path, _Stack]:
    """Return what each place says of each value, weakest first; settings are taken apart into single values."""
    found: dict[Path, _Stack] = {}
    for layer in inventory.layers(host, role=role):
        for name, node in layer.vars.entries.items():
            at = layer.vars.key_at(name)
            parts = _leaves((name,), node, at) if name == NAMESPACE else [((name,), node, at)]
            for path, leaf, place in parts:
                if not (isinstance(leaf, Mapping) and any(_is_below(one, path) for one in found)):
                    below = _lost(found, path)
                    found[path] = [*below, (leaf, Given(shows(path, leaf), layer.origin, place))]
    return found


def _is_below(one: Path, path: Path) -> bool:
    return len(one) > len(path) and one[: len(path)] == path


def _lost(found: dict[Path, _Stack], path: Path) -> _Stack:
    """Take out of `found` what a value at `path` replaces; an empty mapping above it is no value, and merges."""
    below: _Stack = []
    for other in [one for one in found if one == path or _is_below(one, path) or _is_below(path, one)]:
        below += [
            (lost, given if other == path or given.name else replace(given, name=".".join(other)))
            for lost, given in found.pop(other)
            if not (isinstance(lost, Mapping) and _is_below(path, other))
        ]
    return below


def _leaves(path: Path, node: Node, at: Position) -> Iterator[tuple[Path, Node, Position]]:
    if isinstance(node, Mapping) and node.entries:
        for key, value in node.entries.items():
            yield from _leaves((*path, key), value, node.key_at(key))
    else:
        yield path, node, at


def _origin(path: Path, stack: _Stack, context: Variables, shows: ShowValue) -> Origin:
    node, given = stack[-1]
    template = any(not value.literal and is_template(value.data) for value in scalars(node))
    lost = tuple(one for _, one in reversed(stack[:-1]))
    found = Origin(path, None, given, lost, template=template)
    if template and path[0] == NAMESPACE and path[1:2] and path[1] in LATE and _tells_tasks_apart(node):
        return replace(found, note="differs from task to task")
    try:
        return replace(found, value=shows(path, render(node, context)))
    except DecryptionError as error:
        return replace(found, value=HIDDEN, note=error.problems[0].what)
    except InvalidInput as error:
        return replace(found, note=error.problems[0].what, failed=True)


# -- settings ---------------------------------------------------------------------------------------------------------


def _settings(inventory: Inventory, host: str, role: str, shows: ShowValue) -> Iterator[Origin]:
    """Yield the settings of `host` in one role: those that are set, then the defaults of the others."""
    nodes = inventory.variables(host, role=role)
    written = nodes.get(NAMESPACE)
    if isinstance(written, Mapping) and (public := public_env_names(written)):
        shows = partial(show_public_env, public, shows)
    stacks = {path: stack for path, stack in _stacked(inventory, host, role, shows).items() if path[0] == NAMESPACE}
    if isinstance(written, Mapping):
        foreign = set(meant_for_others(inventory, host, role, written))
        stacks = {path: stack for path, stack in stacks.items() if not foreign & {path[1:2], path[1:3]}}
    others = _of_other_roles(inventory, host, role, shows)
    context = variables(inventory, host, nodes)
    cluster = written.get("cluster") if isinstance(written, Mapping) else None
    data = written.get("data") if isinstance(written, Mapping) else None
    where = "/data" if isinstance(data, Mapping) else None  # what it says differs from task to task
    task = for_task(context, str(visible(cluster)) if cluster else "", f"{role}/0", "/checkpoints", where)
    order = list(Settings.model_fields)
    for path in sorted(stacks, key=lambda path: (order.index(path[1]) if path[1:2] and path[1] in order else -1, path)):
        late = path[1:2] and path[1] in LATE
        yield replace(_origin(path, stacks[path], task if late else context, shows), elsewhere=others.get(path, ()))
    for default in _defaults(Settings, (NAMESPACE,), frozenset(stacks)):
        value = default.value
        if default.path == (NAMESPACE, "runtime") and isinstance(written, Mapping):
            image = written.get("image")
            value = implied_runtime(image.data if isinstance(image, Scalar) else image)
        if default.path == (NAMESPACE, "wiring") and isinstance(written, Mapping):
            strategy = written.get("strategy")
            value = implied_wiring(strategy.data if isinstance(strategy, Scalar) else None)
        yield replace(default, value=value, elsewhere=others.get(default.path, ()))


def _tells_tasks_apart(node: Node) -> bool:
    names = ("task", "checkpoint_dir", "data_dir", *OF_CLUSTER)
    return any(name in str(value.data) for value in scalars(node) for name in names)


def _of_other_roles(inventory: Inventory, host: str, role: str, shows: ShowValue) -> dict[Path, tuple[Given, ...]]:
    found: dict[Path, tuple[Given, ...]] = {}
    for whole, ours in zip(inventory.layers(host), inventory.layers(host, role=role), strict=True):
        settings = whole.vars.get(NAMESPACE)
        if settings is not None and NAMESPACE not in ours.vars.entries:
            for path, leaf, at in _leaves((NAMESPACE,), settings, settings.at):
                found[path] = (*found.get(path, ()), Given(shows(path, leaf), whole.origin, at))
    return found


def _defaults(model: type[Strict], path: Path, given: frozenset[Path]) -> Iterator[Origin]:
    for name, about in model.model_fields.items():
        here = (*path, name)
        inner, below = model_in(about.annotation), any(one[: len(here)] == here and one != here for one in given)
        if (
            inner is not None
            and issubclass(inner, Strict)
            and (below or inner is about.annotation)
            and here not in given
        ):
            yield from _defaults(inner, here, given)
        elif below or here in given:
            continue
        elif about.is_required():
            yield Origin(here, None, Given(None, "no default"), note="missing", failed=True)
        else:
            default = about.get_default(call_default_factory=True)
            words = (about.description or "").partition("Default: ")[2].partition(";")[0].rstrip(".")
            said = f"default: {words}" if words and words != "none" else "default"
            yield Origin(here, default, Given(default, said), note="none" if default is None else "")


def place(given: Given) -> str:
    """Return where a value is written, in words."""
    if given.at is None:
        return given.origin
    return str(given.at) if given.origin == EXTRA else f"{given.at} ({given.origin})"
