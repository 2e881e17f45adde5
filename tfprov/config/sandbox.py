"""Jinja2 without reach, and without weight: a template computes a value, it does not fill the memory.

Jinja2's own sandbox forbids attributes that lead out of it and ranges above 100 000. What it lets through is size:
`{{ 'a' * 10**9 }}`, `{{ 10**10**9 }}`, `{{ 'a'.ljust(10**9) }}`, and loops in loops.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import SecurityError
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_OUTPUT = 1_000_000
"""Characters or elements of a value: as much as a whole inventory may have."""
_MAX_BITS = 1024
_PADDING = ("center", "ljust", "rjust", "zfill", "expandtabs")
_WIDTH = re.compile(r"\d{7}")
TOO_LARGE = "a value of more than 1,000,000 characters or elements"


class _TypeKeeper(NativeCodeGenerator):
    """Keeps the type of a value that is nothing but one expression: `"{{ base + 1 }}"` is a number, as in Ansible."""

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        # Jinja2 makes text of a constant, even of one that stands alone.
        values = list(group)
        return repr(values[0]) if len(values) == 1 else super()._output_const_repr(values)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of all templates."""

    code_generator_class = _TypeKeeper
    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self.steps = 0
        for name in ("center", "indent", "batch", "slice"):
            self.filters[name] = _bounded(self.filters[name], _check_widths)
        self.filters["format"] = _bounded(self.filters["format"], _check_format)
        self.globals["range"] = self.range
        del self.globals["lipsum"]

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
            _check_format(text)
        return super().call(__context, __obj, *args, **kwargs)


def _check_widths(*values: Any) -> None:
    if any(isinstance(value, int) and abs(value) > MAX_OUTPUT for value in values):
        raise SecurityError(TOO_LARGE)


def _check_format(template: Any, *_values: Any) -> None:
    if _WIDTH.search(str(template)):
        raise SecurityError(TOO_LARGE)


def _bounded(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        check(*args, *kwargs.values())
        return function(*args, **kwargs)

    return call


def _is_sized(value: Any) -> bool:
    return isinstance(value, str | bytes | list | tuple)


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
    return isinstance(left, str) and _WIDTH.search(left) is not None


_GROWS: dict[str, Callable[[Any, Any], bool]] = {"*": _multiplied, "**": _raised, "+": _added, "%": _formatted}
