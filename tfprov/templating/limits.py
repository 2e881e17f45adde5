"""Limits on the time and the memory of one rendering, so that every template ends.

Single operations with a large result are refused before they begin. Loops, regular expressions that backtrack, and many
values of an allowed size remain. A CPU timer ticks while templates are rendered; its signal handler interrupts loops and
regular expressions, and ends a rendering that takes too long or too much memory. A limit on the address space makes an
operation fail that would take more at once.

The handler runs in the main thread, where inventories are read; other threads have no time limit. The timer stops at the
first idle tick after a rendering.
"""

import atexit
import json
import os
import re
import resource
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

from jinja2 import Environment, pass_environment, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter

from tfprov.templating.lazy_values import LazyList, to_plain

T = TypeVar("T")
SECONDS = 10.0
"""CPU seconds of a rendering. One that looks at all variables of 10,000 hosts takes 3."""
MEMORY = 1 << 30
"""Bytes by which a rendering may grow the process."""
_TICK = 0.1
_PAGE = resource.getpagesize()
# A tick would end the process, once Python has taken its signal handlers back.
atexit.register(signal.signal, signal.SIGPROF, signal.SIG_IGN)


class LimitExceeded(BaseException):
    """A rendering exceeded a limit. Not an Exception, because Jinja2 catches some of those."""


class Limits:
    """Limits one rendering at a time, including nested ones, to `seconds` of CPU time and bytes of `memory`."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self._tick = min(_TICK, seconds / 4)
        self._active = False
        self._ticks: int
        self._resident: int
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_AS)
        self._before: Any = signal.SIG_DFL

    def within(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return `function(*arguments)`; raises LimitExceeded or MemoryError."""
        if self._active or threading.current_thread() is not threading.main_thread():
            return function(*arguments)
        self._ticks, self._active, space = 0, True, 0  # before it looks at the timer, which stops at an idle tick
        try:
            if not signal.getitimer(signal.ITIMER_PROF)[0] or signal.getsignal(signal.SIGPROF) != self._on_tick:
                self._arm()  # for the first time, in a fork, or after others used the timer
            # Measured each time: a library that was loaded meanwhile may have mapped more than `memory`.
            space = self._measure()[0] if threading.active_count() == 1 else 0  # other threads map what they never use
            if space:
                resource.setrlimit(resource.RLIMIT_AS, (space + self.memory, self._hard))
            return function(*arguments)
        finally:
            self._active = False
            if space:
                resource.setrlimit(resource.RLIMIT_AS, (self._soft, self._hard))

    def _arm(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_AS)
        if (before := signal.signal(signal.SIGPROF, self._on_tick)) != self._on_tick:
            self._before = before
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, self._tick, self._tick)

    def _on_tick(self, _number: int, _frame: object) -> None:
        resident = self._measure()[1]
        if not self._active:
            signal.setitimer(signal.ITIMER_PROF, 0)
            # A tick may be on its way to another thread, and would end the process without a handler: this one stays.
            if callable(self._before):
                signal.signal(signal.SIGPROF, self._before)
            return
        self._ticks += 1
        if self._ticks == 1:
            self._resident = resident
        if self._ticks * self._tick > self.seconds:
            raise LimitExceeded(f"takes more than {self.seconds:g} seconds")
        if resident - self._resident > self.memory:
            raise LimitExceeded(self.too_much_memory())

    def too_much_memory(self) -> str:
        """Return the message of a rendering that takes too much memory."""
        return f"takes more than {self.memory >> 20} MiB of memory"

    def _measure(self) -> tuple[int, int]:
        """Return the bytes of the address space, or 0 if the user has a lower limit, and those that are resident."""
        try:
            file = os.open("/proc/self/statm", os.O_RDONLY)  # 5 microseconds
            space, resident = (int(number) * _PAGE for number in os.read(file, 64).split()[:2])
            os.close(file)
        except OSError:  # another system than Linux
            return 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        limit = min((bound for bound in (self._soft, self._hard) if bound != resource.RLIM_INFINITY), default=None)
        return space if limit is None or space + self.memory < limit else 0, resident


MAX_OUTPUT = 1_000_000
"""Characters or elements of a value: as many as a whole inventory may have."""
TOO_LARGE = "a value of more than 1,000,000 characters or elements"
_MAX_BITS = 1024
_MAX_COMPARED = 10**9
"""Product of both lengths when a text is searched from the end, which is what the search costs."""
_MAX_INDENT = 100
_MAX_DIGITS = 1000
_DIGITS = re.compile(r"\d+")
_WIDTH_OF_A_VALUE = re.compile(r"(?<!%)(?:%%)*%[-+ #0\d.]*\*|\{[^{}]*\{")
"""A format with a width from its values: `%*d`, or `{:{}}`."""
_NUMBER = 400
"""Characters of a formatted number without a width."""


def _check_widths(*values: Any) -> None:
    if any(isinstance(value, int) and abs(value) > MAX_OUTPUT for value in values):
        raise SecurityError(TOO_LARGE)


def _check_replaced(_context: Any, text: Any, old: Any = "", new: Any = "", *_count: Any) -> None:
    """Refuse a replacement whose result would be too large."""
    if str(text).count(str(old)) * len(str(new)) > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)


def check_joined(separator: str, items: Iterable[Any]) -> list[Any]:
    """Return `items` as a list; raises if the joined text would be too large."""
    values = list(items)
    if sum(len(item) if isinstance(item, str) else 1 for item in values) + len(separator) * len(values) > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)
    return values


