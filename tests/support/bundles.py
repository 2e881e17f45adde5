"""Writes checkpoints as TensorFlow does, byte by byte, so that tests need no TensorFlow and can write wrong ones."""

import struct
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import google_crc32c

from tests.support.event_files import varint
from tfprov.formats.tfrecord import mask_crc

UINT8 = 4
HEADER = b"\x08\x01\x1a\x02\x08\x01"
"""A BundleHeaderProto: one data file, little-endian, version 1."""


def entry(
    data: bytes,
    *,
    dtype: int = UINT8,
    dims: tuple[int, ...] | None = None,
    shard: int = 0,
    offset: int = 0,
    size: int | None = None,
) -> bytes:
    """Return the BundleEntryProto of a tensor."""
    dim_protos = [b"\x08" + varint(dim) for dim in ((len(data),) if dims is None else dims)]
    shape = b"".join(b"\x12" + varint(len(dim)) + dim for dim in dim_protos)
    place = (b"\x18" + varint(shard) if shard else b"") + b"\x20" + varint(offset)
    place += b"\x28" + varint(len(data) if size is None else size)
    crc = struct.pack("<I", mask_crc(google_crc32c.value(data)))
    return b"\x08" + varint(dtype) + b"\x12" + varint(len(shape)) + shape + place + b"\x35" + crc


def write_table(path: Path, values: Mapping[bytes, bytes], *, per_block: int = 2, compression: int = 0) -> None:
    """Write a table file with `values` in the order that they have, `per_block` in each block."""
    content, handles = b"", {}

    def add(block: bytes) -> bytes:
        nonlocal content
        handle = varint(len(content)) + varint(len(block))
        block += bytes((compression,))
        content += block + struct.pack("<I", mask_crc(google_crc32c.value(block)))
        return handle

    items = list(values.items())
    for start in range(0, len(items), per_block):
        part = items[start : start + per_block]
        handles[part[-1][0]] = add(_block(dict(part)))
    footer = add(_block({}))
    footer += add(_block(handles))
    path.write_bytes(content + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57))


def write_bundle(prefix: Path, tensors: Mapping[str, bytes]) -> None:
    """Write a checkpoint of vectors of bytes, in one data file."""
    data, values = b"", {b"": HEADER}
    for name, content in sorted(tensors.items()):
        values[name.encode()] = entry(content, offset=len(data))
        data += content
    prefix.with_name(f"{prefix.name}.data-00000-of-00001").write_bytes(data)
    write_table(prefix.with_name(f"{prefix.name}.index"), values)


def write_shards(prefix: Path, shards: int, tensors: Iterable[bytes]) -> None:
    """Write a checkpoint in several data files, of which each gets every `shards`-th tensor; holds one in memory."""
    values = {b"": b"\x08" + varint(shards) + b"\x1a\x02\x08\x01"}
    with ExitStack() as stack:
        paths = [prefix.with_name(f"{prefix.name}.data-{number:05}-of-{shards:05}") for number in range(shards)]
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for number, data in enumerate(tensors):
            shard = number % shards
            values[b"tensor-%05d" % number] = entry(data, shard=shard, offset=files[shard].tell())
            files[shard].write(data)
    write_table(prefix.with_name(f"{prefix.name}.index"), values)


def _block(values: Mapping[bytes, bytes]) -> bytes:
    """Return a block in which no key shares bytes with another."""
    body = b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in values.items())
    return body + struct.pack("<II", 0, 1)
