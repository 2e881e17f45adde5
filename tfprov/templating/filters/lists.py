"""Ansible's filters for lists and mappings.

What Ansible makes of sets comes in the order of their hashes, which is another one in every run; here, in the order in
which it was first said.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from jinja2 import Environment, TemplateRuntimeError, pass_environment
from jinja2.filters import do_unique

from tfprov.templating.lazy_values import LazyList


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | LazyList)


def flatten(values: Iterable[Any], levels: int | None = None, skip_nulls: bool = True) -> list[Any]:
    """Return a list of what is in the lists in `values`, down to `levels`."""
    found: list[Any] = []
    for value in values:
        if skip_nulls and (value is None or value in ("None", "null")):
            continue
        if _is_list(value) and (levels is None or levels >= 1):
            found.extend(flatten(value, None if levels is None else int(levels) - 1, skip_nulls))
        else:
            found.append(value)
    return found


def dict2items(mapping: Any, key_name: str = "key", value_name: str = "value") -> list[dict[str, Any]]:
    """Return a mapping as a list of its entries."""
    if not isinstance(mapping, Mapping):
        raise TemplateRuntimeError("dict2items wants a mapping")
    return [{key_name: key, value_name: mapping[key]} for key in mapping]


def items2dict(items: Any, key_name: str = "key", value_name: str = "value") -> dict[Any, Any]:
    """Return what dict2items made a list of."""
    if not _is_list(items) or not all(isinstance(item, Mapping) for item in items):
        raise TemplateRuntimeError("items2dict wants a list of mappings")
    try:
        return {item[key_name]: item[value_name] for item in items}
    except KeyError as error:
        raise TemplateRuntimeError(f"items2dict: an entry lacks `{error.args[0]}`") from None


# -- sets -------------------------------------------------------------------------------------------------------------


def _once(values: Iterable[Any]) -> list[Any]:
    values = list(values)
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # mappings and lists have no hash
        found: list[Any] = []
        for value in values:
            if value not in found:
                found.append(value)
        return found


def _tester(values: Iterable[Any]) -> Callable[[Any], bool]:
    known = list(values)
    try:
        hashes = frozenset(known)
    except TypeError:
        return known.__contains__
    return lambda value: value in hashes if value.__hash__ else value in known


def union(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return what is in one of both lists, once each."""
    return _once([*left, *right])


def intersect(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return what is in both lists, once each."""
    return _once(filter(_tester(right), left))


def difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return what is in the first list and not in the second, once each."""
    return _once(itertools.filterfalse(_tester(right), left))


def symmetric_difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return what is in one of both lists only, once each."""
    left, right = list(left), list(right)
    return [*difference(left, right), *difference(right, left)]


@pass_environment
def unique(
    environment: Environment, values: Iterable[Any], case_sensitive: bool | None = None, attribute: Any = None
) -> list[Any]:
    """Return each value once; texts that differ in case only count as one, unless `case_sensitive`."""
    values = list(values)
    try:
        return list(do_unique(environment, values, case_sensitive=bool(case_sensitive), attribute=attribute))
    except TypeError:
        if case_sensitive is False or attribute:
            raise
        return _once(values)


# -- mappings ---------------------------------------------------------------------------------------------------------


def combine(*terms: Any, recursive: bool = False, list_merge: str = "replace") -> Any:
    """Return mappings as one: later ones win, key by key; all the way down where `recursive`.

    `list_merge` says what becomes of two lists under one key: `replace`, `keep`, `append` or `prepend`, or, without
    what is in both twice, `append_rp` or `prepend_rp`.
    """
    if list_merge not in _LISTS:
        raise TemplateRuntimeError(f"combine: no list_merge `{list_merge}`: {', '.join(_LISTS)}")
    mappings = flatten(terms, levels=1)
    if not all(isinstance(mapping, Mapping) for mapping in mappings):
        raise TemplateRuntimeError("combine wants mappings")
    if not mappings:
        return {}
    result = mappings[-1]
    for mapping in reversed(mappings[:-1]):
        result = _merged(mapping, result, recursive, list_merge)
    return result


def _merged(low: Mapping[Any, Any], high: Mapping[Any, Any], recursive: bool, list_merge: str) -> dict[Any, Any]:
    found = dict(low)
    for key, value in high.items():
        below = found.get(key)
        if recursive and isinstance(below, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(below, value, recursive, list_merge)
        elif _is_list(below) and _is_list(value):
            found[key] = _LISTS[list_merge](list(below), list(value))  # type: ignore[arg-type]
        else:
            found[key] = value
    return found


_LISTS: dict[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "replace": lambda _, high: high,
    "keep": lambda low, _: low,
    "append": lambda low, high: low + high,
    "prepend": lambda low, high: high + low,
    "append_rp": lambda low, high: [value for value in low if value not in high] + high,
    "prepend_rp": lambda low, high: high + [value for value in low if value not in high],
}


# -- chance -----------------------------------------------------------------------------------------------------------


def choice(end: Any, start: int | None = None, step: int | None = None, seed: Any = None) -> Any:
    """Return one of a list, or a number below `end`: always the same one for the same `seed`, which must be given."""
    chance = _seeded(seed)
    if isinstance(end, int):
        return chance.randrange(start or 0, end, step or 1)
    return chance.choice(list(end))


def shuffle(values: Iterable[Any], seed: Any = None) -> list[Any]:
    """Return a list in another order: always the same one for the same `seed`, which must be given."""
    found = list(values)
    _seeded(seed).shuffle(found)
    return found


def _seeded(seed: Any) -> Random:
    if seed is None:
        raise TemplateRuntimeError("chance would make another plan of every run: give `seed=inventory_hostname`")
    return Random(seed)  # noqa: S311  as Ansible does, and no secret comes of it


TABLE: dict[str, Callable[..., Any]] = {
    "combine": combine,
    "dict2items": dict2items,
    "difference": difference,
    "flatten": flatten,
    "intersect": intersect,
    "items2dict": items2dict,
    "random": choice,
    "shuffle": shuffle,
    "symmetric_difference": symmetric_difference,
    "union": union,
    "unique": unique,
}
"""Every filter by its name."""

SERIES: dict[str, Callable[..., Iterable[Any]]] = {
    "combinations": itertools.combinations,
    "permutations": itertools.permutations,
    "product": itertools.product,
    "zip": zip,
    "zip_longest": itertools.zip_longest,
}
"""Those whose results may be many more than what they are made of."""
