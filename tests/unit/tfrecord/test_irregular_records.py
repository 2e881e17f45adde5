"""Records as other writers make them: by protobuf's rules, among regular ones and alone."""

import io
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.event_files import sized, varint
from tests.support.growth import check_growth
from tests.support.record_files import entry, example, floats, frame, ints, sequence, texts
from tfprov import tfrecord
from tfprov.tfrecord.column_types import columns_of
from tfprov.tfrecord.decode import decode_block
from tfprov.tfrecord.errors import InvalidRecord
from tfprov.tfrecord.framing import read_blocks
from tfprov.tfrecord.inference import Inference

SCHEMA = pa.schema([("i", pa.list_(pa.int64())), ("f", pa.list_(pa.float32())), ("s", pa.list_(pa.binary()))])
REGULAR = example({"i": ints(1, -2), "f": floats(0.5), "s": texts(b"a", b"b")})
GROUP = varint(9 << 3 | 3) + varint(1 << 3) + varint(5) + varint(9 << 3 | 4)
UNPACKED = sized(3, b"\x08" + varint(7) + b"\x08" + varint(-1))
IRREGULAR: dict[str, tuple[bytes, dict[str, Any]]] = {
    "empty record": (b"", {}),
    "no features": (sized(1, b""), {}),
    "unpacked integers": (example({"i": UNPACKED}), {"i": [7, -1]}),
    "unpacked floats": (example({"f": sized(2, b"\x0d" + struct.pack("<f", 0.25))}), {"f": [0.25]}),
    "packed twice": (example({"i": sized(3, sized(1, b"\x01") + sized(1, b"\x02\x03"))}), {"i": [1, 2, 3]}),
    "value before key": (sized(1, sized(1, sized(2, ints(4)) + sized(1, b"i"))), {"i": [4]}),
    "repeated entry": (sized(1, entry("i", ints(1)) + entry("i", ints(2))), {"i": [2]}),
    "features in two parts": (example({"i": ints(1)}) + example({"f": floats(2)}), {"i": [1], "f": [2.0]}),
    "list in two parts": (example({"i": ints(1) + ints(2)}), {"i": [1, 2]}),
    "another list last": (example({"i": floats(1) + ints(2)}), {"i": [2]}),
    "unknown fields": (b"\x28\x05" + GROUP + example({"i": ints(3), "x": texts(b"y")}) + sized(7, b"z"), {"i": [3]}),
    "unknown field in a feature": (example({"i": ints(3) + b"\x28\x05"}), {"i": [3]}),
    "no list": (example({"i": b"", "f": floats()}), {"f": []}),
    "other order": (example({"s": texts(b"c"), "i": ints(9)}), {"s": [b"c"], "i": [9]}),
    "unknown field in an entry": (sized(1, sized(1, GROUP + sized(1, b"i") + sized(2, ints(6)))), {"i": [6]}),
    "entry without a key": (sized(1, sized(1, sized(2, ints(6))) + entry("i", ints(8))), {"i": [8]}),
    "entry without a value": (sized(1, sized(1, sized(1, b"i")) + entry("f", floats(2))), {"f": [2.0]}),
    "unwanted key that is no text": (sized(1, sized(1, sized(1, b"\xff") + GROUP) + entry("i", ints(8))), {"i": [8]}),
    "unwanted feature that is malformed": (example({"x": sized(3, b"\x0a\x05")}) + example({"i": ints(8)}), {"i": [8]}),
    "many values": (
        example({"i": ints(*range(300)), "s": texts(*[b"v"] * 200)}),
        {"i": [*range(300)], "s": [b"v"] * 200},
    ),
    "long key": (example({"k" * 200: ints(1), "i": ints(5)}), {"i": [5]}),
}


def decoded(records: list[bytes], schema: pa.Schema, record_type: str = "Example") -> list[dict[str, Any]]:
    blocks = read_blocks(io.BytesIO(b"".join(map(frame, records))), "file")
    columns = columns_of(schema, record_type)
    return [row for block in blocks for row in decode_block(block, columns, record_type).to_pylist()]


def test_irregular_records_are_read_by_protobufs_rules() -> None:
    nothing = dict.fromkeys(SCHEMA.names)
    expected = [nothing | values for _, values in IRREGULAR.values()]
    records = [record for record, _ in IRREGULAR.values()]
    regular = {"i": [1, -2], "f": [0.5], "s": [b"a", b"b"]}

    alone = decoded(records, SCHEMA)
    among = decoded([REGULAR] * 40 + records * 3 + [REGULAR] * 40, SCHEMA)

    wrong = [name for name, row, want in zip(IRREGULAR, alone, expected, strict=True) if row != want]
    assert wrong == []
    assert among == [regular] * 40 + expected * 3 + [regular] * 40


