"""Jinja2 without reach, and without weight: a template computes a value, it does not fill the memory.

Jinja2's own sandbox forbids attributes that lead out of it and ranges above 100 000. What it lets through is size:
`{{ 'a' * 10**9 }}`, `{{ 10**10**9 }}`, `{{ 'a'.ljust(10**9) }}`, texts joined to twice their size again and again, and
loops in loops. Ansible's own filters and tests are imported when a template uses one.
"""

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
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
        self.variables: Mapping[str, Any] = {}
        """What is being rendered now is rendered with these; a template cannot set any of them."""
        self._lexer = _Lexer(self)
        for name, check in FILTERS.items():
            self.filters[name] = bounded(self.filters[name], check)
        self.filters["sum"] = bounded_sum(self.filters["sum"])
        self.filters["join"] = bounded_join(self.filters["join"])
        for name in ("random", "unique"):  # Ansible's are others
            del self.filters[name]
        self.filters = _Table(self.filters, "tfprov.templating.filters.text")
        self.tests = _Table(self.tests, "tfprov.templating.jinja_tests")
        self.policies["json.dumps_function"] = dumped
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
        if GROWS[operator](left, right):
            raise SecurityError(TOO_LARGE)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  as in Jinja2
        """Refuse a method of a text whose arguments ask for a result that is too large."""
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja2 wraps `format` to look into its braces
        name, text = getattr(method, "__name__", ""), getattr(method, "__self__", None)
        if isinstance(text, str) and name in METHODS:
            METHODS[name](text, *args, *kwargs.values())
        if isinstance(text, str) and name == "join":
            args = tuple(check_joined(text, items) for items in args)
        return super().call(__context, __obj, *args, **kwargs)
