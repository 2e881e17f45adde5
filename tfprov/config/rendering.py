"""One template at a time: compiled, rendered in the sandbox, and turned into a value; or one line that says why not."""

import difflib
import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from datetime import date
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, Undefined, UndefinedError
from jinja2.exceptions import SecurityError

from tfprov.config.sandbox import MAX_OUTPUT, TOO_LARGE, Sandbox
from tfprov.config.templates import DEFINE
from tfprov.config.yaml import MAX_DEPTH
from tfprov.errors import InvalidInput, Position, Problem, one_line, shown
from tfprov.model.node import Items, Mapping, Node, Scalar

environment = Sandbox()
_MAX_ELEMENTS = 100_001
"""Of all lists and mappings in a value: as many as the longest range has."""


def computed(text: str, variables: AbstractMapping[str, Any], at: Position) -> Node:
    """Return what `text` renders to, as nodes that stand at `at`; InvalidInput for anything that goes wrong in it."""
    return _Computed(at).node(render_text(text, variables, at))


def render_text(text: str, variables: AbstractMapping[str, Any], at: Position) -> Any:
    """Return what `text` renders to; InvalidInput names `at` for anything that goes wrong in it."""
    try:
        template = _compiled(text)
        environment.steps = 0
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
    return environment.from_string(text)  # half a millisecond: a thousand hosts share most of their templates


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
        fix = f"did you mean `{shown(close[0])}`?" if close else DEFINE
        return f"undefined variable `{shown(name[1])}`", fix
    if found := re.fullmatch(r"'?(.*?)'? has no (?:attribute|element) '?(.*?)'?", message, re.DOTALL):
        return f"no `{shown(found[2])}` in {_KINDS.get(found[1], shown(found[1]))}", "correct the name or the number"
    return f"undefined: {one_line(message)}", DEFINE


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
