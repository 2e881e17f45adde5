"""Where each feature of many Examples lies: all records of a block are walked in lock-step, one map entry at a time.

Writers put the features of all records in the same order, nearly always: at each step, the key of the first record is
expected in all of them, which a comparison of words shows. Entries with another key, those of 128 bytes or more, and all
of the last few records are collected and looked up afterwards, all together. Records with anything else are irregular:
`messages` brings them into this form. The feature lists of SequenceExamples are walked in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfprov.tfrecord.wire import FEW, Mask, Positions, Wire, Words, fields_of, low_bytes, ranges, small

_LENGTH_TAG, _KEY_TAG, _VALUE_TAG = 0x0A, 0x0A, 0x12
_BYTE = np.uint64(0xFF)


@dataclass(frozen=True)
class Entries:
    """The Feature messages of one column: record `rows[i]` has `data[starts[i]:ends[i]]`. Rows are ascending."""

    rows: Positions
    starts: Positions
    ends: Positions

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, mask: Mask) -> "Entries":
        """Return some of them."""
        return self if mask.all() else Entries(self.rows[mask], self.starts[mask], self.ends[mask])

    @classmethod
    def empty(cls) -> "Entries":
        """Return none."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing)


@dataclass
class Keys:
    """The keys of the columns. With `discover`, keys that were unknown become columns."""

    names: list[bytes]
    discover: bool = False
    _numbers: dict[bytes, int] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def number(self, key: bytes) -> int | None:
        """Return the column of a key."""
        if self.discover and key not in self._numbers:
            self._numbers[key] = len(self.names)
            self.names.append(key)
        return self._numbers.get(key)

    def look_up(self, keys: pa.Array) -> Positions:
        """Return the column of each key, -1 for keys that are none."""
        encoded = pc.dictionary_encode(keys)
        numbers = [self.number(key) for key in encoded.dictionary.to_pylist()]
        table = np.array([-1 if number is None else number for number in numbers], np.int64)
        indices: Positions = encoded.indices.to_numpy(zero_copy_only=False)
        return table[indices]


@dataclass(frozen=True)
class Walked:
    """The entries of each column by its number, and which records are irregular."""

    columns: dict[int, Entries]
    irregular: Mask


def features_of_examples(wire: Wire, starts: Positions, ends: Positions) -> tuple[Entries, Positions]:
    """Return the Features of Examples, and which records are irregular; an Example without any is left out."""
    features, behind = _message(wire, Entries(np.arange(len(starts)), starts, ends), 0x0A)
    regular = behind == ends
    return features.where(regular[features.rows]), np.flatnonzero(~regular)


def parts_of_sequence_examples(wire: Wire, starts: Positions, ends: Positions) -> tuple[Entries, Entries, Positions]:
    """Return the contexts and the feature lists of SequenceExamples, and which records are irregular."""
    rows = np.arange(len(starts))
    context, behind = _message(wire, Entries(rows, starts, ends), 0x0A)
    lists, behind = _message(wire, Entries(rows, behind, ends), 0x12)
    regular = behind == ends
    return context.where(regular[context.rows]), lists.where(regular[lists.rows]), np.flatnonzero(~regular)


def _message(wire: Wire, places: Entries, tag: int) -> tuple[Entries, Positions]:
    """Return the fields that begin at each place, if they have the tag, and the positions behind them."""
    words = wire.at(places.starts)
    length, size = small(words >> np.uint64(8))
    inside = places.starts + 1 + size
    has = ((words & _BYTE) == np.uint64(tag)) & (size > 0) & (inside + length <= places.ends)
    behind = np.where(has, inside + length, places.starts)
    return Entries(places.rows, inside, behind).where(has), behind


def walk(wire: Wire, features: Entries, count: int, keys: Keys) -> Walked:
    """Return where the values of each key lie in maps, each the Features or FeatureLists of one of `count` records."""
    walker = _Walker(wire, keys, count)
    walker.walk(features)
    return walker.result()


