"""The values of one column's Features, decoded all at once.

A regular Feature is one list that fills it: packed numbers, or bytes one after the other. Others are irregular.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tfprov.tfrecord.example_parser import Kind
from tfprov.tfrecord.walk import FEW, Entries
from tfprov.tfrecord.wire import (
    Mask,
    Positions,
    Wire,
    Words,
    contents,
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
    found = np.full(len(entries), -1)
    for kind, tag in TAGS.items():
        found[tags == tag] = kind
    found[entries.starts == entries.ends] = Kind.UNSET
    return found


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
    return _ragged_bytes(wire, lists, irregular)


def _ragged_bytes(wire: Wire, lists: Entries, irregular: Positions) -> Values:
    """Walk lists of bytes in lock-step, one item at a time."""
    counts = np.zeros(len(lists), np.int64)
    regular = np.ones(len(lists), bool)
    parts: list[tuple[Positions, Positions, Positions]] = []
    places, at = np.arange(len(lists)), lists.starts
    while len(places := places[(more := at < lists.ends[places])]):
        at = at[more]
        if len(places) < FEW:
            regular[places] = False
            break
        left = Entries(places, at, lists.ends[places])
        starts, sizes, whole = _items(left, wire.at(at))
        regular[places[~whole]] = False
        places, starts, sizes = places[whole], starts[whole], sizes[whole]
        counts[places] += 1
        parts.append((places, starts, sizes))
        at = starts + sizes
    kept = regular.nonzero()[0]
    irregular = np.concatenate([irregular, lists.rows[~regular]])
    if not parts:
        return Values(lists.rows[kept], counts[kept], pa.array([], pa.large_binary()), irregular)
    owners, starts, sizes = (np.concatenate([part[column] for part in parts]) for column in range(3))
    whole = regular[owners]
    starts, sizes = starts[whole], sizes[whole]
    order = np.argsort(starts, kind="stable")
    return Values(lists.rows[kept], counts[kept], ranges(wire, starts[order], sizes[order]), irregular)
