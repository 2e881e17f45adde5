"""Ctrl-C while hosts are asked: nobody waits for one that is silent."""

import threading

import pytest

from tests.support.interrupts import interrupt_waiting_main
from tests.support.memory_cluster import Runtimes, make_context
from tests.support.waiting import LONG
from tfprov.engine.concurrency import pool
from tfprov.engine.observe import observe
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import HostState

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python]}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""


class Silent(MemoryRuntime):
    """A host that answers when `answers` is set; Ctrl-C is pressed once the main thread waits for it.

    `ended` has an entry once it has answered.
    """

    def __init__(self, host: str, answers: threading.Event) -> None:
        super().__init__(host)
        self.answers, self.ended = answers, list[bool]()

    def observe(self) -> HostState:
        interrupt_waiting_main()
        self.ended.append(self.answers.wait(LONG))
        return super().observe()


def test_ctrl_c_is_raised_before_a_silent_host_answers() -> None:
    answers = threading.Event()
    silent = Silent("h2", answers)
    hosts: Runtimes = {"h2": silent}
    context = make_context(INVENTORY, (), hosts)
    try:
        with pytest.raises(KeyboardInterrupt):
            observe(context)
        assert silent.ended == [], "it is still being asked"
    finally:
        answers.set()


def test_a_pool_ends_with_its_block_and_after_an_error() -> None:
    done: list[int] = []
    with pool(2) as asking:
        asking.map(done.append, range(100))
    assert len(done) == 100

    def fails() -> None:
        with pool(2) as asking:
            asking.map(done.append, range(100))
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fails()
    assert len(done) == 200
