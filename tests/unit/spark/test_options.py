"""Options of Spark's data source, and the partitions in paths."""

from pathlib import Path

import pyarrow as pa
import pytest

from tfprov.spark.listing import listed
from tfprov.spark.options import absolute, parse
from tfprov.spark.partition_paths import column, directory, keys_of, pair_of, type_of
from tfprov.tfrecord.errors import SchemaError


def test_options_of_spark_and_of_the_connectors() -> None:
    options = parse({"PATH": "/a", "paths": '["/b", "file:///c", "s3://d/e"]', "recordtype": "sequenceexample"})
    assert options.paths == ("/a", "/b", "/c", "s3://d/e")
    assert (options.record_type, options.compression, options.rules) == ("SequenceExample", "auto", "connector")
    assert parse({"codec": "", "compression": "gzip"}).compression == "gzip"
    assert parse({"codec": "org.apache.hadoop.io.compress.DeflateCodec"}).compression == "zlib"
    assert parse({"maxFileAge": "2h"}).max_file_age == 7200
    assert absolute("x") == str(Path.cwd() / "x")
    assert absolute("file:/a b") == "/a b"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampleRecords": "0"}, "option samplerecords: `0` is not a number above 0"),
        ({"sampleRecords": "two"}, "`two` is not a number above 0"),
        ({"salvage": "perhaps"}, "option salvage: `perhaps` is not true or false"),
        ({"maxFileAge": "soon"}, "option maxfileage: `soon` is not a duration"),
        ({"paths": "[1]"}, "option paths: `\\[1\\]` is not a list of names"),
        ({"codec": "Lz4Codec"}, "TFRecord files have no codec `Lz4Codec`"),
        ({"rules": "x", "recordType": ""}, "unknown record type ``"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(options: dict[str, str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse(options)


def test_names_of_partitions_are_those_of_spark() -> None:
    assert directory(["a", "b=c"], ["x/y", None]) == "a=x%2Fy/b%3Dc=__HIVE_DEFAULT_PARTITION__"
    for value in ("x/y", "50%", " ", "a=b", "ü", "\n", "__HIVE"):
        assert pair_of(directory(["k"], [value])) == ("k", value)
    assert pair_of("k=") == ("k", "")
    assert [pair_of(name) for name in ("plain", "=x", "_SUCCESS")] == [None, None, None]


def test_a_partition_column_has_the_narrowest_type_for_all_values() -> None:
    rows: list[tuple[list[str | None], pa.DataType]] = [
        (["1", "-2", None], pa.int32()), (["3000000000"], pa.int64()), (["1", "0.5"], pa.float64()),
        (["2026-01-31"], pa.date32()), (["2026-02-31"], pa.string()), (["1", "x"], pa.string()), ([None], pa.string()),
        (["+49301234"], pa.string()), (["+1.5"], pa.string()), (["\u0663"], pa.string()),
        (["99999999999999999999"], pa.float64()), (["9223372036854775807", "-9223372036854775808"], pa.int64()),
    ]  # fmt: skip
    assert [type_of(values, infer=True) for values, _ in rows] == [kind for _, kind in rows]
    assert type_of(["1"], infer=False) == pa.string()
    assert column("k", "2026-01-31", pa.date32(), 2).to_pylist()[1].isoformat() == "2026-01-31"
    assert column("k", None, pa.int32(), 1).to_pylist() == [None]
    with pytest.raises(SchemaError, match="partition k=x is not int32"):
        column("k", "x", pa.int32(), 1)


def test_a_pattern_reads_each_file_once(tmp_path: Path) -> None:
    for name in ("a/b/x", "a/y", "z", "_hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for pattern, names in {"**": ["a/b/x", "a/y", "z"], "*": ["a/y", "z"], "a/**": ["a/b/x", "a/y"]}.items():
        matched = [Path(file.path) for file in listed(parse({"path": f"{tmp_path}/{pattern}"}))]
        assert sorted(str(path.relative_to(tmp_path)) for path in matched) == names


def test_partitions_of_different_forms_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"partitions differ: f has \(a\), and g has \(a, b\)"):
        keys_of([("f", [("a", "1")]), ("g", [("a", "1"), ("b", "2")])])
