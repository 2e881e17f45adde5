"""The live view's contents: what the tasks of reachable hosts use, and the last line of the chief."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.support.memory_cluster import run_up
from tests.support.memory_lab import MemoryLab
from tests.support.waiting import LONG
from tfprov.engine.concurrency import Clock
from tfprov.engine.context import Context
from tfprov.engine.monitoring.overview import LiveOverview, Overview
from tfprov.hosts.usage import Usage

USED = {
    "h1": {"ps/0": Usage(0.1), "ps/1": Usage(0.2)},
    "h2": {"worker/0": Usage(1.5, 100)},
    "h3": {"worker/2": Usage(3.0)},
}


def lab() -> MemoryLab:
    made = MemoryLab()
    for name, used in USED.items():
        made.hosts[name].used = used
    made.hosts["h2"].prints("worker/0", "step 1", "step 2")
    return made


@contextmanager
def live(context: Context) -> Iterator[LiveOverview]:
    made = LiveOverview(context, "lab: 2 ps, 4 workers")
    try:
        yield made
    finally:
        made.close()


def overview(made: MemoryLab) -> Overview:
    with live(made.context) as reading:
        return reading.read(10.0)


def progress(task: str, at: float) -> bytes:
    return json.dumps({"task": task, "step": 100, "steps": 100, "rate": 1.0, "at": at}).encode()


def pace_of(task: str, seen: Overview) -> int | None:
    row = next(row for row in seen.status.rows if row.task == task)
    return row.pace.step if row.pace is not None else None


def test_what_a_task_uses_is_shown_while_it_runs() -> None:
    made = lab()
    for task, changes in (("ps/0", {"unpause": "docker unpause x"}), ("ps/1", {"restarting": True})):
        place = made.hosts["h1"].places[task]
        place.observed = replace(place.observed, **changes)
    made.hosts["h2"].exits("worker/0", 1)
    assert overview(made).usage == {"ps/0": Usage(0.1), "ps/1": Usage(0.2), "worker/2": Usage(3.0)}


class Asked:
    """A host that counts how often it is asked what its tasks use."""

    def __init__(self, runtime: Any) -> None:
        self._runtime, self.asked, self.answered = runtime, 0, 0
        self.waits_for: threading.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def usage(self) -> Any:
        self.asked += 1
        if self.waits_for is not None:
            self.waits_for.wait(LONG)
        self.answered += 1
        return self._runtime.usage()


def test_what_every_task_uses_and_the_last_line_of_the_chief() -> None:
    seen = overview(lab())
    assert seen.usage == {task: used for of_host in USED.values() for task, used in of_host.items()}
    assert (seen.title, seen.last_line, seen.status.chief) == ("lab: 2 ps, 4 workers", "step 2", "worker/0")


def test_a_chief_without_a_line_has_an_empty_one() -> None:
    assert overview(MemoryLab()).last_line == ""


def test_hosts_that_are_lost_or_idle_are_not_asked() -> None:
    made = lab()
    made.cut("h3")
    for task in ("ps/0", "ps/1"):
        made.hosts["h1"].exits(task, 0)
    seen = overview(made)
    assert (seen.usage, seen.last_line) == (USED["h2"], "step 2")
    made.cut("h2")
    seen = overview(made)
    assert (seen.usage, seen.last_line) == ({}, "")


def test_a_host_that_is_lost_between_two_readings_leaves_the_others_as_they_are() -> None:
    made = lab()
    with live(made.context) as reading:
        reading.read(10.0)
        made.cut("h2")
        seen = reading.read(10.0)
        assert (seen.last_line, set(seen.usage), set(seen.status.unreachable)) == (
            "",
            {"ps/0", "ps/1", "worker/2"},
            {"h2"},
        )
        made.hosts["h2"].failure = None
        assert reading.read(10.0).last_line == "step 2"


def test_a_speed_from_before_a_restart_is_not_shown() -> None:
    made = lab()
    host = made.hosts["h3"]
    host.saves("worker/2", "progress.json", progress("worker/2", at=host.now))
    with live(made.context) as reading:
        assert pace_of("worker/2", reading.read(10.0)) == 100
        host.exits("worker/2", 1)
        host.now += 50
        run_up(made.context)
        assert pace_of("worker/2", reading.read(10.0)) is None


def test_a_large_cluster_is_asked_in_turns_for_speed_and_usage_and_its_chief_each_time() -> None:
    names = [f"w{number}" for number in range(99)]
    made = MemoryLab(
        text=f"""
all: {{vars: {{tfprov: {{cluster: lab, command: [python], wiring: WIRING}}}}}}
ps: {{hosts: {{h1: }}}}
worker: {{hosts: {{{", ".join(f"{name}: " for name in names)}}}}}
"""
    )
    asked = {name: Asked(host) for name, host in made.hosts.items()}
    with live(replace(made.context, runtimes=asked)) as reading:
        reading.read(10.0)
        assert {host.asked for host in asked.values()} == {1}
        for _ in range(4):
            reading.read(10.0)
    chief = made.context.cluster.chief.host
    assert asked.pop(chief).asked == 5
    assert {host.asked for host in asked.values()} == {2, 3}
    assert sum(host.asked - 1 for host in asked.values()) == 4 * 31


def test_a_host_that_does_not_say_what_it_uses_holds_up_no_reading() -> None:
    made, go_on = lab(), threading.Event()
    silent = Asked(made.hosts["h3"])
    with live(replace(made.context, clock=Clock(), runtimes={**made.hosts, "h3": silent})) as reading:
        assert reading.read(10.0).usage["worker/2"] == Usage(3.0)
        silent.waits_for = go_on
        made.hosts["h1"].used = {"ps/0": Usage(9.0)}
        for _ in range(2):
            seen = reading.read(10.0)
            assert (seen.usage["ps/0"], seen.usage["worker/2"]) == (Usage(9.0), Usage(3.0))
        assert silent.asked == 2, "not once more while it does not answer"
    assert silent.answered == 1, "and the view is closed without its answer"
    go_on.set()
