"""Checkpoints read without TensorFlow: each damaged byte is an error that names the file, and the tensor if any."""

import io
import struct
from pathlib import Path

import google_crc32c
import pytest

from tests.support.bundles import HEADER, entry, write_bundle, write_table
from tests.support.event_files import varint
from tests.support.paths import ROOT
from tfprov.formats.bundle_entry import Header, Slice, parse_entry, parse_header, readable, slice_key
from tfprov.formats.protobuf import fields, signed
from tfprov.formats.sstable import CheckpointError, entries
from tfprov.formats.tensor_bundle import verify
from tfprov.formats.tfrecord import mask_crc

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


NEGATIVE = "a dimension, the shard, the offset or the size is negative or unknown"
ANOTHER_TYPE = "an entry of the index has a field of another type"


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
            f"m-1.index: tensor w: {NEGATIVE}",
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
        ({b"": HEADER, b"w": b"\x10\x01"}, f"m-1.index: tensor w: {ANOTHER_TYPE}"),
        ({b"": HEADER, b"w": entry(b"12345678") + b"\x18\x05"}, "m-1.index: tensor w: its data are in file 5 of 1"),
        (
            {b"": b"\x08\x01\x1a\x02\x10\x02"},
            "m-1.index: the checkpoint has version 2 of the format, and 1 is the last one known",
        ),
        ({b"": b"\x08\x00"}, "m-1.index: the header names 0 data files and byte order 0"),
        ({b"": b"\x08\x01\x10\x02"}, "m-1.index: the header names 1 data files and byte order 2"),
        ({b"": b"\x08" + varint(100_000)}, "m-1.index: the header names 100000 data files and byte order 0"),
        ({b"": HEADER, b"w": entry(b"x", shard=1)}, "m-1.index: tensor w: its data are in file 1 of 1"),
        ({b"": HEADER, b"w": entry(b"x") + b"\x31" + bytes(8)}, f"m-1.index: tensor w: {ANOTHER_TYPE}"),
        ({b"": HEADER, b"w": entry(b"x") + b"\x38\x01"}, f"m-1.index: tensor w: {ANOTHER_TYPE}"),
        (
            {b"": HEADER, b"w": b"\x12\x02\x18\x01"},
            f"m-1.index: tensor w: {NEGATIVE}",
        ),
        (
            {b"": HEADER, b"w": entry(b"", dims=(4,)) + b"\x3a\x02\x0a\x00"},
            "m-1.index: tensor w: a slice is missing, or of another type or shape",
        ),
        ({b"": HEADER, b"w\xff": entry(b"x")}, f"{DATA}: tensor w\\xff: its data do not match their checksum"),
        (
            {b"": HEADER, b"new\nline": entry(b"x")},
            f"{DATA}: tensor 'new\\nline': its data do not match their checksum",
        ),
    ],
)
def test_wrong_indexes_with_right_checksums(tmp_path: Path, values: dict[bytes, bytes], message: str) -> None:
    (tmp_path / DATA).write_bytes(b"12345678")
    write_table(tmp_path / INDEX, values)
    assert error(tmp_path / "m-1") == message


SIZES = {
    "float": (1, 4), "double": (2, 8), "int32": (3, 4), "uint8": (4, 1), "int16": (5, 2), "int8": (6, 1),
    "complex64": (8, 8), "int64": (9, 8), "bool": (10, 1), "qint8": (11, 1),
    "quint8": (12, 1), "qint32": (13, 4), "bfloat16": (14, 2),
    "qint16": (15, 2), "quint16": (16, 2), "uint16": (17, 2), "complex128": (18, 16), "half": (19, 2), "uint32": (22, 4),
    "uint64": (23, 8), "float8_e5m2": (24, 1), "float8_e4m3fn": (25, 1), "int4": (29, 1), "uint4": (30, 1),
}  # fmt: skip


def test_an_element_of_each_type_has_its_size_and_a_resource_has_none() -> None:
    for dtype, size in SIZES.values():
        assert parse_entry(entry(bytes(3 * size), dims=(3,), dtype=dtype)).expected_size == 3 * size
    small = [parse_entry(entry(b"", dims=(3,), dtype=dtype)).expected_size for dtype in range(24, 33)]
    assert small == [3] * 9, "numbers of 8 bits and fewer"
    assert [parse_entry(entry(b"", dims=(3,), dtype=dtype)).expected_size for dtype in (0, 20, 33)] == [None] * 3


def test_a_checkpoint_has_99999_data_files_at_most() -> None:
    assert parse_header(b"\x08" + varint(99_999)) == Header(99_999, is_big_endian=False)
    assert parse_header(b"\x08\x01\x10\x01") == Header(1, is_big_endian=True)


