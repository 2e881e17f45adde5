"""The Jinja2 environment of all templates: a sandbox that also limits the size of values.

Jinja2's own sandbox forbids attributes that lead out of it and ranges above 100 000, but not large values:
`{{ 'a' * 10**9 }}`, `{{ 10**10**9 }}`, `{{ 'a'.ljust(10**9) }}`, texts doubled again and again, and nested loops.
Ansible's own filters and tests are imported when a template uses one.
"""

import importlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jinja2 import StrictUndefined, nodes
from jinja2.compiler import Frame
from jinja2.exceptions import SecurityError
from jinja2.lexer import TOKEN_STRING, TOKEN_VARIABLE_BEGIN, TOKEN_VARIABLE_END, Lexer, Token
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tfprov.templating.limits import (
    FILTERS,
    GROWS,
    MAX_OUTPUT,
    METHODS,
    TOO_LARGE,
    bounded,
    bounded_join,
    bounded_sum,
    check_joined,
    dumped,
)
from tfprov.templating.lookups import OMIT, lookup, query

_COLLECTION = re.compile(r"ansible\.(?:builtin|legacy)\.")


class _Table(dict[str, Any]):
    """Filters or tests by name: Jinja2's own, and Ansible's from a module that is imported when one is looked up."""

    def __init__(self, own: dict[str, Any], module: str) -> None:
        super().__init__(own)
        self._module = module

    def __missing__(self, name: str) -> Any:
        if self._module:
            self.update(importlib.import_module(self._module).TABLE)
            self._module = ""  # at the end: another thread may look one up meanwhile
            return self[name]
        short = _COLLECTION.sub("", name, count=1)
        if short == name:
            raise KeyError(name)
        return self[short]

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the filter or test `name`, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default


class _Generator(NativeCodeGenerator):
    """Keeps the type of a template that is a single expression: `"{{ base + 1 }}"` is a number, as in Ansible."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802  as in Jinja2
        """Define the names by which Python's repr() shows floats, which the code has for constants."""
        self.writeline("from math import inf, nan")
        super().visit_Template(node, frame)

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        # Jinja2 turns even a single constant into text.
        values = list(group)
        return repr(*values) if len(values) == 1 else super()._output_const_repr(values)

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> Any:
        # None leaves no text, which `concat` must see.
        if (value := super()._output_child_to_const(node, frame, finalize)) is None:
            raise nodes.Impossible
        return value

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802  as in Jinja2
        """Check the size for `~`, which Jinja2 cannot intercept as an operator."""
        self.write("environment.concatenated((")
        for operand in node.nodes:
            self.visit(operand, frame)
            self.write(", ")
        self.write("))")


class Unknown(StrictUndefined):
    """An undefined value: any use fails except `| default(…)`, also for its attributes and items."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Jinja2 then asks for the item of that name; a value would be checked as an attribute.
        raise AttributeError(name)

    def __getitem__(self, _name: Any) -> Any:
        return self


class _Lexer(Lexer):
    r"""Keeps backslashes in `{{ }}`, as Ansible does: `'\1'` is a group of a regular expression."""

    def wrap(
        self, stream: Iterable[tuple[int, str, str]], name: str | None = None, filename: str | None = None
    ) -> Iterator[Token]:
        """Escape the backslashes of texts before Jinja2 interprets them."""
        return super().wrap(self._escaped(stream), name, filename)

    def _escaped(self, stream: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
        inside = False
        for line, kind, text in stream:
            inside = kind != TOKEN_VARIABLE_END and (inside or kind == TOKEN_VARIABLE_BEGIN)
            yield line, kind, text.replace("\\", "\\\\") if inside and kind == TOKEN_STRING else text


class _Rendering(threading.local):
    """The rendering of a thread: its variables, and the steps of all its ranges."""

    variables: Mapping[str, Any] = MappingProxyType({})
    steps = 0


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of all templates, with Ansible's options."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=Unknown, trim_blocks=True)
        self.current = _Rendering()
        self._lexer = _Lexer(self)
        for name, check in FILTERS.items():
            self.filters[name] = bounded(self.filters[name], check)
        self.filters["sum"] = bounded_sum(self.filters["sum"])
        self.filters["join"] = bounded_join(self.filters["join"])
        for name in ("random", "unique"):  # Ansible's differ
            del self.filters[name]
        self.filters = _Table(self.filters, "tfprov.templating.filters.text")
        self.tests = _Table(self.tests, "tfprov.templating.jinja_tests")
        self.policies["json.dumps_function"] = dumped
        self.globals["range"] = self.range
        del self.globals["lipsum"]
        self.globals.update(lookup=lookup, query=query, q=query, omit=OMIT)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of the current rendering; a template cannot set any of them."""
        return self.current.variables

    def concatenated(self, operands: Iterable[Any]) -> str:
        """Return the result of `~`."""
        texts, size = [], 0
        for operand in operands:
            texts.append(str(operand))
            size += len(texts[-1])
            if size > MAX_OUTPUT:
                raise SecurityError(TOO_LARGE)
        return "".join(texts)

    @property
    def lexer(self) -> Lexer:
        """The lexer that keeps backslashes."""
        return self._lexer

    @staticmethod
    def concat(pieces: Iterable[Any]) -> Any:
        """Return a single piece unchanged, several as text; None does not count."""
        values: list[Any] = []
        size = 0
        for piece in pieces:
            if piece is not None:
                values.append(piece)
                size += len(piece) if isinstance(piece, str) else 1
            if size > MAX_OUTPUT:
                raise SecurityError(TOO_LARGE)
        if len(values) < 2:
            return next(iter(values), None)
        text = "".join(map(str, values))
        if len(text) > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
        return text

    def range(self, *arguments: int) -> range:
        """Return a range; all ranges of one rendering share the limit."""
        numbers = range(*arguments)
        try:
            self.current.steps += len(numbers)
        except OverflowError:
            self.current.steps = MAX_OUTPUT + 1
        if self.current.steps > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
        return numbers

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse an operation whose result would be too large."""
        if GROWS[operator](left, right):
            raise SecurityError(TOO_LARGE)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  as in Jinja2
        """Refuse a method of a text whose result would be too large."""
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja2 wraps `format` to check its fields
        text = getattr(method, "__self__", None)
        if isinstance(text, str) and method.__name__ in METHODS:
            METHODS[method.__name__](text, *args, *kwargs.values())
        if isinstance(text, str) and method.__name__ == "join":
            args = tuple(check_joined(text, items) for items in args)
        return super().call(__context, __obj, *args, **kwargs)
