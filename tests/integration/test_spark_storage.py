"""Tables of Spark's data source on real S3 and HDFS servers: written, committed, replaced, read."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from tests.support.hdfs import Hdfs
from tests.support.paths import ROOT
from tests.support.seaweedfs import BUCKET, S3Server

STEPS = """
import json, sys
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructType
from tfprov.spark.listing import listed
from tfprov.spark.options import parse
from tfprov.spark.part_files import PartFiles
from tfprov.spark.reader import FileReader
from tfprov.spark.storage import Storage
from tfprov.spark.writer import BatchWriter, Files, layout_of

url = sys.argv[1]
schema = StructType().add("id", LongType()).add("key", StringType())
storage = Storage(url)
seen = []

def rows():
    options = parse({"path": url})
    files = listed(options)
    table = pa.Table.from_batches(FileReader(options, schema).batches(files))
    names = sorted(name[len(storage.root) + 1:].partition("/part-")[0] for name in Storage(url).files(storage.root))
    seen.append([sorted(table.to_pylist(), key=lambda row: row["id"]), names])

def write(ids, overwrite, commit=True):
    options = parse({"path": url, "codec": "gzip", "partitionBy": "key"})
    writer = BatchWriter(options, schema, overwrite=overwrite)
    batch = pa.record_batch({"id": pa.array(ids), "key": pa.array([f"k {number % 2}" for number in ids])})
    scratch = writer._scratch(Storage(url))
    layout = layout_of(options, schema)
    written, lost = (
        PartFiles(Storage(url), layout, f"part-{writer._job}-{task}", f"{scratch}/{task}").write([batch])
        for task in range(2)
    )
    assert len(written) == len(lost) == 2
    (writer.commit if commit else writer.abort)([Files(tuple(written))])

write([1, 2], overwrite=False)
rows()
write([3, 4], overwrite=False)
rows()
write([5, 6], overwrite=True, commit=False)
rows()
write([7, 8], overwrite=True)
rows()
# Files, also hidden ones; S3 has no directories, and a server may list one that has just become empty.
left = sorted({name[len(storage.root) + 1:].split("/")[0] for name in Storage(url)._files.find(storage.root)})
print(json.dumps([seen, left]))
"""


def run(url: str, env: Mapping[str, str]) -> list[object]:
    command = [sys.executable, "-c", STEPS, url]
    done = subprocess.run(command, env={**os.environ, **env}, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: list[object] = json.loads(done.stdout)
    return result


def table(*numbers: int) -> list[object]:
    rows = [{"id": number, "key": f"k {number % 2}"} for number in numbers]
    return [rows, sorted(["key=k 0", "key=k 1"] * (len(numbers) // 2))]


EXPECTED = [[table(1, 2), table(1, 2, 3, 4), table(1, 2, 3, 4), table(7, 8)], ["_SUCCESS", "key=k 0", "key=k 1"]]
"""Written, appended to, an overwrite that fails, and one that does not; what is there in the end."""


def test_a_table_of_spark_on_s3(s3: S3Server) -> None:
    assert run(f"s3://{BUCKET}/tables/one", s3.env) == EXPECTED


def test_a_table_of_spark_on_hdfs(hdfs: Hdfs) -> None:
    assert run(f"{hdfs.url}/tables/one", hdfs.env) == EXPECTED
