"""Conversion of record files from and to other formats, with shards, shuffling and what must not be overwritten."""

import gc
import gzip
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec import AbstractFileSystem

from tfprov import tfrecord
from tfprov.errors import TfprovError
from tfprov.tfrecord.converting import shuffling
from tfprov.tfrecord.converting.formats import format_of
from tfprov.tfrecord.converting.images import image_size
from tfprov.tfrecord.converting.source import Source

TABLE = pa.table(
    {
        "id": list(range(1000)),
        "score": pa.array([None if row % 7 == 0 else row / 4 for row in range(1000)], pa.float32()),
        "text": [f'é, "{row}"\n' for row in range(1000)],
    }
)
NUMBERS = TABLE.drop_columns(["text"])


def read(path: Path) -> pa.Table:
    """Read a file of any format with the library of that format."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    back = path.with_name("back.tfrecord")
    tfrecord.convert(path, back, overwrite=True)
    return tfrecord.read_table(back)


def test_every_format_is_written_and_read_again(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", TABLE)
    wrong = []
    for name in ("a.parquet", "a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.npz", "a.tfrecord.gz"):
        source = tmp_path / "x.tfrecord"
        columns = ["id", "text"] if name == "a.npz" else None  # a null is NaN there
        done = tfrecord.convert(source, tmp_path / name, columns=columns)
        expected = TABLE if columns is None else TABLE.select(columns)
        table = read(tmp_path / name)
        if (
            done.files != (str(tmp_path / name),)
            or done.records != 1000
            or not table.select(expected.column_names).equals(expected)
        ):
            wrong.append(name)
    assert wrong == []
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[8]) == {"id": 8, "score": 2.0, "text": 'é, "8"\n'}
    tfrecord.convert(tmp_path / "a.parquet", tmp_path / "b.npz", columns=["score"])
    with np.load(tmp_path / "b.npz") as arrays:
        assert np.isnan(arrays["score"][:8]).tolist() == [True, *[False] * 6, True]


def test_lists_and_bytes_in_the_formats_that_have_them(tmp_path: Path) -> None:
    table = pa.table({"l": [[1, 2], [], [3]], "b": [b"\xff", b"", None], "p": [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]]})
    pq.write_table(table, tmp_path / "x.parquet")
    tfrecord.convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord")
    tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "y.parquet")
    assert pq.read_table(tmp_path / "y.parquet").select(["l", "b", "p"]).to_pylist() == table.to_pylist()
    tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "y.jsonl", columns=["b", "l"])
    assert [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()] == [
        {"b": "/w==", "l": [1, 2]}, {"b": "", "l": []}, {"b": None, "l": [3]},
    ]  # fmt: skip
    tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "y.npy", columns=["p"])
    assert np.load(tmp_path / "y.npy").tolist() == [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_numpy_arrays_of_any_shape_and_layout_are_columns(tmp_path: Path) -> None:
    images = np.arange(24, dtype=">u2").reshape(3, 2, 2, 2)
    labels = np.array(["cat", "dog", "é"])
    np.savez_compressed(tmp_path / "x.npz", image=images, label=labels, flag=np.array([True, False, True]))
    tfrecord.convert(tmp_path / "x.npz", tmp_path / "x.tfrecord")
    rows = tfrecord.read_table(tmp_path / "x.tfrecord").to_pylist()
    assert rows[1] == {"image": list(range(8, 16)), "label": "dog", "flag": 0}
    np.save(tmp_path / "x.npy", np.array([(1, 0.5), (2, 1.5)], [("a", "i4"), ("b", "f8")]))
    tfrecord.convert(tmp_path / "x.npy", tmp_path / "y.jsonl")
    assert (tmp_path / "y.jsonl").read_text() == '{"a": 1, "b": 0.5}\n{"a": 2, "b": 1.5}\n'


def test_types_of_text_files_are_those_that_all_rows_fit(tmp_path: Path) -> None:
    """The first block alone decides nothing: a column whose last value is no number is text."""
    lines = [f"{row},,{row},{row % 2 == 0},{row}" for row in range(170_000)]  # two blocks
    (tmp_path / "x.csv").write_text("\n".join(["a,b,c,d,e", *lines, "1.5,x,2,false,end"]))
    tfrecord.convert(tmp_path / "x.csv", tmp_path / "x.parquet")
    schema = pq.read_schema(tmp_path / "x.parquet")
    assert [str(field.type) for field in schema] == ["double", "string", "int64", "bool", "string"]
    times = {"t": [datetime(2026, 1, 2, 3, 4, 5), None], "d": [Decimal("1.50"), None], "x": [1.5, float("nan")]}
    pq.write_table(pa.table(times), tmp_path / "times.parquet")
    tfrecord.convert(tmp_path / "times.parquet", tmp_path / "times.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]
    assert rows == [{"t": "2026-01-02 03:04:05", "d": "1.50", "x": 1.5}, {"t": None, "d": None, "x": "nan"}]
    (tmp_path / "na.csv").write_text("country,score,note\nNA,nan,null\n,1.5,N/A\n")
    first, second = read(tmp_path / "na.csv").to_pylist()
    assert (first["country"], first["note"], second) == ("NA", "null", {"country": None, "note": "N/A", "score": 1.5})
    assert np.isnan(first["score"])
    texts = ["\n".join(["line"] * (row % 900)) for row in range(3000)]
    tfrecord.write(tmp_path / "lines.tfrecord", pa.table({"text": texts}))
    tfrecord.convert(tmp_path / "lines.tfrecord", tmp_path / "lines.csv")
    assert read(tmp_path / "lines.csv")["text"].to_pylist() == texts  # of several blocks, each cut within a value
    with (tmp_path / "x.jsonl").open("w") as stream:
        stream.writelines('{"a": 1, "b": [1]}\n' for _ in range(5000))
        stream.write('\n{"a": 0.5, "c": "z"}\n')
    tfrecord.convert(tmp_path / "x.jsonl", tmp_path / "y.parquet")
    table = pq.read_table(tmp_path / "y.parquet")
    assert table.slice(4999).to_pylist() == [{"a": 1.0, "b": [1], "c": None}, {"a": 0.5, "b": None, "c": "z"}]


def png(height: int, width: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 30, 40) + b"rest"
SIZES = [
    (png(3, 4), (3, 4)), (JPEG, (30, 40)), (b"GIF89a" + struct.pack("<HH", 5, 6), (6, 5)), (JPEG[:12], None), (b"", None),
    (b"BM".ljust(18, b"\0") + struct.pack("<ii", 7, -8), (8, 7)), (b"RIFF\0\0\0\0WEBP", None), (png(1, 1)[:20], None),
]  # fmt: skip


def test_a_directory_of_images_becomes_records_and_records_a_directory(tmp_path: Path) -> None:
    assert [image_size(data) for data, _ in SIZES] == [size for _, size in SIZES]
    for name, data in {"dog/2.png": png(3, 4), "cat/1.JPG": JPEG, "dog/.hidden.png": b"", "dog/notes.txt": b""}.items():
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(data)
    tfrecord.convert(tmp_path / "images", tmp_path / "x.tfrecord")
    cat, dog = tfrecord.read_table(tmp_path / "x.tfrecord").to_pylist()
    assert cat == {"image": JPEG, "label": 0, "text": "cat", "height": 30, "width": 40}
    assert dog == {"image": png(3, 4), "label": 1, "text": "dog", "height": 3, "width": 4}

    tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "out", destination_format="images")
    written = {str(file.relative_to(tmp_path / "out")): file.read_bytes() for file in (tmp_path / "out").rglob("*.*")}
    assert written == {"cat/0000000.jpg": JPEG, "dog/0000001.png": png(3, 4)}
    (tmp_path / "images" / "dog" / "gone.png").symlink_to("nowhere")
    with pytest.raises(TfprovError, match="No such file or directory; check the path"):
        tfrecord.convert(tmp_path / "images", tmp_path / "y.tfrecord")
    (tmp_path / "images" / "dog" / "gone.png").unlink()
    with pytest.raises(TfprovError, match="it exists; name another destination, or pass --overwrite"):
        tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "out", destination_format="images")
    tfrecord.convert(tmp_path / "images", tmp_path / "out", destination_format="images", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "out", "x.tfrecord"]


def test_shards_are_the_next_rows_each_and_replace_others_only_when_asked(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", TABLE)
    done = tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "out", shards=3, compression="gzip")
    names = [f"part-0000{number}-of-00003.tfrecord.gz" for number in range(3)]
    assert [Path(file).name for file in done.files] == names
    parts = [tfrecord.read_table(file, columns=["id"])["id"].to_pylist() for file in done.files]
    assert parts == [[*range(333)], [*range(333, 666)], [*range(666, 1000)]]
    with pytest.raises(TfprovError, match="the directory has such files; name another one, or pass --overwrite"):
        tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "out", shards=2)
    again = tfrecord.convert(
        tmp_path / "x.tfrecord", tmp_path / "out", shards=2, destination_format="csv", overwrite=True
    )
    assert sorted(str(each) for each in (tmp_path / "out").iterdir()) == list(again.files)
    assert again.to_dict() == {"files": list(again.files), "records": 1000}


def test_an_empty_path_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", NUMBERS)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("part-old.csv").write_text("id\n1\n")
    source = tmp_path / "x.tfrecord"
    calls: list[Callable[[], object]] = [  # those that only read come first: others might write into /
        lambda: tfrecord.read_table(""),
        lambda: tfrecord.verify(["", source]),
        lambda: tfrecord.convert(source, "", shards=2, destination_format="csv", overwrite=True),
        lambda: tfrecord.convert(source, "", destination_format="images", overwrite=True),
        lambda: tfrecord.convert("", tmp_path / "y.tfrecord"),
        lambda: tfrecord.write("", NUMBERS, shards=2),
    ]
    for call in calls:
        with pytest.raises(TfprovError, match=r"^an empty text names no file; name a file or a directory$"):
            call()
    assert [path.name for path in Path().iterdir()] == ["part-old.csv"]


def test_write_gives_each_shard_the_next_rows_of_a_table(tmp_path: Path) -> None:
    files = tfrecord.write(tmp_path / "out", TABLE, shards=4)
    assert tfrecord.read_table(files).equals(TABLE)
    assert tfrecord.read_table(files[1])["id"].to_pylist() == [*range(250, 500)]


def test_a_format_goes_by_the_extension_before_the_number_of_a_shard() -> None:
    names = ("mnist-train.tfrecord-00000-of-00001", "train-00000-of-01024", "part-00000-of-00002.csv.gz")
    assert [format_of(name, "--from") for name in names] == ["tfrecord", "tfrecord", "csv"]


def test_a_seed_decides_the_order_whatever_the_source_and_the_buckets(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", NUMBERS)
    orders = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / name, shuffle=True, seed=seed)
        orders[name] = tfrecord.read_table(tmp_path / name)["id"].to_pylist()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert orders["a"] != orders["c"]
    assert sorted(orders["a"]) == sorted(orders["c"]) == list(range(1000))

    def buckets(batch_rows: int) -> list[int]:
        source = Source(NUMBERS.schema, 1000, 5 * shuffling.BUCKET_BYTES, lambda: iter(NUMBERS.to_batches(batch_rows)))
        batches = shuffling.shuffled(source, 1, tmp_path, lambda _rows: None)
        return [row for batch in batches for row in batch["id"].to_pylist()]

    assert buckets(7) == buckets(1000)
    assert sorted(buckets(100)) == list(range(1000))
    assert sum(at < row for at, row in enumerate(buckets(100))) in range(400, 600), "rows move both ways"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "x.tfrecord"]


def test_views_in_parquet_files_are_texts_and_bytes_in_every_format(tmp_path: Path) -> None:
    views = {"t": pa.array(["x", None], pa.string_view()), "b": pa.array([b"1", b"\xff"], pa.binary_view())}
    pq.write_table(pa.table(views), tmp_path / "x.parquet")
    for name in ("x.csv", "x.jsonl", "x.tfrecord"):
        tfrecord.convert(tmp_path / "x.parquet", tmp_path / name)
    assert (tmp_path / "x.csv").read_text() == '"t","b"\n"x","MQ=="\n,"/w=="\n'
    assert read(tmp_path / "x.tfrecord").to_pydict() == {"t": ["x", None], "b": [b"1", b"\xff"]}


def test_a_parquet_file_that_fails_in_its_middle_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    gc.collect()  # what other tests have left
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    values = [1] * 4096 + [2**53 + 1] * 4096 + [0.5]
    (tmp_path / "x.jsonl").write_text("".join(f'{{"a": {value}}}\n' for value in values))
    with pytest.raises(TfprovError, match="lines 4097 to 8192: Integer value"):
        tfrecord.convert(tmp_path / "x.jsonl", tmp_path / "x.parquet")
    gc.collect()
    assert ignored == []


def test_what_cannot_be_converted_is_one_error_and_leaves_everything_as_it_was(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", pa.table({"a": [1, None], "l": [[1], [1, 2]], "b": [b"\xff", b""]}))
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("s"))}), tmp_path / "t.parquet")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n{"a"\n')
    (tmp_path / "half.jsonl").write_text('{"a": "\\ud83d\\ude00"}\n{"a": "\\uD83D"}\n')
    (tmp_path / "deep.jsonl").write_text('{"a": ' + "[" * 100_000)
    (tmp_path / "nested.jsonl").write_text('{"a": {"b": 1}}\n')
    (tmp_path / "mixed.jsonl").write_text('{"a": 1}\n{"a": "x"}\n')
    (tmp_path / "huge.jsonl").write_text('{"a": 99999999999999999999}\n')
    (tmp_path / "bad.csv").write_text("")
    (tmp_path / "latin.csv").write_bytes(b"a\n\xe9\n")
    (tmp_path / "header.csv").write_bytes(b"\xe9\n1\n")
    (tmp_path / "commas.csv").write_text("a,,\n1,,\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "bad.parquet").write_text("PAR1")
    (tmp_path / "bad.npz").write_text("no")
    (tmp_path / "data.xyz").write_text("")
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "complex.npy", np.array([1j]))
    array = (tmp_path / "complex.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(array.replace(b"(1,)", b"(1, "))
    (tmp_path / "below.npy").write_bytes(array.replace(b"(1,), }", b"(-2,),}"))
    np.savez(tmp_path / "uneven.npz", a=np.zeros(2), b=np.zeros(3))
    (tmp_path / "cut.tfrecord").write_bytes((tmp_path / "x.tfrecord").read_bytes()[:-1])
    gz = gzip.compress(b"a\n1\n")
    (tmp_path / "cut.csv.gz").write_bytes(gz[:-9])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    cases: list[tuple[str, str, dict[str, Any], str]] = [
        ("x.tfrecord", "o.csv", {}, "column `l` has lists, which CSV files have not; leave it out with --columns"),
        ("x.tfrecord", "o.npz", {"columns": ["l"]}, "column `l` has lists of different lengths"),
        ("x.tfrecord", "o.npz", {"columns": ["a"]}, "column `a` has nulls, which NumPy files have not"),
        ("x.tfrecord", "o.npz", {"columns": ["b"]}, "column `b` has the type binary, which NumPy files have not"),
        ("nested.jsonl", "o.npz", {}, "column `a` has the type struct.*, which NumPy files have not"),
        ("x.tfrecord", "new.npy", {}, "a .npy file has one column, and there are 3; write .npz"),
        ("x.tfrecord", "o.csv", {"columns": ["z"]}, "there is no column `z`; the columns are a, b, l"),
        ("x.tfrecord", "x.tfrecord", {"overwrite": True}, "it is a source and the destination"),
        (
            "x.tfrecord",
            "",
            {"overwrite": True, "destination_format": "images"},
            "a source lies in it, and it is replaced",
        ),
        ("x.tfrecord", "t.parquet", {}, "it exists; name another destination, or pass --overwrite"),
        (
            "x.tfrecord",
            "o.parquet",
            {"compression": "lzma"},
            "unknown compression `lzma` for this format; use none, snappy",
        ),
        ("x.tfrecord", "o.xyz", {}, "o.xyz: the extension names no format; name one with --to"),
        ("x.tfrecord", "o.csv", {"source_format": "excel"}, "unknown format `excel`; use tfrecord, parquet"),
        ("x.tfrecord", "o", {"destination_format": "images"}, "there is no column `image`|there is no column `label`"),
        ("data.xyz", "o.csv", {}, "data.xyz: the extension names no format; name one with --from"),
        ("t.parquet", "o.tfrecord", {}, "column `t` has the type timestamp.*; cast it to int64 or string"),
        ("bad.jsonl", "o.tfrecord", {}, "bad.jsonl: line 2: it is no JSON"),
        ("half.jsonl", "o.tfrecord", {}, "half.jsonl: line 2: it is no JSON: .*surrogates not allowed"),
        ("deep.jsonl", "o.tfrecord", {}, "deep.jsonl: line 1: it is no JSON: maximum recursion depth"),
        ("mixed.jsonl", "o.tfrecord", {}, "mixed.jsonl: lines 1 to 2: `a` has values of several types"),
        (
            "huge.jsonl",
            "o.tfrecord",
            {},
            "huge.jsonl: lines 1 to 1: `a` has a number of more than 64 bits; write it as",
        ),
        ("bad.csv", "o.tfrecord", {}, "bad.csv: it is no CSV file with a header: Empty CSV file"),
        ("latin.csv", "o.tfrecord", {}, "latin.csv: column `a` has text that is not UTF-8; convert the file to UTF-8"),
        (
            "header.csv",
            "o.tfrecord",
            {},
            "header.csv: the header has text that is not UTF-8; convert the file to UTF-8",
        ),
        ("twice.csv", "o.tfrecord", {}, "twice.csv: column `a` appears more than once"),
        ("commas.csv", "o.tfrecord", {}, "commas.csv: column `` appears more than once; rename one"),
        ("cut.csv.gz", "o.tfrecord", {}, "cut.csv.gz: "),
        ("bad.parquet", "o.tfrecord", {}, "bad.parquet: it is no whole Parquet file"),
        ("bad.npz", "o.tfrecord", {}, "bad.npz: it is no NumPy file with columns"),
        ("o.npy", "o.tfrecord", {}, "o.npy: it is no NumPy file with columns: array `value` has objects"),
        ("complex.npy", "o.tfrecord", {}, "complex.npy: it is no NumPy file with columns: Unsupported numpy type"),
        ("cut.npy", "o.tfrecord", {}, "cut.npy: it is no NumPy file with columns: "),
        (
            "below.npy",
            "o.tfrecord",
            {},
            r"below.npy: it is no NumPy file with columns: array `value` has the shape \(-2,\)",
        ),
        ("uneven.npz", "o.tfrecord", {}, r"its arrays have different numbers of rows \(a: 2, b: 3\)"),
        ("cut.tfrecord", "o.parquet", {}, "cut.tfrecord: record 1 at byte"),
        ("none.csv", "o.tfrecord", {}, "none.csv: No such file or directory"),
    ]
    for source, destination, options, message in cases:
        with pytest.raises(TfprovError, match=message) as caught:
            tfrecord.convert(tmp_path / source, tmp_path / destination, **options)
        assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    dropped: list[Any] = []
    assert tfrecord.convert(tmp_path / "cut.tfrecord", tmp_path / "o.jsonl", salvage=dropped.append).records == 1
    assert len(dropped) == 1


@pytest.mark.parametrize("destination_format", ["tfrecord", "csv", "parquet"])
def test_a_device_or_a_pipe_is_not_replaced(tmp_path: Path, destination_format: str) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", NUMBERS)
    os.mkfifo(tmp_path / "pipe")
    options: dict[str, Any] = {"destination_format": destination_format, "overwrite": True}
    with pytest.raises(TfprovError, match="pipe: it is no regular file; name another destination"):
        tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "pipe", **options)
    assert (tmp_path / "pipe").is_fifo()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_source_that_changes_between_its_two_passes_replaces_nothing(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", TABLE)
    tfrecord.write(tmp_path / "other", TABLE.slice(1))
    (tmp_path / "o.csv").write_text("old")

    def replace_source(what: str, _done: int, _count: int | None) -> None:
        if what == "reading" and (tmp_path / "other").exists():
            (tmp_path / "other").replace(tmp_path / "x.tfrecord")

    message = "x.tfrecord: the sources had 1,000 records at first and 999 afterwards; convert files that do not change"
    with pytest.raises(TfprovError, match=message):
        tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "o.csv", overwrite=True, progress=replace_source)
    assert (tmp_path / "o.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "x.tfrecord"]


def test_what_exists_on_a_file_system_of_fsspec_is_refused(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", NUMBERS)
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "y.csv").write_text("old")
    with pytest.raises(TfprovError, match=r"file:.*y.csv: it exists; name another destination, or pass --overwrite"):
        tfrecord.convert(tmp_path / "x.tfrecord", f"file://{tmp_path}/o/y.csv")
    with pytest.raises(TfprovError, match=r"file:.*/o: it is a directory; name a file, or pass --shards"):
        tfrecord.convert(tmp_path / "x.tfrecord", f"file://{tmp_path}/o", destination_format="csv", overwrite=True)
    assert (tmp_path / "o" / "y.csv").read_text() == "old"
    tfrecord.convert(tmp_path / "x.tfrecord", f"file://{tmp_path}/o/y.csv", overwrite=True)
    tfrecord.convert(tmp_path / "x.tfrecord", f"file://{tmp_path}/o/z.csv")
    assert (tmp_path / "o" / "z.csv").read_bytes() == (tmp_path / "o" / "y.csv").read_bytes()

    class Closed(AbstractFileSystem):  # type: ignore[misc]
        """Fails as the clients of S3 and HDFS do without credentials."""

        def info(self, _path: str, **_: object) -> None:
            raise PermissionError("no key")

    fsspec.register_implementation("closed", Closed, clobber=True)
    with pytest.raises(TfprovError, match=r"^closed://x/y.csv: no key; check the URL and the credentials$"):
        tfrecord.convert(tmp_path / "x.tfrecord", "closed://x/y.csv")


def test_identifiers_in_csv_files_keep_their_digits(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "id,zip,hex,large,float,small\n"
        "99999999999999999998,02134,0x10,100000000000000000000,0.5,0\n"
        "99999999999999999999,10001,0x11,1.5,-0.5,-9223372036854775808\n"
        ",,,,,\n"
    )
    rows = read(tmp_path / "x.csv").to_pylist()
    assert [row["id"] for row in rows] == ["99999999999999999998", "99999999999999999999", None]
    assert [row["zip"] for row in rows] == ["02134", "10001", None]
    assert [row["hex"] for row in rows] == [16, 17, None]
    assert [type(rows[1][name]) for name in ("large", "float", "small")] == [float, float, int]
    assert rows[1]["small"] == -(2**63)
    lines = [str(row) for row in range(700_000)]  # two blocks, and the identifiers are in the second one
    (tmp_path / "late.csv").write_text("\n".join(["id", *lines, "0700000", "18446744073709551616"]))
    assert read(tmp_path / "late.csv")["id"].to_pylist()[-3:] == ["699999", "0700000", "18446744073709551616"]


def test_a_column_of_several_csv_files_has_the_type_that_all_of_them_fit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, text in {
        "a": "n,f,zip,e\n,1,10001,\n",
        "b": "n,f,zip,e\n2,0.5,02134,\n",
        "c": "n,f,zip,e\n",
        "d": "zip\n10002\n",
    }.items():
        (tmp_path / "in" / f"{name}.csv").write_text(text)
    tfrecord.convert(tmp_path / "in", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet")
    assert [str(field.type) for field in table.schema] == ["int64", "double", "string", "string"]
    assert table.to_pylist() == [
        {"n": None, "f": 1.0, "zip": "10001", "e": None},
        {"n": 2, "f": 0.5, "zip": "02134", "e": None},
        {"n": None, "f": None, "zip": "10002", "e": None},
    ]


def test_overwrite_removes_only_files_with_the_names_of_shards(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", NUMBERS)
    (tmp_path / "out").mkdir()
    for name in ("part-notes.txt", "part-00000-5f3a.snappy.parquet", "part-00002-of-00003.csv"):
        (tmp_path / "out" / name).write_text("")
    done = tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "out", shards=1, overwrite=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "part-00000-5f3a.snappy.parquet", Path(done.files[0]).name, "part-notes.txt",
    ]  # fmt: skip


def test_python_opens_a_csv_file_only_for_its_size(tmp_path: Path) -> None:
    """A stream of Python's below Arrow's reader is called by a thread that reads ahead, also while Python ends."""
    (tmp_path / "x.csv").write_text("a\n1\n")
    program = (
        "import sys\n"
        "from tfprov import tfrecord\n"
        "opened = []\n"
        "sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == 'open' else None)\n"
        "tfrecord.convert(sys.argv[1], sys.argv[2])\n"
        "print(opened.count(sys.argv[1]))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "x.csv"), str(tmp_path / "y.jsonl")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "1\n"


def test_a_class_whose_name_is_too_long_for_a_directory_is_one_error(tmp_path: Path) -> None:
    tfrecord.write(tmp_path / "x.tfrecord", pa.table({"image": [png(1, 1)] * 2, "text": ["cat", "d" * 256]}))
    with pytest.raises(TfprovError, match=f"^row 1, class `{'d' * 60}`: File name too long; check the path$"):
        tfrecord.convert(tmp_path / "x.tfrecord", tmp_path / "out", destination_format="images")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tfrecord"]
