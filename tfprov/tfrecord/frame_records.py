"""Records to TFRecord frames: length, its checksum, data, its checksum, for a whole batch in one piece of memory."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tfprov.tfrecord.checksums import crc32c, length_crcs, masked


def framed(records: pa.Array) -> bytes:
    """Return the bytes of a TFRecord file with an array of large binaries without nulls."""
    if not len(records):
        return b""
    _, offset_buffer, data = records.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[records.offset : records.offset + len(records) + 1]
    octets = b"" if data is None else data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()
    bounds = (offsets - offsets[0]).tolist()
    bodies = [crc32c(octets[start:end]) for start, end in itertools.pairwise(bounds)]
    lengths = np.diff(offsets)
    headers = np.empty(len(records), np.dtype([("length", "<u8"), ("crc", "<u4")]))
    headers["length"], headers["crc"] = lengths, length_crcs(lengths)
    footers = masked(np.array(bodies, np.uint32)).astype("<u4")
    joined = pc.binary_join_element_wise(
        _fixed(headers, 12), records, _fixed(footers, 4), pa.scalar(b"", pa.large_binary())
    )
    _, offset_buffer, data = joined.buffers()
    whole = np.frombuffer(offset_buffer, np.int64)[joined.offset : joined.offset + len(joined) + 1]
    result: bytes = data.slice(int(whole[0]), int(whole[-1] - whole[0])).to_pybytes()
    return result


def _fixed(values: "np.ndarray[tuple[int], np.dtype[np.generic]]", size: int) -> pa.Array:
    offsets = np.arange(0, size * len(values) + 1, size)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), buffers)
