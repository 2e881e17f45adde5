"""Jinja2 in values: sandboxed, strict about undefined variables, and never rendered twice.

A variable may refer to others (`{{ data_root }}/train`); each is rendered when it is first asked for, so their order in
the file does not matter and a circle is an error instead of a hang.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, Undefined, UndefinedError
from jinja2.exceptions import SecurityError

from tfprov.config.sandbox import MAX_OUTPUT, TOO_LARGE, Sandbox
from tfprov.config.secrets import mentions_secret
from tfprov.config.yaml import MAX_DEPTH
from tfprov.errors import InvalidInput, Position, Problem, one_line, shown
from tfprov.model.inventory import NAMESPACE
from tfprov.model.node import Items, Mapping, Node, Scalar, plain

_environment = Sandbox()
_DEFINE = "define it under `vars:` or give it with `-e`"
_MAX_ELEMENTS = 100_001
"""Of all lists and mappings in a value: as many as the longest range has."""


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
            return _environment.globals[name]
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
            return InvalidInput([Problem(node.at, f"undefined variable `{asked[1]}`", _DEFINE)])
        fix = "correct the template, or write `!unsafe` before a password with braces"
        return InvalidInput([Problem(node.at, f"the template in `{shown(name)}` fails", fix)])

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
    try:
        return _Computed(node.at).node(render_text(node.data, variables, node.at))
    except InvalidInput as error:
        if faults is None:
            raise
        faults.include(error, node.at)
        return node


def render_text(text: str, variables: AbstractMapping[str, Any], at: Position) -> Any:
    """Return what `text` renders to; InvalidInput names `at` for anything that goes wrong in it."""
    try:
        template = _compiled(text)
        _environment.steps = 0
        context = template.new_context(variables, shared=True)  # type: ignore[arg-type]
        return _joined(template.root_render_func(context))
    except InvalidInput:
        raise
    except UndefinedError as error:
        raise InvalidInput([Problem(at, *_undefined(error, variables))]) from None
    except TemplateError as error:
        raise InvalidInput([Problem(at, *_explain(error))]) from None
    except Exception as error:  # a template can raise anything its expressions can
        reason = "templates cannot include files" if "no loader" in str(error) else one_line(str(error))
        what = f"the template failed: {reason or type(error).__name__}"
        raise InvalidInput([Problem(at, what, "correct the expression")]) from None


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Template:
    return _environment.from_string(text)  # half a millisecond: a thousand hosts share most of their templates


def _joined(pieces: Iterator[Any]) -> Any:
    """Return the one piece there is as it is, else all of them as text."""
    found: list[Any] = []
    size = 0
    for piece in pieces:
        found.append(_defined(piece) if not found else str(_defined(piece)))
        size += len(piece) if isinstance(piece, str) else 1
        if size > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
    return found[0] if len(found) == 1 else "".join(map(str, found))


def _defined(piece: Any) -> Any:
    if isinstance(piece, Undefined):
        str(piece)  # StrictUndefined raises here, with the variable's name
    return piece


class _Computed:
    """Turns what a template computed into nodes at one place, within the bounds that hold for what is written out."""

    def __init__(self, at: Position) -> None:
        self.at, self.left = at, _MAX_ELEMENTS

    def node(self, data: Any, depth: int = 0) -> Node:
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise self.refused("a list or mapping that is too large or too deep", "make it smaller")
        if isinstance(data, dict):
            keys = {str(key): Scalar(key, self.at, str(key), quoted=True) for key in data}
            entries = {str(key): self.node(value, depth + 1) for key, value in data.items()}
            return Mapping(entries, self.at, keys)
        if isinstance(data, list | tuple):
            return Items(tuple(self.node(item, depth + 1) for item in data), self.at)
        if isinstance(data, Undefined):
            raise self.refused(*_undefined(UndefinedError(data._undefined_message), {}))  # noqa: SLF001  no other way
        if data is None or isinstance(data, str | int | float | date):
            return Scalar(data, self.at, str(data), quoted=True)
        fix = "call it with `()`" if callable(data) else "add `| list`" if isinstance(data, Iterable) else "correct it"
        raise self.refused(f"a {'function' if callable(data) else type(data).__name__}, which is no value", fix)

    def refused(self, what: str, fix: str) -> InvalidInput:
        said = what if what.startswith(("undefined", "nothing")) else f"the template renders to {what}"
        return InvalidInput([Problem(self.at, said, fix)])


def _undefined(error: UndefinedError, variables: AbstractMapping[str, Any]) -> tuple[str, str]:
    message = error.message or ""
    if name := re.fullmatch(r"'(.*)' is undefined", message, re.DOTALL):
        if name[1] in _LATE_NAMES:
            return f"`{name[1]}` is not known here", "use it in `command`, `flags` or `env`"
        if name[1] in _ANSIBLE_NAMES:
            return f"`{name[1]}` is Ansible's own, and not known here", "write the value out, or give it with `-e`"
        close = difflib.get_close_matches(name[1], list(variables), n=1)
        fix = f"did you mean `{shown(close[0])}`?" if close else _DEFINE
        return f"undefined variable `{shown(name[1])}`", fix
    if found := re.fullmatch(r"'?(.*?)'? has no (?:attribute|element) '?(.*?)'?", message, re.DOTALL):
        return f"no `{shown(found[2])}` in {_KINDS.get(found[1], shown(found[1]))}", "correct the name or the number"
    return f"undefined: {one_line(message)}", _DEFINE


_LATE_NAMES = ("task", "checkpoint_dir", "cluster")
_ANSIBLE_NAMES = ("lookup", "query", "hostvars", "ansible_facts", "vars", "omit", "play_hosts")
_KINDS = {"dict object": "the mapping", "list object": "the list", "str object": "the text", "int object": "the number"}


def _explain(error: TemplateError) -> tuple[str, str]:
    message = one_line(error.message or "")
    if isinstance(error, SecurityError):
        if message == TOO_LARGE:
            return f"the template renders to {message}", "make it smaller"
        return f"the template sandbox forbids this: {message}", "use plain variables and filters"
    if message.startswith(("No filter named", "No test named")):
        return f"{message[0].lower()}{message[1:]}", "use one of Jinja2's own"
    if "nexpected char" in message and ('"`"' in message or '`"`' in message):
        return "a quote in a template that is never closed", "close it"
    if "unexpected end of template" in message or "nexpected end of" in message or "Missing end of" in message:
        return "a template that is never closed", "close `{{` with `}}`, and `{%` with `%}`"
    return f"not a valid template: {message[:1].lower()}{message[1:]}", "check the braces and quotes"
