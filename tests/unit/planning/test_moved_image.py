"""The plan for a tag that refers to another image on a host than the delivered one."""

from dataclasses import replace

from tests.support.inventory_strategies import HostState
from tests.support.leftover_tasks import build
from tfprov.engine.context import Context
from tfprov.engine.observe import observe, plan
from tfprov.model.state import Observation, undelivered_image
from tfprov.planning.plan_text import plan_lines

INVENTORY = """
all:
  vars:
    tfprov: {cluster: law, image: {name: "example.org/train:1"}, command: [python, train.py]}
  children:
    ps: {hosts: {h1: {ansible_host: 10.0.0.11}}}
    worker: {hosts: {h2: {ansible_host: 10.0.0.12}}}
"""


def lines_of_plan(context: Context, seen: Observation) -> list[str]:
    return [" ".join(line.split()) for line in plan_lines(plan(context, seen), context.wanted)]


def test_a_replaced_image_is_delivered_again_before_a_start() -> None:
    context, _ = build(INVENTORY)
    name = str(context.wanted[0].artifact)
    seen = observe(context)
    assert any(row.startswith("build image") for row in lines_of_plan(context, seen))
    hosts = {
        "h1": replace(seen.hosts["h1"], delivered=frozenset({name})),
        "h2": replace(seen.hosts["h2"], moved=frozenset({name})),
    }
    rows = lines_of_plan(context, replace(seen, hosts={**seen.hosts, **hosts}, built={name}))
    tag = name.rpartition(":")[2][:12]
    assert rows == [
        f"deliver image {tag} to h2 (the image of this name on h2 is not the one that was delivered)",
        "start ps/0 on h1 10.0.0.11:2222 (not there)",
        "start worker/0 on h2 10.0.0.12:2222 (not there)",
    ]


def test_a_container_of_another_image_is_restarted() -> None:
    context, _ = build(INVENTORY, HostState(INVENTORY, ("running", "running"), ()))
    seen = observe(context)
    assert lines_of_plan(context, seen) == ["nothing to do"]
    state = seen.hosts["h2"]
    (worker,) = state.containers
    state = replace(state, containers=(replace(worker, other_image=undelivered_image("tfprov/law:0123456789abcdef")),))
    rows = lines_of_plan(context, replace(seen, hosts={**seen.hosts, "h2": state}))
    assert rows == ["restart worker/0 on h2 10.0.0.12:2222 (the image 0123456789ab is not the one that was delivered)"]
