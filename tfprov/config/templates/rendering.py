"""One template at a time: compiled, rendered in the sandbox, and turned into a value; or one line that says why not."""

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import Any

from jinja2 import Template, TemplateError, Undefined, UndefinedError

from tfprov.config.templates.complaints import about_template, about_undefined
from tfprov.config.templates.limits import Expired, Limits
from tfprov.config.templates.lookups import OMIT
from tfprov.config.templates.sandbox import Sandbox
from tfprov.config.templates.seen import SeenItems
from tfprov.config.templates.values import Missing, Omitted
from tfprov.config.text.yaml import MAX_DEPTH
from tfprov.errors import InvalidInput, Position, Problem, one_line
from tfprov.model.node import Items, Mapping, Node, Scalar

environment = Sandbox()
_LIMITS = Limits()
_MAX_ELEMENTS = 100_001
"""Of all lists and mappings in a value: as many as the longest range has."""
_SINGLE = (str, int, float, date)
_SERIES = (list, tuple, set, frozenset, SeenItems)


def computed(text: str, variables: AbstractMapping[str, Any], at: Position, limits: Limits = _LIMITS) -> Node:
    """Return what `text` renders to, as nodes that stand at `at`; InvalidInput for anything that goes wrong in it."""
    try:
        return limits.within(_computed, text, variables, at, limits)
    except Expired as error:
        raise _beyond(at, str(error)) from None


def _computed(text: str, variables: AbstractMapping[str, Any], at: Position, limits: Limits) -> Node:
    found = render_text(text, variables, at, limits)
    if found is OMIT:
        raise Omitted([Problem(at, "the template renders to `omit`, which is no value", "write `default('')`")])
    return _Computed(at, variables).node(found)


def render_text(text: str, variables: AbstractMapping[str, Any], at: Position, limits: Limits = _LIMITS) -> Any:
    """Return what `text` renders to; InvalidInput names `at` for anything that goes wrong in it."""
    outer, environment.variables = environment.variables, variables
    try:
        return limits.within(_rendered, text, variables, at)
    except Expired as error:
        raise _beyond(at, str(error)) from None
    except MemoryError:
        raise _beyond(at, limits.too_much_memory()) from None
    finally:
        environment.variables = outer


def _beyond(at: Position, what: str) -> InvalidInput:
    return InvalidInput([Problem(at, f"the template {what}", "make it simpler, or give its value with `-e`")])


def _rendered(text: str, variables: AbstractMapping[str, Any], at: Position) -> Any:
    try:
        template = _compiled(text)
        environment.steps = 0
        context = template.new_context(_Scope(variables), shared=True)  # type: ignore[arg-type]
        return _ended(text, _defined(environment.concat(template.root_render_func(context))))
    except InvalidInput:
        raise
    except UndefinedError as error:
        raise Missing([Problem(at, *about_undefined(error, variables))]) from None
    except TemplateError as error:
        raise InvalidInput([Problem(at, *about_template(error, environment))]) from None
    except MemoryError:
        raise
    except Exception as error:  # a template can raise anything its expressions can
        reason = "templates cannot include files" if "no loader" in str(error) else one_line(str(error))
        what = f"the template failed: {reason or type(error).__name__}"
        raise InvalidInput([Problem(at, what, "correct the expression")]) from None


class _Scope(AbstractMapping[str, Any]):
    """The names a template can use: variables, and below them what every template has."""

    def __init__(self, variables: AbstractMapping[str, Any]) -> None:
        self.variables = variables

    def __getitem__(self, name: str) -> Any:
        return self.variables[name] if name in self.variables else environment.globals[name]

    def __contains__(self, name: object) -> bool:
        return name in self.variables or name in environment.globals

    def __iter__(self) -> Iterator[str]:
        return iter({**environment.globals, **dict.fromkeys(self.variables)})

    def __len__(self) -> int:
        return len(list(iter(self)))


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Template:
    return environment.from_string(text)  # half a millisecond: a thousand hosts share most of their templates


def _ended(template: str, result: Any) -> Any:
    """Return a text with the line breaks at its end that its template has there, and Jinja2 takes away."""
    if not isinstance(result, str):
        return result
    lost = len(template) - len(template.rstrip("\n")) - (len(result) - len(result.rstrip("\n")))
    return result + "\n" * lost


def _defined(piece: Any) -> Any:
    if isinstance(piece, Undefined):
        str(piece)  # StrictUndefined raises here, with the variable's name
    return piece


class _Computed:
    """Turns what a template computed into nodes at one place, within the bounds that hold for what is written out."""

    def __init__(self, at: Position, variables: AbstractMapping[str, Any]) -> None:
        self.at, self.left, self.variables = at, _MAX_ELEMENTS, variables

    def node(self, data: Any, depth: int = 0) -> Node:
        """Return `data` as a node; what is `omit` in it is left out."""
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise self.refused("a list or mapping that is too large or too deep", "make it smaller")
        if data is None or isinstance(data, _SINGLE):
            return Scalar(data, self.at, str(data), quoted=True)
        if isinstance(data, AbstractMapping):
            keys = {str(key): Scalar(key, self.at, str(key), quoted=isinstance(key, str)) for key in data}
            entries = {str(key): self.node(value, depth + 1) for key, value in data.items() if value is not OMIT}
            return Mapping(entries, self.at, keys)
        if isinstance(data, Iterator):
            data = list(islice(data, self.left + 1))
        if isinstance(data, _SERIES):
            return Items(tuple(self.node(item, depth + 1) for item in data if item is not OMIT), self.at)
        if isinstance(data, Undefined):
            raise self.undefined(data)
        kind = "function" if callable(data) else type(data).__name__
        raise self.refused(f"a {kind}, which is no value", "call it with `()`" if callable(data) else "correct it")

    def undefined(self, data: Undefined) -> InvalidInput:
        try:
            str(data)
        except UndefinedError as error:
            return Missing([Problem(self.at, *about_undefined(error, self.variables))])
        except InvalidInput as error:  # of a variable whose own template fails
            return error
        raise AssertionError("a StrictUndefined raises whenever it is used")

    def refused(self, what: str, fix: str) -> InvalidInput:
        return InvalidInput([Problem(self.at, f"the template renders to {what}", fix)])
