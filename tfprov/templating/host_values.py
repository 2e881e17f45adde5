"""Jinja2 in values: sandboxed, strict about undefined variables, and never rendered twice.

A variable may refer to others (`{{ data_root }}/train`); each is rendered when it is first asked for, so their order in
the file does not matter and a circle is an error instead of a hang.
"""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tfprov.errors import InvalidInput, Position, Problem, shown
from tfprov.model.node import Items, Mapping, Node, Scalar, Sealed, plain, scalars, secretly, unsealed
from tfprov.model.secrets import is_ansible_password
from tfprov.templating.errors import DEFINE, Missing, Omitted
from tfprov.templating.lazy_values import SeenItems, SeenMapping
from tfprov.vault.decrypt import DecryptionError
from tfprov.vault.redaction import Reads, mentions_secret
from tfprov.yamltext.load import MAX_DEPTH

_ALL = "*"
"""Is asked for in place of a name when a template goes through all variables."""


@dataclass
class Faults:
    """Problems found so far, and where the values stand that are no values because of them."""

    problems: list[Problem] = field(default_factory=list)
    at: set[Position] = field(default_factory=set)

    def include(self, error: InvalidInput, at: Position) -> None:
        """Add what `error` says about the value at `at`."""
        self.problems.extend(error.problems)
        self.at.add(at)

    def add(self, at: Position, what: str, fix: str) -> None:
        """Add a problem of the value at `at`."""
        self.problems.append(Problem(at, what, fix))
        self.at.add(at)