class _Walker:
    def __init__(self, wire: Wire, keys: Keys, count: int) -> None:
        self._wire, self._keys = wire, keys
        self._irregular = np.zeros(count, bool)
        self._expected: dict[int, list[Entries]] = {}
        self._others: list[Entries] = []

    def walk(self, left: Entries) -> None:
        while len(left := left.where(left.starts < left.ends)):
            if len(left) < FEW:
                self._few(left)
                return
            left = self._step(left)

    def _few(self, left: Entries) -> None:
        """Keep all entries of the records that are left for `result`."""
        for row, start, end in zip(left.rows.tolist(), left.starts.tolist(), left.ends.tolist(), strict=True):
            fields = fields_of(self._wire.data, start, end)
            if fields is None:
                self._irregular[row] = True
            else:
                starts, ends = fields
                self._others.append(Entries(np.full(len(starts), row), np.array(starts), np.array(ends)))

    def _drop(self, entries: Entries, regular: Mask) -> Entries:
        """Return the regular ones."""
        if regular.all():
            return entries
        self._irregular[entries.rows[~regular]] = True
        return entries.where(regular)

    def _step(self, left: Entries) -> Entries:
        """Go on behind the next map entry of all records that are left."""
        words = self._wire.at(left.starts)
        template = _Template.of(self._wire, int(left.starts[0]), int(left.ends[0]))
        if template is None:
            return self._other(left, words)
        matches, behind = template.match(self._wire, left, words)
        number = self._keys.number(template.key)
        if matches.all():
            self._add(number, left.rows, left.starts + template.size, behind)
            return Entries(left.rows, behind, left.ends)
        self._add(number, left.rows[matches], left.starts[matches] + template.size, behind[matches])
        others = self._other(left.where(~matches), words[~matches])
        behind[_places(left.rows, others.rows)] = others.starts
        regular = matches.copy()
        regular[_places(left.rows, others.rows)] = True
        return Entries(left.rows[regular], behind[regular], left.ends[regular])

    def _add(self, number: int | None, rows: Positions, starts: Positions, ends: Positions) -> None:
        if number is not None:
            self._expected.setdefault(number, []).append(Entries(rows, starts, ends))

    def _other(self, left: Entries, words: Words) -> Entries:
        """Keep the next entry of each record for `result`, and return what follows it."""
        length, size = small(words >> np.uint64(8))
        starts = left.starts + 1 + size
        ends = starts + length
        regular = ((words & _BYTE) == _LENGTH_TAG) & (size > 0) & (ends <= left.ends)
        self._others.append(Entries(left.rows, starts, ends).where(regular))
        return self._drop(Entries(left.rows, ends, left.ends), regular)

    def result(self) -> Walked:
        """Look up the entries that were kept, and return all by column."""
        by_number = self._expected
        for number, entries in self._looked_up():
            by_number.setdefault(number, []).append(entries)
        return Walked({number: self._joined(parts) for number, parts in by_number.items()}, self._irregular)

    def _looked_up(self) -> list[tuple[int, Entries]]:
        if not self._others or not sum(map(len, self._others)):
            return []
        keys, values = self._keys_and_values(ordered(concatenated(self._others)))
        if not len(keys):
            return []
        numbers = self._keys.look_up(ranges(self._wire, keys.starts, keys.ends - keys.starts))
        order = np.argsort(numbers, kind="stable")
        bounds = np.flatnonzero(np.diff(numbers[order], prepend=-2))
        parts = [order[start:stop] for start, stop in zip(bounds, [*bounds[1:], len(order)], strict=True)]
        return [
            (int(numbers[part[0]]), Entries(values.rows[part], values.starts[part], values.ends[part]))
            for part in parts
            if numbers[part[0]] >= 0
        ]

    def _keys_and_values(self, entries: Entries) -> tuple[Entries, Entries]:
        """Return the keys and the values of map entries: first the key, then the value; either may be left out."""
        begins, ends = entries.starts, entries.ends
        words = self._wire.at(begins)
        length, size = small(words >> np.uint64(8))
        named = (begins < ends) & ((words & _BYTE) == _KEY_TAG) & (size > 0)
        keys = np.where(named, begins + 1 + size, begins)
        key_ends = np.where(named, keys + length, begins)
        regular = key_ends <= ends
        words = self._wire.at(np.where(regular, key_ends, 0))
        length, size = small(words >> np.uint64(8))
        unset = key_ends == ends
        values = np.where(unset, ends, key_ends + 1 + size)
        regular &= unset | (((words & _BYTE) == _VALUE_TAG) & (size > 0) & (values + length == ends))
        self._irregular[entries.rows[~regular]] = True
        rows = entries.rows
        return Entries(rows, keys, key_ends).where(regular), Entries(rows, values, ends).where(regular)

    def _joined(self, parts: Sequence[Entries]) -> Entries:
        """Return the entries of one column: where a record has several, the last one."""
        if len(parts) == 1 and (parts[0].rows[1:] > parts[0].rows[:-1]).all():
            return parts[0]
        entries = ordered(concatenated(parts))
        last = np.append(entries.rows[1:] != entries.rows[:-1], True)
        return entries.where(last)


