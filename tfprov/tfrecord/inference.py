"""The schema of record files, inferred from their records by the rules of the two Spark connectors.

Both: integers are int64, floats float32, bytes strings; a feature that has more than one value in any record is a list,
and feature lists are lists of lists. Of several kinds the wider one counts: int64, float32, string. A feature that never
has a value is a string by the rules of `connector`, and null by those of `linkedin`. Unlike in both, bytes that are no
UTF-8 are binary, and columns are in the order of their names.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tfprov.errors import printable
from tfprov.tfrecord.column_types import BYTE_ARRAY, BYTE_ARRAY_SCHEMA, EXAMPLE, SEQUENCE_EXAMPLE
from tfprov.tfrecord.decode import parse, regular_block
from tfprov.tfrecord.errors import InvalidRecord, SchemaError
from tfprov.tfrecord.example_parser import Feature, FeatureLists, Kind, parse_example, parse_sequence_example
from tfprov.tfrecord.feature_lists import decode, items_of, kinds
from tfprov.tfrecord.framing import Block
from tfprov.tfrecord.walk import Entries, Keys, concatenated, features_of_examples, parts_of_sequence_examples, walk
from tfprov.tfrecord.wire import Positions, Wire

CONNECTOR, LINKEDIN = "connector", "linkedin"
RULES = (CONNECTOR, LINKEDIN)
_FEW = 64
"""Features of a column that are looked at together with those of other such columns."""
_WIDER = (Kind.UNSET, Kind.INT, Kind.FLOAT, Kind.BYTES)


@dataclass
class _Seen:
    """What the records have under one key."""

    kind: Kind = Kind.UNSET
    longest: int = 0
    depth: int = 0
    text: bool = True

    def add(self, kind: Kind, longest: int, *, depth: int = 0, text: bool = True) -> None:
        if longest:
            self.kind = max(self.kind, kind, key=_WIDER.index)
        self.longest, self.depth = max(self.longest, longest), max(self.depth, depth)
        self.text &= text

    def type(self, rules: str) -> pa.DataType:
        unset = pa.string() if rules == CONNECTOR else pa.null()
        text = pa.string() if self.text else pa.binary()
        leaf = {Kind.UNSET: unset, Kind.INT: pa.int64(), Kind.FLOAT: pa.float32(), Kind.BYTES: text}[self.kind]
        if self.depth:
            return pa.list_(pa.list_(leaf))
        return pa.list_(leaf) if self.longest > 1 else leaf


class Inference:
    """Looks at blocks of records, and knows their schema."""

    def __init__(self, record_type: str, rules: str) -> None:
        if rules not in RULES:
            raise SchemaError(f"unknown rules `{printable(rules)}` for inference", f"use {' or '.join(RULES)}")
        self.record_type, self._rules = record_type, rules
        self._seen: dict[bytes, _Seen] = {}
        self._keys, self._list_keys = Keys([], discover=True), Keys([], discover=True)
        self.records = 0

    def add(self, block: Block) -> None:
        """Look at the records of a block; raises InvalidRecord for malformed ones."""
        self.records += len(block)
        if self.record_type == BYTE_ARRAY:
            return
        irregular = self._lock_step(block)
        if len(irregular):
            refused = self._lock_step(regular_block(block, irregular, self.record_type))
            for row in irregular[refused].tolist():
                self._add_record(block, row)

    def schema(self) -> pa.Schema:
        """Return the schema of all records that were added."""
        if self.record_type == BYTE_ARRAY:
            return BYTE_ARRAY_SCHEMA
        return pa.schema([(key.decode(), self._seen[key].type(self._rules)) for key in sorted(self._seen)])

    def _lock_step(self, block: Block) -> Positions:
        """Look at the regular records, and return the rows of the others."""
        wire, count = Wire.of(block.data), len(block)
        if self.record_type == EXAMPLE:
            context, other = features_of_examples(wire, block.starts, block.ends)
            lists = Entries.empty()
        else:
            context, lists, other = parts_of_sequence_examples(wire, block.starts, block.ends)
        features, nested = walk(wire, context, count, self._keys), walk(wire, lists, count, self._list_keys)
        irregular = features.irregular | nested.irregular
        irregular[other] = True
        irregular[self._add_columns(self._keys.names, features.columns, wire)] = True
        irregular[self._add_columns(self._list_keys.names, nested.columns, wire, depth=2)] = True
        return np.flatnonzero(irregular)

    def _add_columns(
        self, names: Sequence[bytes], columns: Mapping[int, Entries], wire: Wire, depth: int = 0
    ) -> Positions:
        """Look at the Features or feature lists of all keys, and return the rows of those that are not regular."""
        irregular = [np.empty(0, np.int64)]
        few: list[tuple[_Seen, Entries]] = []
        for number, entries in columns.items():
            if not _is_utf8(names[number]):
                irregular.append(entries.rows)
                continue
            column = self._seen.setdefault(names[number], _Seen()), entries
            if len(entries) < _FEW:
                few.append(column)
            else:
                irregular.append(_add_columns([column], wire, depth))
        irregular.append(_add_columns(few, wire, depth))
        return np.concatenate(irregular)

    def _add_record(self, block: Block, row: int) -> None:
        lists: FeatureLists = {}
        if self.record_type == EXAMPLE:
            context = parse(block, row, parse_example, EXAMPLE)
        else:
            context, lists = parse(block, row, parse_sequence_example, SEQUENCE_EXAMPLE)
        for key, feature in context.items():
            self._add_all(key, [feature], block, row)
        for key, features in lists.items():
            self._column(key, block, row).add(Kind.UNSET, 0, depth=2)
            self._add_all(key, features, block, row)

    def _add_all(self, key: bytes, features: Iterable[Feature], block: Block, row: int) -> None:
        seen = self._column(key, block, row)
        for feature in features:
            text = feature.kind != Kind.BYTES or _is_text(feature.values)
            seen.add(feature.kind, len(feature.values), text=text)

    def _column(self, key: bytes, block: Block, row: int) -> _Seen:
        if not _is_utf8(key):
            what = f"the feature `{printable(key)}` has a name that is not UTF-8"
            raise InvalidRecord(*block.place(row), what, "check record_type")
        return self._seen.setdefault(key, _Seen())


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _add_columns(columns: Sequence[tuple[_Seen, Entries]], wire: Wire, depth: int) -> Positions:
    """Look at the Features or feature lists of some columns, and return the rows of those that are not regular."""
    if not columns:
        return np.empty(0, np.int64)
    seen, parts = [each for each, _ in columns], [entries for _, entries in columns]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    entries = parts[0]
    if len(parts) > 1:
        entries = concatenated(parts)
        order = np.argsort(entries.starts, kind="stable")
        owners, entries = owners[order], Entries(entries.rows[order], entries.starts[order], entries.ends[order])
    if not depth:
        return _add_features(seen, owners, wire, entries)
    for each in seen:
        each.depth = depth
    items = items_of(wire, entries)
    rows, owners = np.repeat(entries.rows, items.counts), np.repeat(owners, items.counts)
    features = Entries(rows, items.starts, items.starts + items.sizes)
    return np.concatenate([entries.rows[~items.regular], _add_features(seen, owners, wire, features)])


def _add_features(seen: Sequence[_Seen], owners: Positions, wire: Wire, entries: Entries) -> Positions:
    """Look at Features, each of the column `owners` says, and return the rows of those that are not regular."""
    entry_kinds = kinds(wire, entries)
    irregular = [entries.rows[entry_kinds < 0]]
    for kind in (Kind.BYTES, Kind.FLOAT, Kind.INT):
        places = np.flatnonzero(entry_kinds == kind)
        if not len(places):
            continue
        values = decode(wire, Entries(places, entries.starts[places], entries.ends[places]), kind)
        irregular.append(entries.rows[values.irregular])
        columns = owners[values.rows]
        longest = np.full(len(seen), -1)
        np.maximum.at(longest, columns, values.counts)
        no_text = _columns_without_text(values.values, np.repeat(columns, values.counts)) if kind == Kind.BYTES else ()
        for column in np.flatnonzero(longest >= 0).tolist():
            seen[column].add(kind, int(longest[column]), text=column not in no_text)
    return np.concatenate(irregular)


def _columns_without_text(values: pa.Array, columns: Positions) -> Container[int]:
    """Return which columns have a value that is not UTF-8."""
    if _are_text(values):
        return ()
    return {column for value, column in zip(values.to_pylist(), columns.tolist(), strict=True) if not _is_utf8(value)}


def _are_text(values: pa.Array) -> bool:
    try:
        values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(values: Sequence[object]) -> bool:
    return _are_text(pa.array(values, pa.large_binary()))