class Variables(AbstractMapping[str, Any]):
    """The variables of a host, each rendered when a template first asks for it.

    `special` are values that are no templates. Below the directories `readable`, as below that of the inventory, templates
    may look up files. `trail` is what is being rendered at the moment, of all hosts that can
    refer to each other: it tells a circle from a long way.
    """

    def __init__(
        self,
        nodes: Mapping,
        special: AbstractMapping[str, Any],
        trail: list[tuple[int, int, str]] | None = None,
        readable: tuple[str, ...] = (),
    ) -> None:
        self.readable = readable
        self._nodes, self._special = nodes, dict(special)
        self._done: dict[int, tuple[Any, bool, set[str]]] = {}
        self._trail = [] if trail is None else trail
        self._asked: list[set[str]] = [set()]

    def __getitem__(self, name: str) -> Any:
        self._asked[-1].add(name)
        if name in self._special:
            return self._special[name]
        return self._seen(self._nodes.entries[name], name)

    def _seen(self, node: Node, way: str) -> Any:
        if isinstance(node, Mapping):
            return SeenMapping(node, self._seen, way)
        if isinstance(node, Items):
            return SeenItems(node, self._seen, way)
        if not isinstance(node.data, Sealed) and (node.literal or not is_template(node.data)):
            value, secret = node.data, node.secret
        else:
            if id(node) not in self._done:
                with self.recorded() as names:
                    self._done[id(node)] = *self._rendered(node, way), names
            value, secret, names = self._done[id(node)]
            self._asked[-1] |= names
        if secret or is_ansible_password(way):
            Reads.note()
        return value

    def _rendered(self, node: Scalar, way: str) -> tuple[Any, bool]:
        step = (id(self), id(node), way)
        self._check_way(step, node.at)
        self._trail.append(step)
        try:
            rendered = render(node, self)
        except Missing as error:
            return _missing(error if not mentions_secret(way) else self._secretly(way, node, error)), False
        except InvalidInput as error:
            if isinstance(error, DecryptionError) or not mentions_secret(way):
                raise
            raise self._secretly(way, node, error) from None
        finally:
            self._trail.pop()
        return plain(rendered), any(value.secret for value in scalars(rendered))

    def _check_way(self, step: tuple[int, int, str], at: Position) -> None:
        before = [one[:2] for one in self._trail]
        if step[:2] in before:
            names = [name for _, _, name in self._trail[before.index(step[:2]) :]]
            circle = " -> ".join([*names, step[2]])
            what = f"variables refer to each other in a circle: {shown(circle)}"
            raise InvalidInput([Problem(at, what, "give one a plain value")])
        if len(before) >= MAX_DEPTH:
            what = f"variables refer to each other over more than {MAX_DEPTH} steps"
            raise InvalidInput([Problem(at, what, "shorten the chain")])

    def _secretly(self, way: str, node: Scalar, error: InvalidInput) -> InvalidInput:
        """Say that the template of a password fails, and no word of it but the name of a variable that is not there."""
        asked = re.fullmatch(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", str(node.data))
        if asked and asked[1] not in self:
            return type(error)([Problem(node.at, f"undefined variable `{asked[1]}`", DEFINE)])
        fix = "correct the template, or write `!unsafe` before a password with braces"
        return type(error)([Problem(node.at, f"the template in `{shown(way)}` fails", fix)])

    def __iter__(self) -> Iterator[str]:
        self._asked[-1].add(_ALL)
        return iter({**self._nodes.entries, **self._special})

    def __len__(self) -> int:
        return len({**self._nodes.entries, **self._special})

    def __contains__(self, name: object) -> bool:
        self._asked[-1].add(str(name))
        return name in self._special or name in self._nodes.entries

    def with_special(self, **values: Any) -> "Variables":
        """Return these variables and `values`."""
        found = Variables(self._nodes, {**self._special, **values}, self._trail, self.readable)
        found._asked = self._asked  # what is asked of it is asked of these
        return found

    @contextmanager
    def recorded(self) -> Iterator[set[str]]:
        """Collect the names that are asked for meanwhile, whether there is something of that name or not."""
        self._asked.append(set())
        try:
            yield self._asked[-1]
        finally:
            names = self._asked.pop()
            self._asked[-1] |= names

    def agrees(self, other: "Variables", names: Iterable[str]) -> bool:
        """Whether each of `names` means here what it means to `other`, as it is written."""
        return all(name != _ALL and _is_same(self.meaning(name), other.meaning(name)) for name in names)

    def meaning(self, name: str) -> object:
        """Return what `name` stands for, unrendered; None for nothing."""
        return self._special[name] if name in self._special else self._nodes.entries.get(name)


def _is_same(one: object, other: object) -> bool:
    return one is other or one == other


def _missing(error: InvalidInput) -> Any:
    """Return what a template sees of a variable whose own template asks for one that is not there."""
    from tfprov.templating.sandbox import Unknown  # noqa: PLC0415  see _computed

    return Unknown(hint=str(error), exc=lambda _: error)  # type: ignore[arg-type]


def is_template(text: object) -> bool:
    """Whether `text` has anything for Jinja2 to do."""
    return isinstance(text, str) and ("{{" in text or "{%" in text or "{#" in text)


def render(node: Node, variables: AbstractMapping[str, Any], faults: Faults | None = None) -> Node:
    """Return `node` with every template in it rendered; what a template computes stands where the template stood.

    With `faults`, templates that fail are collected there and left as they are, instead of raising at the first. What is
    encrypted is opened, and what is computed from a secret is one.
    """
    try:
        return _render(node, variables, faults)
    except InvalidInput as error:
        if faults is None:
            raise
        faults.include(error, node.at)
        return node


def _render(node: Node, variables: AbstractMapping[str, Any], faults: Faults | None) -> Node:
    if isinstance(node, Mapping):
        entries: dict[str, Node] = {}
        for key, value in node.entries.items():
            with suppress(Omitted):
                entries[key] = _render(value, variables, faults)
        return Mapping(entries, node.at, node.keys)
    if isinstance(node, Items):
        items: list[Node] = []
        for value in node.items:
            with suppress(Omitted):
                items.append(_render(value, variables, faults))
        return Items(tuple(items), node.at)
    if not isinstance(node.data, Sealed) and (node.literal or not is_template(node.data)):
        return node
    try:
        return unsealed(node) if isinstance(node.data, Sealed) else _computed(node, variables)
    except Omitted:
        raise
    except InvalidInput as error:
        if faults is None:
            raise
        faults.include(error, node.at)
        return node


def is_secret(node: Node, variables: AbstractMapping[str, Any]) -> bool:
    """Whether `node` is encrypted, or computed from something that is."""
    return any(value.secret for value in scalars(render(node, variables, Faults())))


def opened(node: Node, faults: Faults) -> Node:
    """Return `node` with every encrypted value in it opened, and no template rendered; what stays closed is in `faults`."""
    if isinstance(node, Mapping):
        return Mapping({key: opened(value, faults) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(opened(item, faults) for item in node.items), node.at)
    try:
        return unsealed(node)
    except InvalidInput as error:
        faults.include(error, node.at)
        return node


def _computed(node: Scalar, variables: AbstractMapping[str, Any]) -> Node:
    # Here, because most inventories have few templates or none, and Jinja2 takes a while to import.
    from tfprov.templating.render import computed  # noqa: PLC0415

    before = Reads.count
    try:
        found = computed(node.data, variables, node.at)
    except (DecryptionError, Omitted):
        raise
    except InvalidInput as error:
        if not node.secret and Reads.count == before:
            raise
        # What Jinja2 has to say may repeat the secret.
        fix = "correct the expression; the reason could repeat the secret"
        own = Problem(node.at, "a template that uses a secret fails", fix)
        raise type(error)(own if problem.at == node.at else problem for problem in error.problems) from None
    return secretly(found) if node.secret or Reads.count != before else found
