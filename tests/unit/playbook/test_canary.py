"""`up --canary`: a few hosts first, and the others only once the tasks there serve."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_cluster import make_context
from tests.support.memory_plays import MemoryPlays
from tfprov.errors import HostError, TaskFailed, Usage
from tfprov.model.plan import Action, ActionKind, Plan
from tfprov.playbook.batches import canary_hosts
from tfprov.playbook.verbs import up

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], start_timeout: 2, restart: never}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: , h3: , h4: }}
"""
EVERYTHING = ["ps/0", "worker/0", "worker/1", "worker/2"]


@pytest.fixture
def plays(tmp_path: Path) -> MemoryPlays:
    return MemoryPlays(tmp_path, INVENTORY)


def calls(plays: MemoryPlays, *hosts: str) -> list[str]:
    return [call for name in hosts for call in plays.hosts[name].calls]


def edit(plays: MemoryPlays) -> None:
    """Change a flag of every task, and forget what was done."""
    text = INVENTORY.replace("command:", "flags: {lr: 1}, command:")
    made = make_context(text, (), plays.hosts)
    plays.context = replace(made, home=plays.context.home, target=plays.context.target, report=plays.report)
    for host in plays.hosts.values():
        host.calls.clear()


def test_the_others_follow_a_canary_that_serves(plays: MemoryPlays) -> None:
    up(plays.context, partial=False, canary=2)
    assert plays.running() == EVERYTHING
    notes = plays.report.notes
    begin, end = notes.index("canary: h[1:2]"), notes.index("the canary serves: the other hosts follow")
    assert {note.split()[0] for note in notes[begin + 1 : end]} == {"ps/0", "worker/0"}
    assert {note.split()[0] for note in notes[end + 1 :]} >= {"worker/1", "worker/2"}


@pytest.mark.parametrize("how", ["refused", "ended", "silent"])
def test_a_canary_that_fails_leaves_the_others_untouched(plays: MemoryPlays, how: str) -> None:
    up(plays.context, partial=False)
    edit(plays)
    if how == "refused":
        plays.hosts["h1"].refuses["start ps/0"] = "its disk is full"
    elif how == "ended":
        plays.hosts["h1"].unstartable["ps/0"] = "no such program"
    else:
        plays.hosts["h1"].silent.add("ps/0")
    with pytest.raises((HostError, TaskFailed)):
        up(plays.context, partial=False, canary=1)
    assert calls(plays, "h2", "h3", "h4") == []
    assert plays.running() == ["worker/0", "worker/1", "worker/2"]
    assert plays.report.notes[-1] == "the canary failed: nothing was changed on the other hosts"


def test_a_failure_of_the_others_leaves_the_canary(plays: MemoryPlays) -> None:
    plays.hosts["h4"].refuses["start worker/2"] = "its disk is full"
    with pytest.raises(HostError, match=r"^h4: its disk is full$"):
        up(plays.context, partial=False, canary=1)
    assert plays.running() == ["ps/0"]


def test_a_canary_of_more_hosts_than_change_is_all_of_them(plays: MemoryPlays) -> None:
    up(plays.context, partial=False, canary=100)
    assert plays.running() == EVERYTHING
    before = calls(plays, *plays.hosts)
    assert not up(plays.context, partial=False, canary=1).changed
    assert calls(plays, *plays.hosts) == before


def test_a_plan_that_starts_nothing_has_no_canary(tmp_path: Path) -> None:
    plays = MemoryPlays(tmp_path, f"{INVENTORY}evaluator: {{hosts: {{h2: }}}}\n")
    up(plays.context, partial=False)
    made = make_context(INVENTORY, (), plays.hosts)
    plays.context = replace(made, home=plays.context.home, target=plays.context.target, report=plays.report)
    up(plays.context, partial=False, canary=1)
    assert "no canary: nothing starts" in plays.report.notes
    assert plays.running() == EVERYTHING


@pytest.mark.parametrize("number", [0, -1])
def test_a_canary_has_one_host_at_least(plays: MemoryPlays, number: int) -> None:
    with pytest.raises(Usage) as caught:
        up(plays.context, partial=False, canary=number)
    assert str(caught.value) == f"a canary of {number} hosts; it is 1 host at least"
    assert calls(plays, *plays.hosts) == []


def test_canaries_are_the_first_hosts_with_a_start_and_those_their_tasks_leave() -> None:
    actions = [
        Action(ActionKind.STOP, "h9", "worker/1", ()),
        Action(ActionKind.REMOVE, "h9", "worker/1", ()),
        Action(ActionKind.REMOVE, "h8", "worker/7", ()),
        Action(ActionKind.START, "h1", "worker/0", ()),
        Action(ActionKind.START, "h1", "worker/1", ()),
        Action(ActionKind.START, "h2", "worker/2", ()),
    ]
    assert canary_hosts(Plan("lab", tuple(actions)), 1) == ("h1", "h9")
    assert canary_hosts(Plan("lab", tuple(actions)), 5) == ("h1", "h2", "h9")
    assert canary_hosts(Plan("lab", tuple(actions[:3])), 1) == ()


def test_a_task_that_moves_to_a_host_whose_own_task_moves_runs_once(plays: MemoryPlays) -> None:
    up(plays.context, partial=False)
    shifted = INVENTORY.replace("{h2:", "{h0: , h2:")  # each worker moves to the host before
    made = make_context(shifted, (), plays.hosts)
    plays.context = replace(made, home=plays.context.home, target=plays.context.target, report=plays.report)
    plays.hosts["h0"].silent.add("worker/0")
    with pytest.raises(TaskFailed):
        up(plays.context, partial=False, canary=2)
    assert "canary: h[0:4]" in plays.report.notes
    assert plays.running() == []
