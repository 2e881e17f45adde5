"""The receive buffer of a channel, against paramiko's own."""

import random
import threading
from typing import Any

import pytest
from paramiko.buffered_pipe import BufferedPipe, PipeTimeout

from tfprov.hosts.ssh.receive_buffer import ReceiveBuffer


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
