"""The variables of a host as templates see them, and the rendering of values.

Templates are sandboxed, strict about undefined variables, and never rendered twice. A variable may refer to others
(`{{ data_root }}/train`); each is rendered when a template first uses it, so their order in the file does not matter,
and a circle is an error instead of a hang.
"""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tfprov.errors import InvalidInput, Position, Problem, printable
from tfprov.model.yaml_node import (
    EncryptedValue,
    Items,
    Mapping,
    Node,
    Scalar,
    decrypt_values,
    mark_secret,
    plain,
    scalars,
)
from tfprov.templating.errors import DEFINE, OmittedValue, UndefinedVariable
from tfprov.templating.lazy_values import LazyList, LazyMapping
from tfprov.vault.decrypt import DecryptionError
from tfprov.vault.redaction import is_ansible_password, mentions_secret
from tfprov.yamltext.load import MAX_DEPTH

_ALL = "*"
"""Recorded in place of a name when a template iterates over all variables."""


@dataclass
class TemplateProblems:
    """The problems so far, and the positions of the values that they make invalid."""

    problems: list[Problem] = field(default_factory=list)
    at: set[Position] = field(default_factory=set)

    def include(self, error: InvalidInput, at: Position) -> None:
        """Add the problems of `error`, which the value at `at` raised."""
        self.problems.extend(error.problems)
        self.at.add(at)

    def add(self, at: Position, what: str, fix: str) -> None:
        """Add a problem of the value at `at`."""
        self.problems.append(Problem(at, what, fix))
        self.at.add(at)


@dataclass
class SecretUse:
    """Whether a rendering has read a secret."""

    used: bool = False


class RenderState:
    """State that the variables of all hosts of an inventory share, because they can refer to each other.

    `trail` has the variables that are being rendered, outermost first, which tells a circle from a long chain.
    """

    def __init__(self) -> None:
        self.trail: list[tuple[int, int, str]] = []
        self._uses = [SecretUse()]

    def note_secret(self) -> None:
        """Record that the current rendering reads a secret."""
        self._uses[-1].used = True

    @contextmanager
    def watch_secrets(self) -> Iterator[SecretUse]:
        """Record whether a secret is read meanwhile, by this rendering or by one inside it, of whatever host."""
        inner = SecretUse()
        self._uses.append(inner)
        try:
            yield inner
        finally:
            self._uses.pop()
            self._uses[-1].used |= inner.used


