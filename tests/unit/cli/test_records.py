"""`tfprov records`: lines of JSON, schemas, verdicts and statistics of record files."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.golden_records import FOLDER, LISTS
from tfprov.cli.records import RowMeter, records_command
from tfprov.errors import TfprovError

PLAIN = str(FOLDER / "plain.tfrecord")


def records(*words: str) -> Result:
    return CliRunner().invoke(records_command, words)


def test_records_are_printed_as_lines_of_json() -> None:
    head = records("head", "-n", "2", PLAIN, "--columns", "int,text,blobs")
    assert [json.loads(line) for line in head.stdout.splitlines()] == [
        {"int": -5, "text": "é 0", "blobs": []},
        {"int": 995, "text": "é 1", "blobs": ["//////8="]},
    ]
    assert len(records("head", "-n", str(10**20), PLAIN).stdout.splitlines()) == len(
        records("cat", PLAIN).stdout.splitlines()
    )
    cat = records("cat", "--record-type", "SequenceExample", str(FOLDER / "sequence.tfrecord"))
    assert [json.loads(line) for line in cat.stdout.splitlines()] == LISTS


def test_schema_and_statistics_are_printed_for_people_and_programs() -> None:
    schema = json.loads(records("schema", PLAIN, "--json").stdout)
    assert schema["ints"] == "list<item: int64>"
    assert records("schema", PLAIN).stdout.splitlines()[:2] == ["COLUMN  TYPE", "big     int64"]
    statistics = json.loads(records("stats", PLAIN, "--json", "--columns", "maybe,floats").stdout)
    assert statistics["records"] == 50
    assert statistics["columns"]["maybe"] == {"type": "int64", "missing": 25, "min": 1, "max": 49}
    assert records("stats", PLAIN, "--columns", "text").stdout.splitlines()[0] == "50 records"


def test_damaged_files_are_verified_and_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(Path(PLAIN).read_bytes()[:-1])
    verified = records("verify", str(path), PLAIN)
    assert isinstance(verified.exception, TfprovError)
    assert [line.partition(": ")[2].partition(",")[0] for line in verified.stdout.splitlines()] == ["damaged", "whole"]
    assert json.loads(records("verify", "--json", PLAIN).stdout)[0]["records"] == 50
    salvaged = records("cat", "--salvage", str(path))
    assert len(salvaged.stdout.splitlines()) == 49
    assert salvaged.stderr.startswith(
        f"warning: dropped this record and the rest of the file: {path}: record 49 at byte "
    )
    with pytest.raises(TfprovError, match="record 49"):
        raise records("cat", str(path)).exception or AssertionError


def test_convert_says_what_it_wrote_and_shows_progress_only_on_a_terminal(tmp_path: Path) -> None:
    options = ("--shards", "2", "--shuffle", "--seed", "3", "--columns", "int,text")
    done = records("convert", PLAIN, str(tmp_path / "out"), *options)
    assert (done.stdout, done.stderr) == ("wrote 2 files, 50 records\n", "")
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        f"part-0000{number}-of-00002.tfrecord" for number in range(2)
    ]
    back = records("convert", str(tmp_path / "out"), str(tmp_path / "x.csv"))
    assert back.stdout == "wrote 1 file, 50 records\n"
    rows = (tmp_path / "x.csv").read_text().splitlines()
    assert rows[0] == '"int","text"'
    assert sorted(rows[1:]) == sorted(f'{row * 1000 - 5},"é {row}"' for row in range(50))
    again = records("convert", PLAIN, str(tmp_path / "x.csv"))
    assert str(again.exception) == f"{tmp_path}/x.csv: it exists; name another destination, or pass --overwrite"

    times = iter([0.0, 0.1, 2.0, 5.0])
    meter = RowMeter(lambda: next(times))
    steps = [("reading", 10, None), ("reading", 20, None), ("reading", 4000, None), ("writing", 1000, 4000)]
    assert [meter.text(*step) for step in steps] == [
        "reading 10 records", None, "reading 4,000 records · 2,000 records/s", "writing 1,000 of 4,000 records · 25%",
    ]  # fmt: skip


def test_an_index_has_the_place_of_each_record_or_of_some_and_the_last(tmp_path: Path) -> None:
    data = Path(PLAIN).read_bytes()
    (tmp_path / "plain").write_bytes(data)
    done = records("index", str(tmp_path))
    assert done.stdout == f"{tmp_path}/_plain.idx: 50 records, 50 lines\n"
    every = [tuple(map(int, line.split())) for line in (tmp_path / "_plain.idx").read_text().splitlines()]
    assert [offset for offset, _ in every] == [0, *(offset + size for offset, size in every[:-1])]
    assert sum(every[-1]) == len(data)
    assert records("index", str(tmp_path / "plain"), "--every", "20").stdout.endswith(
        "_plain.idx: 50 records, 4 lines\n"
    )
    some = [tuple(map(int, line.split())) for line in (tmp_path / "_plain.idx").read_text().splitlines()]
    assert some == [every[0], every[20], every[40], every[49]]


def test_what_cannot_be_indexed_is_refused_and_leaves_no_index(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(Path(PLAIN).read_bytes()[:-1])
    refused = records("index", str(tmp_path))
    assert isinstance(refused.exception, TfprovError)
    assert "cut: record 49 at byte" in str(refused.exception)
    compressed = records("index", str(tmp_path / "x.gz"))
    assert str(compressed.exception).startswith(f"{tmp_path}/x.gz: a compressed file cannot be indexed; ")
    assert [path.name for path in tmp_path.iterdir()] == ["cut"]


def test_a_file_that_cannot_be_opened_is_damaged_and_the_others_are_verified(tmp_path: Path) -> None:
    verified = records("verify", PLAIN, str(tmp_path / "nope"), PLAIN)
    verdicts = [line.rpartition(": ")[2].partition(",")[0] for line in verified.stdout.splitlines()]
    assert verdicts == ["whole", "damaged", "whole"]
    assert str(verified.exception) == f"{tmp_path}/nope: No such file or directory; check the path"


def test_a_pipe_is_refused_where_it_is_read_twice_and_verified(tmp_path: Path) -> None:
    outlet, inlet = os.pipe()
    os.write(inlet, Path(PLAIN).read_bytes())
    os.close(inlet)
    pipe = f"/dev/fd/{outlet}"
    message = f"{pipe}: it is a pipe, and it is read twice; write it to a file first"
    try:
        for words in (
            ("cat", pipe),
            ("stats", pipe),
            *(("convert", "--from", each, pipe, str(tmp_path / "o.tfrecord")) for each in ("tfrecord", "csv", "json")),
        ):
            assert str(records(*words).exception) == message, words
        assert list(tmp_path.iterdir()) == []
        assert records("verify", pipe).stdout.startswith(f"{pipe}: whole, 50 records")
    finally:
        os.close(outlet)
