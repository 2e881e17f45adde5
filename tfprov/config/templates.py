"""Jinja2 in values: sandboxed, strict about undefined variables, and never rendered twice.

A variable may refer to others (`{{ data_root }}/train`); each is rendered when it is first asked for, so their order in
the file does not matter and a circle is an error instead of a hang.
"""

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, Undefined
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.node import Items, Mapping, Node, plain, wrap


class _Environment(ImmutableSandboxedEnvironment):
    # Keeps the type of a value that is nothing but one expression: `port: "{{ base + 1 }}"` is a number, as in Ansible.
    code_generator_class = NativeCodeGenerator


_environment = _Environment(undefined=StrictUndefined, keep_trailing_newline=True)
MAX_OUTPUT = 1_000_000


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
            return _environment.globals[name]
        if name not in self._done:
            self._done[name] = self._render(name)
        return self._done[name]

    def _render(self, name: str) -> Any:
        node = self._nodes.entries[name]
        if name in self._doing:
            circle = " -> ".join([*self._doing[self._doing.index(name) :], name])
            raise InvalidInput([Problem(node.at, f"variables refer to each other in a circle: {circle}", "break it")])
        self._doing.append(name)
        try:
            return plain(render(node, self))
        finally:
            self._doing.pop()

    def __iter__(self) -> Iterator[str]:
        return iter({**self._nodes.entries, **self._special})

    def __len__(self) -> int:
        return len({**self._nodes.entries, **self._special})

    def __contains__(self, name: object) -> bool:
        return name in self._special or name in self._nodes.entries or name in _environment.globals

    def with_special(self, **values: Any) -> "Variables":
        """Return these variables and `values`."""
        return Variables(self._nodes, {**self._special, **values})


def is_template(text: object) -> bool:
    """Whether `text` has anything for Jinja2 to do."""
    return isinstance(text, str) and ("{{" in text or "{%" in text or "{#" in text)


def render(node: Node, variables: AbstractMapping[str, Any]) -> Node:
    """Return `node` with every template in it rendered; what a template computes stands where the template stood."""
    if isinstance(node, Mapping):
        rendered = {key: render(value, variables) for key, value in node.entries.items()}
        return Mapping(rendered, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(render(item, variables) for item in node.items), node.at)
    if node.literal or not is_template(node.data):
        return node
    return wrap(render_text(node.data, variables, node.at), node.at)


def render_text(text: str, variables: AbstractMapping[str, Any], at: Position) -> Any:
    """Return what `text` renders to; InvalidInput names `at` for anything that goes wrong in it."""
    try:
        template = _environment.from_string(text)
        pieces = list(template.root_render_func(template.new_context(variables, shared=True)))  # type: ignore[arg-type]
        if len(pieces) == 1:
            return _defined(pieces[0])
        return "".join(str(_defined(piece)) for piece in pieces)[:MAX_OUTPUT]
    except InvalidInput:
        raise
    except TemplateError as error:
        raise InvalidInput([Problem(at, *_explain(error))]) from None
    except Exception as error:  # a template can raise anything its expressions can
        raise InvalidInput([Problem(at, f"the template failed: {error}", "correct the expression")]) from None


def _defined(piece: Any) -> Any:
    if isinstance(piece, Undefined):
        str(piece)  # StrictUndefined raises here, with the variable's name
    return piece


def _explain(error: TemplateError) -> tuple[str, str]:
    kind = type(error).__name__
    message = (error.message or "").rstrip(".")
    if kind == "UndefinedError":
        return f"undefined variable: {message}", "define it under `vars:` or give it with `-e`"
    if kind == "SecurityError":
        return f"the template sandbox forbids this: {message}", "use plain variables and filters"
    return f"not a valid template: {message}", "check the braces and quotes"


def check(node: Node, problems: list[Problem]) -> None:
    """Add a problem for every template in `node` that cannot be parsed, without rendering it."""
    if isinstance(node, Mapping | Items):
        for child in node.entries.values() if isinstance(node, Mapping) else node.items:
            check(child, problems)
    elif not node.literal and is_template(node.data):
        try:
            _environment.parse(node.data)
        except TemplateError as error:
            problems.append(Problem(node.at, *_explain(error)))
