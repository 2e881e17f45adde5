"""The Hadoop formats for TFRecord files: MapReduce in the LocalJobRunner, and Spark's Hadoop files."""

import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support import spark as sparks
from tests.support.record_files import frame
from tfprov import tfrecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {
    "keyClass": "org.apache.hadoop.io.BytesWritable",
    "valueClass": "org.apache.hadoop.io.NullWritable",
}
LINES = [f"word{number % 7} word{number % 3} ünïcode" for number in range(3000)]
COUNTS = Counter(word for line in LINES for word in line.split())


def texts(table: pa.Table) -> list[str]:
    return [bytes(value).decode() for value in table["byteArray"].to_pylist()]


def byte_array(*records: bytes) -> pa.Table:
    return pa.table({"byteArray": pa.array(records, pa.binary())})


def read_java(spark: "SparkSession", path: Path, conf: dict[str, str] | None = None, api: str = "new") -> list[bytes]:
    """Read records by Java; the paths of Hadoop's globs have no special characters here."""
    context = spark.sparkContext
    read, name = (
        (context.newAPIHadoopFile, "tfprov.hadoop.TFRecordFileInputFormat")
        if api == "new"
        else (context.hadoopFile, "tfprov.hadoop.TFRecordFileInputFormatV1")
    )
    # The record is Hadoop's own object, which the next record changes: it is copied by its conversion, one at a time.
    rows: Any = read(str(path), name, *NAMES.values(), conf=conf)
    return [bytes(key) for key, _ in rows.collect()]


