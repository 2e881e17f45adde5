"""Checkpoints read without TensorFlow: each damaged byte is an error that names the file, and the tensor if any."""

from pathlib import Path

import google_crc32c
import pytest

from tests.support.bundles import HEADER, entry, write_bundle, write_table
from tfprov.formats.sstable import CheckpointError
from tfprov.formats.tensor_bundle import verify

STRING = 7
TENSORS = {"dense/kernel": bytes(range(48)), "dense/bias": b"abcd", "step": b"12345678", "empty": b""}
DATA, INDEX = "m-1.data-00000-of-00001", "m-1.index"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "m-1", TENSORS)
    return tmp_path / "m-1"


def error(prefix: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        verify(prefix, google_crc32c.extend)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_whole_checkpoint_has_so_many_tensors(prefix: Path) -> None:
    assert verify(prefix, google_crc32c.extend) == len(TENSORS)


def test_every_damaged_byte_is_an_error_that_names_the_file(prefix: Path) -> None:
    for name in (INDEX, DATA):
        path = prefix.with_name(name)
        content = path.read_bytes()
        for at in range(len(content)):
            for bit in (0, 7):
                path.write_bytes(content[:at] + bytes((content[at] ^ 1 << bit,)) + content[at + 1 :])
                assert error(prefix).startswith(f"{name}: ")
        path.write_bytes(content)


def test_every_truncation_is_an_error(prefix: Path) -> None:
    for name in (INDEX, DATA):
        path = prefix.with_name(name)
        content = path.read_bytes()
        for size in range(len(content)):
            path.write_bytes(content[:size])
            assert error(prefix).startswith(f"{name}: ")
        path.write_bytes(content)


def test_damaged_data_name_their_tensor(prefix: Path) -> None:
    data = prefix.with_name(DATA)
    data.write_bytes(data.read_bytes()[:-1] + b"9")
    assert error(prefix) == f"{DATA}: tensor step: its data do not match their checksum"
    data.write_bytes(data.read_bytes()[:-1])
    assert error(prefix) == f"{DATA}: tensor step: its data end at byte 60, and the file at 59"


def test_a_missing_data_file_is_an_error_of_the_system(prefix: Path) -> None:
    prefix.with_name(DATA).unlink()
    with pytest.raises(FileNotFoundError, match=DATA):
        verify(prefix, google_crc32c.extend)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({b"w": entry(b"12345678")}, "m-1.index: the header is missing"),
        ({}, "m-1.index: the header is missing"),
        (
            {b"": HEADER, b"w": entry(b"12345678"), b"a": entry(b"1")},
            "m-1.index: the keys of the block at byte 43 are not sorted",
        ),
        (
            {b"": HEADER, b"w": entry(b"12345678", dims=(-1,))},
            "m-1.index: tensor w: a dimension, the shard, the offset or",
        ),
        (
            {b"": HEADER, b"w": entry(b"12345678", dims=(4,))},
            f"{DATA}: tensor w: it has 8 bytes, and its type and shape 4",
        ),
        ({b"": HEADER, b"w": entry(b"", dims=(2,), dtype=STRING)}, f"{DATA}: tensor w: its data are missing"),
        ({b"": HEADER, b"w": entry(b"12345678", dtype=STRING)}, f"{DATA}: tensor w: its data are cut short"),
        (
            {b"": HEADER, b"w": entry(b"12345678", dims=(1 << 62,), dtype=STRING)},
            f"{DATA}: tensor w: its data are cut short",
        ),
        ({b"": HEADER, b"w": b"\x12\xff"}, "m-1.index: tensor w: the message ends inside a number"),
        ({b"": HEADER, b"w": b"\x12\x7f"}, "m-1.index: tensor w: the message ends inside a field"),
        ({b"": HEADER, b"w": b"\x10\x01"}, "m-1.index: tensor w: an entry of the index has a field of another type"),
        ({b"": HEADER, b"w": entry(b"12345678") + b"\x18\x05"}, "m-1.index: tensor w: its data are in file 5 of 1"),
        (
            {b"": b"\x08\x01\x1a\x02\x10\x02"},
            "m-1.index: the checkpoint has version 2 of the format, and 1 is the last",
        ),
        ({b"": b"\x08\x00"}, "m-1.index: the header names 0 data files and byte order 0"),
        (
            {b"": HEADER, b"w": entry(b"", dims=(4,)) + b"\x3a\x02\x0a\x00"},
            "m-1.index: tensor w: a slice is missing, or of another",
        ),
        ({b"": HEADER, b"new\nline": entry(b"x")}, f"{DATA}: tensor 'new\\nline': its data do not match"),
    ],
)
def test_wrong_indexes_with_right_checksums(tmp_path: Path, values: dict[bytes, bytes], message: str) -> None:
    (tmp_path / DATA).write_bytes(b"12345678")
    write_table(tmp_path / INDEX, values)
    assert error(tmp_path / "m-1").startswith(message)


def test_a_compressed_index_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / INDEX, {b"": HEADER}, compression=1)
    assert "is compressed (snappy), which no checkpoint's index is" in error(tmp_path / "m-1")