def test_irregular_sequence_examples_are_read_by_protobufs_rules() -> None:
    schema = pa.schema(
        [("c", pa.int64()), ("l", pa.list_(pa.list_(pa.float32()))), ("b", pa.list_(pa.list_(pa.binary())))]
    )
    cases: dict[str, tuple[bytes, dict[str, Any]]] = {
        "regular": (sequence({"c": ints(1)}, {"l": [floats(1, 2), floats()]}), {"c": 1, "l": [[1.0, 2.0], []]}),
        "empty": (b"", {}),
        "lists first": (sequence({}, {"l": []})[2:] + example({"c": ints(2)}), {"c": 2, "l": []}),
        "lists in two parts": (
            sequence({}, {"l": [floats(1)]}) + sequence({}, {"b": [texts(b"x")]}), {"l": [[1.0]], "b": [[b"x"]]}
        ),
        "repeated list": (sized(2, entry("l", sized(1, floats(1))) + entry("l", sized(1, floats(2)))), {"l": [[2.0]]}),
        "unpacked": (sequence({}, {"l": [floats(3), sized(2, b"\x0d" + struct.pack("<f", 0.5))]}), {"l": [[3.0], [0.5]]}),
        "promoted": (
            sequence({}, {"l": [ints(3), floats(0.5), b""], "b": [ints(1), texts(b"y")]}),
            {"l": [[3.0], [0.5], []], "b": [[b"1"], [b"y"]]},
        ),
        "unknown fields": (sequence({"c": ints(5)}, {"l": [floats(1) + GROUP]}) + sized(9, b"z"), {"c": 5, "l": [[1.0]]}),
        "many": (sequence({}, {"b": [texts(b"a", b"b")] * 300}), {"b": [[b"a", b"b"]] * 300}),
    }  # fmt: skip
    nothing = dict.fromkeys(schema.names)
    for times in (1, 300):
        rows = decoded([record for record, _ in cases.values()] * times, schema, "SequenceExample")
        expected = [nothing | values for _, values in cases.values()] * times
        assert [name for name, row, want in zip([*cases] * times, rows, expected, strict=True) if row != want] == []


def test_lists_and_features_that_do_not_fit_a_column_are_one_error() -> None:
    nested, flat = pa.list_(pa.list_(pa.int64())), pa.list_(pa.int64())
    cases = [
        (sequence({"x": ints(1)}, {"x": [ints(1)]}), flat, "is in the context and in the feature lists; rename one"),
        (sequence({}, {"x": [ints(1)]}), flat, "is a feature list, and its type is list<item: int64>; use list<list"),
        (sequence({"x": ints(1)}, {}), nested, "is in the context, and its type is list<item: list<item: int64>>; use"),
        (sequence({}, {"x": [ints(1), texts(b"1")]}), nested, "has bytes, and its type is"),
    ]  # fmt: skip
    for record, data_type, message in cases:
        with pytest.raises(InvalidRecord) as caught:
            decoded([b"", record, b""], pa.schema([("x", data_type)]), "SequenceExample")
        assert str(caught.value).startswith(f"file: record 1 at byte 16: column `x` {message}")


def hostile(times: int) -> dict[str, list[bytes]]:
    """Return records with very many fields, by what is many in them."""
    keys = [[entry(f"k{record}-{key}", ints(1)) for key in range(30)] for record in range(20 * times)]
    return {
        "many empty entries": [sized(1, b"\x0a\x00" * 20_000 * times)],
        "many entries of one key": [sized(1, entry("x", ints(1)) * 4_000 * times)],
        "unpacked numbers": [example({"x": sized(3, b"\x08\x01" * 40_000 * times)})],
        "many keys": [sized(1, b"".join(one)) for one in keys],
    }


def decode_and_infer(records: list[bytes]) -> None:
    columns = columns_of(pa.schema([("x", pa.list_(pa.int64()))]), "Example")
    for block in read_blocks(io.BytesIO(b"".join(map(frame, records))), "file"):
        Inference("Example", "connector").add(block)
        decode_block(block, columns, "Example")


@pytest.mark.parametrize("many", hostile(0))
def test_records_with_very_many_fields_take_the_time_of_their_size(many: str) -> None:
    """Ten times the fields take some ten times as long, and not a hundred times."""
    small, large = hostile(1)[many], hostile(10)[many]
    check_growth(lambda: decode_and_infer(small), lambda: decode_and_infer(large), below=35)


