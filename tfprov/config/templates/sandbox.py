"""Jinja2 without reach, and without weight: a template computes a value, it does not fill the memory.

Jinja2's own sandbox forbids attributes that lead out of it and ranges above 100 000. What it lets through is size:
`{{ 'a' * 10**9 }}`, `{{ 10**10**9 }}`, `{{ 'a'.ljust(10**9) }}`, texts joined to twice their size again and again, and
loops in loops. Ansible's own filters and tests are imported when a template uses one.
"""

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, nodes, pass_eval_context
from jinja2.compiler import Frame
from jinja2.exceptions import SecurityError
from jinja2.lexer import TOKEN_STRING, TOKEN_VARIABLE_BEGIN, TOKEN_VARIABLE_END, Lexer, Token
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tfprov.config.templates.lookups import OMIT, lookup, query
from tfprov.config.templates.seen import SeenItems, whole

MAX_OUTPUT = 1_000_000
"""Characters or elements of a value: as much as a whole inventory may have."""
TOO_LARGE = "a value of more than 1,000,000 characters or elements"
_MAX_BITS = 1024
_PADDING = ("center", "ljust", "rjust", "zfill", "expandtabs")
_WIDTH = re.compile(r"\d{7}")
_WIDTH_OF_A_VALUE = re.compile(r"(?<!%)(?:%%)*%[-+ #0\d.]*\*|\{[^{}]*\{")
"""A format whose width is a value: `%*d`, or `{:{}}`."""
_COLLECTION = re.compile(r"ansible\.(?:builtin|legacy)\.")


class _Table(dict[str, Any]):
    """Filters or tests by name: Jinja2's own, and Ansible's from a module that is imported when one is asked for."""

    def __init__(self, own: dict[str, Any], module: str) -> None:
        super().__init__(own)
        self._module = module

    def __missing__(self, name: str) -> Any:
        if self._module:
            module, self._module = importlib.import_module(self._module), ""
            self.update(module.TABLE)
            return self[name]
        short = _COLLECTION.sub("", name, count=1)
        if short == name:
            raise KeyError(name)
        return self[short]

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return what is called `name`, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default


class _Generator(NativeCodeGenerator):
    """Keeps the type of a value that is nothing but one expression: `"{{ base + 1 }}"` is a number, as in Ansible."""

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        # Jinja2 makes text of a constant, even of one that stands alone.
        values = list(group)
        return repr(values[0]) if len(values) == 1 else super()._output_const_repr(values)

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> Any:
        # What is nothing leaves no text, which is seen when the pieces are joined.
        if (found := super()._output_child_to_const(node, frame, finalize)) is None:
            raise nodes.Impossible
        return found

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802  as in Jinja2
        """Have `~` checked, which is no operator that could be intercepted."""
        self.write("environment.concatenated((")
        for operand in node.nodes:
            self.visit(operand, frame)
            self.write(", ")
        self.write("))")


