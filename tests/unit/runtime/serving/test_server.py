"""The server's own end of a connection."""

import socket
import struct
from contextlib import closing
from pathlib import Path

import pytest

from tfprov.runtime.serving.__main__ import Server, handler
from tfprov.runtime.serving.model import ServedModel

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: close by a reset."""


def test_a_client_that_goes_away_is_no_traceback_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = Server(("127.0.0.1", 0), handler(ServedModel("digits", tmp_path, print)))
    with closing(server.socket):
        client = socket.create_connection(server.server_address)  # type: ignore[arg-type]
        client.sendall(b"POST /v1/models/digits:predict HTTP/1.1\r\nHost: h1\r\nContent-Length: 10\r\n\r\n")
        connection, address = server.get_request()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        server.process_request_thread(connection, address)
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_server_is_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = Server(("127.0.0.1", 0), handler(ServedModel("digits", tmp_path, print)))
    with closing(server.socket):
        try:
            dict[str, int]()["a defect"]
        except KeyError:
            server.handle_error(None, ("127.0.0.1", 1))
    assert "KeyError: 'a defect'" in capfd.readouterr().err
