"""The schema of record files, inferred from their records by the rules of the two Spark connectors.

Both: integers are int64, floats float32, bytes strings; a feature that has more than one value in any record is a list,
and feature lists are lists of lists. Of several kinds the wider one counts: int64, float32, string. A feature that never
has a value is a string by the rules of `connector`, and null by those of `linkedin`. Unlike in both, bytes that are no
UTF-8 are binary, and columns are in the order of their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tfprov.errors import printable
from tfprov.tfrecord.column_types import BYTE_ARRAY, BYTE_ARRAY_SCHEMA, EXAMPLE, SEQUENCE_EXAMPLE
from tfprov.tfrecord.decode import parse
from tfprov.tfrecord.errors import InvalidRecord, SchemaError
from tfprov.tfrecord.example_parser import Feature, Kind, parse_example, parse_sequence_example
from tfprov.tfrecord.feature_lists import decode, kinds
from tfprov.tfrecord.framing import Block
from tfprov.tfrecord.walk import Entries, Keys, walk
from tfprov.tfrecord.wire import Wire

CONNECTOR, LINKEDIN = "connector", "linkedin"
RULES = (CONNECTOR, LINKEDIN)
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
        self._keys = Keys([], discover=True)
        self.records = 0

    def add(self, block: Block) -> None:
        """Look at the records of a block; raises InvalidRecord for malformed ones."""
        self.records += len(block)
        if self.record_type == EXAMPLE:
            self._examples(block)
        elif self.record_type == SEQUENCE_EXAMPLE:
            for row in range(len(block)):
                context, lists = parse(block, row, parse_sequence_example, SEQUENCE_EXAMPLE)
                self._add_features(context, block, row)
                for key, features in lists.items():
                    self._column(key, block, row).add(Kind.UNSET, 0, depth=2)
                    self._add_all(key, features, block, row)

    def schema(self) -> pa.Schema:
        """Return the schema of all records that were added."""
        if self.record_type == BYTE_ARRAY:
            return BYTE_ARRAY_SCHEMA
        return pa.schema([(key.decode(), self._seen[key].type(self._rules)) for key in sorted(self._seen)])

    def _examples(self, block: Block) -> None:
        wire = Wire.of(block.data)
        walked = walk(wire, block.starts, block.ends, self._keys)
        irregular = walked.irregular
        for number, entries in walked.columns.items():
            if len(entries):
                seen = self._column(self._keys.names[number], block, int(entries.rows[0]))
                irregular[_add_entries(seen, wire, entries)] = True
        for row in np.flatnonzero(irregular).tolist():
            self._add_features(parse(block, row, parse_example, EXAMPLE), block, row)

    def _add_features(self, features: Mapping[bytes, Feature], block: Block, row: int) -> None:
        for key, feature in features.items():
            self._add_all(key, [feature], block, row)

    def _add_all(self, key: bytes, features: Iterable[Feature], block: Block, row: int) -> None:
        seen = self._column(key, block, row)
        for feature in features:
            text = feature.kind != Kind.BYTES or _is_text(feature.values)
            seen.add(feature.kind, len(feature.values), text=text)

    def _column(self, key: bytes, block: Block, row: int) -> _Seen:
        if key not in self._seen:
            try:
                key.decode()
            except UnicodeDecodeError as error:
                what = f"the feature `{printable(key)}` has a name that is not UTF-8"
                raise InvalidRecord(*block.place(row), what, "check record_type") from error
            self._seen[key] = _Seen()
        return self._seen[key]


def _add_entries(seen: _Seen, wire: Wire, entries: Entries) -> Sequence[int]:
    """Look at regular Features, and return the rows of the others."""
    found = kinds(wire, entries)
    irregular: list[int] = entries.rows[found < 0].tolist()
    for kind in (Kind.BYTES, Kind.FLOAT, Kind.INT):
        some = entries.where(found == kind)
        if len(some):
            values = decode(wire, some, kind)
            irregular += values.irregular.tolist()
            text = kind != Kind.BYTES or _are_text(values.values)
            seen.add(kind, int(values.counts.max(initial=0)), text=text)
    return irregular


def _are_text(values: pa.Array) -> bool:
    try:
        values.cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(values: Sequence[object]) -> bool:
    return _are_text(pa.array(values, pa.large_binary()))
