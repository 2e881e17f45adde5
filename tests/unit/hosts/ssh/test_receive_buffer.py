"""The receive buffer of a channel, against paramiko's own."""

import random
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from paramiko.buffered_pipe import BufferedPipe, PipeTimeout
from paramiko.ssh_exception import SSHException

from tests.support.waiting import LONG
from tfprov.hosts.ssh.receive_buffer import WINDOW, ReceiveBuffer, bounded, receiving


def test_it_returns_what_paramikos_buffer_does() -> None:
    chance = random.Random(7)
    ours = ReceiveBuffer()
    theirs: Any = BufferedPipe()
    polled, expected = threading.Event(), threading.Event()
    ours.set_event(polled)
    theirs.set_event(expected)
    for _ in range(500):
        if chance.random() < 0.5:
            data = chance.randbytes(chance.randrange(1, 50))
            ours.feed(data)
            theirs.feed(data)
        elif len(theirs):
            size = chance.randrange(1, 80)
            assert ours.read(size, 1.0) == theirs.read(size, 1.0)
        assert (len(ours), ours.read_ready(), polled.is_set()) == (len(theirs), theirs.read_ready(), expected.is_set())
    assert ours.empty() == theirs.empty()
    assert polled.is_set() == expected.is_set()


def test_a_read_waits_for_data_and_ends_with_the_channel() -> None:
    buffer = ReceiveBuffer()
    with pytest.raises(PipeTimeout):
        buffer.read(10, 0.0)
    with pytest.raises(PipeTimeout):
        buffer.read(10, 0.01)
    received: list[bytes] = []

    def read_all() -> None:
        while data := buffer.read(4):
            received.append(data)

    reader = threading.Thread(target=read_all)
    reader.start()
    buffer.feed(b"abcdef")
    buffer.close()
    reader.join(60)
    assert b"".join(received) == b"abcdef"
    assert buffer.read(1, 0.0) == b""


def test_a_packet_without_content_is_not_the_end() -> None:
    buffer, polled = ReceiveBuffer(), threading.Event()
    buffer.set_event(polled)
    buffer.feed(b"")
    assert not polled.is_set()
    with pytest.raises(PipeTimeout):
        buffer.read(10, 0.0)


def test_a_host_that_ignores_the_window_fills_no_memory() -> None:
    buffer, polled = ReceiveBuffer(limit=1000), threading.Event()
    for _ in range(10):
        buffer.feed(bytes(100))
    assert buffer.read(500, 0.0) == bytes(500)
    buffer.set_event(polled)
    for _ in range(1000):
        buffer.feed(bytes(100))
        assert len(buffer) <= 1000
    assert buffer.read_ready()
    assert polled.is_set()
    with pytest.raises(SSHException, match="more than its window allows"):
        buffer.read(500, 0.0)


@pytest.mark.parametrize("make", [bounded, receiving])
def test_both_streams_of_a_channel_are_bounded(make: Callable[[Any], Any]) -> None:
    channel = make(SimpleNamespace())
    for buffer in (channel.in_buffer, channel.in_stderr_buffer):
        for _ in range(80):
            buffer.feed(PACKET_OF_A_FLOOD)
        assert len(buffer) <= 2 * WINDOW


PACKET_OF_A_FLOOD = bytes(128 * 1024)
PACKET = bytes(32 * 1024)
LARGE = 256 * 1024


@pytest.mark.parametrize("end", [b"the end", None], ids=["a small packet", "the channel's end"])
def test_a_large_read_waits_for_more_large_packets_until_one_is_small_or_the_channel_ends(end: bytes | None) -> None:
    buffer = ReceiveBuffer(patience=LONG)
    received: list[bytes] = []
    first = threading.Event()

    def read_both() -> None:
        received.append(buffer.read(LARGE))
        first.set()
        received.append(buffer.read(LARGE))

    reader = threading.Thread(target=read_both)
    reader.start()
    for _ in range(8):
        buffer.feed(PACKET)
    assert first.wait(LONG)
    buffer.feed(PACKET)
    buffer.feed(PACKET)
    time.sleep(0.05)  # the reader waits by now, or sees all of it at once: both have to end
    if end is None:
        buffer.close()
    else:
        buffer.feed(end)
    reader.join(LONG)
    assert [len(data) for data in received] == [LARGE, 2 * len(PACKET) + len(end or b"")]


def test_what_is_small_is_read_at_once_and_so_is_what_a_small_read_asks_for() -> None:
    buffer = ReceiveBuffer(patience=LONG)
    buffer.feed(b"an answer")
    assert buffer.read(LARGE) == b"an answer"
    buffer.feed(PACKET)
    assert len(buffer.read(64 * 1024)) == len(PACKET)


def test_a_large_packet_that_nothing_follows_is_read_all_the_same() -> None:
    buffer = ReceiveBuffer(patience=0.01)
    buffer.feed(PACKET)
    assert buffer.read(LARGE) == PACKET
