"""The data source `tfrecord` of Spark: DataFrames to files and back, in a Spark with two executors."""

import contextlib
import decimal
import io
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tfprov.spark
from tests.support.record_files import example, floats, frame, ints, sequence, texts
from tests.support.waiting import until
from tfprov import tfrecord
from tfprov.errors import TfprovError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def _registered(spark: "SparkSession") -> None:
    tfprov.spark.register(spark)


def rows(df: "DataFrame", *order: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in (df.orderBy(*order) if order else df).collect()]


def names(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def entries(path: Path) -> list[str]:
    """Return the files and directories that lie in one, also hidden ones."""
    return sorted(each.name for each in path.iterdir())


ALL = """id long, small int, short short, byte byte, flag boolean, real float, wide double, exact decimal(9,2), text string,
 raw binary, ints array<int>, longs array<long>, flags array<boolean>, reals array<float>, wides array<double>,
 exacts array<decimal(9,2)>, texts array<string>, raws array<binary>"""
FIRST = (1, 2, 3, 4, True, 0.5, 1.25, decimal.Decimal("2.50"), "a", bytearray(b"\xff"), [1, -2], [2**62], [True, False],
         [0.5], [1.5, 2.5], [decimal.Decimal("1.25")], ["x", ""], [bytearray(b"\x00")])  # fmt: skip


def test_all_types_are_written_and_read_again(spark: "SparkSession", tmp_path: Path) -> None:
    """The table of the reference; booleans, which it writes and cannot read, too."""
    df = spark.createDataFrame([FIRST, (2, *([None] * 17))], ALL)
    path = str(tmp_path / "t")
    tfprov.spark.write(df, path)
    again = spark.read.format("tfrecord").schema(ALL).load(path)
    assert rows(again, "id") == rows(df, "id")
    inferred = {field.name: field.dataType.simpleString() for field in spark.read.format("tfrecord").load(path).schema}
    assert inferred == {
        "byte": "bigint", "exact": "float", "exacts": "float", "flag": "bigint", "flags": "array<bigint>", "id": "bigint",
        "ints": "array<bigint>", "longs": "bigint", "raw": "binary", "raws": "string", "real": "float", "reals": "float",
        "short": "bigint", "small": "bigint", "text": "string", "texts": "array<string>", "wide": "float",
        "wides": "array<float>",
    }  # fmt: skip
    assert names(tmp_path / "t")[0] == "_SUCCESS"


def test_vectors_are_lists_of_floats_also_sparse_ones(spark: "SparkSession", tmp_path: Path) -> None:
    from pyspark.ml.linalg import Vectors  # noqa: PLC0415  Spark's ML is a second

    df = spark.createDataFrame([(Vectors.dense([1.0, 2.5]),), (Vectors.sparse(2, {1: 3.0}),)], ["v"])
    tfprov.spark.write(df, str(tmp_path / "t"))
    df.write.format("tfrecord").mode("append").save(str(tmp_path / "t"))
    read = spark.read.format("tfrecord").load(str(tmp_path / "t"))
    assert sorted(row.v for row in read.collect()) == [[0, 3], [0, 3], [1, 2.5], [1, 2.5]]


def test_nested_lists_are_sequence_examples_only(spark: "SparkSession", tmp_path: Path) -> None:
    schema = "id long, ints array<array<long>>, reals array<array<float>>, texts array<array<string>>"
    df = spark.createDataFrame([(1, [[1], [2, 3]], [[0.5]], [["a"], []]), (2, [], None, [[]])], schema)
    with pytest.raises(Exception, match="`ints` has 2 levels of lists, and Example has 1"):
        tfprov.spark.write(df, str(tmp_path / "e"))
    tfprov.spark.write(df, str(tmp_path / "s"), record_type="SequenceExample")
    read = spark.read.format("tfrecord").option("recordType", "SequenceExample")
    assert rows(read.schema(schema).load(str(tmp_path / "s")), "id") == rows(df, "id")
    assert read.load(str(tmp_path / "s")).schema["ints"].dataType.simpleString() == "array<array<bigint>>"
    assert not (tmp_path / "e").exists() or names(tmp_path / "e") == []


def test_records_of_bytes_are_one_column(spark: "SparkSession", tmp_path: Path) -> None:
    """The fork's third record type."""
    df = spark.createDataFrame([(bytearray(b"one"),), (bytearray(b""),)], "byteArray binary")
    tfprov.spark.write(df, str(tmp_path / "t"), record_type="ByteArray", codec="gzip")
    read = spark.read.format("tfrecord").option("recordType", "ByteArray").load(str(tmp_path / "t"))
    assert read.schema.simpleString() == "struct<byteArray:binary>"
    assert sorted(bytes(row.byteArray) for row in read.collect()) == [b"", b"one"]
    with pytest.raises(Exception, match="ByteArray records have one column of binary or string"):
        tfprov.spark.write(spark.range(1), str(tmp_path / "u"), record_type="ByteArray")


def test_a_null_is_a_missing_feature_and_an_error_where_the_column_is_not_nullable(
    spark: "SparkSession", tmp_path: Path
) -> None:
    df = spark.createDataFrame([(1, None), (2, "b")], "id long, text string")
    tfprov.spark.write(df.coalesce(1), str(tmp_path / "t"))
    (file,) = (tmp_path / "t").glob("part-*")
    assert [sorted(row) for row in tfrecord.read_table(file, schema=pa.schema([("id", pa.int64())])).to_pylist()]
    assert b"text" not in file.read_bytes()[:20]
    read = spark.read.format("tfrecord")
    assert rows(read.load(str(tmp_path / "t")), "id") == [{"id": 1, "text": None}, {"id": 2, "text": "b"}]
    from pyspark.sql.types import LongType, StringType, StructType  # noqa: PLC0415

    strict = StructType().add("id", LongType()).add("text", StringType(), nullable=False)
    with pytest.raises(Exception, match="record 0 at byte 0: has no column `text`, which is not nullable"):
        read.schema(strict).load(str(tmp_path / "t")).collect()


INFERRED = {"flag": "bigint", "mixed": "array<float>", "name": "string", "wide": "array<string>", "x": "float"}


def test_the_schema_is_inferred_by_the_rules_of_both_connectors_and_decodes_its_own_files(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Theirs cannot decode integers where another record has floats; the fork looks at the first file only."""
    (tmp_path / "a").write_bytes(
        frame(example({"x": ints(1), "mixed": ints(1, 2), "wide": ints(7), "flag": ints(1), "name": texts(b"a")}))
    )
    (tmp_path / "b").write_bytes(
        frame(example({"x": floats(0.5), "mixed": floats(2.5), "wide": texts(b"a", b"b"), "none": b""}))
    )
    for rules, unset in (("connector", "string"), ("linkedin", "void")):
        df = spark.read.format("tfrecord").option("rules", rules).load(str(tmp_path))
        types = {field.name: field.dataType.simpleString() for field in df.schema}
        assert types == dict(sorted({**INFERRED, "none": unset}.items()))
        assert rows(df, "x") == [
            {"flag": None, "mixed": [2.5], "name": None, "none": None, "wide": ["a", "b"], "x": 0.5},
            {"flag": 1, "mixed": [1, 2], "name": "a", "none": None, "wide": ["7"], "x": 1},
        ]
    sampled = spark.read.format("tfrecord").option("sampleRecords", 1).load(str(tmp_path))
    assert sampled.schema["x"].dataType.simpleString() == "bigint"


def test_empty_feature_lists_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    """The reference fails to infer them."""
    (tmp_path / "a").write_bytes(frame(sequence({"id": ints(1)}, {"lists": [], "more": [ints(1), b""]})))
    df = spark.read.format("tfrecord").option("recordType", "SequenceExample").load(str(tmp_path / "a"))
    assert rows(df) == [{"id": 1, "lists": [], "more": [[1], []]}]


def test_an_explicit_schema_decodes_only_its_columns(spark: "SparkSession", tmp_path: Path) -> None:
    """The other feature cannot be decoded as UTF-8 or at all, and is not looked at."""
    (tmp_path / "a").write_bytes(frame(example({"id": ints(1), "image": texts(b"\xff\xfe")})))
    read = spark.read.format("tfrecord")
    assert rows(read.schema("id int").load(str(tmp_path))) == [{"id": 1}]
    assert rows(read.schema("missing float, id long").load(str(tmp_path))) == [{"missing": None, "id": 1}]
    with pytest.raises(Exception, match="column `image` does not fit string"):
        read.schema("image string").load(str(tmp_path)).collect()
    with pytest.raises(Exception, match="`id` has the type map<string, int64"):
        read.schema("id map<string, bigint>").load(str(tmp_path)).collect()


def test_damage_names_file_byte_and_record_also_in_a_cut_header(spark: "SparkSession", tmp_path: Path) -> None:
    """The reference takes a header that is cut in its first 8 bytes for the end of the file."""
    whole = frame(example({"id": ints(1)})) * 2
    (tmp_path / "cut").write_bytes(whole + whole[:5])
    read = spark.read.format("tfrecord").schema("id long")
    place = f"{tmp_path}/cut: record 2 at byte {len(whole)}: the file ends in the header of the record"
    with pytest.raises(Exception, match=place):
        read.load(str(tmp_path)).collect()
    assert read.option("salvage", value=True).load(str(tmp_path)).count() == 2


def test_save_modes(spark: "SparkSession", tmp_path: Path) -> None:
    """All four; the reference refuses append, and Spark's own writer of a Python source knows two of them."""
    path, write = str(tmp_path / "t"), tfprov.spark.write
    one, two = spark.range(0, 3), spark.range(3, 5)

    def ids() -> list[int]:
        return sorted(row.id for row in spark.read.format("tfrecord").load(path).collect())

    write(one, path)
    with pytest.raises(TfprovError, match="the path exists"):
        write(two, path)
    write(two, path, mode="ignore")
    assert ids() == [0, 1, 2]
    write(two, path, mode="append")
    assert ids() == [0, 1, 2, 3, 4]
    write(two, path, mode="overwrite")
    assert ids() == [3, 4]
    assert not (tmp_path / "t" / "_temporary").exists()
    one.write.format("tfrecord").mode("overwrite").save(path)
    two.write.format("tfrecord").mode("append").save(path)
    assert ids() == [0, 1, 2, 3, 4]


def test_an_overwrite_that_fails_keeps_what_was_there(spark: "SparkSession", tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tfprov.spark.write(spark.range(3), path)
    before = names(tmp_path / "t")
    failing = spark.range(100, numPartitions=2).selectExpr("if(id = 99, raise_error('no'), id) as id")
    with pytest.raises(Exception, match="no"):
        tfprov.spark.write(failing, path, mode="overwrite")
    assert names(tmp_path / "t") == before
    assert not (tmp_path / "t" / "_temporary").exists()


def test_a_commit_that_fails_is_taken_back(spark: "SparkSession", tmp_path: Path) -> None:
    """A value is too long for a directory's name, which shows when the files get theirs."""
    path = str(tmp_path / "t")
    tfprov.spark.write(spark.range(3), path)
    before = names(tmp_path / "t")
    rows_of_two = spark.sql("select 1 as id, 'a' as k union all select 2, repeat('x', 300)")
    with pytest.raises(Exception, match=r"FileError: .*/k=x*: File name too long"):
        tfprov.spark.write(rows_of_two, path, mode="overwrite", partition_by="k")
    assert names(tmp_path / "t") == before


def test_an_overwrite_can_replace_the_files_that_it_reads(spark: "SparkSession", tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tfprov.spark.write(spark.range(5), path)
    tfprov.spark.write(spark.read.format("tfrecord").load(path).selectExpr("id + 1 as id"), path, mode="overwrite")
    assert rows(spark.read.format("tfrecord").load(path), "id") == [{"id": number} for number in range(1, 6)]


UNWRITABLE = {
    "timestamp'2026-01-01' as x": "`x` has the type timestamp, which records cannot have; cast it to bigint or string",
    "date'2026-01-01' as x": "`x` has the type date32",
    "struct(1 as a) as x": "`x` has the type struct<a: int32 not null>, which records cannot have",
    "interval 1 day as x": "`x` has the type duration",
    "array(1, null) as x": "`x` has a null inside a list; records have none: drop it",
    "1 as x, 2 as x": "`x` appears more than once; rename one of them",
}


def test_what_records_cannot_have_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    for number, (columns, message) in enumerate(UNWRITABLE.items()):
        with pytest.raises(Exception, match=message):
            tfprov.spark.write(spark.sql(f"select {columns}"), str(tmp_path / str(number)))
        assert names(tmp_path) == []
    with pytest.raises(Exception, match="the DataFrame has no columns; select one"):
        tfprov.spark.write(spark.range(1).select(), str(tmp_path / "x"))
    with pytest.raises(Exception, match=r"FileError: /proc/x/.*: No such file or directory"):
        tfprov.spark.write(spark.range(1), "/proc/x")


def test_partitions_are_directories_and_columns_again(spark: "SparkSession", tmp_path: Path) -> None:
    """Values of all forms: with a slash, a percent sign, an equals sign, a space, empty, null."""
    path = tmp_path / "t"
    keys = ["a/b", "50%", "x=y", " c:d", "ü", None]
    values = [(number, number % 2, key) for number, key in enumerate(keys * 3)]
    df = spark.createDataFrame(values, "id long, half int, key string").repartition(2)
    tfprov.spark.write(df, str(path), partition_by=["half", "key"])
    folders = {name.rpartition("/")[0] for name in names(path)} - {""}
    assert {"half=1/key=50%25", "half=0/key=a%2Fb", "half=1/key=__HIVE_DEFAULT_PARTITION__"} <= folders
    again = spark.read.format("tfrecord").load(str(path))
    assert again.schema.simpleString() == "struct<id:bigint,half:int,key:string>"
    assert rows(again, "id") == rows(df, "id")
    some = spark.read.format("tfrecord").schema("key string, id long").load(str(path))
    assert rows(some, "id") == rows(df.select("key", "id"), "id")
    inner = spark.read.format("tfrecord").load(str(path / "half=0" / "key=ü"))
    assert inner.columns == ["id"], "the directories above the path are no columns"
    below = spark.read.format("tfrecord").option("basePath", str(path)).load(str(path / "half=1"))
    assert sorted(below.columns) == ["half", "id", "key"]
    with pytest.raises(Exception, match="there is no column `day` to partition by"):
        tfprov.spark.write(df, str(path), mode="append", partition_by="day")


def test_a_dynamic_overwrite_replaces_only_the_partitions_it_writes(spark: "SparkSession", tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tfprov.spark.write(spark.sql("select 1 as id, 'a' as k union all select 2, 'b'"), path, partition_by="k")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        tfprov.spark.write(spark.sql("select 3 as id, 'b' as k"), path, partition_by="k", mode="overwrite")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark.read.format("tfrecord").load(path), "id") == [{"id": 1, "k": "a"}, {"id": 3, "k": "b"}]


def test_codecs_have_hadoops_names_and_short_ones(spark: "SparkSession", tmp_path: Path) -> None:
    ends = {
        "": ".tfrecord", "gzip": ".tfrecord.gz", "org.apache.hadoop.io.compress.GzipCodec": ".tfrecord.gz",
        "org.apache.hadoop.io.compress.DefaultCodec": ".tfrecord.deflate", "zlib": ".tfrecord.deflate",
    }  # fmt: skip
    for number, (codec, end) in enumerate(ends.items()):
        path = tmp_path / str(number)
        tfprov.spark.write(spark.range(2).coalesce(1), str(path), codec=codec)
        (file,) = path.glob("part-*")
        assert file.name.endswith(f"-c000{end}")
        assert spark.read.format("tfrecord").load(str(path)).count() == 2
    with pytest.raises(Exception, match=r"TFRecord files have no codec `org.apache.hadoop.io.compress.BZip2Codec`"):
        tfprov.spark.write(spark.range(2), str(tmp_path / "x"), codec="org.apache.hadoop.io.compress.BZip2Codec")
    options = {"recordType": "Example", "codec": "gzip", "writeLocality": "distributed"}
    spark.range(2).write.format("tfrecord").options(**options).mode("append").save(str(tmp_path / "y"))
    assert all(name.endswith(".gz") for name in names(tmp_path / "y") if name != "_SUCCESS")


def test_paths_with_special_characters_lists_and_patterns(spark: "SparkSession", tmp_path: Path) -> None:
    odd = tmp_path / "a b%20[x]{1},#ü"
    tfprov.spark.write(spark.range(2), str(odd))
    tfprov.spark.write(spark.range(2, 4), f"file://{tmp_path}/c")
    read = spark.read.format("tfrecord")
    assert read.load(str(odd)).count() == 2
    both = read.load([str(odd), str(tmp_path / "c")])
    assert sorted(row.id for row in both.collect()) == [0, 1, 2, 3]
    assert read.load(f"{tmp_path}/c/part-*").count() == 2
    assert read.load(f"{tmp_path}/[a-c]*").count() == 4
    for wrong, message in {"none": "there are no files", "no-*": "there are no files"}.items():
        with pytest.raises(Exception, match=message):
            read.load(f"{tmp_path}/{wrong}")


def test_files_of_other_file_systems_are_read_and_written(spark: "SparkSession", tmp_path: Path) -> None:
    """fsspec's `local` scheme stands for one that is no path of this machine."""
    path = f"local://{tmp_path}/t"
    tfprov.spark.write(spark.range(10), path, codec="gzip")
    tfprov.spark.write(spark.range(10), path, mode="overwrite")
    assert spark.read.format("tfrecord").load(path).count() == 10
    # A second attempt at a task (speculation) removes what it has written when it learns that its job has ended.
    until(lambda: "_temporary" not in entries(tmp_path / "t"), "nothing of second attempts is left")
    assert [name for name in names(tmp_path / "t") if name.endswith(".gz")] == []
    with pytest.raises(Exception, match="nosuch"):
        spark.read.format("tfrecord").load("nosuch://x/y")


def test_filters_reach_the_source_only_where_the_session_allows_it(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "t"
    tfprov.spark.write(
        spark.createDataFrame([(1, "a", 0.5), (2, None, float("inf")), (3, "c", 2.0)], "id long, text string, x float"),
        str(path), partition_by="id",
    )  # fmt: skip
    queries = ("id = 2", "id > 1 and text is not null", "not text like 'a%'", "id in (1, 3)", "x > 1", "text <=> null",
               "text = 'c' and id = 3", "id is null")  # fmt: skip
    read = spark.read.format("tfrecord").schema("id long, text string, x float")
    expected = [rows(read.load(str(path)).where(query), "id") for query in queries]
    assert [len(each) for each in expected] == [1, 1, 1, 2, 2, 1, 1, 0]
    next((path / "id=1").glob("part-*")).write_bytes(b"damaged")
    with pytest.raises(Exception, match="the file ends in the header"):
        read.load(str(path)).where("id = 2").collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        tfprov.spark.register(spark)
        assert rows(read.load(str(path)).where("id = 2")) == expected[0], "the file of id=1 is not opened"
        assert rows(read.load(str(path)).where("id > 1 and text is not null")) == expected[1]
        assert rows(read.load(str(path)).where("id > 1 and x > 1"), "id") == expected[4]
        both = read.load(str(path)).where("id = 3 and text = 'c'")
        assert rows(both) == expected[6]
        with contextlib.redirect_stdout(io.StringIO()) as plan:
            both.explain()
        assert "Filter (" not in plan.getvalue(), "Spark need not test them again"
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_rows_are_examples_in_a_column(spark: "SparkSession", tmp_path: Path) -> None:
    df = spark.createDataFrame([(1, None, [0.5]), (2, "b", [])], "id long, text string, xs array<float>")
    column = df.select(tfprov.spark.to_example("id", "text", "xs").alias("byteArray"))
    assert column.schema.simpleString() == "struct<byteArray:binary>"
    tfprov.spark.write(column, str(tmp_path / "t"), record_type="ByteArray")
    schema = "id long, text string, xs array<float>"
    assert rows(spark.read.format("tfrecord").schema(schema).load(str(tmp_path / "t")), "id") == rows(df, "id")
    with pytest.raises(Exception, match="`value` has the type timestamp"):
        spark.sql("select timestamp'2026-01-01' as value").select(tfprov.spark.to_example("value")).collect()


def is_complete(path: Path, number: int) -> bool:
    """Whether so many files lie in a directory, and nothing else; one look, as more may come between two."""
    there = entries(path)
    return len(there) == number and all(name.startswith("part-") for name in there)


def test_local_writes_of_several_tasks_on_one_host(spark: "SparkSession", tmp_path: Path) -> None:
    """In the reference, the second partition on a host can fail because the first has made the directory."""
    for number in range(2):
        path = tmp_path / str(number)
        tfprov.spark.write(spark.range(8, numPartitions=4), str(path), write_locality="local", codec="gzip")
        # A second attempt at a task (speculation) may still begin; it has a hidden directory of its own, which it removes.
        until(partial(is_complete, path, 4), "one file of each task, and nothing of second attempts")
        assert spark.read.format("tfrecord").load(str(path)).count() == 8
    with pytest.raises(Exception, match="mode `overwrite` and write_locality `local` exclude each other"):
        tfprov.spark.write(spark.range(1), str(tmp_path / "0"), write_locality="local", mode="overwrite")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recordType": "Sample"}, "unknown record type `Sample`"),
        ({"writeLocality": "near"}, "option writelocality: unknown value `near`"),
        ({"codec": "snappy"}, "TFRecord files have no codec `snappy`"),
        ({"partitionBy": '["id"'}, "is not a list of names"),
    ],
)
def test_wrong_options_are_named(spark: "SparkSession", tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.range(1).write.format("tfrecord").options(**options).mode("append").save(str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_a_path_that_is_a_file_is_not_replaced(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "t").write_text(json.dumps("mine"))
    with pytest.raises(Exception, match="there is a file of this name"):
        tfprov.spark.write(spark.range(1), str(tmp_path / "t"), mode="overwrite")
    assert (tmp_path / "t").read_text() == '"mine"'


def test_a_table_without_rows_has_its_columns(spark: "SparkSession", tmp_path: Path) -> None:
    tfprov.spark.write(spark.range(0), str(tmp_path / "t"))
    assert "_SUCCESS" in names(tmp_path / "t")
    read = spark.read.format("tfrecord").schema("id long").load(str(tmp_path / "t"))
    assert rows(read) == []
