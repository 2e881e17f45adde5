"""tfprov.engine.checks.temporary_containers: nothing stays after Ctrl-C."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from tests.support.waiting import LONG
from tfprov.engine.checks.temporary_containers import container_pool, sweep_hosts
from tfprov.errors import HostError
from tfprov.hosts.docker.reachability_probe import temporary
from tfprov.hosts.machine import Machine


class EngineInMemory:
    """The part of a host's engine that a sweep uses; its containers are their labels, by id."""

    def __init__(self) -> None:
        self.api = self
        self.there: dict[str, Mapping[str, str]] = {}
        self.swept = threading.Event()
        self.fault: HostError | None = None

    @property
    def engine(self) -> "EngineInMemory":
        return self

    @contextmanager
    def errors(self) -> Iterator[None]:
        if self.fault is not None:
            raise self.fault
        yield

    def containers(self, **query: Any) -> list[dict[str, Any]]:
        assert query["all"], "a container that was not started yet counts"
        pairs = [label.split("=", 1) for label in query["filters"]["label"]]
        listed = [name for name, labels in self.there.items() if all_match(labels, pairs)]
        self.swept.set()
        return [{"Id": name} for name in listed]

    def remove_container(self, name: str, **_: object) -> None:
        del self.there[name]


def all_match(labels: Mapping[str, str], pairs: list[list[str]]) -> bool:
    return all(labels.get(name) == value for name, value in pairs)


@pytest.fixture
def engine() -> EngineInMemory:
    return EngineInMemory()


def machines(engine: EngineInMemory) -> Mapping[str, Machine]:
    return {"h1": cast(Machine, engine)}


def test_after_ctrl_c_nothing_stays_of_what_was_there_and_of_what_was_being_made(engine: EngineInMemory) -> None:
    begun, stopping, began = threading.Event(), threading.Event(), []

    def slow() -> None:
        engine.there["one"] = temporary("lab")
        begun.set()
        assert engine.swept.wait(LONG)  # the engine answers `create` only after the first sweep
        engine.there["two"] = temporary("lab")

    def queued() -> None:
        began.append(True)

    def interrupted() -> None:
        with container_pool("lab", machines(engine), 1, stopping) as pool:
            pool.submit(slow)
            pool.submit(queued)
            assert begun.wait(LONG)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (engine.there, began) == ({}, [])
    assert stopping.is_set()


def test_only_what_this_process_made_for_the_cluster_is_removed(engine: EngineInMemory) -> None:
    others = {
        "other process": {**temporary("lab"), "tfprov.check.maker": "x"},
        "other cluster": temporary("x"),
        "task": {},
    }
    engine.there = {"ours": temporary("lab"), **others}
    assert sweep_hosts("lab", machines(engine), 4) == {}
    assert engine.there == others
    sweep_hosts("lab", machines(engine), 4, everything=True)
    assert [*engine.there] == ["other cluster", "task"]


def test_a_host_that_does_not_answer_is_reported(engine: EngineInMemory) -> None:
    engine.fault = HostError("h1", "no answer")
    assert sweep_hosts("lab", machines(engine), 4) == {
        "h1": "what was started there may run for some minutes more: no answer"
    }