class Unknown(StrictUndefined):
    """What is not there: any use of it fails, but `| default(…)`, of what would be in it as well."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _name: Any) -> Any:
        return self


class _Lexer(Lexer):
    r"""Takes a backslash in `{{ }}` for itself, as Ansible does: `'\1'` is a group of a regular expression."""

    def wrap(
        self, stream: Iterable[tuple[int, str, str]], name: str | None = None, filename: str | None = None
    ) -> Iterator[Token]:
        """Escape the backslashes of texts before Jinja2 reads its escapes in them."""
        return super().wrap(self._escaped(stream), name, filename)

    def _escaped(self, stream: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
        inside = False
        for line, kind, text in stream:
            inside = kind != TOKEN_VARIABLE_END and (inside or kind == TOKEN_VARIABLE_BEGIN)
            yield line, kind, text.replace("\\", "\\\\") if inside and kind == TOKEN_STRING else text


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of all templates, with what Ansible sets otherwise than Jinja2."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=Unknown, trim_blocks=True)
        self.steps = 0
        self._lexer = _Lexer(self)
        for name in ("center", "indent", "batch", "slice"):
            self.filters[name] = _bounded(self.filters[name], _check_widths)
        self.filters["format"] = _bounded(self.filters["format"], _check_format)
        self.filters["replace"] = _bounded(self.filters["replace"], _check_replaced)
        self.filters["join"] = _bounded_join(self.filters["join"])
        for name in ("random", "unique"):  # Ansible's are others
            del self.filters[name]
        self.filters = _Table(self.filters, "tfprov.config.templates.filters")
        self.tests = _Table(self.tests, "tfprov.config.templates.template_tests")
        self.policies["json.dumps_function"] = _dumped
        self.globals["range"] = self.range
        del self.globals["lipsum"]
        self.globals.update(lookup=lookup, query=query, q=query, omit=OMIT)

    def concatenated(self, operands: Iterable[Any]) -> str:
        """Return what `~` makes of its operands."""
        found, size = [], 0
        for operand in operands:
            found.append(str(operand))
            size += len(found[-1])
            if size > MAX_OUTPUT:
                raise SecurityError(TOO_LARGE)
        return "".join(found)

    @property
    def lexer(self) -> Lexer:
        """What takes templates apart."""
        return self._lexer

    @staticmethod
    def concat(pieces: Iterable[Any]) -> Any:
        """Return the one piece there is as it is, else all of them as text; one that is nothing does not count."""
        found: list[Any] = []
        size = 0
        for piece in pieces:
            if piece is not None:
                found.append(piece)
                size += len(piece) if isinstance(piece, str) else 1
            if size > MAX_OUTPUT:
                raise SecurityError(TOO_LARGE)
        if len(found) < 2:
            return found[0] if found else None
        text = "".join(map(str, found))
        if len(text) > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
        return text

    def range(self, *arguments: int) -> range:
        """Return a range, as long as all ranges since `steps` was last set to 0 stay within bounds."""
        numbers = range(*arguments)
        try:
            self.steps += len(numbers)
        except OverflowError:
            self.steps = MAX_OUTPUT + 1
        if self.steps > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
        return numbers

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse a result that is too large before it is computed."""
        if _GROWS[operator](left, right):
            raise SecurityError(TOO_LARGE)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  as in Jinja2
        """Refuse a method of a text whose arguments ask for a result that is too large."""
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja2 wraps `format` to look into its braces
        name, text = getattr(method, "__name__", ""), getattr(method, "__self__", None)
        if isinstance(text, str) and name in _PADDING:
            _check_widths(*args, *kwargs.values())
        if isinstance(text, str) and name.startswith("format"):
            _check_format(text, *args, *kwargs.values())
        if isinstance(text, str) and name == "replace":
            _check_replaced(None, text, *args)
        if isinstance(text, str) and name == "join":
            args = tuple(_check_joined(text, items) for items in args)
        return super().call(__context, __obj, *args, **kwargs)


def _check_widths(*values: Any) -> None:
    if any(isinstance(value, int) and abs(value) > MAX_OUTPUT for value in values):
        raise SecurityError(TOO_LARGE)


def _check_replaced(_context: Any, text: Any, old: Any = "", new: Any = "", *_count: Any) -> None:
    """Refuse a replacement that makes too much of `text`."""
    if str(text).count(str(old)) * len(str(new)) > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)


def _check_joined(separator: str, items: Iterable[Any]) -> list[Any]:
    found = list(items)
    if sum(len(item) if isinstance(item, str) else 1 for item in found) + len(separator) * len(found) > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)
    return found


def _bounded_join(join: Callable[..., Any]) -> Callable[..., Any]:
    @pass_eval_context
    def bounded(context: Any, value: Any, d: str = "", attribute: Any = None) -> Any:
        return join(context, _check_joined(str(d), value), d, attribute)

    return bounded


def _dumped(value: Any, **options: Any) -> str:
    return json.dumps(whole(value), **options)


def _check_format(template: Any, *values: Any) -> None:
    if _formatted(str(template), values):
        raise SecurityError(TOO_LARGE)


def _bounded(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    @wraps(function)  # which keeps what Jinja2 notes on it
    def call(*args: Any, **kwargs: Any) -> Any:
        check(*args, *kwargs.values())
        return function(*args, **kwargs)

    return call


def _is_sized(value: Any) -> bool:
    return isinstance(value, str | bytes | list | tuple | SeenItems)


def _multiplied(left: Any, right: Any) -> bool:
    if _is_sized(left) or _is_sized(right):
        sized, times = (left, right) if _is_sized(left) else (right, left)
        return isinstance(times, int) and len(sized) * times > MAX_OUTPUT
    both = isinstance(left, int) and isinstance(right, int)
    return both and left.bit_length() + right.bit_length() > _MAX_BITS


def _raised(left: Any, right: Any) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > _MAX_BITS


def _added(left: Any, right: Any) -> bool:
    return _is_sized(left) and _is_sized(right) and len(left) + len(right) > MAX_OUTPUT


def _formatted(left: Any, right: Any) -> bool:
    if not isinstance(left, str):
        return False
    return _WIDTH.search(left) is not None or (_WIDTH_OF_A_VALUE.search(left) is not None and _is_wide(right))


def _is_wide(value: Any) -> bool:
    """Whether a value, or one in it, is a number that makes too much of a text as its width."""
    if isinstance(value, dict | list | tuple):
        return any(map(_is_wide, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and abs(value) > MAX_OUTPUT


_GROWS: dict[str, Callable[[Any, Any], bool]] = {"*": _multiplied, "**": _raised, "+": _added, "%": _formatted}
