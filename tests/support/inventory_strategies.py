"""Hypothesis strategies for random inventories and the tasks that exist on their hosts."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

HOSTS = ("h1", "h2", "h3", "h4")
STATES = ("running", "running", "finished", "exited 3", "exited 137", "stopped", "lost", "created", "gone")


@dataclass(frozen=True)
class HostState:
    """What an earlier `up` of `inventory` left: task states in order, and stray tasks as (task, host, state)."""

    inventory: str
    states: tuple[str, ...]
    strays: tuple[tuple[str, str, str], ...]


# Constants, because building a strategy costs more than drawing from it.
_SETTINGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "flags": st.sampled_from([{}, {"steps": 1}, {"steps": 2}, {"steps": None, "lr": "x"}]),
        "env": st.sampled_from([{"A": "1"}, {"A": "2"}]),
        "code": st.sampled_from(["./one", "./two"]),
        "tasks_per_host": st.integers(1, 3),
        "port": st.sampled_from([2222, 2223, 3000]),
    },
)
_OF_A_HOST = st.one_of(st.none(), _SETTINGS.map(lambda values: {"tfprov": values}))
_SOME_HOSTS = st.lists(st.sampled_from(HOSTS), unique=True, max_size=3)
_STATES = st.lists(st.sampled_from(STATES), min_size=16, max_size=16)
_STRAYS = st.lists(
    st.tuples(
        st.sampled_from(["worker/0", "worker/7", "ps/0", "ps/9", "evaluator/0"]),
        st.sampled_from([*HOSTS, "h9"]),
        st.sampled_from(STATES[:-1]),
    ),
    max_size=2,
)


@st.composite
def _group(draw: st.DrawFn, hosts: list[str]) -> dict[str, Any]:
    return {"hosts": {host: draw(_OF_A_HOST) for host in hosts}, "vars": {"tfprov": draw(_SETTINGS)}}


@st.composite
def _how(draw: st.DrawFn, roles: set[str]) -> dict[str, Any]:
    """Return a strategy that these roles can follow, or none, and a wiring that goes with it."""
    able = [None, *(["between_graph"] if "ps" in roles else ["multi_worker_mirrored"])]
    able += ["in_graph", "parameter_server"] if roles >= {"ps", "chief", "worker"} else []
    strategy = draw(st.sampled_from(able))
    usual = ["flags"] if strategy or "ps" in roles else []  # flags alone imply a program with a ps
    by_flags = [*usual, {"flags": {"job_name": "--job", "ps_hosts": "--ps"}}]
    wirings = ["tf_config", *(by_flags if strategy not in ("in_graph", "parameter_server") else [])]
    return {"wiring": draw(st.sampled_from(wirings)), **({"strategy": strategy} if strategy else {})}


def _single(host: str) -> dict[str, Any]:
    return {"hosts": {host: None}, "vars": {"tfprov": {"tasks_per_host": 1}}}


@st.composite
def inventories(draw: st.DrawFn) -> str:
    """Return an inventory that TensorFlow could run, as text: one to four hosts, some of them the same machine."""
    workers, ps, data_workers = draw(_SOME_HOSTS), draw(_SOME_HOSTS), draw(_SOME_HOSTS)
    chief = draw(st.sampled_from([*HOSTS, None] if workers else HOSTS))
    children = {"ps": draw(_group(ps)), "worker": draw(_group(workers)), "data_worker": draw(_group(data_workers))}
    singles = {"chief": chief} if chief else {}
    singles |= dict.fromkeys(
        draw(st.sets(st.sampled_from(["evaluator", "tensorboard"]))), chief or next(iter(workers), "")
    )
    singles |= {"dispatcher": draw(st.sampled_from(HOSTS))} if data_workers else {}
    for role, host in singles.items():
        children[role] = _single(host)
        for group in (
            "ps",
            "worker",
            "data_worker",
        ):  # what a host says counts for all its roles, its number of tasks as well
            if host in children[group]["hosts"]:
                children[group]["hosts"][host] = None
    one_machine = draw(st.sets(st.sampled_from(HOSTS)))
    behind_one_address = {host: {"ansible_host": "10.0.0.9", "ansible_port": 2200 + n} for n, host in enumerate(HOSTS)}
    children["machines"] = {"hosts": {host: behind_one_address[host] for host in HOSTS if host in one_machine}}
    children = {name: group for name, group in children.items() if group["hosts"]}
    shared = draw(_SETTINGS) | {"tasks_per_host": 1} | draw(_how(set(children)))
    tfprov = {"cluster": "law", "command": ["python", "x.py"], **shared}
    return json.dumps({"all": {"vars": {"tfprov": tfprov}, "children": children}})


@st.composite
def host_states(draw: st.DrawFn, inventory: str) -> HostState:
    """Return tasks that may exist before an `up` of `inventory`: its own, those of another inventory, and strays."""
    was = inventory if draw(st.booleans()) else draw(inventories())
    return HostState(was, tuple(draw(_STATES)), tuple(draw(_STRAYS)))


@st.composite
def situations(draw: st.DrawFn) -> tuple[str, HostState]:
    """Return an inventory and the state of its hosts."""
    inventory = draw(inventories())
    return inventory, draw(host_states(inventory))
