"""Nothing is sent on a closed channel; a reused number is a new channel."""

import contextlib
import socket
import threading
import time
from typing import Any

import paramiko
import pytest
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_OPEN,
    MSG_CHANNEL_OPEN_SUCCESS,
    MSG_CHANNEL_WINDOW_ADJUST,
)
from paramiko.packet import Packetizer

from tests.support.waiting import LONG, until
from tfprov.hosts.ssh.transport import Alarms, Keepalive, SafePacketizer, SocketClock


def message(kind: int, *fields: int | str) -> paramiko.Message:
    built = paramiko.Message()
    built.add_byte(bytes([kind]))
    for field in fields:
        if isinstance(field, int):
            built.add_int(field)
        else:
            built.add_string(field)
    return built


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    packets: dict[str, list[Any]] = {"sent": [], "coming": []}
    monkeypatch.setattr(Packetizer, "send_message", lambda _, data: packets["sent"].append(data.asbytes()[0]))
    monkeypatch.setattr(Packetizer, "read_message", lambda _: packets["coming"].pop(0))
    return packets


@pytest.mark.parametrize(
    "opening", [(MSG_CHANNEL_OPEN_SUCCESS, 9, 5, 0, 0), (MSG_CHANNEL_OPEN, "forwarded-tcpip", 5, 0, 0)]
)
def test_nothing_is_sent_on_a_closed_channel_until_its_number_is_reused(
    wire: dict[str, list[Any]], opening: tuple[Any, ...]
) -> None:
    near, far = socket.socketpair()
    with near, far:
        packets = SafePacketizer(near)
        for kind in (MSG_CHANNEL_DATA, MSG_CHANNEL_EOF, MSG_CHANNEL_CLOSE):
            packets.send_message(message(kind, 5))
        for kind in (MSG_CHANNEL_DATA, MSG_CHANNEL_EOF):
            packets.send_message(message(kind, 5))
            packets.send_message(message(kind, 6))
        packets.send_message(message(MSG_CHANNEL_WINDOW_ADJUST, 5, 1))
        of_others = [MSG_CHANNEL_DATA, MSG_CHANNEL_EOF]
        assert wire["sent"] == [*of_others, MSG_CHANNEL_CLOSE, *of_others, MSG_CHANNEL_WINDOW_ADJUST]
        wire["coming"].append((opening[0], paramiko.Message(message(*opening).asbytes()[1:])))
        assert packets.read_message()[0] == opening[0]
        packets.send_message(message(MSG_CHANNEL_DATA, 5))
        assert wire["sent"][-1] == MSG_CHANNEL_DATA


def test_a_handshake_has_a_time_limit_without_a_thread() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(0.01)
        packets, threads = SafePacketizer(near), set(threading.enumerate())
        packets.start_handshake(0.05)
        with pytest.raises(paramiko.SSHException, match="timed out"):  # and not as of a connection that was closed
            packets.read_all(1)
        packets.complete_handshake()
        packets.start_handshake(0.0)
        assert not packets.handshake_timed_out(), "it is complete"
        assert set(threading.enumerate()) <= threads, "threads of other tests may end meanwhile"


def test_a_connection_has_ended_once_a_message_cannot_be_sent_although_more_can_be_read() -> None:
    near, far = socket.socketpair()
    with near:
        packets, other = SafePacketizer(near), SafePacketizer(far)
        other.send_message(message(MSG_CHANNEL_DATA, 5))
        packets.send_message(message(MSG_CHANNEL_DATA, 5))
        before = packets.ended
        far.close()
        with pytest.raises(EOFError):
            packets.send_message(message(MSG_CHANNEL_DATA, 5))
        assert (before, packets.ended) == (False, True)
        assert packets.read_message()[0] == MSG_CHANNEL_DATA
        assert packets.ended


def test_a_reader_keeps_what_arrived_although_the_connection_has_ended_when_it_acknowledges_that() -> None:
    near, far = socket.socketpair()
    with near:
        packets = SafePacketizer(near)
        far.close()
        packets.send_message(message(MSG_CHANNEL_WINDOW_ADJUST, 5, 1))
        assert packets.ended


