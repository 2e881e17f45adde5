"""Golden plans: the inventory and the state of the hosts as input, the text that users read as output.

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

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_cluster import MemoryStore, Runtimes, add_container, make_context
from tests.support.paths import CASES
from tfprov.engine.context import Context
from tfprov.engine.observe import observe, plan
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.plan import Plan
from tfprov.model.state import Container
from tfprov.model.yaml_node import Mapping, plain
from tfprov.planning.plan_text import plan_lines
from tfprov.planning.reconcile import plan_teardown
from tfprov.yamltext.load import parse

PLANS = sorted((CASES / "plan").glob("*.yml"))
KEYS = {"inventory", "before", "observed", "limit", "down", "plan"}


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_plan_reads_as_written(path: Path) -> None:
    case = _read(path)
    assert set(case.entries) <= KEYS
    assert _text(case) == plain(case)["plan"].rstrip("\n")


SECRET = "s3cret"
SECRETS = [path for path in PLANS if SECRET in path.read_text()]


@pytest.mark.parametrize("path", SECRETS, ids=lambda path: path.stem)
def test_no_plan_shows_a_secret(path: Path) -> None:
    assert SECRET not in _text(_read(path))


def test_there_are_plans() -> None:
    assert len(PLANS) >= 25
    assert len(SECRETS) >= 10


def _read(path: Path) -> Mapping:
    document = parse(path.read_bytes(), path.name)
    assert isinstance(document, Mapping)
    return document


def _context(case: Mapping) -> Context:
    hosts: Runtimes = {}
    inventory, before, observed, limit = map(case.get, ("inventory", "before", "observed", "limit"))
    assert inventory is not None
    assert observed is not None
    store = MemoryStore()
    if isinstance(before, Mapping):
        was = make_context(before, (), hosts, store)
    else:
        was = make_context(inventory, plain(before) if before else (), hosts, store)
    for (_task, host), (container, state) in _left(was, plain(observed)).items():
        add_container(was, hosts, host, container, state)
    now = make_context(inventory, (), hosts, store)
    return now.limited(match_hosts(now.inventory, plain(limit))) if limit else now


def _left(was: Context, observed: str | dict[str, str]) -> dict[tuple[str, str], tuple[Container, str]]:
    """Return the observed containers by task and host."""
    if observed == "nothing":
        return {}
    left = {(container.task.name, container.task.host): (container, "running") for container in was.wanted}
    edits = observed if isinstance(observed, dict) else {}
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
    return replace(container, task=replace(container.task, job=job, index=int(index)))


def _text(case: Mapping) -> str:
    """Return the plan as a user reads it."""
    context = _context(case)
    return "\n".join(plan_lines(_plan(case, context), context.wanted))


def _plan(case: Mapping, context: Context) -> Plan:
    seen = observe(context)
    if "down" in case.entries:
        return plan_teardown(context.cluster.name, seen, lambda observed: context.allows(observed.host), remove=True)
    return plan(context, seen)
