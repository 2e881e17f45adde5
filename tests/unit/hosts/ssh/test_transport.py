"""Nothing is sent on a channel after its end, and a number that is given again is a new channel."""

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

from tfprov.hosts.ssh.transport import Packets


def message(kind: int, *fields: int | str) -> paramiko.Message:
    made = paramiko.Message()
    made.add_byte(bytes([kind]))
    for field in fields:
        if isinstance(field, int):
            made.add_int(field)
        else:
            made.add_string(field)
    return made


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"sent": [], "coming": []}
    monkeypatch.setattr(Packetizer, "send_message", lambda _, data: found["sent"].append(data.asbytes()[0]))
    monkeypatch.setattr(Packetizer, "read_message", lambda _: found["coming"].pop(0))
    return found


@pytest.mark.parametrize(
    "opening", [(MSG_CHANNEL_OPEN_SUCCESS, 9, 5, 0, 0), (MSG_CHANNEL_OPEN, "forwarded-tcpip", 5, 0, 0)]
)
def test_a_closed_channel_is_silent_until_its_number_is_given_again(
    wire: dict[str, list[Any]], opening: tuple[Any, ...]
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        packets = Packets(ours)
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