@pytest.mark.usefixtures("spark")  # which says where there is no Java
def test_words_are_counted_by_mapreduce_in_files_that_are_split_by_their_index(tmp_path: Path) -> None:
    """Four inputs: without compression and without or with an index, gzip, zlib; each of a quarter of the lines."""
    folder = tmp_path / "in"
    quarter = [byte_array(*(line.encode() for line in LINES[start::4])) for start in range(4)]
    for name, part in zip(("plain", "indexed", "gzip.gz", "zlib.deflate"), quarter, strict=True):
        tfrecord.write(folder / name, part, record_type="ByteArray")
    tfrecord.write_index(folder / "indexed", every=10)
    size = (folder / "indexed").stat().st_size
    jar = sparks.hadoop_jar()
    path = f"{jar.with_name(sparks.WORD_COUNT)}:{sparks.jars()}:{jar}"
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", f"-Djava.io.tmpdir={tempfile.gettempdir()}"]
    done = subprocess.run(
        [*java, "-cp", path, "WordCount", str(folder), str(tmp_path / "out"), str(size // 3 + 1)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["new: 6", "old: 4"], "only the new interface has a largest split here"
    expected = sorted(f"{word} {count}" for word, count in COUNTS.items())
    for name, extension in (("new", ".tfrecord.gz"), ("old", ".tfrecord")):
        (file,) = (tmp_path / "out" / name).glob("part-*")
        assert file.name.endswith(extension)
        assert sorted(texts(tfrecord.read_table(file, record_type="ByteArray"))) == expected


def test_java_and_tfprov_read_each_others_bytes(spark: "SparkSession", tmp_path: Path) -> None:
    """Empty records, and one of several megabytes, with every codec and both of Hadoop's interfaces."""
    records = [b"", b"a", bytes(range(256)) * 10_000, b"\0" * 300]
    codecs = {"none": None, "gzip": "org.apache.hadoop.io.compress.GzipCodec",
              "zlib": "org.apache.hadoop.io.compress.DefaultCodec"}  # fmt: skip
    extensions = {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zlib": ".tfrecord.deflate"}
    pairs = spark.sparkContext.parallelize([(bytearray(record), None) for record in records], 1)
    for codec, name in codecs.items():
        ours = tmp_path / f"ours{extensions[codec]}"
        tfrecord.write(ours, byte_array(*records), record_type="ByteArray")
        assert read_java(spark, ours) == records
        assert read_java(spark, ours, api="old") == records
        conf = {} if name is None else {
            "mapreduce.output.fileoutputformat.compress": "true", "mapreduce.output.fileoutputformat.compress.codec": name,
        }  # fmt: skip
        pairs.saveAsNewAPIHadoopFile(
            str(tmp_path / f"new-{codec}"), "tfprov.hadoop.TFRecordFileOutputFormat", **NAMES, conf=conf
        )
        pairs.saveAsHadoopFile(
            str(tmp_path / f"old-{codec}"),
            "tfprov.hadoop.TFRecordFileOutputFormatV1",
            **NAMES,
            compressionCodecClass=name,
        )
        for api in ("new", "old"):
            (theirs,) = (tmp_path / f"{api}-{codec}").glob("part-*")
            assert theirs.name.endswith(extensions[codec])
            table = tfrecord.read_table(theirs, record_type="ByteArray")
            assert [bytes(value) for value in table["byteArray"].to_pylist()] == records
            if codec == "none":
                assert theirs.read_bytes() == ours.read_bytes()


def test_a_split_file_has_each_record_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Whatever the size of a split, and for every index: of all records, of some, of the first and the last."""
    records = [b"x" * (number % 50) for number in range(500)]
    file = tmp_path / "in" / "records"
    tfrecord.write(file, byte_array(*records), record_type="ByteArray")
    for every, largest in ((1, 1000), (7, 333), (1000, 100)):
        tfrecord.write_index(file, every=every)
        conf = {"mapreduce.input.fileinputformat.split.maxsize": str(largest)}
        assert read_java(spark, file, conf) == records
    assert read_java(spark, file, api="old") == records


def test_an_index_of_another_version_of_the_file_is_not_used(spark: "SparkSession", tmp_path: Path) -> None:
    file = tmp_path / "in" / "records"
    tfrecord.write(file, byte_array(*[b"first"] * 100), record_type="ByteArray")
    tfrecord.write_index(file)
    tfrecord.write(file, byte_array(*[b"another"] * 99), record_type="ByteArray")
    conf = {"mapreduce.input.fileinputformat.split.maxsize": "100"}
    for index in (None, "", "nothing to read\n", "0 21\n5 16\n", "9" * 30 + " 1\n"):
        if index is not None:
            (file.parent / "_records.idx").write_text(index)
        assert read_java(spark, file, conf) == [b"another"] * 99


WHOLE = frame(b"one") + frame(b"two")
SECOND = len(frame(b"one"))
DAMAGE = {
    "a header that is cut in its length": (WHOLE[: SECOND + 5], "the file ends in the header of the record"),
    "a header that is cut in its checksum": (WHOLE[: SECOND + 10], "the file ends in the header of the record"),
    "data that is cut": (WHOLE[:-5], "the file ends in the data of the record"),
    "a footer that is cut": (WHOLE[:-1], "the file ends in the data of the record"),
    "a length": (WHOLE[:SECOND] + b"\xff" + WHOLE[SECOND + 1 :], "the length does not match its checksum"),
    "data": (WHOLE[:-5] + b"X" + WHOLE[-4:], "the data does not match its checksum"),
    "a checksum": (WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]), "the data does not match its checksum"),
}


def test_damage_is_an_error_with_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    for number, (data, message) in enumerate(DAMAGE.values()):
        file = tmp_path / str(number)
        file.write_bytes(data)
        with pytest.raises(Exception, match=f"{file}: record 1 at byte {SECOND}: {message}"):
            read_java(spark, file)


def test_damage_in_a_later_split_has_its_byte(spark: "SparkSession", tmp_path: Path) -> None:
    file = tmp_path / "in" / "records"
    tfrecord.write(file, byte_array(*[b"record"] * 100), record_type="ByteArray")
    tfrecord.write_index(file)
    data = bytearray(file.read_bytes())
    data[50 * 22 + 13] ^= 1
    file.write_bytes(data)
    conf = {"mapreduce.input.fileinputformat.split.maxsize": "500"}
    with pytest.raises(Exception, match=f"{file}: at byte 1100: the data does not match its checksum"):
        read_java(spark, file, conf)


def test_checksums_can_be_passed_over_and_lengths_are_still_bounded(spark: "SparkSession", tmp_path: Path) -> None:
    """A hostile length takes no memory: it is an error when the file ends."""
    off = {"tensorflow.read.crc32check": "false"}
    file = tmp_path / "x"
    file.write_bytes(DAMAGE["data"][0])
    assert read_java(spark, file, off) == [b"one", b"twX"]
    for length, message in (
        (2**31 - 100, "the file ends in the data"),
        (2**63 + 1, "its length is 9223372036854775809"),
    ):
        file.write_bytes(length.to_bytes(8, "little") + bytes(100))
        with pytest.raises(Exception, match=message):
            read_java(spark, file, off)


def test_dataframes_and_hadoops_files_are_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    """What `tfprov.spark.write` writes is read by Java, by the extension, and Java passes over `_SUCCESS`."""
    import tfprov.spark  # noqa: PLC0415  of Spark

    tfprov.spark.write(spark.range(10, numPartitions=2), str(tmp_path / "t"), codec="zlib")
    records = read_java(spark, tmp_path / "t")
    (tmp_path / "again").write_bytes(b"".join(map(frame, records)))
    assert sorted(tfrecord.read_table(tmp_path / "again")["id"].to_pylist()) == list(range(10))
