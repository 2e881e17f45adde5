"""Nothing is sent on a closed channel; a reused number is a new channel."""

import socket
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

from tfprov.hosts.ssh.transport import SafePacketizer


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
