"""What holds for every cluster, whatever is found on its hosts."""

import contextlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.clusters import Left, inventories, situations
from tests.support.examples import examples
from tests.support.leftovers import build
from tests.support.world import Runtimes, up
from tfprov.engine.context import Context
from tfprov.engine.execute import execute
from tfprov.engine.observe import observe, plan
from tfprov.errors import HostError
from tfprov.model.plan import KINDS, Plan
from tfprov.model.state import State
from tfprov.planning.reconcile import differences, teardown
from tfprov.wiring import FEEDERS, from_flags, from_names, from_tf_config

laws = examples(100)


def kept(context: Context) -> list[str]:
    """Return the tasks that run as they are wanted."""
    seen = {(c.task, c.host): c for c in observe(context).containers()}
    found = [(container, seen.get((container.task.name, container.task.host))) for container in context.wanted]
    return [c.task.name for c, now in found if now and now.state is State.RUNNING and now.spec == c.spec]


def calls(hosts: Runtimes) -> list[str]:
    return [call for runtime in hosts.values() for call in runtime.calls]


@laws
@given(situations())
def test_after_an_up_there_is_nothing_to_do(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    _, outcome = up(context)
    outcome.check()
    assert not outcome.skipped
    assert plan(context, observe(context)) == Plan("law")


@laws
@given(situations(), st.randoms(use_true_random=False))
def test_any_order_that_the_needs_allow_leads_there(situation: tuple[str, Left], chance: random.Random) -> None:
    context, _ = build(*situation)
    found = plan(context, observe(context))
    shuffled = chance.sample(found.actions, len(found.actions))
    execute(replace(context, forks=1), replace(found, actions=tuple(shuffled)), "run").check()
    assert not plan(context, observe(context))


@laws
@given(situations())
def test_every_action_comes_after_all_it_needs(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    found = plan(context, observe(context))
    done: set[str] = set()
    for action in found.actions:
        assert done.issuperset(action.needs)
        assert action.id not in done
        done.add(action.id)
    kinds = [KINDS.index(action.kind) for action in found.actions]
    assert kinds == sorted(kinds)


@laws
@given(situations())
def test_a_task_that_runs_as_wanted_is_never_touched(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    right = kept(context)
    places = {container.task.name: container.task.host for container in context.wanted}
    found, _ = up(context)
    touched = {(action.subject, action.host) for action in found.actions}
    assert not touched & {(task, places[task]) for task in right}


@laws
@given(situations())
def test_every_action_has_a_cause(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    assert all(action.causes and all(action.causes) for action in plan(context, observe(context)).actions)


@laws
@given(situations())
def test_a_teardown_leaves_nothing(situation: tuple[str, Left]) -> None:
    context, hosts = build(*situation)
    seen = observe(context)
    found = teardown("law", seen, lambda _: True, remove=True)
    execute(context, found, "run").check()
    assert observe(context).containers() == []
    assert not any(call.startswith("start") for call in calls(hosts))


@laws
@given(situations())
def test_a_teardown_stops_no_ps_before_all_others(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    found = teardown("law", observe(context), lambda _: True, remove=False)
    jobs = [action.subject.partition("/")[0] for action in found.actions]
    assert "ps" not in jobs or set(jobs[jobs.index("ps") :]) == {"ps"}


@laws
@given(situations())
def test_nobody_trains_while_its_ps_is_away(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    found = plan(context, observe(context))
    ids = {kind: {a.id for a in found.actions if a.kind == kind} for kind in KINDS}
    of_ps = {kind: {i for i in ids[kind] if i.startswith(f"{kind} ps/")} for kind in KINDS}
    for stop in ids["stop"] - of_ps["stop"]:
        assert dependents(found, stop) >= of_ps["stop"]
    for stop in of_ps["stop"]:
        assert dependents(found, stop) >= ids["start"]


@laws
@given(situations())
def test_nobody_waits_for_data_that_never_comes(situation: tuple[str, Left]) -> None:
    context, _ = build(*situation)
    down = teardown("law", observe(context), lambda _: True, remove=True)
    for stop in of(down, "stop", ("worker", "chief")):
        assert dependents(down, stop) >= of(down, "stop", FEEDERS)


def of(found: Plan, kind: str, jobs: Sequence[str]) -> set[str]:
    return {action.id for action in found.actions if action.kind == kind and action.subject.partition("/")[0] in jobs}


@laws
@given(situations(), st.data())
def test_a_failure_skips_exactly_what_depends_on_it(situation: tuple[str, Left], data: st.DataObject) -> None:
    context, hosts = build(*situation)
    found = plan(context, observe(context))
    on_hosts = [action for action in found.actions if action.kind != "build"]
    assume(on_hosts)
    broken = data.draw(st.sampled_from(on_hosts))
    hosts[broken.host].refuses[f"{broken.kind} {broken.subject}"] = "the disk is full"
    outcome = execute(context, found, "run")
    assert list(outcome.failed) == [broken.id]
    assert {action.id for action in outcome.skipped} == dependents(found, broken.id)
    assert len(outcome.done) + len(outcome.skipped) + 1 == len(found.actions)
    with pytest.raises(HostError, match="the disk is full"):
        outcome.check()
    hosts[broken.host].refuses.clear()
    up(context)[1].check()
    assert not plan(context, observe(context))


def dependents(found: Plan, failed: str) -> set[str]:
    reached = {failed}
    for action in found.actions:
        if reached.intersection(action.needs):
            reached.add(action.id)
    return reached - {failed}


@laws
@given(situations(), st.sampled_from(["h1", "h2", "h1:h3"]))
def test_a_limit_changes_nothing_elsewhere(situation: tuple[str, Left], pattern: str) -> None:
    context, hosts = build(*situation)
    limited = context.limited(pattern.split(":"))
    before = {name: runtime.observe() for name, runtime in hosts.items()}
    found = plan(limited, observe(limited))
    assert {action.host for action in found.actions} <= {*pattern.split(":"), "(controller)"}
    outside = set(hosts) - set(pattern.split(":"))
    # A port that only a task outside of the limit could free stays taken: Watched has that for an error.
    with contextlib.suppress(AssertionError):
        execute(limited, found, "run")
    assert all(hosts[name].observe() == before[name] for name in outside)


@laws
@given(inventories())
def test_no_two_tasks_share_an_address_and_indices_have_no_gap(inventory: str) -> None:
    tasks = build(inventory)[0].cluster.tasks
    assert max(Counter(task.endpoint for task in tasks).values()) == 1
    for job in {task.job for task in tasks}:
        indices = [task.index for task in tasks if task.job == job]
        assert indices == list(range(len(indices)))


@laws
@given(inventories())
def test_every_task_reads_out_of_its_container_who_it_is(inventory: str) -> None:
    context, _ = build(inventory)
    for container in context.wanted:
        wiring = context.cluster.wiring(container.task)
        told = from_tf_config(container.env.get("TF_CONFIG", ""))
        assert told == (None if container.task.feeds or container.task.role == "tensorboard" else wiring)
        by_flags = container.spec["wiring"].get("style") == "flags"
        names = from_names(container.env.get("TFPROV_FLAGS", ""))
        assert from_flags(container.argv, names) == (wiring if by_flags else None)
        assert wiring.address in (None, container.task.endpoint)


@laws
@given(inventories())
def test_exactly_one_task_takes_itself_for_the_chief(inventory: str) -> None:
    cluster = build(inventory)[0].cluster
    assert [task for task in cluster.tasks if cluster.wiring(task).is_chief] == [cluster.chief]


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
specs = st.dictionaries(st.sampled_from(["code", "env", "flags", "x"]), values, max_size=4)


@laws
@given(specs, specs)
def test_differences_are_none_exactly_between_equals(one: dict[str, object], other: dict[str, object]) -> None:
    assert bool(differences(one, other)) == (one != other)


@laws
@given(
    st.dictionaries(st.sampled_from("AB"), st.just("s3cret"), min_size=1),
    st.dictionaries(st.just("C"), st.just("s3cret")),
)
def test_differences_never_hold_the_value_of_an_environment_variable(
    one: dict[str, str], other: dict[str, str]
) -> None:
    texts: Iterable[str] = [*differences({"env": one}, {"env": other}), *differences({}, {"env": one})]
    assert not any("s3cret" in text for text in texts)
