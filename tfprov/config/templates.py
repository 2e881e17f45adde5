"""Jinja2 in values: sandboxed, strict about undefined variables, and never rendered twice.

A variable may refer to others (`{{ data_root }}/train`); each is rendered when it is first asked for, so their order in
the file does not matter and a circle is an error instead of a hang.
"""

import re
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Any

from tfprov.config.secrets import mentions_secret
from tfprov.config.yaml import MAX_DEPTH
from tfprov.errors import InvalidInput, Position, Problem, shown
from tfprov.model.inventory import NAMESPACE
from tfprov.model.node import Items, Mapping, Node, plain

DEFINE = "define it under `vars:` or give it with `-e`"
"""What to do about a variable that is not there."""


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
    """The variables a template can use, rendered lazily; `special` are values that are no templates."""

    def __init__(self, nodes: Mapping, special: AbstractMapping[str, Any]) -> None:
        self._nodes, self._special = nodes, dict(special)
        self._done: dict[str, Any] = {}
        self._doing: list[str] = []

    def __getitem__(self, name: str) -> Any:
        if name in self._special:
            return self._special[name]
        if name not in self._nodes.entries:
            return _functions()[name]
        if name not in self._done:
            self._done[name] = self._render(name)
        return self._done[name]

    def _render(self, name: str) -> Any:
        node = self._nodes.entries[name]
        if name in self._doing:
            circle = " -> ".join([*self._doing[self._doing.index(name) :], name])
            what = f"variables refer to each other in a circle: {shown(circle)}"
            fix = "give the value a name of its own under `vars:`" if name == NAMESPACE else "give one a plain value"
            raise InvalidInput([Problem(node.at, what, fix)])
        if len(self._doing) >= MAX_DEPTH:
            what = f"variables refer to each other over more than {MAX_DEPTH} steps"
            raise InvalidInput([Problem(node.at, what, "shorten the chain")])
        self._doing.append(name)
        try:
            return plain(render(node, self))
        except InvalidInput:
            if not mentions_secret(name):
                raise
            raise self._secretly(name, node) from None
        finally:
            self._doing.pop()

    def _secretly(self, name: str, node: Node) -> InvalidInput:
        """Say that the template of a password fails, and no word of it but the name of a variable that is not there."""
        asked = re.fullmatch(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", str(plain(node)))
        if asked and asked[1] not in self:
            return InvalidInput([Problem(node.at, f"undefined variable `{asked[1]}`", DEFINE)])
        fix = "correct the template, or write `!unsafe` before a password with braces"
        return InvalidInput([Problem(node.at, f"the template in `{shown(name)}` fails", fix)])

    def __iter__(self) -> Iterator[str]:
        return iter({**self._nodes.entries, **self._special})

    def __len__(self) -> int:
        return len({**self._nodes.entries, **self._special})

    def __contains__(self, name: object) -> bool:
        return name in self._special or name in self._nodes.entries or name in _functions()

    def with_special(self, **values: Any) -> "Variables":
        """Return these variables and `values`."""
        return Variables(self._nodes, {**self._special, **values})


def _functions() -> AbstractMapping[str, Any]:
    """Return what Jinja2 itself gives every template."""
    from tfprov.config.rendering import environment  # noqa: PLC0415  see render

    return environment.globals


def is_template(text: object) -> bool:
    """Whether `text` has anything for Jinja2 to do."""
    return isinstance(text, str) and ("{{" in text or "{%" in text or "{#" in text)


def render(node: Node, variables: AbstractMapping[str, Any], faults: Faults | None = None) -> Node:
    """Return `node` with every template in it rendered; what a template computes stands where the template stood.

    With `faults`, templates that fail are collected there and left as they are, instead of raising at the first.
    """
    if isinstance(node, Mapping):
        rendered = {key: render(value, variables, faults) for key, value in node.entries.items()}
        return Mapping(rendered, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(render(item, variables, faults) for item in node.items), node.at)
    if node.literal or not is_template(node.data):
        return node
    # Here, because most inventories have few templates or none, and Jinja2 takes a while to import.
    from tfprov.config.rendering import computed  # noqa: PLC0415

    try:
        return computed(node.data, variables, node.at)
    except InvalidInput as error:
        if faults is None:
            raise
        faults.include(error, node.at)
        return node
