"""tfprov.tfrecord as users call it: files, directories, shards, columns, and errors of options."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from fsspec import AbstractFileSystem

import tfprov
from tfprov import tfrecord
from tfprov.errors import TfprovError

TABLE = pa.table({"a": list(range(1000)), "b": [f"text {number}" for number in range(1000)]})


def test_shards_hold_every_row_once_and_appear_together(tmp_path: Path) -> None:
    files = tfrecord.write(tmp_path / "out", TABLE, shards=3, compression="gzip")
    assert [Path(file).name for file in files] == [f"part-0000{number}-of-00003.tfrecord.gz" for number in range(3)]
    (tmp_path / "out" / "_SUCCESS").touch()
    table = tfrecord.read_table(tmp_path / "out", columns=["a"], schema=TABLE.schema)
    assert sorted(table["a"].to_pylist()) == list(range(1000))
    assert tfrecord.read_table(f"{tmp_path}/out/part-*").num_rows == 1000
    tfrecord.write(tmp_path / "out" / "plain", TABLE)
    (index,) = tfrecord.write_index(tmp_path / "out" / "plain")
    assert tfrecord.read_table(f"{tmp_path}/out/*").num_rows == 2000
    with pytest.raises(tfrecord.DamagedFile):
        tfrecord.read_table(f"{tmp_path}/out/_plain*")
    (tmp_path / "damaged").write_bytes((tmp_path / "out" / "plain").read_bytes()[:-1])
    with pytest.raises(
        tfrecord.DamagedFile, match="; restore the file, or write the records before it into another with"
    ):
        tfrecord.write_index(tmp_path / "damaged")
    assert not (tmp_path / "_damaged.idx").exists()
    (tmp_path / "out" / "plain").unlink()
    Path(index.index).unlink()
    with pytest.raises(TfprovError, match="the directory has record files; remove them"):
        tfrecord.write(tmp_path / "out", TABLE, shards=2)

    def fails() -> object:
        yield TABLE.to_batches()[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        tfrecord.write(tmp_path / "other", fails(), shards=2)
    assert list((tmp_path / "other").iterdir()) == []


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"old")
    bad = pa.table({"a": pa.array([[1], [None]], pa.list_(pa.int64()))})
    with pytest.raises(tfrecord.SchemaError, match="column `a` has a null inside a list"):
        tfrecord.write(path, bad)
    assert [each.name for each in tmp_path.iterdir()] == ["x.tfrecord"]
    assert path.read_bytes() == b"old"
    tfrecord.write(path, TABLE)
    assert tfrecord.read_table(path).equals(TABLE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(TfprovError, match="tfrecord: File too large; free some there, or name another"):
            tfrecord.write(path, pa.table({"a": [b"x" * 100_000]}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert tfrecord.read_table(path).equals(TABLE)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TfprovError, match="pipe: it is no regular file; name another destination"):
        tfrecord.write(tmp_path / "pipe", TABLE)
    assert (tmp_path / "pipe").is_fifo()


def test_paths_with_a_scheme_go_through_fsspec() -> None:
    tfrecord.write("memory://records/one/x.tfrecord.gz", TABLE)
    assert tfrecord.read_table("memory://records/one/x.tfrecord.gz").equals(TABLE)
    assert tfrecord.read_table("memory://records/one").equals(TABLE)
    tfrecord.write("memory://records/one/below/y.tfrecord", TABLE)
    assert tfrecord.read_table("memory://records/one/*").equals(TABLE)
    assert tfrecord.read_table("memory://records/**").num_rows == 2 * TABLE.num_rows, "no record twice"
    with pytest.raises(TfprovError, match="memory://records/none: No such file or directory; check the URL"):
        tfrecord.read_table("memory://records/none")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RuntimeError("no key\n"), "no key"), (NotImplementedError(), "its file system cannot do this")],
)
def test_an_exception_of_a_file_system_is_an_error_with_the_url(error: Exception, reason: str) -> None:
    class Broken(AbstractFileSystem):  # type: ignore[misc]
        """Fails as the clients of S3 and HDFS do without credentials or a name node."""

        def info(self, _path: str, **_: object) -> None:
            raise error

        makedirs = info

    fsspec.register_implementation("broken", Broken, clobber=True)
    message = f"^broken://x/y: {reason}; check the URL and the credentials$"
    for action in (tfrecord.read_table, lambda url: tfrecord.write(url, TABLE)):
        with pytest.raises(TfprovError, match=message):
            action("broken://x/y")


def test_batches_and_columns_are_what_was_asked_for(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x", TABLE)
    batches = list(tfrecord.read(tmp_path / "x", columns=["b", "a"], batch_rows=300))
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]
    assert batches[0].schema.names == ["b", "a"]
    assert sum(batch.num_rows for batch in tfrecord.read(tmp_path / "x", columns=[])) == 1000
    (tmp_path / "empty").touch()
    assert [tfrecord.read_table(tmp_path / name, columns=[]).num_rows for name in ("x", "empty")] == [1000, 0]
    assert tfrecord.read_table(tmp_path / "x", columns=iter(["b"])).equals(TABLE.select(["b"]))
    assert tfrecord.infer_schema(tmp_path / "x", sample_records=1) == TABLE.schema


def test_wrong_options_and_types_are_one_error_with_the_fix(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x", TABLE)
    deep = pa.table({"x": pa.array([[[1]]])})
    calls = {
        "there is no column `c`; the columns are a, b": lambda: tfrecord.read_table(tmp_path / "x", columns=["c"]),
        "columns must be a list": lambda: tfrecord.read_table(tmp_path / "x", columns="a"),
        "unknown compression `lzma`; use auto, none, gzip or zlib": lambda: tfrecord.read_table(
            tmp_path / "x", compression="lzma"
        ),
        "unknown record type `Row`; use Example": lambda: tfrecord.read_table(tmp_path / "x", record_type="Row"),
        "unknown rules `mine` for inference; use connector or linkedin": lambda: tfrecord.read_table(
            tmp_path / "x", rules="mine"
        ),
        "missing: No such file or directory; check the path": lambda: tfrecord.read_table(tmp_path / "missing"),
        "there are no files; check the path": lambda: tfrecord.read_table(f"{tmp_path}/*.none"),
        "has 2 levels of lists, and Example has 1; use the record type SequenceExample": lambda: tfrecord.write(
            tmp_path / "y", deep
        ),
        "has the type timestamp.* cast it to int64 or string": lambda: tfrecord.write(
            tmp_path / "y", pa.table({"t": pa.array([1], pa.timestamp("s"))})
        ),
        "ByteArray records have one column": lambda: tfrecord.write(tmp_path / "y", TABLE, record_type="ByteArray"),
    }
    for message, call in calls.items():
        with pytest.raises(TfprovError, match=message) as caught:
            call()  # type: ignore[no-untyped-call]
        assert "\n" not in str(caught.value)


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = (
        "import sys, tfprov, tfprov.tfrecord\n"
        "print([name for name in ('numpy', 'pyarrow', 'fsspec') if name in sys.modules])\n"
        "sys.modules['pyarrow'] = None\n"
        "try: tfprov.tfrecord.read\n"
        "except tfprov.TfprovError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "[]\nrecord files need the package `pyarrow`, which is not installed; pip install 'tfprov[data]'\n"
    )
    assert tfprov.tfrecord.read is tfrecord.read


def test_a_pipe_is_read_once_and_refused_where_its_schema_is_not_known(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x", TABLE.slice(0, 10))
    data = (tmp_path / "x").read_bytes()

    def pipe() -> str:
        outlet, inlet = os.pipe()
        opened.append(outlet)
        os.write(inlet, data)
        os.close(inlet)
        return f"/dev/fd/{outlet}"

    opened: list[int] = []
    try:
        for read in (tfrecord.read, tfrecord.read_table):
            with pytest.raises(TfprovError, match="it is a pipe, and it is read twice; write it to a file first"):
                read(pipe())
        assert tfrecord.read_table(pipe(), schema=TABLE.schema).num_rows == 10
        assert tfrecord.read_table(pipe(), record_type="ByteArray").num_rows == 10
    finally:
        for each in opened:
            os.close(each)


def test_more_shards_than_open_files_raise_the_limit_or_are_one_error(tmp_path: Path) -> None:
    """The limits are those of a process of its own: a hard limit cannot be raised again."""
    program = (
        "import resource, sys, pyarrow\n"
        "from tfprov import TfprovError, tfrecord\n"
        "table = pyarrow.table({'a': [1]})\n"
        "tfrecord.write(sys.argv[1] + '/first', table)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (60, 200))\n"
        "print(len(tfrecord.write(sys.argv[1] + '/some', table, shards=100)))\n"
        "try: tfrecord.write(sys.argv[1] + '/many', table, shards=300)\n"
        "except TfprovError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    count, error = done.stdout.splitlines()
    assert count == "100"
    assert error.endswith("of-00300.tfrecord: Too many open files; use fewer shards, or raise `ulimit -n`")
    assert list((tmp_path / "many").iterdir()) == []


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()])
def test_views_of_strings_and_binaries_are_written_and_read(tmp_path: Path, view: pa.DataType) -> None:
    values = ["short", None, "longer than the twelve bytes that a view holds itself", ""]
    table = pa.table(
        {"x": pa.array(values).cast(view), "y": pa.array([["a", "b"], [], ["c"], None]).cast(pa.list_(view))}
    )
    tfrecord.write(tmp_path / "x", table.slice(1))
    assert tfrecord.read_table(tmp_path / "x", schema=table.schema).equals(table.slice(1))
