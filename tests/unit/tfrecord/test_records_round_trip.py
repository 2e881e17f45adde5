"""What is written as records is read again: every type, record type and codec, and any values."""

import decimal
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfprov import tfrecord
from tfprov.tfrecord.column_types import columns_of
from tfprov.tfrecord.decode import decode_block
from tfprov.tfrecord.encode import encode_batch
from tfprov.tfrecord.framing import framed, read_blocks

ROWS = 70
"""More than are parsed one by one."""
LEAVES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 127, 128, 300, 2**31, -(2**63), 2**63 - 1]),
    (pa.int8(), [0, -128, 127]),
    (pa.int16(), [0, -1, 2**15 - 1]),
    (pa.int32(), [5, -(2**31), 2**31 - 1]),
    (pa.uint32(), [0, 2**32 - 1]),
    (pa.uint64(), [0, 2**63 - 1]),
    (pa.bool_(), [True, False]),
    (pa.float32(), [0.0, -1.5, 3.0e38, float("inf")]),
    (pa.float64(), [0.25, -2.0]),
    (pa.float16(), [0.5, -2.0]),
    (pa.decimal128(9, 2), [decimal.Decimal("1.25"), decimal.Decimal("-7.50")]),
    (pa.string(), ["", "a", "é" * 200, "x" * 20_000]),
    (pa.large_string(), ["", "b"]),
    (pa.binary(), [b"", b"\xff\x00", b"y" * 130]),
    (pa.large_binary(), [b"\x80"]),
    (pa.binary(3), [b"abc", b"\xff\xfe\xfd"]),
]


def round_trip(table: pa.Table, record_type: str) -> pa.Table:
    data = b"".join(framed(encode_batch(batch, record_type)) for batch in table.to_batches())
    columns = columns_of(table.schema, record_type)
    blocks = read_blocks(io.BytesIO(data), "records", block_bytes=4096)
    return pa.Table.from_batches([decode_block(block, columns, record_type) for block in blocks], table.schema)


def forms(values: list[Any]) -> dict[str, list[Any]]:
    """Scalars and lists, with and without nulls, regular and ragged."""
    cycle = [values[number % len(values)] for number in range(ROWS)]
    return {
        "dense": cycle,
        "nulls": [None if number % 3 == 0 else value for number, value in enumerate(cycle)],
        "all null": [None] * ROWS,
    }


def lists(values: list[Any]) -> dict[str, list[Any]]:
    one = [[value] for value in forms(values)["dense"]]
    ragged = [None if number % 5 == 0 else values * (number % 3) for number in range(ROWS)]
    return {"one each": one, "ragged": ragged, "empty": [[]] * ROWS, "few long": [values * 40] + [[]] * (ROWS - 1)}


def test_every_type_and_nesting_is_read_as_it_was_written() -> None:
    wrong = []
    for leaf, values in LEAVES:
        columns = {name: pa.array(rows, leaf) for name, rows in forms(values).items()}
        columns |= {name: pa.array(rows, pa.list_(leaf)) for name, rows in lists(values).items()}
        columns["fixed"] = pa.array([[values[0]] * 3] * ROWS, pa.list_(leaf, 3))
        columns["large"] = pa.array([values] * ROWS, pa.large_list(leaf))
        table = pa.table(columns)
        nested: list[Any] = [None, [], [[]], [[values[0]], [], values]] * 3
        deep = pa.table(
            {"deep": pa.array(nested, pa.list_(pa.list_(leaf))), "context": pa.array(values[:1] * 12, leaf)}
        )
        for expected, record_type in (
            (table, "Example"),
            (table.slice(3, 11), "SequenceExample"),
            (deep, "SequenceExample"),
        ):
            result = round_trip(expected, record_type)
            wrong += [
                f"{leaf} {name} as {record_type}"
                for name in expected.column_names
                if not result[name].combine_chunks().equals(expected[name].combine_chunks())
            ]
    assert wrong == []


scalars = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
rows = st.fixed_dictionaries(
    {
        "i": scalars,
        "f": st.none() | st.floats(width=32, allow_nan=False),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
        "ii": st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        "ff": st.none() | st.lists(st.floats(width=32, allow_nan=False), max_size=4),
        "bb": st.none() | st.lists(st.binary(max_size=140), max_size=4),
    }
)
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("ii", pa.list_(pa.int64())),
        ("ff", pa.list_(pa.float32())),
        ("bb", pa.list_(pa.binary())),
    ]
)


@settings(max_examples=25, deadline=None)
@given(some=st.lists(rows, min_size=1, max_size=8), times=st.sampled_from([1, 12]))
def test_any_values_are_read_as_they_were_written(some: list[dict[str, Any]], times: int) -> None:
    table = pa.Table.from_pylist(some * times, SCHEMA)
    for record_type in ("Example", "SequenceExample"):
        assert round_trip(table, record_type).to_pylist() == table.to_pylist()
    assert round_trip(table.slice(1), "Example").to_pylist() == table.slice(1).to_pylist()


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_every_codec_by_option_and_by_extension(compression: str, tmp_path: Path) -> None:
    table = pa.table({"number": pa.array(range(20_000)), "text": pa.array([f"row {n}" for n in range(20_000)])})
    extension = {"none": "", "gzip": ".gz", "zlib": ".zlib"}[compression]
    tfrecord.write(tmp_path / f"by{extension}", table)
    tfrecord.write(tmp_path / "by-option", table, compression=compression.upper())

    assert tfrecord.read_table(tmp_path / f"by{extension}").equals(table)
    assert tfrecord.read_table(tmp_path / "by-option", compression=compression).equals(table)
    assert (tmp_path / "by-option").read_bytes() == (tmp_path / f"by{extension}").read_bytes()


def test_records_of_bytes_are_the_bytes(tmp_path: Path) -> None:
    values = [b"", b"\xff", b"x" * 1000]
    tfrecord.write(tmp_path / "raw", pa.table({"byteArray": pa.array(values, pa.binary())}), record_type="ByteArray")
    table = tfrecord.read_table(tmp_path / "raw", record_type="byte_array")
    assert table.to_pydict() == {"byteArray": values}