def test_only_the_columns_that_are_asked_for_are_decoded() -> None:
    broken = sized(3, sized(1, b"\xff"))  # a number that is cut off
    records = [example({"bad": broken, "i": ints(number)}) for number in range(50)]
    assert decoded(records, pa.schema([("i", pa.int64())])) == [{"i": number} for number in range(50)]
    with pytest.raises(InvalidRecord, match=r"^file: record 0 at byte 0: it is no valid Example: a number is cut off"):
        decoded(records, pa.schema([("bad", pa.int64())]))


MISFITS = [
    (example({"x": ints(1, 2)}), pa.int64(), "has 2 values, and int64 holds one; use list<int64>"),
    (example({"x": floats(1)}), pa.int64(), "has floats, and its type is int64; infer the schema"),
    (example({"x": texts(b"1")}), pa.float32(), "has bytes, and its type is float"),
    (example({"x": ints(300)}), pa.int8(), "does not fit int8 .*; use a wider type"),
    (example({"x": texts(b"\xff")}), pa.string(), "does not fit string .*; read it as binary"),
]


def test_values_that_do_not_fit_the_schema_are_one_error_with_the_record() -> None:
    fits = {pa.int64(): ints(1), pa.int8(): ints(1), pa.float32(): floats(1), pa.string(): texts(b"a")}
    for record, data_type, message in MISFITS:
        schema = pa.schema([("x", data_type)])
        records = [example({"x": fits[data_type]})] * 45
        offset = sum(len(each) + 16 for each in records)
        with pytest.raises(InvalidRecord, match=f"^file: record 45 at byte {offset}: column `x` {message}"):
            decoded([*records, record, *records], schema)


def test_integers_are_promoted_to_floats_and_strings() -> None:
    records = [example({"x": ints(3)}), example({"x": floats(0.5)})]
    assert decoded(records, pa.schema([("x", pa.float64())])) == [{"x": 3.0}, {"x": 0.5}]
    assert decoded(records, pa.schema([("x", pa.string())])) == [{"x": "3"}, {"x": "0.5"}]


def test_schema_of_the_connector_and_of_linkedin() -> None:
    """Also: what the connectors do wrong. Booleans are read again, empty feature lists have a type, columns an order."""
    dense = [
        {"z": ints(1), "b": floats(1), "t": texts("é".encode()), "raw": texts(b"\xff"), "none": ints(), "l": ints(1)}
    ] * 40
    last = {"l": ints(1, 2), "z": floats(1), "m": ints(1)}
    schemas = {}
    for rules in ("connector", "linkedin"):
        path = Path("inference")
        schemas[rules] = infer([example(each) for each in [*dense, last]], rules, str(path))
    expected = [
        ("b", pa.float32()), ("l", pa.list_(pa.int64())), ("m", pa.int64()), ("none", pa.string()), ("raw", pa.binary()),
        ("t", pa.string()), ("z", pa.float32()),
    ]  # fmt: skip
    assert schemas["connector"] == pa.schema(expected)
    assert schemas["linkedin"] == pa.schema([(name, pa.null() if name == "none" else kind) for name, kind in expected])


def infer(records: list[bytes], rules: str, name: str, record_type: str = "Example") -> pa.Schema:
    inference = Inference(record_type, rules)
    for block in read_blocks(io.BytesIO(b"".join(map(frame, records))), name):
        inference.add(block)
    return inference.schema()


def test_empty_feature_lists_have_a_type_and_can_be_read() -> None:
    records = [
        sequence({"c": ints(1)}, {"empty": [], "one": [ints(1, 2), ints()], "none": [b"", b""]}),
        sequence({}, {"one": [ints(3)]}),
    ]
    for rules, unset in (("connector", pa.string()), ("linkedin", pa.null())):
        schema = infer(records, rules, "x", "SequenceExample")
        nested = {
            name: pa.list_(pa.list_(kind)) for name, kind in (("empty", unset), ("none", unset), ("one", pa.int64()))
        }
        assert schema == pa.schema({"c": pa.int64(), **nested})
        rows = decoded(records, schema, "SequenceExample")
        assert [row["one"] for row in rows] == [[[1, 2], []], [[3]]]


def test_booleans_are_read_again(tmp_path: Path) -> None:
    table = pa.table({"flag": [True, None, False]})
    tfrecord.write(tmp_path / "a", table)
    assert tfrecord.read_table(tmp_path / "a", schema=table.schema).equals(table)
    assert tfrecord.read_table(tmp_path / "a")["flag"].to_pylist() == [1, None, 0]
