"""The values of one column's Features, decoded all at once.

A regular Feature is one list that fills it: packed numbers, or bytes one after the other. Others are irregular.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tfprov.tfrecord.example_parser import Kind
from tfprov.tfrecord.walk import Entries
from tfprov.tfrecord.wire import (
    FEW,
    Mask,
    Positions,
    Wire,
    Words,
    contents,
    fields_of,
    grouped_varints,
    ranges,
    single_varints,
    small,
)

TAGS = {Kind.BYTES: 0x0A, Kind.FLOAT: 0x12, Kind.INT: 0x1A}
_ITEM_TAG = 0x0A
_BYTE = np.uint64(0xFF)


@dataclass(frozen=True)
class Values:
    """Values by record: record `rows[i]` has the next `counts[i]` of `values`. `irregular` are the rows that are not here.

    `values` are numbers, or an array of large binaries.
    """

    rows: Positions
    counts: Positions
    values: "NDArray[np.int64] | NDArray[np.float32] | pa.Array"
    irregular: Positions


def kinds(wire: Wire, entries: Entries) -> NDArray[np.int64]:
    """Return the kind of each Feature by its first byte; -1 for what is none."""
    tags = wire.octets[entries.starts].astype(np.int64)
    entry_kinds = np.full(len(entries), -1)
    for kind, tag in TAGS.items():
        entry_kinds[tags == tag] = kind
    entry_kinds[entries.starts == entries.ends] = Kind.UNSET
    return entry_kinds


def decode(wire: Wire, entries: Entries, kind: Kind) -> Values:
    """Return the values of Features of one kind; those without any list are left out, as if they were missing."""
    entries = entries.where(entries.starts < entries.ends)
    words = wire.at(entries.starts)
    length, size = small(words >> np.uint64(8))
    inside = entries.starts + 1 + size
    regular = ((words & _BYTE) == np.uint64(TAGS[kind])) & (size > 0) & (inside + length == entries.ends)
    if regular.all() and (size == 1).all():
        lists, heads = Entries(entries.rows, inside, entries.ends), words >> np.uint64(16)
    else:
        lists = Entries(entries.rows, inside, entries.ends).where(regular)
        heads = wire.at(lists.starts)
    irregular = entries.rows[~regular]
    if kind == Kind.BYTES:
        return _bytes_lists(wire, lists, heads, irregular)
    return _packed_lists(wire, lists, heads, kind, irregular)


def _items(lists: Entries, heads: Words) -> tuple[Positions, Positions, Mask]:
    """Return the start and size of the first item of each list, and where that is one; an empty list has none."""
    size, head = small(heads >> np.uint64(8))
    starts = lists.starts + 1 + head
    whole = ((heads & _BYTE) == _ITEM_TAG) & (head > 0) & (starts + size <= lists.ends)
    return starts, size, whole


def _packed_lists(wire: Wire, lists: Entries, heads: Words, kind: Kind, irregular: Positions) -> Values:
    starts, sizes, whole = _items(lists, heads)
    empty = lists.starts == lists.ends
    regular = whole & (starts + sizes == lists.ends) & ~empty
    if kind == Kind.FLOAT:
        regular &= sizes & 3 == 0
    if empty.any():
        starts, sizes, regular = np.where(empty, lists.ends, starts), np.where(empty, 0, sizes), regular | empty
    if not regular.all():
        irregular = np.concatenate([irregular, lists.rows[~regular]])
        starts, sizes, lists = starts[regular], sizes[regular], lists.where(regular)
    if kind == Kind.FLOAT:
        return Values(lists.rows, sizes >> 2, _floats(wire, starts, sizes), irregular)
    return _ints(wire, lists.rows, starts, sizes, irregular)


def _floats(wire: Wire, starts: Positions, sizes: Positions) -> NDArray[np.float32]:
    if (sizes == 4).all():
        return wire.at(starts).astype(np.uint32).view(np.float32)  # the lower half of each word
    octets, _ = contents(ranges(wire, starts, sizes))
    return np.frombuffer(octets.tobytes(), "<f4")


def _ints(wire: Wire, rows: Positions, starts: Positions, sizes: Positions, irregular: Positions) -> Values:
    values, single = single_varints(wire, starts, sizes)
    if single.all():
        return Values(rows, np.ones(len(rows), np.int64), values, irregular)
    try:
        values, counts = grouped_varints(ranges(wire, starts, sizes))
    except ValueError:  # the parser tells which one it is
        nothing = np.empty(0, np.int64)
        return Values(nothing, nothing, nothing, np.concatenate([irregular, rows]))
    return Values(rows, counts, values, irregular)


def _bytes_lists(wire: Wire, lists: Entries, heads: Words, irregular: Positions) -> Values:
    starts, sizes, whole = _items(lists, heads)
    if (whole & (starts + sizes == lists.ends)).all():  # one each
        return Values(lists.rows, np.ones(len(lists), np.int64), ranges(wire, starts, sizes), irregular)
    items = items_of(wire, lists)
    irregular = np.concatenate([irregular, lists.rows[~items.regular]])
    rows, counts = lists.rows[items.regular], items.counts[items.regular]
    return Values(rows, counts, ranges(wire, items.starts, items.sizes), irregular)


@dataclass(frozen=True)
class Items:
    """The items of lists of bytes, or the Features of feature lists, which are the same on the wire.

    The list `i` has the next `counts[i]` of `starts` and `sizes`; none if it is not `regular`.
    """

    counts: Positions
    starts: Positions
    sizes: Positions
    regular: Mask


def items_of(wire: Wire, lists: Entries) -> Items:
    """Walk lists in lock-step, one item of each at a time; the last few lists are walked one by one."""
    counts, regular = np.zeros(len(lists), np.int64), np.ones(len(lists), bool)
    owners: list[Positions] = []
    starts: list[Positions] = []
    sizes: list[Positions] = []
    places, at = np.arange(len(lists)), lists.starts
    while len(places := places[(more := at < lists.ends[places])]):
        at = at[more]
        left = Entries(places, at, lists.ends[places])
        if len(places) < FEW:
            places, begin, size = _items_one_by_one(wire, left, regular)
            at = lists.ends[places]
        else:
            begin, size, whole = _items(left, wire.at(at))
            regular[places[~whole]] = False
            places, begin, size = places[whole], begin[whole], size[whole]
            at = begin + size
        owners.append(places)
        starts.append(begin)
        sizes.append(size)
    if not owners:
        return Items(counts, counts[:0], counts[:0], regular)
    owner, start, size = (np.concatenate(parts) for parts in (owners, starts, sizes))
    whole = regular[owner]
    owner, start, size = owner[whole], start[whole], size[whole]
    order = np.argsort(start, kind="stable")
    return Items(np.bincount(owner, minlength=len(lists)), start[order], size[order], regular)


def _items_one_by_one(wire: Wire, left: Entries, regular: Mask) -> tuple[Positions, Positions, Positions]:
    """Return list, start and size of all items that are left; clears `regular` for lists with anything else."""
    owners: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for place, start, end in zip(left.rows.tolist(), left.starts.tolist(), left.ends.tolist(), strict=True):
        fields = fields_of(wire.data, start, end)
        if fields is None:
            regular[place] = False
        else:
            owners += [place] * len(fields[0])
            starts += fields[0]
            ends += fields[1]
    begin = np.array(starts, np.int64)
    return np.array(owners, np.int64), begin, np.array(ends, np.int64) - begin


def decode_as(wire: Wire, entries: Entries, kind: Kind) -> Values:
    """Return the values of Features as the values of one kind: integers also as floats, and both as text."""
    values = decode(wire, entries, kind)
    if not len(values.irregular):
        return values
    entry_kinds = kinds(wire, entries)
    parts = [decode(wire, entries.where((entry_kinds == kind) | (entry_kinds < 0)), kind)]
    parts += [
        _promoted(decode(wire, some, other), other, kind)
        for other in (Kind.BYTES, Kind.FLOAT, Kind.INT)
        if other != kind and len(some := entries.where(entry_kinds == other))
    ]
    return _merged(parts)


def _promoted(values: Values, kind: Kind, wanted: Kind) -> Values:
    """Return values as those of another kind; only empty lists where they cannot be."""
    if wanted == Kind.FLOAT and kind == Kind.INT:
        return replace(values, values=values.values.astype(np.float32))
    if wanted == Kind.BYTES:
        texts = pa.array([str(value).encode() for value in values.values.tolist()], pa.large_binary())
        return replace(values, values=texts)
    empty = values.counts == 0
    irregular = np.concatenate([values.irregular, values.rows[~empty]])
    nothing = np.empty(0, np.float32 if wanted == Kind.FLOAT else np.int64)
    return Values(values.rows[empty], values.counts[empty], nothing, irregular)


def _merged(parts: list[Values]) -> Values:
    """Return several parts as one, with the rows ascending."""
    rows, counts = np.concatenate([part.rows for part in parts]), np.concatenate([part.counts for part in parts])
    order = np.argsort(rows, kind="stable")
    begins, sizes = (np.cumsum(counts) - counts)[order], counts[order]
    places = np.arange(sizes.sum()) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    values = [part.values for part in parts]
    if isinstance(values[0], pa.Array):
        joined = pa.concat_arrays(values).take(pa.array(places))
    else:
        joined = np.concatenate(values)[places]
    return Values(rows[order], sizes, joined, np.concatenate([part.irregular for part in parts]))
