"""The chunks of an engine's answer, whatever their sizes, and an answer that ends too early."""

import random

import pytest

from tests.support.hostile import CONTAINER, STAT, Endless, answered, engine, recorded
from tfprov.errors import HostError
from tfprov.hosts.docker.archive_stream import ArchiveStream, request_archive
from tfprov.hosts.docker.engine import Engine

BODY = random.Random(3).randbytes(700_000)


def chunked(body: bytes, chance: random.Random) -> bytes:
    """Return an answer whose body comes in chunks of any size, with an extension and a trailer."""
    pieces, at = [], 0
    while at < len(body):
        size = chance.choice((1, 2, 100, 32_768, 300_000))
        piece = body[at : at + size]
        extension = chance.choice((b"", b";name=value", b" "))
        pieces.append(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece))
        at += size
    head = answered(b"", stat=STAT).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"".join(pieces) + b"0\r\nTrailer: 1\r\n\r\n"


def sending(answer: bytes | Endless) -> Engine:
    return engine(lambda _method, path: answer if "/archive" in path else recorded(path))


def read_all(stream: ArchiveStream, size: int) -> bytes:
    buffer, data = bytearray(size), b""
    while count := stream.readinto(memoryview(buffer)):
        data += buffer[:count]
    return data


def test_chunks_of_any_size_are_read_whole() -> None:
    for seed in range(20):
        body = BODY if seed else BODY[:5000]  # which is read byte by byte
        broken = sending(chunked(body, random.Random(seed)))
        with ArchiveStream(broken, request_archive(broken, str(CONTAINER["Id"]), "/x")) as stream:
            assert read_all(stream, 1 + 9973 * seed) == body


def test_what_came_before_the_connection_was_cut_is_read_and_then_the_error() -> None:
    whole = chunked(BODY, random.Random(1))
    for cut in (len(whole) - 1, len(whole) - 14, len(whole) // 2, len(whole) // 3):
        broken = sending(whole[:cut])
        stream = ArchiveStream(broken, request_archive(broken, str(CONTAINER["Id"]), "/x"))
        data = b""

        def read(stream: ArchiveStream = stream) -> None:
            nonlocal data
            buffer = bytearray(100_000)
            while count := stream.readinto(memoryview(buffer)):
                data += buffer[:count]

        with pytest.raises(HostError, match="closed the connection"):
            read()
        assert BODY.startswith(data)
        assert len(data) >= min(len(BODY), cut - 20_000), "little of what arrived is lost"


def test_malformed_chunks_are_an_error_and_their_lines_are_bounded() -> None:
    head = answered(b"", stat=STAT).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    for rest in (b"x\r\nabc", b"-3\r\nabc", b"\r\n", b"3\r\nabcdef\r\n", b"0x3\r\nabc\r\n0\r\n\r\n"):
        broken = sending(head + rest)
        with pytest.raises(HostError):
            read_all(ArchiveStream(broken, request_archive(broken, str(CONTAINER["Id"]), "/x")), 1000)
    endless = Endless(head, b"1" * 1000)
    broken = sending(endless)
    with pytest.raises(HostError):
        read_all(ArchiveStream(broken, request_archive(broken, str(CONTAINER["Id"]), "/x")), 1000)
    assert endless.sent < 2_000_000
