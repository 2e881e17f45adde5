"""A cache of rendered and checked settings: the hosts of a range differ in little more than their names."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tfprov.errors import Problem
from tfprov.model.node import Mapping
from tfprov.model.settings import Settings
from tfprov.templating.host_values import Variables

_MAX_ENTRIES = 8
"""Results kept for the same settings: with more, they differ from host to host anyway."""


@dataclass(frozen=True)
class CheckedSettings:
    """Settings after rendering and checking; `values` are None if they are invalid."""

    rendered: Mapping
    values: Settings | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _CacheEntry:
    """A result and its inputs: the settings as written, and the names that their templates looked up."""

    written: Mapping
    context: Variables
    names: frozenset[str]
    checked: CheckedSettings


@dataclass
class SettingsCache:
    """The cached results of one inventory."""

    entries: dict[tuple[str, int], list[_CacheEntry]] = field(default_factory=dict)

    def checked(
        self, role: str, written: Mapping, context: Variables, check: Callable[[], CheckedSettings]
    ) -> CheckedSettings:
        """Return what `check` makes of `written` in `context`; a cached result where it would be the same."""
        key = (role, id(written))  # unique, because the entry keeps `written` alive
        entries = self.entries.setdefault(key, [])
        for entry in entries:
            if context.agrees_with(entry.context, entry.names):
                return entry.checked
        with context.recorded() as names:
            checked = check()
        if len(entries) < _MAX_ENTRIES:
            entries.append(_CacheEntry(written, context, frozenset(names), checked))
        return checked
