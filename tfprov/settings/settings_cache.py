"""Settings that hosts share are rendered and checked once: the hosts of a range differ in little more than their names."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tfprov.errors import Problem
from tfprov.model.node import Mapping
from tfprov.model.settings import Settings
from tfprov.templating.host_values import Variables

_MOST = 8
"""Different answers kept for the same settings: more of them, and they differ from host to host anyway."""


@dataclass(frozen=True)
class CheckedSettings:
    """What became of settings as they are written: rendered, then checked; `values` are None where they are no settings."""

    rendered: Mapping
    values: Settings | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _CacheEntry:
    """An answer, and what it depends on: the settings themselves, and all that their templates asked for."""

    written: Mapping
    context: Variables
    asked: frozenset[str]
    checked: CheckedSettings


@dataclass
class SettingsCache:
    """Remembers the answers for one inventory."""

    known: dict[tuple[str, int], list[_CacheEntry]] = field(default_factory=dict)

    def checked(
        self, role: str, written: Mapping, context: Variables, check: Callable[[], CheckedSettings]
    ) -> CheckedSettings:
        """Return what `check` makes of `written` in `context`; an earlier answer where it would be the same."""
        key = (role, id(written))  # which is not used for anything else, since it is kept here
        answers = self.known.setdefault(key, [])
        for one in answers:
            if context.agrees_with(one.context, one.asked):
                return one.checked
        with context.recorded() as asked:
            checked = check()
        if len(answers) < _MOST:
            answers.append(_CacheEntry(written, context, frozenset(asked), checked))
        return checked
