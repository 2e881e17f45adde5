"""The live view's contents: what the tasks of reachable hosts use, and the last line of the chief."""

from dataclasses import replace

from tests.support.memory_lab import MemoryLab
from tfprov.engine.monitoring.overview import Overview, read_overview
from tfprov.engine.monitoring.status import status
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


def overview(made: MemoryLab) -> Overview:
    return read_overview(made.context, "lab: 2 ps, 4 workers", status(made.context, 10.0))


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


def test_a_host_that_is_lost_after_its_status_leaves_the_others_as_they_are() -> None:
    made = lab()
    before = status(made.context, 10.0)
    made.cut("h2")
    seen = read_overview(made.context, "lab", before)
    assert seen.last_line == ""
    assert {"ps/0", "ps/1", "worker/2"} <= set(seen.usage)


def test_a_status_of_hosts_that_the_inventory_lost_is_shown_without_their_usage() -> None:
    made = lab()
    before = status(made.context, 10.0)
    context = replace(made.context, runtimes={name: host for name, host in made.hosts.items() if name != "h2"})
    seen = read_overview(context, "lab", before)
    assert (set(seen.usage), seen.last_line) == ({"ps/0", "ps/1", "worker/2"}, "")