class Transport:
    """Answers every request; `requests` holds their times."""

    def __init__(self) -> None:
        self.requests: list[float] = []
        self.is_open = True

    def is_active(self) -> bool:
        return self.is_open

    def close(self) -> None:
        self.is_open = False

    def global_request(self, _kind: str, wait: bool) -> None:
        assert wait
        self.requests.append(time.monotonic())


def test_one_thread_waits_for_the_keepalives_of_all_connections() -> None:
    near, far = socket.socketpair()
    with near, far:
        transports = [Transport() for _ in range(50)]
        before = set(threading.enumerate())
        clocks = [SocketClock(near) for _ in transports]
        for busy in clocks[2:]:
            busy.last_received = time.monotonic() + LONG
        keepalives = [
            Keepalive(transport, clock, threading.Lock(), interval=0.05, silence=LONG)
            for transport, clock in zip(transports, clocks, strict=True)
        ]
        for keepalive in keepalives:
            keepalive.start()
        assert len(set(threading.enumerate()) - before) <= 1 + 2 * 2, "and those of two requests"
        until(lambda: len(transports[0].requests) > 2 and len(transports[1].requests) > 2, "requests are repeated")
        assert [len(transport.requests) for transport in transports[2:]] == [0] * 48, "where something arrives, none is"
        for keepalive in keepalives:
            keepalive.stop()
        until(lambda: not _keepalive_threads(), "no thread is left")


class NoThreads:
    """Refuses to start threads with the name `refused`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused, self.tries, start = "", 0, threading.Thread.start

        def start_or_refuse(thread: threading.Thread) -> None:
            if thread.name == self.refused:
                self.tries += 1
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_or_refuse)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> NoThreads:
    return NoThreads(monkeypatch)


def test_alarms_ring_once_a_thread_can_be_started_again(no_threads: NoThreads) -> None:
    alarms, rung = Alarms(), list[str]()
    no_threads.refused = "tfprov-ssh-alarms"
    with pytest.raises(RuntimeError):
        alarms.at(0.0, lambda: rung.append("first"))
    no_threads.refused = ""
    alarms.at(time.monotonic(), lambda: rung.append("second"))
    until(lambda: rung == ["first", "second"], "both were called")


def test_an_alarm_that_fails_ends_no_other() -> None:
    alarms, rung = Alarms(), threading.Event()

    def fail() -> None:
        alarms.at(time.monotonic(), rung.set)
        raise RuntimeError("can't start new thread")

    alarms.at(0.0, fail)
    assert rung.wait(LONG)


@pytest.mark.parametrize("refused", ["tfprov-ssh-keepalive", "tfprov-ssh-request"])
def test_a_connection_has_its_keepalive_once_a_thread_can_be_started_again(no_threads: NoThreads, refused: str) -> None:
    near, far = socket.socketpair()
    with near, far:
        transport, clock = Transport(), SocketClock(near)
        keepalive = Keepalive(transport, clock, threading.Lock(), interval=0.01, silence=LONG)
        no_threads.refused = refused
        keepalive.start()
        until(lambda: no_threads.tries > 1, "it is tried again")
        no_threads.refused = ""
        until(lambda: transport.requests, "the request is sent")
        keepalive.stop()
        until(lambda: not _keepalive_threads(), "no thread is left")


def _keepalive_threads() -> list[threading.Thread]:
    names = ("tfprov-ssh-alarms", "tfprov-ssh-keepalive", "tfprov-ssh-request")
    return [thread for thread in threading.enumerate() if thread.name in names]


def test_closing_wakes_a_thread_that_reads() -> None:
    near, far = socket.socketpair()
    with far:
        clock, reads = SocketClock(near), threading.Event()

        def read() -> None:
            reads.set()
            with contextlib.suppress(OSError):  # it was closed before
                clock.recv(1)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reads.wait()
        clock.close()
        reader.join(LONG)
        assert not reader.is_alive()