@dataclass(frozen=True)
class _Template:
    """The first bytes of an entry of less than 128 bytes: its key, and where its value begins."""

    key: bytes

    @property
    def size(self) -> int:
        """Bytes before the Feature: the headers of the entry, the key and the value."""
        return 6 + len(self.key)

    @classmethod
    def of(cls, wire: Wire, start: int, end: int) -> "_Template | None":
        """Return the template of the entry at `start`; None unless it is short and begins with its key."""
        data = wire.data
        length = data[start + 3]
        short = data[start + 1] < 128 and start + 2 + data[start + 1] <= end and length + 4 <= data[start + 1]
        if not short or data[start] != _LENGTH_TAG or data[start + 2] != _KEY_TAG:
            return None
        return cls(data[start + 4 : start + 4 + length])

    def match(self, wire: Wire, left: Entries, words: Words) -> tuple[Mask, Positions]:
        """Return which records have an entry like it next, and where those entries end."""
        head = bytes((_LENGTH_TAG, 0, _KEY_TAG, len(self.key))) + self.key[:4]
        expected = np.uint64(int.from_bytes(head, "little"))
        mask = np.uint64(int.from_bytes(b"\xff\x80\xff\xff" + b"\xff" * (len(head) - 4), "little"))
        matches = (words & mask) == expected
        length = (words >> np.uint64(8) & _BYTE).view(np.int64)
        behind = left.starts + 2 + length
        matches &= (behind <= left.ends) & (length >= len(self.key) + 4)
        safe = left.starts if matches.all() else np.where(matches, left.starts, left.starts[0])
        for at in range(4, len(self.key), 8):
            part = self.key[at : at + 8]
            here = wire.at(safe + (4 + at)) & low_bytes(np.array(len(part)))
            matches &= here == np.uint64(int.from_bytes(part, "little"))
        value = wire.at(safe + (4 + len(self.key)))
        matches &= (value & _BYTE) == _VALUE_TAG
        matches &= (value >> np.uint64(8) & _BYTE).view(np.int64) == length - (len(self.key) + 4)
        return matches, behind


def _places(rows: Positions, some: Positions) -> Positions:
    """Return where `some` of the ascending `rows` stand."""
    return np.searchsorted(rows, some)


def concatenated(parts: Sequence[Entries]) -> Entries:
    """Return several as one."""
    return Entries(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.starts for part in parts]),
        np.concatenate([part.ends for part in parts]),
    )


def ordered(entries: Entries) -> Entries:
    """Return them by position, which is also by record."""
    order = np.argsort(entries.starts, kind="stable")
    return Entries(entries.rows[order], entries.starts[order], entries.ends[order])
