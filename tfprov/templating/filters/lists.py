"""Ansible's filters for lists and mappings.

Ansible returns sets in the order of their hashes, which differs from run to run; here, values keep their order.
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
    """Return `values` with the lists in it flattened, down to `levels`."""
    flat: list[Any] = []
    for value in values:
        if skip_nulls and (value is None or value in ("None", "null")):
            continue
        if _is_list(value) and (levels is None or levels >= 1):
            flat.extend(flatten(value, None if levels is None else int(levels) - 1, skip_nulls))
        else:
            flat.append(value)
    return flat


def dict2items(mapping: Any, key_name: str = "key", value_name: str = "value") -> list[dict[str, Any]]:
    """Return a mapping as a list of its entries."""
    if not isinstance(mapping, Mapping):
        raise TemplateRuntimeError("dict2items wants a mapping")
    return [{key_name: key, value_name: mapping[key]} for key in mapping]


def items2dict(items: Any, key_name: str = "key", value_name: str = "value") -> dict[Any, Any]:
    """Return the mapping that dict2items turned into a list."""
    if not _is_list(items) or not all(isinstance(item, Mapping) for item in items):
        raise TemplateRuntimeError("items2dict wants a list of mappings")
    try:
        return {item[key_name]: item[value_name] for item in items}
    except KeyError as error:
        raise TemplateRuntimeError(f"items2dict: an entry lacks `{error.args[0]}`") from None


# -- sets -------------------------------------------------------------------------------------------------------------


def _distinct(values: Iterable[Any]) -> list[Any]:
    values = list(values)
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # mappings and lists have no hash
        distinct: list[Any] = []
        for value in values:
            if value not in distinct:
                distinct.append(value)
        return distinct


def _membership(values: Iterable[Any]) -> Callable[[Any], bool]:
    members = list(values)
    try:
        hashed = frozenset(members)
    except TypeError:
        return members.__contains__
    return lambda value: value in hashed if value.__hash__ else value in members


def union(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return the union of two lists, without duplicates."""
    return _distinct([*left, *right])


def intersect(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return the intersection of two lists, without duplicates."""
    return _distinct(filter(_membership(right), left))


def difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return the values of the first list that are not in the second, without duplicates."""
    return _distinct(itertools.filterfalse(_membership(right), left))


def symmetric_difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """Return the values that are in only one of two lists, without duplicates."""
    left, right = list(left), list(right)
    return [*difference(left, right), *difference(right, left)]


@pass_environment
def unique(
    environment: Environment, values: Iterable[Any], case_sensitive: bool | None = None, attribute: Any = None
) -> list[Any]:
    """Return the values without duplicates; case counts only with `case_sensitive`."""
    values = list(values)
    try:
        return list(do_unique(environment, values, case_sensitive=bool(case_sensitive), attribute=attribute))
    except TypeError:
        if case_sensitive is False or attribute:
            raise
        return _distinct(values)


# -- mappings ---------------------------------------------------------------------------------------------------------


def combine(*terms: Any, recursive: bool = False, list_merge: str = "replace") -> Any:
    """Return mappings merged key by key; later ones win. With `recursive`, nested mappings are merged as well.

    `list_merge` merges two lists under one key: `replace`, `keep`, `append` or `prepend`, or without duplicates
    `append_rp` or `prepend_rp`.
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
        result = _merge(mapping, result, recursive, list_merge)
    return result


def _merge(low: Mapping[Any, Any], high: Mapping[Any, Any], recursive: bool, list_merge: str) -> dict[Any, Any]:
    merged = dict(low)
    for key, value in high.items():
        lower = merged.get(key)
        if recursive and isinstance(lower, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(lower, value, recursive, list_merge)
        elif _is_list(lower) and _is_list(value):
            merged[key] = _LISTS[list_merge](list(lower), list(value))  # type: ignore[arg-type]
        else:
            merged[key] = value
    return merged


_LISTS: dict[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "replace": lambda _, high: high,
    "keep": lambda low, _: low,
    "append": lambda low, high: low + high,
    "prepend": lambda low, high: high + low,
    "append_rp": lambda low, high: [value for value in low if value not in high] + high,
    "prepend_rp": lambda low, high: high + [value for value in low if value not in high],
}


# -- random -----------------------------------------------------------------------------------------------------------


def choice(end: Any, start: int | None = None, step: int | None = None, seed: Any = None) -> Any:
    """Return a random item of a list, or a number below `end`; `seed` is required, and determines the result."""
    generator = _seeded(seed)
    if isinstance(end, int):
        return generator.randrange(start or 0, end, step or 1)
    return generator.choice(list(end))


def shuffle(values: Iterable[Any], seed: Any = None) -> list[Any]:
    """Return a shuffled list; `seed` is required, and determines the order."""
    shuffled = list(values)
    _seeded(seed).shuffle(shuffled)
    return shuffled


def _seeded(seed: Any) -> Random:
    if seed is None:
        raise TemplateRuntimeError("chance would make another plan of every run: give `seed=inventory_hostname`")
    return Random(seed)  # noqa: S311  as Ansible does; not for secrets


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
"""The filters by name."""

SERIES: dict[str, Callable[..., Iterable[Any]]] = {
    "combinations": itertools.combinations,
    "permutations": itertools.permutations,
    "product": itertools.product,
    "zip": zip,
    "zip_longest": itertools.zip_longest,
}
"""Filters whose results may have many more items than their arguments."""