def bounded_join(join: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter `join` with a limit on its result."""

    @pass_eval_context
    def bounded(context: Any, value: Any, d: str = "", attribute: Any = None) -> Any:
        return join(context, check_joined(str(d), value), d, attribute)

    return bounded


def bounded_sum(add: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter `sum` with a limit on the texts and lists that it adds."""

    @pass_environment
    def bounded(environment: Environment, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
        if not _is_sized(start):
            return add(environment, iterable, attribute, start)
        total = start
        for value in iterable if attribute is None else map(make_attrgetter(environment, attribute), iterable):
            if _sum_too_large(total, value):
                raise SecurityError(TOO_LARGE)
            total = total + value
        return total

    return bounded


def _check_lines(text: Any, width: Any = 4, *_: Any) -> None:
    """Refuse an indent whose result would be too large."""
    _check_widths(width)
    size = len(width) if isinstance(width, str) else int(width)
    if size * (str(text).count("\n") + 1) > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)


def _check_tabs(text: str, width: Any = 8) -> None:
    if isinstance(width, int) and text.count("\t") * width > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)


def _check_translated(text: str, table: Any = (), *_: Any) -> None:
    values = table.values() if isinstance(table, Mapping) else table
    longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    if len(text) * longest > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)


def _check_search(text: str, part: Any = "", *_: Any) -> None:
    if isinstance(part, str) and len(text) * len(part) > _MAX_COMPARED:
        raise SecurityError("looking for a text of that length from the end")


def _check_digits(*values: Any) -> None:
    if any(isinstance(value, int) and abs(value) > _MAX_DIGITS for value in values[1:]):
        raise SecurityError(TOO_LARGE)


def dumped(value: Any, **options: Any) -> str:
    """Return `value` as JSON, with the options of json.dumps."""
    indent = options.get("indent")
    if (isinstance(indent, int) and indent > _MAX_INDENT) or (isinstance(indent, str) and len(indent) > _MAX_INDENT):
        raise SecurityError(TOO_LARGE)
    return json.dumps(to_plain(value), **options)


def _check_format(template: Any, *values: Any) -> None:
    if _format_too_large(str(template), values):
        raise SecurityError(TOO_LARGE)


def bounded(function: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    """Return `function` with `check` called on its arguments first."""

    @wraps(function)  # keeps the attributes that Jinja2 sets
    def call(*args: Any, **kwargs: Any) -> Any:
        check(*args, *kwargs.values())
        return function(*args, **kwargs)

    return call


def _is_sized(value: Any) -> bool:
    return isinstance(value, str | bytes | list | tuple | LazyList)


def _product_too_large(left: Any, right: Any) -> bool:
    if _is_sized(left) or _is_sized(right):
        sized, times = (left, right) if _is_sized(left) else (right, left)
        return isinstance(times, int) and len(sized) * times > MAX_OUTPUT
    both = isinstance(left, int) and isinstance(right, int)
    return both and left.bit_length() + right.bit_length() > _MAX_BITS


def _power_too_large(left: Any, right: Any) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > _MAX_BITS


def _sum_too_large(left: Any, right: Any) -> bool:
    return _is_sized(left) and _is_sized(right) and len(left) + len(right) > MAX_OUTPUT


def _format_too_large(left: Any, right: Any) -> bool:
    """Whether the result of a format may be too large: its widths, and each field as long as the longest value."""
    if not isinstance(left, str):
        return False
    runs = _DIGITS.findall(left)
    if any(len(digits) > len(str(MAX_OUTPUT)) - 1 for digits in runs):
        return True
    fields = left.count("{") + left.count("%")
    size = len(left) + sum(map(int, runs))
    if fields:
        values = right if isinstance(right, tuple) else (right,)
        size += fields * max(map(_length, values), default=0)
        if _WIDTH_OF_A_VALUE.search(left) is not None:
            widest = _widest(right)
            if widest > MAX_OUTPUT:
                return True
            size += fields * widest
    return size > 2 * MAX_OUTPUT  # an upper bound: a single field may have the whole limit


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else _NUMBER if isinstance(value, int | float) else 4 * len(str(value))


def _widest(value: Any) -> int:
    """Return the largest number in a value, which may be a width."""
    if isinstance(value, Mapping | list | tuple):
        return max(map(_widest, value.values() if isinstance(value, Mapping) else value), default=0)
    return abs(value) if isinstance(value, int) else 0


FILTERS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("center", "batch", "slice"), _check_widths),
    "indent": _check_lines,
    "format": _check_format,
    "replace": _check_replaced,
    "round": _check_digits,
}
"""Checks of the arguments of Jinja2's filters."""
METHODS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _check_widths),
    **dict.fromkeys(("rfind", "rindex", "rsplit", "rpartition"), _check_search),
    **dict.fromkeys(("format", "format_map"), _check_format),
    "expandtabs": _check_tabs,
    "replace": partial(_check_replaced, None),
    "translate": _check_translated,
}
"""Checks of the text and the arguments of methods of str."""
GROWS: dict[str, Callable[[Any, Any], bool]] = {
    "*": _product_too_large, "**": _power_too_large, "+": _sum_too_large, "%": _format_too_large
}  # fmt: skip
"""Whether the result of an operator would be too large."""
