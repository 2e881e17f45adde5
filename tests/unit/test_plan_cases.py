"""Golden plans: an inventory and what the hosts say, in; the text a user reads, out.

A case is a file in tests/cases/plan:

    inventory:   the inventory, as a mapping
    before:      `-e` options (or a whole inventory) that make of it what the cluster was started from; default: the same
    observed:    `nothing`, `as planned` (what a first `up` of `before` started), or changes to that, by task:
                 gone, running, finished, exited CODE, stopped, unstartable REASON, lost, created, unknown.
                 `TASK on HOST` puts it elsewhere: it is an orphan, or a task that moved
    limit:       a pattern, as of --limit
    down:        true for the plan of a teardown instead
    plan: |      the text
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.world import leave, world
from tfprov.config.patterns import match
from tfprov.engine.context import Context
from tfprov.engine.observe import observe, plan
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.plan import Plan
from tfprov.model.state import Container
from tfprov.planning.reconcile import teardown
from tfprov.planning.text import lines

CASES = sorted((Path(__file__).parents[1] / "cases" / "plan").glob("*.yml"))
KEYS = {"inventory", "before", "observed", "limit", "down", "plan"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_plan_reads_as_written(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    assert set(case) <= KEYS
    context = _context(case)
    assert "\n".join(lines(_plan(case, context), context.wanted)) == case["plan"].rstrip("\n")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_plan_shows_a_secret(path: Path) -> None:
    assert "s3cret" not in yaml.safe_load(path.read_text())["plan"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 25


def _context(case: Mapping[str, Any]) -> Context:
    before = case.get("before", [])
    was = world(before) if isinstance(before, dict) else world(case["inventory"], before)
    runtimes = {name: runtime for name, runtime in was.runtimes.items() if isinstance(runtime, MemoryRuntime)}
    for (task, host), (container, state) in _left(was, case["observed"]).items():
        if host not in runtimes:
            runtimes[host] = MemoryRuntime(host)
        leave(_with(was, runtimes), host, container, state)
    now = world(case["inventory"], runtimes=runtimes, store=was.store)  # type: ignore[arg-type]
    return now.limited(match(now.inventory, case["limit"])) if "limit" in case else now


def _with(context: Context, runtimes: Mapping[str, MemoryRuntime]) -> Context:
    return Context(**{**vars(context), "runtimes": runtimes})


def _left(was: Context, observed: str | Mapping[str, str]) -> dict[tuple[str, str], tuple[Container, str]]:
    """Return what is there, by task and host."""
    if observed == "nothing":
        return {}
    left = {(container.task.name, container.task.host): (container, "running") for container in was.wanted}
    edits = observed if isinstance(observed, Mapping) else {}
    for key, state in edits.items():
        task, _, host = key.partition(" on ")
        container = was.container(task) or was.wanted[-1]
        place = task, host or container.task.host
        left[place] = (_renamed(container, task), state)
        if state == "gone":
            del left[place]
    return left


def _renamed(container: Container, task: str) -> Container:
    job, _, index = task.partition("/")
    named = vars(container.task) | {"job": job, "index": int(index)}
    return Container(**{**vars(container), "task": type(container.task)(**named)})


def _plan(case: Mapping[str, Any], context: Context) -> Plan:
    seen = observe(context)
    if case.get("down"):
        return teardown(context.cluster.name, seen, lambda observed: context.allows(observed.host), remove=True)
    return plan(context, seen)
