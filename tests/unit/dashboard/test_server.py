"""How the dashboard answers and ends: its application, and real HTTP."""

import asyncio
import http.client
import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from tests.support.run_history import record_run, run_id, scripted
from tfprov.dashboard.app import application
from tfprov.dashboard.server import Server, bound
from tfprov.history.reader import RunHistory

AN_HOUR = 3600.0


def answers(
    history: RunHistory, address: str, answered: Callable[[asyncio.Event], None] = lambda _: None
) -> list[Message]:
    """Return what the application sends for an address; `answered` is called after each part of its body."""
    path, _, query = address.partition("?")
    sent: list[Message] = []
    stopping = asyncio.Event()
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": [], "root_path": "",
    }  # fmt: skip

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the reader stays")

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            answered(stopping)

    asyncio.run(application(history, stopping, AN_HOUR)(scope, receive, send))
    return sent


def history_of(tmp_path: Path) -> RunHistory:
    return RunHistory(tmp_path, tmp_path / "runs.sqlite")


def test_a_stream_ends_when_the_server_stops(tmp_path: Path) -> None:
    record_run(tmp_path / "lab" / "runs", 1, scripted())
    sent = answers(history_of(tmp_path), "/stream?view=start", asyncio.Event.set)
    first, *_, last = [message for message in sent if message["type"] == "http.response.body"]
    assert b"data: " in first["body"]
    assert last == {"type": "http.response.body", "body": b"", "more_body": False}


def test_ctrl_c_with_an_open_stream_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record_run(tmp_path / "lab" / "runs", 1, scripted())
    events: list[bytes] = []
    with bound(None) as page, closing(http.client.HTTPConnection("127.0.0.1", page.port)) as connection:

        def read() -> None:
            try:
                connection.request("GET", "/stream?view=start", headers={"Cookie": page.gate.cookie(page.port)})
                response = connection.getresponse()
                events.append(response.readline())
            finally:
                os.kill(os.getpid(), signal.SIGINT)

        reader = threading.Thread(target=read)
        reader.start()
        with pytest.raises(KeyboardInterrupt):
            page.serve(history_of(tmp_path))
        reader.join()
    assert events[0].startswith(b"data: ")
    assert capfd.readouterr() == ("", "")


def test_a_server_that_stops_ends_the_streams_and_reports_no_response_that_it_cancels(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A browser that takes nothing any more holds its stream up."""

    async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        server.should_exit = True
        await asyncio.Event().wait()

    with bound(None) as page:
        config = uvicorn.Config(endless, log_level="warning", lifespan="off", timeout_graceful_shutdown=0)
        stopping = asyncio.Event()
        server = Server(config, stopping)
        connection = http.client.HTTPConnection("127.0.0.1", page.port)
        connection.request("GET", "/")
        server.run(sockets=[page.listener])
        connection.close()
    assert stopping.is_set()
    assert capfd.readouterr() == ("", "")


def test_a_run_whose_events_have_a_time_out_of_range_is_a_page_that_says_so(tmp_path: Path) -> None:
    run = record_run(tmp_path / "lab" / "runs", 1, scripted(), end={})
    with run.events.open("a") as events:
        events.write('{"event": "note", "text": "late", "at": 1e17}\n')
    start, body = answers(history_of(tmp_path), f"/run?run={run_id(1)}")[:2]
    assert (start["status"], f"{run_id(1)} is damaged".encode() in body["body"]) == (404, True)
