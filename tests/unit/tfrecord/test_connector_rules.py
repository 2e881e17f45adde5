"""What users of the Spark connectors expect of record files, and what those connectors do wrong."""

import decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.record_files import example, floats, frame, ints, sequence, texts
from tfprov import tfrecord
from tfprov.tfrecord.errors import DamagedFile, InvalidRecord, SchemaError


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(map(frame, records)))
    return path


def types(path: Path, rules: str, record_type: str = "Example") -> dict[str, str]:
    schema = tfrecord.infer_schema(path, rules=rules, record_type=record_type)
    return {field.name: str(field.type).replace("item: ", "") for field in schema}


INFERRED = {
    "integers": ([ints(1), ints(2)], "int64"),
    "floats": ([floats(1), floats(2)], "float"),
    "bytes": ([texts(b"a"), texts(b"b")], "string"),
    "two values in one record": ([ints(1), ints(1, 2)], "list<int64>"),
    "two floats in one record": ([floats(1, 2), floats(1)], "list<float>"),
    "two strings in one record": ([texts(b"a"), texts(b"a", b"b")], "list<string>"),
    "integers and floats": ([ints(1), floats(1)], "float"),
    "floats and bytes": ([floats(1), texts(b"a")], "string"),
    "integers and a list of bytes": ([ints(1), texts(b"a", b"b")], "list<string>"),
    "an empty list and a value": ([floats(), ints(1)], "int64"),
    "in one record only": ([ints(1)], "int64"),
}


def test_types_are_inferred_by_the_rules_of_both_connectors(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        *(
            example({name: features[number] for name, (features, _) in INFERRED.items() if number < len(features)})
            for number in range(2)
        ),
    )
    expected = {name: kind for name, (_, kind) in sorted(INFERRED.items())}
    for rules in ("connector", "linkedin"):
        assert types(path, rules) == expected
    empty = write(tmp_path / "y", example({"a": ints(), "b": b""}))
    assert types(empty, "connector") == {"a": "string", "b": "string"}
    assert types(empty, "linkedin") == {"a": "null", "b": "null"}


def test_feature_lists_are_lists_of_lists_also_when_they_are_empty(tmp_path: Path) -> None:
    """Their connector fails on a feature list without features."""
    lists = {
        "ints": [ints(1), ints(2, 3)],
        "mixed": [ints(1), floats(0.5)],
        "text": [texts(b"a")],
        "empty": [],
        "unset": [b""],
    }
    path = write(tmp_path / "x", sequence({"id": ints(7)}, lists), sequence({"id": ints(8)}, {}))
    for rules, unset in (("connector", "string"), ("linkedin", "null")):
        assert types(path, rules, "SequenceExample") == {
            "empty": f"list<list<{unset}>>", "id": "int64", "ints": "list<list<int64>>", "mixed": "list<list<float>>",
            "text": "list<list<string>>", "unset": f"list<list<{unset}>>",
        }  # fmt: skip
    rows = tfrecord.read_table(path, record_type="SequenceExample").to_pylist()
    assert rows[0] == {
        "empty": [],
        "id": 7,
        "ints": [[1], [2, 3]],
        "mixed": [[1.0], [0.5]],
        "text": [["a"]],
        "unset": [[]],
    }
    assert rows[1] == dict.fromkeys(rows[0]) | {"id": 8}


def test_all_types_of_a_data_frame_are_written_and_read_with_its_schema(tmp_path: Path) -> None:
    """Their connector writes booleans that it cannot read."""
    table = pa.table(
        {
            "boolean": [True, False, None],
            "int": pa.array([1, -2, None], pa.int32()),
            "long": [2**40, None, -1],
            "float": pa.array([0.5, None, 2.0], pa.float32()),
            "double": [0.25, 1.5, None],
            "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(10, 2)),
            "string": ["é", "", None],
            "binary": [b"\xff", b"", None],
            "booleans": [[True, False], [], None],
            "doubles": [[0.5], [], [1.0, 2.0]],
            "strings": [["a", "b"], None, []],
        }
    )
    tfrecord.write(tmp_path / "x", table)
    assert tfrecord.read_table(tmp_path / "x", schema=table.schema).equals(table)
    nested = pa.table({"l": [[[1], [2, 3]], []], "c": ["x", "y"]})
    tfrecord.write(tmp_path / "y", nested, record_type="SequenceExample")
    assert tfrecord.read_table(tmp_path / "y", schema=nested.schema, record_type="SequenceExample").equals(nested)
    with pytest.raises(SchemaError, match="use the record type SequenceExample"):
        tfrecord.write(tmp_path / "z", nested)


def test_columns_have_the_same_order_in_every_run_and_file(tmp_path: Path) -> None:
    """Their order is that of a hash map."""
    names = [f"column{number * 7 % 20}" for number in range(20)]
    one = write(tmp_path / "a", example({name: ints(1) for name in names}))
    two = write(tmp_path / "b", example({name: ints(1) for name in reversed(names)}))
    assert tfrecord.read_table(one).column_names == tfrecord.read_table(two).column_names == sorted(names)
    chosen = ["column3", "column11", "column0"]
    assert tfrecord.read_table([one, two], columns=chosen).column_names == chosen


def test_a_header_that_is_cut_is_damage_at_every_byte(tmp_path: Path) -> None:
    """Their reader takes a file that ends within a length for one that ends before it."""
    record = frame(example({"a": ints(1)}))
    wrong = []
    for size in range(1, len(record)):
        (tmp_path / "x").write_bytes(record + record[:size])
        try:
            tfrecord.read_table(tmp_path / "x")
        except DamagedFile as error:
            if (error.record, error.offset) == (1, len(record)):
                continue
        wrong.append(size)
    assert wrong == []


def test_types_are_inferred_from_all_files(tmp_path: Path) -> None:
    """The fork looks at the first file with records only."""
    write(tmp_path / "0")
    write(tmp_path / "1", *[example({"a": ints(1), "b": ints(1)})] * 3)
    write(
        tmp_path / "2",
        *[example({"a": ints(1), "b": ints(1)})] * 300,
        example({"a": floats(0.5), "b": ints(1, 2), "c": texts(b"x")}),
    )
    for rules in ("connector", "linkedin"):
        assert types(tmp_path, rules) == {"a": "float", "b": "list<int64>", "c": "string"}
    assert tfrecord.read_table(tmp_path).slice(303).to_pylist() == [{"a": 0.5, "b": [1, 2], "c": "x"}]


def test_a_scalar_needs_one_value_and_a_missing_feature_is_null(tmp_path: Path) -> None:
    path = write(tmp_path / "x", example({"a": ints(1)}), example({}), example({"a": ints(1, 2)}))
    schema = pa.schema([("a", pa.int64())])
    with pytest.raises(InvalidRecord, match=r"record 2 at byte .*: column `a` has 2 values, and int64 holds one"):
        tfrecord.read_table(path, schema=schema)
    assert tfrecord.read_table(path).to_pylist() == [{"a": [1]}, {"a": None}, {"a": [1, 2]}]