def test_the_key_of_a_slice_is_encoded_as_tensorflow_does() -> None:
    """As ordered_code.h has it: a number has two bytes from 64 on, and three from 8192 on."""
    ends = {0: "80", 63: "bf", 64: "c040", -64: "40", -65: "3fbf", 8191: "dfff", 8192: "e02000", -1: "7f"}
    for number, encoded in ends.items():
        key = slice_key(b"a\0\xff", Slice(((number, 1),)))
        assert key.hex() == f"00 61 00ff ff00 0001 0101 {encoded} 81".replace(" ", "")
    assert readable(key) == "'a\\x00\\\\xff (a slice)'"
    assert readable(b"a\xff") == "a\\xff"


@pytest.mark.parametrize("kind", [3, 4, 6, 7])
def test_a_field_of_an_unknown_type_is_an_error(kind: int) -> None:
    with pytest.raises(ValueError, match=f"^unknown wire type {kind}$"):
        list(fields(bytes((1 << 3 | kind,))))


def test_a_number_has_ten_bytes_at_most() -> None:
    assert list(fields(b"\x08" + b"\xff" * 9 + b"\x01")) == [(8, (1 << 64) - 1, b"")]
    with pytest.raises(ValueError, match=r"^the message ends inside a number$"):
        list(fields(b"\x08" + b"\xff" * 10 + b"\x01"))
    assert [signed(number) for number in (5, (1 << 64) - 1, (1 << 65) + 5, 1 << 63, 3 << 63)] == [
        5, -1, 5, -(1 << 63), -(1 << 63)
    ]  # fmt: skip


FOOTER = 48
END = struct.pack("<Q", 0xDB4775248B80FB57)


def test_a_damaged_index_says_what_is_wrong_with_it(prefix: Path) -> None:
    index = prefix.with_name(INDEX)
    whole = index.read_bytes()
    body, end = whole[:-FOOTER], len(whole) - FOOTER
    handles = varint(0) + varint(whole[-FOOTER + 1])  # those of the first block, whatever is there
    damaged = {
        whole[:-1]: "the file does not end as an index does: it is cut short, or no index",
        whole[: FOOTER - 1]: "the file does not end as an index does: it is cut short, or no index",
        whole[:-9] + b"x" + END: "the footer is damaged",
        b"x" + whole[1:]: "the block at byte 0 does not match its checksum",
        body + b"x" + whole[-FOOTER:]: f"no block begins at byte {end}",
        body
        + (varint(0) + varint(1000) + handles).ljust(40, b"\0")
        + END: "the block at byte 0 does not match its checksum",
        body
        + (handles + varint(0) + varint(end)).ljust(40, b"\0")
        + END: "the block at byte 0 is longer than the file",
    }
    messages = {}
    for content in damaged:
        index.write_bytes(content)
        messages[content] = error(prefix)
    assert list(messages.values()) == [f"{INDEX}: {message}" for message in damaged.values()]


def table(*blocks: bytes, unlisted: bytes = b"") -> io.BytesIO:
    """Return a table file of these blocks of data, behind one that no list has; the other two kinds are added."""
    content, handles = b"", []

    def add(block: bytes) -> bytes:
        nonlocal content
        handle = varint(len(content)) + varint(len(block))
        content += block + struct.pack("<BI", 0, mask_crc(google_crc32c.value(block + b"\0")))
        return handle

    if unlisted:
        add(unlisted)
    handles = [add(block) for block in blocks]
    footer = add(keys())
    footer += add(keys(*((0, b"%03d" % number, handle) for number, handle in enumerate(handles))))
    return io.BytesIO(content + footer.ljust(40, b"\0") + END)


def keys(*values: tuple[int, bytes, bytes], more: int = 0) -> bytes:
    """Return a block: how many bytes a key shares, the others, and its value, which claims `more` bytes than it has."""
    body = b"".join(
        varint(shared) + varint(len(own)) + varint(len(value) + more) + own + value for shared, own, value in values
    )
    return body + struct.pack("<II", 0, 1)


LONGER = "a key or a value is longer than its block"


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([b""], "a block is shorter than its list of keys"),
        ([b"\0\0\0"], "a block is shorter than its list of keys"),
        ([struct.pack("<I", 1)], "a block is shorter than its list of keys"),
        ([struct.pack("<II", 0, 2)], "a block is shorter than its list of keys"),
        ([struct.pack("<I", 0)], []),
        ([keys((0, b"ab", b"1"), (2, b"c", b""), (1, b"d", b"22"))], [(b"ab", b"1"), (b"abc", b""), (b"ad", b"22")]),
        ([keys((0, b"a", b"1")), keys((0, b"b", b"x" * 300))], [(b"a", b"1"), (b"b", b"x" * 300)]),
        ([keys((1, b"a", b"1"))], LONGER),
        ([keys((0, b"a", b"1"), (2, b"", b""))], LONGER),
        ([keys((0, b"a", b"1"), more=1)], LONGER),
        ([keys((0, b"a", b"1"), (1, b"", b"2"))], "the keys of the block at byte 0 are not sorted"),
        ([keys((0, b"b", b"1")), keys((0, b"b", b""))], "the keys of the block at byte 18 are not sorted"),
    ],
)
def test_the_keys_of_a_block_share_their_beginnings(blocks: list[bytes], expected: object) -> None:
    try:
        read: object = list(entries(table(*blocks), google_crc32c.extend))
    except CheckpointError as error:
        read = str(error)
    assert read == expected


