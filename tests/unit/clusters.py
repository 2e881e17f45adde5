"""Random inventories, and what may be found of them on their hosts: strategies for the laws."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

HOSTS = ("h1", "h2", "h3", "h4")
STATES = ("running", "running", "finished", "exited 3", "exited 137", "stopped", "lost", "created", "gone")


@dataclass(frozen=True)
class Left:
    """What an earlier `up` of `inventory` left: the state of its n-th task, and of strays by (task, host)."""

    inventory: str
    states: tuple[str, ...]
    strays: tuple[tuple[str, str, str], ...]


def _settings() -> st.SearchStrategy[dict[str, Any]]:
    flags = st.dictionaries(st.sampled_from(["steps", "lr", "sync"]), st.sampled_from([1, 2, "x", None]), max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "flags": flags,
            "env": st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["1", "2"]), max_size=1),
            "code": st.sampled_from(["./one", "./two"]),
            "tasks_per_host": st.integers(1, 3),
            "port": st.sampled_from([2222, 2223, 3000]),
        },
    )


@st.composite
def _group(draw: st.DrawFn, hosts: list[str]) -> dict[str, Any]:
    own = st.one_of(st.none(), _settings().map(lambda values: {"tfprov": values}))
    return {
        "hosts": {host: draw(own) for host in hosts},
        "vars": {"tfprov": draw(_settings())},
    }


@st.composite
def inventories(draw: st.DrawFn) -> str:
    """Return an inventory that TensorFlow could run, as text: one to four hosts, some of them the same machine."""
    some = st.lists(st.sampled_from(HOSTS), unique=True, max_size=3)
    workers, ps, wiring = draw(some), draw(some), draw(st.sampled_from(["flags", "tf_config"]))
    chief = draw(st.sampled_from([*HOSTS, None])) if workers else draw(st.sampled_from(HOSTS))
    children = {"ps": draw(_group(ps)), "worker": draw(_group(workers))}
    if chief:
        children["chief"] = draw(_group([chief])) | {"vars": {"tfprov": {"tasks_per_host": 1}}}
        children["chief"]["hosts"] = {chief: None}
    for side in draw(st.sets(st.sampled_from(["evaluator", "tensorboard"]))):
        beside = chief or next(host for host in children["worker"]["hosts"])
        children[side] = {"hosts": {beside: None}, "vars": {"tfprov": {"tasks_per_host": 1}}}
    # What stands on a host counts for all its roles, so the singular ones need the host's own count out of the way.
    singular = {
        chief,
        *(host for side in ("evaluator", "tensorboard") for host in children.get(side, {}).get("hosts", ())),
    }
    for group in ("ps", "worker"):
        children[group]["hosts"] = {
            host: None if host in singular else own for host, own in children[group]["hosts"].items()
        }
    local = draw(st.sets(st.sampled_from(HOSTS)))
    connections = {host: {"ansible_connection": "local" if host in local else "ssh"} for host in HOSTS}
    tfprov = (
        {"cluster": "law", "command": ["python", "x.py"], "wiring": wiring} | draw(_settings()) | {"tasks_per_host": 1}
    )
    return json.dumps(
        {"all": {"vars": {"tfprov": tfprov}, "children": children | {"machines": {"hosts": connections}}}}
    )


@st.composite
def left_overs(draw: st.DrawFn, inventory: str) -> Left:
    """Return what may be there before an `up` of `inventory`: of itself, of another one, and strays."""
    was = inventory if draw(st.booleans()) else draw(inventories())
    states = draw(st.lists(st.sampled_from(STATES), min_size=40, max_size=40))
    jobs = st.sampled_from(["worker/0", "worker/7", "ps/0", "ps/9", "evaluator/0"])
    hosts = st.sampled_from([*HOSTS, "h9"])
    strays = draw(st.lists(st.tuples(jobs, hosts, st.sampled_from(STATES[:-1])), max_size=2))
    return Left(was, tuple(states), tuple(strays))


@st.composite
def situations(draw: st.DrawFn) -> tuple[str, Left]:
    """Return an inventory and what is on the hosts."""
    inventory = draw(inventories())
    return inventory, draw(left_overs(inventory))