class Variables(AbstractMapping[str, Any]):
    """The variables of a host, each rendered when a template first uses it.

    `special` are values that are not templates. Templates may look up files below the directories `lookup_dirs`, and
    below that of the inventory. `state` is shared with the variables of all hosts that can refer to each other.
    """

    def __init__(
        self,
        nodes: Mapping,
        special: AbstractMapping[str, Any],
        state: RenderState | None = None,
        lookup_dirs: tuple[str, ...] = (),
    ) -> None:
        self.lookup_dirs = lookup_dirs
        self.state = state or RenderState()
        self._nodes, self._special = nodes, dict(special)
        self._rendered: dict[int, tuple[Any, bool, set[str]]] = {}
        self._recorders: list[set[str]] = [set()]

    def __getitem__(self, name: str) -> Any:
        self._recorders[-1].add(name)
        if name in self._special:
            return self._special[name]
        return self._value(self._nodes.entries[name], name)

    def _value(self, node: Node, path: str) -> Any:
        if isinstance(node, Mapping):
            return LazyMapping(node, self._value, path)
        if isinstance(node, Items):
            return LazyList(node, self._value, path)
        if not isinstance(node.data, EncryptedValue) and (node.literal or not is_template(node.data)):
            value, secret = node.data, node.secret
        else:
            if id(node) not in self._rendered:
                with self.recorded() as names:
                    self._rendered[id(node)] = *self._render(node, path), names
            value, secret, names = self._rendered[id(node)]
            self._recorders[-1] |= names
        if secret or is_ansible_password(path):
            self.state.note_secret()
        return value

    def _render(self, node: Scalar, path: str) -> tuple[Any, bool]:
        """Return the value of a template or an encrypted value, and whether it is secret."""
        step = (id(self), id(node), path)
        self._check_trail(step, node.at)
        self.state.trail.append(step)
        try:
            rendered = render(node, self)
        except UndefinedVariable as error:
            return _undefined(error if not mentions_secret(path) else self._redacted(path, node, error)), False
        except InvalidInput as error:
            if isinstance(error, DecryptionError) or not mentions_secret(path):
                raise
            raise self._redacted(path, node, error) from None
        finally:
            self.state.trail.pop()
        return plain(rendered), any(value.secret for value in scalars(rendered))

    def _check_trail(self, step: tuple[int, int, str], at: Position) -> None:
        trail = self.state.trail
        values = [outer[:2] for outer in trail]
        if step[:2] in values:
            names = [name for _, _, name in trail[values.index(step[:2]) :]]
            circle = " -> ".join([*names, step[2]])
            what = f"variables refer to each other in a circle: {printable(circle)}"
            raise InvalidInput([Problem(at, what, "give one a plain value")])
        if len(trail) >= MAX_DEPTH:
            what = f"variables refer to each other over more than {MAX_DEPTH} steps"
            raise InvalidInput([Problem(at, what, "shorten the chain")])

    def _redacted(self, path: str, node: Scalar, error: InvalidInput) -> InvalidInput:
        """Return an error about the template of a password that repeats nothing but the name of an undefined variable."""
        name = re.fullmatch(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", str(node.data))
        if name and name[1] not in self:
            return type(error)([Problem(node.at, f"undefined variable `{name[1]}`", DEFINE)])
        fix = "correct the template, or write `!unsafe` before a password with braces"
        return type(error)([Problem(node.at, f"the template in `{printable(path)}` fails", fix)])

    def __iter__(self) -> Iterator[str]:
        self._recorders[-1].add(_ALL)
        return iter({**self._nodes.entries, **self._special})

    def __len__(self) -> int:
        return len({**self._nodes.entries, **self._special})

    def __contains__(self, name: object) -> bool:
        self._recorders[-1].add(str(name))
        return name in self._special or name in self._nodes.entries

    def with_variables(self, **values: Any) -> "Variables":
        """Return these variables and `values`, which win."""
        copy = Variables(self._nodes, {**self._special, **values}, self.state, self.lookup_dirs)
        copy._recorders = self._recorders  # names that the copy looks up count as looked up here
        return copy

    @contextmanager
    def recorded(self) -> Iterator[set[str]]:
        """Collect the names that are looked up meanwhile, whether a variable has that name or not."""
        self._recorders.append(set())
        try:
            yield self._recorders[-1]
        finally:
            names = self._recorders.pop()
            self._recorders[-1] |= names

    def agrees_with(self, other: "Variables", names: Iterable[str]) -> bool:
        """Whether each of `names` has the same unrendered value here and in `other`."""
        return all(name != _ALL and _is_same(self.raw_value(name), other.raw_value(name)) for name in names)

    def raw_value(self, name: str) -> object:
        """Return the unrendered value of `name`; None without such a variable."""
        return self._special[name] if name in self._special else self._nodes.entries.get(name)


def _is_same(left: object, right: object) -> bool:
    return left is right or left == right


def _undefined(error: InvalidInput) -> Any:
    """Return the undefined value of a variable whose own template uses an undefined variable."""
    from tfprov.templating.sandbox import Unknown  # noqa: PLC0415  see _compute

    return Unknown(hint=str(error), exc=lambda _: error)  # type: ignore[arg-type]


def is_template(text: object) -> bool:
    """Whether `text` holds Jinja2 syntax."""
    return isinstance(text, str) and ("{{" in text or "{%" in text or "{#" in text)


def render(node: Node, variables: Variables, faults: TemplateProblems | None = None) -> Node:
    """Return `node` with every template rendered and every encrypted value decrypted; positions stay the template's.

    A value computed from a secret is secret. With `faults`, a template that fails is left as it is and its problems go
    there; without, the first one raises InvalidInput.
    """
    try:
        return _render(node, variables, faults)
    except InvalidInput as error:
        if faults is None:
            raise
        faults.include(error, node.at)
        return node


def _render(node: Node, variables: Variables, faults: TemplateProblems | None) -> Node:
    if isinstance(node, Mapping):
        entries: dict[str, Node] = {}
        for key, value in node.entries.items():
            with suppress(OmittedValue):
                entries[key] = _render(value, variables, faults)
        return Mapping(entries, node.at, node.keys)
    if isinstance(node, Items):
        items: list[Node] = []
        for value in node.items:
            with suppress(OmittedValue):
                items.append(_render(value, variables, faults))
        return Items(tuple(items), node.at)
    if not isinstance(node.data, EncryptedValue) and (node.literal or not is_template(node.data)):
        return node
    try:
        return decrypt_values(node) if isinstance(node.data, EncryptedValue) else _compute(node, variables)
    except OmittedValue:
        raise
    except InvalidInput as error:
        if faults is None:
            raise
        faults.include(error, node.at)
        return node


def is_secret(node: Node, variables: Variables) -> bool:
    """Whether `node` is encrypted, or computed from a secret."""
    return any(value.secret for value in scalars(render(node, variables, TemplateProblems())))


def decrypt_node(node: Node, faults: TemplateProblems) -> Node:
    """Return `node` with every encrypted value decrypted and no template rendered; failures go into `faults`."""
    if isinstance(node, Mapping):
        return Mapping({key: decrypt_node(value, faults) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(decrypt_node(item, faults) for item in node.items), node.at)
    try:
        return decrypt_values(node)
    except InvalidInput as error:
        faults.include(error, node.at)
        return node


def _compute(node: Scalar, variables: Variables) -> Node:
    # Here, because most inventories have few templates or none, and Jinja2 takes a while to import.
    from tfprov.templating.render import render_node  # noqa: PLC0415

    with variables.state.watch_secrets() as secrets:
        try:
            rendered = render_node(node.data, variables, node.at)
        except (DecryptionError, OmittedValue):
            raise
        except InvalidInput as error:
            if not node.secret and not secrets.used:
                raise
            # Jinja2's message may repeat the secret.
            fix = "correct the expression; the reason could repeat the secret"
            own = Problem(node.at, "a template that uses a secret fails", fix)
            raise type(error)(own if problem.at == node.at else problem for problem in error.problems) from None
    return mark_secret(rendered) if node.secret or secrets.used else rendered