def test_a_block_that_no_list_has_is_an_error() -> None:
    with pytest.raises(CheckpointError, match=r"^no block begins at byte 0$"):
        list(entries(table(keys((0, b"a", b"1")), unlisted=keys()), google_crc32c.extend))


def test_a_footer_has_the_shortest_form_of_each_number() -> None:
    for size in range(
        90, 115
    ):  # one of the last two blocks begins around byte 128, from which on its place has two bytes
        assert list(entries(table(keys((0, b"a", bytes(size)))), google_crc32c.extend)) == [(b"a", bytes(size))]


def test_a_compressed_index_is_refused(tmp_path: Path) -> None:
    for compression, how in ((1, "snappy"), (2, "method 2")):
        write_table(tmp_path / INDEX, {b"": HEADER}, compression=compression)
        what = f"the block at byte 35 is compressed ({how}), which no checkpoint's index is"
        assert error(tmp_path / "m-1") == f"{INDEX}: {what}"


# --- as TensorFlow writes them: slices of one tensor in several files, strings, and tensors without elements -----------

PARTS = sorted((ROOT / "tests" / "cases" / "checkpoints").glob("parts-2.*"))


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for file in PARTS:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / "parts-2"


def test_slices_are_counted_once_and_strings_are_read(parts: Path) -> None:
    assert verify(parts, google_crc32c.extend) == 6


def test_every_damaged_byte_of_slices_and_strings_is_an_error(parts: Path) -> None:
    for file in PARTS:
        path, content = parts.with_name(file.name), file.read_bytes()
        for at in range(len(content)):
            path.write_bytes(content[:at] + bytes((content[at] ^ 1 << at % 8,)) + content[at + 1 :])
            assert error(parts).startswith(f"{file.name}: "), at
        for size in range(0, len(content), 5):
            path.write_bytes(content[:size])
            assert error(parts).startswith(f"{file.name}: "), size
        path.write_bytes(content)


def test_a_damaged_slice_and_damaged_strings_are_named(parts: Path) -> None:
    def damaged(name: str, at: int) -> str:
        path = parts.with_name(f"parts-2.data-0000{name}-of-00004")
        content = path.read_bytes()
        path.write_bytes(content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :])
        message = error(parts)
        path.write_bytes(content)
        return message

    assert damaged("1", 5) == "parts-2.data-00001-of-00004: tensor rows (a slice): its data do not match their checksum"
    messages = {damaged("3", at) for at in range(parts.with_name("parts-2.data-00003-of-00004").stat().st_size)}
    prefix = "parts-2.data-00003-of-00004: tensor"
    assert f"{prefix} words: the lengths of its strings do not match their checksum" in messages
    assert f"{prefix} words: its data do not match their checksum" in messages
    assert f"{prefix} half: its data do not match their checksum" in messages
    assert any(message.startswith(f"{prefix} '\\xe9\\n': ") for message in messages)


def index_of(parts: Path) -> dict[bytes, bytes]:
    with parts.with_name("parts-2.index").open("rb") as stream:
        return dict(entries(stream, google_crc32c.extend))


@pytest.mark.parametrize(("nth", "missing"), [(0, 60), (1, 70), (2, 20)])
def test_a_slice_that_the_index_lacks_is_an_error(parts: Path, nth: int, missing: int) -> None:
    values = index_of(parts)
    slices = [key for key in values if key.startswith(b"\0")]
    assert len(slices) == 3
    del values[slices[nth]]
    write_table(parts.with_name("parts-2.index"), values)
    assert error(parts) == "parts-2.index: tensor rows: a slice is missing, or of another type or shape"
    whole = parse_entry(values[b"rows"])
    kept = [part for part in whole.slices if part.shape(whole.shape)[0] != missing]
    assert len(kept) == 2


def test_a_tensor_of_which_slices_are_unlisted_is_too_small(parts: Path) -> None:
    values = index_of(parts)
    (listed,) = [content for key, _, content in fields(values[b"rows"]) if key == 0x3A][1:2]
    shorter = values[b"rows"].replace(b"\x3a" + bytes((len(listed),)) + listed, b"", 1)
    assert shorter != values[b"rows"]
    write_table(parts.with_name("parts-2.index"), values | {b"rows": shorter})
    assert error(parts) == "parts-2.index: tensor rows: its slices have 160 of 300 elements"


