"""Damaged files: one error with its place, or the intact records; never another error, a hang or much memory."""

import bisect
import gzip
import io
import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.examples import quick
from tests.support.record_files import example, floats, frame, ints, texts
from tfprov import tfrecord
from tfprov.errors import TfprovError
from tfprov.formats.tfrecord import masked_crc
from tfprov.tfrecord.column_types import columns_of
from tfprov.tfrecord.compression import decompressed
from tfprov.tfrecord.decode import decode_block
from tfprov.tfrecord.errors import DamagedFile, RecordFileError
from tfprov.tfrecord.framing import read_blocks

SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.list_(pa.float32())), ("s", pa.binary())])
RECORDS = [
    example({"i": ints(number), "f": floats(*[0.5] * (number % 4)), "s": texts(b"x" * number)}) for number in range(40)
]
DATA = b"".join(map(frame, RECORDS))
ENDS = [sum(len(record) + 16 for record in RECORDS[: number + 1]) for number in range(len(RECORDS))]


def read(data: bytes, codec: str = "none") -> tuple[int, RecordFileError | None]:
    """Return how many records are read before the error."""
    count = 0
    try:
        for block in read_blocks(decompressed(io.BytesIO(data), codec), "damaged", block_bytes=4096):
            count += decode_block(block, columns_of(SCHEMA, "Example"), "Example").num_rows
    except RecordFileError as error:
        return count, error
    return count, None


def damaged(dice: random.Random) -> tuple[str, bytes]:
    data = bytearray(DATA)
    kind = dice.choice(["cut", "flipped", "hostile", "inserted", "gzip", "zlib"])
    if kind == "cut":
        return kind, bytes(data[: dice.randrange(len(data))])
    if kind == "flipped":
        for _ in range(dice.choice([1, 1, 3])):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif kind == "hostile":
        length = struct.pack("<Q", dice.choice([2**64 - 1, 2**63, 2**40, 2**31, 2**30, 10**6, dice.randrange(300)]))
        place = dice.choice([0, *ENDS[:-1]])
        data[place : place + 12] = length + struct.pack("<I", masked_crc(length))
    elif kind == "inserted":
        place = dice.randrange(len(data))
        data[place:place] = dice.randbytes(dice.randrange(1, 40))
    else:
        packed = bytearray(gzip.compress(DATA, 1) if kind == "gzip" else zlib.compress(DATA, 1))
        packed[dice.randrange(len(packed))] ^= 1 << dice.randrange(8)
        return kind, bytes(packed[: dice.choice([len(packed), dice.randrange(len(packed))])])
    return kind, bytes(data)


def test_damaged_files_give_one_error_with_its_place_and_the_records_before_it() -> None:
    dice = random.Random(20)
    wrong = []
    for number in range(files := quick(2000)):
        kind, data = damaged(dice)
        codec = kind if kind in ("gzip", "zlib") else "none"
        if number == files - 100:  # following every allocation takes more time than reading
            tracemalloc.start()
        count, error = read(data, codec)
        if codec == "none":
            differ = [data[at : at + 64] != DATA[at : at + 64] for at in range(0, len(data), 64)]
            block = differ.index(True) * 64 if True in differ else 0
            common = next((at for at in range(block, len(data)) if data[at : at + 1] != DATA[at : at + 1]), len(data))
            intact = bisect.bisect_right(ENDS, common)
            whole = error is None and (data == DATA[: ([0, *ENDS])[count]])
        else:
            intact, whole = count, error is None and count == len(RECORDS)
        located = isinstance(error, DamagedFile) and (error.record, error.offset) == (intact, ([0, *ENDS])[intact])
        if not (whole or (located and count == intact and "\n" not in str(error))):
            wrong.append(f"{number} {kind}: {count} of {intact} records, {error!r}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wrong == []
    assert peak < 4 << 20


def test_malformed_messages_with_correct_checksums_are_one_error() -> None:
    dice = random.Random(21)
    wrong = []
    for number in range(150):
        records = [bytearray(record) for record in RECORDS]
        place = dice.randrange(1, len(records))
        records[place][dice.randrange(len(records[place]))] = dice.randrange(256)
        error = read(b"".join(frame(bytes(record)) for record in records))[1]
        if error is not None and error.record != place:
            wrong.append(f"{number}: {error}")
    assert wrong == []


def test_a_record_beyond_the_maximum_is_refused_before_it_is_read() -> None:
    length = struct.pack("<Q", 2**30)
    stream = io.BytesIO(length + struct.pack("<I", masked_crc(length)) + bytes(5000))
    message = "^f: record 0 at byte 0: its length is 1073741824 bytes, and the maximum is 1000; pass max_record_bytes="
    with pytest.raises(DamagedFile, match=message):
        list(read_blocks(stream, "f", block_bytes=100, max_record_bytes=1000))
    assert stream.tell() <= 100


def test_a_decompression_bomb_and_a_large_file_stay_within_the_block() -> None:
    records = frame(bytes(1000)) * 5_000
    packed = gzip.compress(records, 9)
    tracemalloc.start()
    blocks = read_blocks(decompressed(io.BytesIO(packed), "gzip"), "f", block_bytes=64 << 10)
    count = sum(len(block) for block in blocks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 5_000
    assert peak < 1 << 20


def test_salvage_returns_the_records_before_the_damage_and_says_what_was_dropped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA[: ENDS[9] + 5])
    (tmp_path / "b").write_bytes(DATA)
    files = [tmp_path / "a", tmp_path / "b"]
    reported: list[TfprovError] = []

    table = tfrecord.read_table(files, salvage=reported.append)

    assert table["i"].to_pylist() == [*range(10), *range(40)]
    (error,) = reported
    assert str(error) == (
        f"{tmp_path}/a: record 10 at byte {ENDS[9]}: the file ends in the header of the record; restore the file, or pass "
        "salvage=True (`--salvage`) to read the records before it"
    )
    with pytest.warns(tfrecord.RecordsDropped, match="dropped this record and the rest of the file: .*/a: record 10"):
        assert tfrecord.read_table(files, salvage=True, schema=SCHEMA).num_rows == 50
    with pytest.raises(DamagedFile):
        tfrecord.read_table(files)
    verdicts = tfrecord.verify(files)
    assert [(verdict.records, verdict.whole) for verdict in verdicts] == [(10, False), (40, True)]
    assert verdicts[1].data_bytes == sum(map(len, RECORDS))


def test_a_compressed_file_that_is_read_as_plain_is_recognized(tmp_path: Path) -> None:
    for codec, data in (("gzip", gzip.compress(DATA)), ("zlib", zlib.compress(DATA))):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(DamagedFile, match=f"pass compression='{codec}'"):
            tfrecord.read_table(tmp_path / "x")


def test_gzip_members_one_behind_the_other_are_one_stream() -> None:
    half = ENDS[19]
    packed = gzip.compress(DATA[:half]) + gzip.compress(DATA[half:]) + bytes(512)
    assert read(packed, "gzip") == (40, None)
    assert read(b"", "gzip") == (0, None)
