"""A host is closed while it is being connected to: Ctrl-C does not wait for one that does not answer."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.waiting import LONG
from tfprov.errors import HostError
from tfprov.hosts.ssh.channel_pool import ExtraConnections
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost

SOON = 60.0
"""Seconds for what takes none; the host answers only after them."""


class Opened:
    """A connection."""

    def __init__(self) -> None:
        self.alive = True

    def try_session(self) -> str:
        return "session"

    def close(self) -> None:
        self.alive = False


class Slow(Executor):
    """Connects when `answers` is set; `is_awaited` is set by whoever waits for it."""

    def __init__(self) -> None:
        self.is_awaited, self.answers, self.made = threading.Event(), threading.Event(), Opened()

    def connect(self) -> Opened:
        self.is_awaited.set()
        self.answers.wait(LONG)
        return self.made

    def submit(self, *_: Any, **__: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.result = lambda timeout=None: self.connect()  # type: ignore[method-assign]
        future.set_running_or_notify_cancel()
        return future


@contextmanager
def closed_meanwhile(slow: Slow, use: Callable[[], Any], close: Callable[[], None]) -> Iterator["Future[Any]"]:
    """Close what is being connected, and yield its use, once the host has answered."""
    with ThreadPoolExecutor(2) as pool:
        try:
            using = pool.submit(use)
            assert slow.is_awaited.wait(LONG)
            pool.submit(close).result(SOON)
        finally:
            slow.answers.set()
        yield using


def test_a_host_that_does_not_answer_is_closed_at_once() -> None:
    slow, host = Slow(), SSHHost(SSHTarget("h1", "192.0.2.1"))
    host.connect_in(slow)
    with closed_meanwhile(slow, host.open, host.close) as using:
        with pytest.raises(HostError, match="h1: the connection was closed"):
            using.result(LONG)
        assert not slow.made.alive


def test_an_extra_connection_that_is_being_opened_holds_up_no_close() -> None:
    slow = Slow()
    extra: ExtraConnections[Opened] = ExtraConnections(slow.connect)
    with closed_meanwhile(slow, lambda: extra.open_session(may_connect=True), extra.close) as using:
        assert using.result(LONG) is None
        assert not slow.made.alive
        assert not extra.are_open
