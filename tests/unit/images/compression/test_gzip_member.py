"""One gzip member from pieces that several cores compress."""

import gzip
import io
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfprov.images.archive_reader import UncompressedDigest
from tfprov.images.compression.gzip_member import PIECE, deflate, gzip_pieces, sample_ratio
from tfprov.images.oci_spec import digest_of


def member(data: bytes, cores: int = 2) -> bytes:
    pieces: list[bytes] = []
    with ThreadPoolExecutor(cores) as pool:
        made = b"".join(gzip_pieces(io.BytesIO(data), pool, cores, pieces.append))
    assert b"".join(pieces) == data
    return made


def content(size: int) -> bytes:
    """Return bytes of which some repeat and some do not."""
    half = os.urandom(size // 3)
    return (half + half.hex().encode())[:size].ljust(size, b"x")


def test_a_piece_is_a_mebibyte() -> None:
    pieces: list[bytes] = []
    with ThreadPoolExecutor(1) as pool:
        list(gzip_pieces(io.BytesIO(bytes((1 << 20) + 1)), pool, 1, pieces.append))
    assert [*map(len, pieces)] == [1 << 20, 1]


class Sampled(io.BytesIO):
    """An empty source that notes where it is read, and how much."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[int] = []
        self.sizes: set[int | None] = set()

    def seek(self, place: int, whence: int = 0, /) -> int:
        self.places.append(place)
        return place

    def read(self, size: int | None = -1, /) -> bytes:
        self.sizes.add(size)
        return b""


def test_sixteen_samples_of_64_kib_are_at_the_ends_and_between_them() -> None:
    source = Sampled()
    sample_ratio(source, 15_000 + 65_536)
    assert source.places == [*range(0, 16_000, 1000), 0]
    assert source.sizes == {65_536}
    assert sample_ratio(io.BytesIO(b"x" * 10), 10) == len(deflate(b"x" * 10)) / 10


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7])
def test_the_content_comes_back_whatever_the_size(size: int) -> None:
    data = content(size)
    made = member(data)
    assert gzip.decompress(made) == data
    assert int.from_bytes(made[-4:], "little") == size, "one member: its end has the size of all"
    digest = UncompressedDigest()
    digest.write(made)
    assert digest.digest == digest_of(data)


def test_the_same_input_gives_the_same_bytes_with_every_number_of_cores() -> None:
    data = content(5 * PIECE + 1)
    made = {member(data, cores) for cores in (1, 2, 7)}
    assert len(made) == 1
    assert made.pop()[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff", "neither a time nor a name"


def test_a_source_that_breaks_ends_it() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= 2 * PIECE:
                raise OSError("broken")
            return super().read(size)

    with ThreadPoolExecutor(2) as pool, pytest.raises(OSError, match="broken"):
        list(gzip_pieces(Broken(bytes(4 * PIECE)), pool, 2, len))


@pytest.mark.parametrize(
    ("data", "least", "most"),
    [
        (os.urandom(2_000_000), 0.99, 1.01),
        (bytes(2_000_000), 0.0, 0.02),
        (os.urandom(500).hex().encode(), 0.5, 0.7),
        (os.urandom(1_000_000) + bytes(1_000_000), 0.4, 0.6),
    ],
    ids=["random", "zeros", "short", "half"],
)
def test_samples_tell_how_much_a_layer_shrinks(data: bytes, least: float, most: float) -> None:
    source = io.BytesIO(data)
    assert least <= sample_ratio(source, len(data)) <= most
    assert source.tell() == 0