def test_a_part_of_a_tensor_lies_within_it() -> None:
    part = Slice(((0, 60), (0, -1)))
    assert part.shape((150, 2)) == (60, 2)
    assert Slice(((90, 60),)).shape((150,)) == (60,)
    for outside, whole in ((Slice(((91, 60),)), (150,)), (Slice(((-1, 60),)), (150,)), (Slice(((1, -2),)), (150,))):
        with pytest.raises(CheckpointError, match=r"^a slice reaches beyond the tensor$"):
            outside.shape(whole)
    with pytest.raises(CheckpointError, match=r"^a slice has another number of dimensions$"):
        part.shape((150,))


# --- variants: each element has a checksum of its own ------------------------------------------------------------------

VARIANT = 21


def variant(*elements: bytes) -> bytes:
    """Return the data of a vector of variants, with the running checksum behind each element."""
    data, crc = b"", 0
    for element in elements:
        crc = google_crc32c.extend(crc, struct.pack("<Q", len(element)))
        crc = google_crc32c.extend(crc, element)
        stored = struct.pack("<I", mask_crc(crc))
        crc = google_crc32c.extend(crc, stored)
        data += varint(len(element)) + element + stored
    return data


def variant_entry(count: int, *elements: bytes) -> bytes:
    """Return the entry whose checksum is that of what `variant` writes."""
    crc = 0
    for element in elements:
        crc = google_crc32c.extend(crc, struct.pack("<Q", len(element)) + element)
        crc = google_crc32c.extend(crc, struct.pack("<I", mask_crc(crc)))
    made = entry(variant(*elements), dtype=VARIANT, dims=(count,))
    return made[:-4] + struct.pack("<I", mask_crc(crc))


def test_variants_are_checked_one_by_one(tmp_path: Path) -> None:
    elements = (b"first", b"", b"x" * 200)
    write_table(tmp_path / INDEX, {b"": HEADER, b"v": variant_entry(3, *elements)})
    content = variant(*elements)
    (tmp_path / DATA).write_bytes(content)
    assert verify(tmp_path / "m-1", google_crc32c.extend) == 1
    (tmp_path / DATA).write_bytes(content[:2] + b"I" + content[3:])
    assert error(tmp_path / "m-1") == f"{DATA}: tensor v: an element does not match its checksum"
    (tmp_path / DATA).write_bytes(b"\x7f" + content[1:])
    assert error(tmp_path / "m-1") == f"{DATA}: tensor v: an element does not match its checksum"
    (tmp_path / DATA).write_bytes(b"\xff\x7f" + content[2:])
    assert error(tmp_path / "m-1") == f"{DATA}: tensor v: an element has 16383 bytes where 219 are left"
    (tmp_path / DATA).write_bytes(b"\x80\x7f" + content[2:])
    assert error(tmp_path / "m-1") == f"{DATA}: tensor v: an element has 16256 bytes where 219 are left"
    (tmp_path / DATA).write_bytes(b"\xff" * 10 + content[10:])
    assert error(tmp_path / "m-1") == f"{DATA}: tensor v: the length of an element has no end"


def test_bytes_behind_the_last_element_are_an_error(tmp_path: Path) -> None:
    write_table(tmp_path / INDEX, {b"": HEADER, b"v": variant_entry(1, b"first", b"second")})
    (tmp_path / DATA).write_bytes(variant(b"first", b"second"))
    assert error(tmp_path / "m-1") == f"{DATA}: tensor v: 11 bytes follow its last element"


def test_a_checkpoint_of_a_big_endian_machine_has_its_numbers_in_that_order(tmp_path: Path) -> None:
    words = (b"ab", b"c")
    crc = google_crc32c.value(b"".join(struct.pack(">I", len(word)) for word in words))
    stored = struct.pack(">I", mask_crc(crc))
    content = bytes(map(len, words)) + stored + b"".join(words)
    crc = google_crc32c.extend(crc, stored + b"".join(words))
    made = entry(content, dtype=STRING, dims=(2,))[:-4] + struct.pack("<I", mask_crc(crc))
    (tmp_path / DATA).write_bytes(content)
    big = b"\x08\x01\x10\x01\x1a\x02\x08\x01"
    write_table(tmp_path / INDEX, {b"": big, b"w": made})
    assert verify(tmp_path / "m-1", google_crc32c.extend) == 1
    write_table(tmp_path / INDEX, {b"": HEADER, b"w": made})
    assert error(tmp_path / "m-1") == f"{DATA}: tensor w: the lengths of its strings do not match their checksum"
