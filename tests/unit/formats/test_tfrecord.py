import gzip
import io
import struct
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfprov.formats.tfrecord import (
    RecordError,
    TruncatedError,
    crc32c,
    last_records,
    masked_crc,
    read_records,
    verify_body,
    write_record,
)

RECORDS = st.lists(st.binary(max_size=40), max_size=5)


def written(records: list[bytes]) -> bytes:
    stream = io.BytesIO()
    for data in records:
        write_record(stream, data)
    return stream.getvalue()


def read(content: bytes, *, live: bool = False) -> list[bytes]:
    return list(read_records(io.BytesIO(content), live=live))


def crc_by_the_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_the_crc_is_castagnolis(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@given(seed=st.binary(min_size=1, max_size=300), length=st.integers(1500, 6000))
def test_long_data_has_the_crc_of_its_bytes(seed: bytes, length: int) -> None:
    data = (seed * (length // len(seed) + 1))[:length]

    assert crc32c(data) == crc_by_the_bit(data)


@given(st.binary())
def test_the_mask_can_be_taken_off(data: bytes) -> None:
    rotated = (masked_crc(data) - 0xA282EAD8) & 0xFFFFFFFF

    assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc32c(data)


def test_a_record_is_framed_as_tensorflow_frames_it() -> None:
    # What tf.io.TFRecordWriter wrote for b"tfprov".
    assert written([b"tfprov"]) == bytes.fromhex("06000000000000007369d537746670726f76ad47e617")


@given(RECORDS)
def test_records_that_are_written_are_read_back(records: list[bytes]) -> None:
    assert read(written(records)) == records
    assert read(written(records), live=True) == records


def test_a_rewritten_file_is_the_same_to_the_byte() -> None:
    content = written([b"", b"a", bytes(5000)])

    assert written(read(content)) == content


@pytest.mark.parametrize("live", [False, True])
def test_a_flipped_bit_anywhere_is_detected(live: bool) -> None:
    content = written([b"first", b"the second", b""])
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError):
            read(bytes(flipped), live=live)


@given(records=st.lists(st.binary(max_size=3000), min_size=1, max_size=3), where=st.floats(0, 1, exclude_max=True))
def test_a_flipped_bit_in_any_file_is_detected(records: list[bytes], where: float) -> None:
    flipped = bytearray(written(records))
    bit = int(where * 8 * len(flipped))
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordError):
        read(bytes(flipped))


@given(RECORDS)
def test_every_truncation_but_between_two_records_is_detected(records: list[bytes]) -> None:
    content = written(records)
    whole = {len(written(records[:count])): records[:count] for count in range(len(records) + 1)}
    for cut in range(len(content)):
        if cut in whole:
            assert read(content[:cut]) == whole[cut]
        else:
            with pytest.raises(TruncatedError):
                read(content[:cut])


@given(RECORDS)
def test_a_live_file_ends_before_a_truncated_record(records: list[bytes]) -> None:
    content = written(records)
    ends = [len(written(records[:count])) for count in range(1, len(records) + 1)]
    for cut in range(len(content)):
        assert read(content[:cut], live=True) == records[: sum(end <= cut for end in ends)]


def test_an_error_has_the_offset_of_the_damaged_record() -> None:
    content = written([b"first", b"second"])
    for damaged, kind, what in (
        (content[:-1] + b"\0", RecordError, "the data does not match its checksum"),
        (content[:21] + b"\0" + content[22:], RecordError, "the length does not match its checksum"),
        (content[:-1], TruncatedError, "the file ends in the data"),
        (content[:32], TruncatedError, "the file ends in the length"),
    ):
        with pytest.raises(RecordError) as caught:
            read(damaged)
        assert (type(caught.value), str(caught.value)) == (kind, f"{what} in the record at byte 21")
        assert caught.value.offset == len(written([b"first"]))


def test_a_length_beyond_all_memory_is_a_truncated_file() -> None:
    length = struct.pack("<Q", 1 << 62)
    content = length + struct.pack("<I", masked_crc(length)) + b"data"
    with pytest.raises(TruncatedError, match=r"^the file ends in the data in the record at byte 0$"):
        read(content)


def test_a_pipe_may_return_fewer_bytes() -> None:
    class Pipe(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 3))

    assert list(read_records(Pipe(written([b"a record", b"another"])))) == [b"a record", b"another"]


def test_ten_thousand_records_are_read_through_gzip() -> None:
    records = [f"record {number}".encode() * (number % 7) for number in range(10_000)]
    packed = gzip.compress(written(records))
    with gzip.open(io.BytesIO(packed)) as stream:
        assert list(read_records(cast("BinaryIO", stream))) == records


def test_the_last_records_are_found_from_any_place_in_the_file() -> None:
    records = [bytes([number]) * (number * 37 % 300 + 1) for number in range(12)]
    content = written(records)
    starts = [len(written(records[:count])) for count in range(len(records))]
    for start in range(len(content)):
        tail = content[start:]
        bodies = [verify_body(tail[body]) for body in last_records(tail, 1024, aligned=False)]
        assert bodies == records[sum(begin < start for begin in starts) :]


def test_a_record_that_is_cut_off_is_none_of_the_last() -> None:
    records = [b"", b"first", b"the second", bytes(40)]
    content = written(records)
    ends = [len(written(records[:count])) for count in range(1, len(records) + 1)]
    for cut in range(len(content) + 1):
        bodies = [content[body][:-4] for body in last_records(content[:cut], 1024, aligned=True)]
        assert bodies == records[: sum(end <= cut for end in ends)]


def test_a_place_in_a_file_is_the_beginning_of_a_record_only_if_its_data_are_whole() -> None:
    content = written([b"one"])[:-1] + b"?"
    assert list(last_records(content, 1024, aligned=True)) == [slice(12, len(content))]
    assert list(last_records(content, 1024, aligned=False)) == []


def test_no_more_than_the_last_records_are_found() -> None:
    content = written([b"one", b"two", b"three"]) + b"\x05\0\0"

    assert [content[body][:-4] for body in last_records(content, 2, aligned=True)] == [b"two", b"three"]


def test_a_damaged_length_ends_the_last_records_and_damaged_data_does_not() -> None:
    first, second, third = (written([data]) for data in (b"first", b"second", b"third"))
    content = first + second[:-1] + b"\0" + third + b"\xff" + first[1:]
    bodies = last_records(content, 1024, aligned=True)

    assert [verify_body(content[body]) for body in bodies] == [b"first", None, b"third"]


@given(st.binary() | st.lists(st.sampled_from([bytes(5), bytes(9), b"\1", b"\2\0\0\0\0\0\0\0"])).map(b"".join))
def test_garbage_has_no_records(garbage: bytes) -> None:
    assert not last_records(garbage, 1024, aligned=False)


@pytest.fixture(scope="module")
def tensorboard() -> Any:
    return pytest.importorskip("tensorboard.summary.writer.record_writer")


@given(records=RECORDS)
def test_tensorboard_writes_the_same_bytes(tensorboard: Any, records: list[bytes]) -> None:
    stream = io.BytesIO()
    writer = tensorboard.RecordWriter(stream)
    for data in records:
        writer.write(data)

    assert stream.getvalue() == written(records)


@pytest.mark.parametrize("length", [2047, 2048, 2049, 2304, 5000])
def test_long_data_of_all_bytes_has_the_crc_of_its_bytes(length: int) -> None:
    data = (bytes(range(256)) * 20)[:length]
    assert crc32c(data) == crc_by_the_bit(data)
    assert crc32c(data[::-1]) == crc_by_the_bit(data[::-1])
