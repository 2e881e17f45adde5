"""Bare servers for a client outside of the cluster: their command, their wiring, and what they cannot be combined with."""

import json

import pytest

from tests.support.inventories import roles
from tests.support.kubernetes_objects import files_of
from tests.support.memory_cluster import Runtimes, make_context, run_up
from tfprov.engine.monitoring.client import client_config, own_address
from tfprov.engine.monitoring.follow import check_ends
from tfprov.engine.monitoring.status import status
from tfprov.errors import InvalidInput, TaskFailed, Usage
from tfprov.planning.tasks import assign_tasks
from tfprov.playbook import verbs

INVENTORY = """
all: {vars: {tfprov: {cluster: bare, strategy: standalone, image: {name: "train:1.0"}, code: ./program}}}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}, h3: {ansible_host: 10.0.0.3}}}
"""


def test_every_task_is_a_bare_server_with_its_own_tf_config() -> None:
    containers = {container.task.name: container for container in make_context(INVENTORY).wanted}
    assert {container.argv for container in containers.values()} == {("python", "-m", "tfprov.runtime.server")}
    config = json.loads(containers["worker/1"].env["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"] == {"ps": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}


def test_a_command_of_a_group_replaces_the_server() -> None:
    own = INVENTORY.replace("ps: {", "ps: {vars: {tfprov: {command: [serve]}}, ")
    containers = {container.task.name: container.argv for container in make_context(own).wanted}
    assert (containers["ps/0"][0], containers["worker/0"][0]) == ("serve", "python")


@pytest.mark.parametrize("role", ["chief", "evaluator", "tensorboard", "serving", "notebook"])
def test_roles_that_need_a_chief_are_refused(role: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        assign_tasks(roles(f"{INVENTORY}{role}: {{hosts: {{h2: }}}}\n"))
    is_chief = "is one" if role == "chief" else "reads the files of one"
    assert str(caught.value) == (
        f"i.yml:5:1: error: `strategy: standalone` has no chief, and the group `{role}` {is_chief}; "
        f"remove the group `{role}`: the client saves where it runs"
    )


def test_there_is_no_end_to_wait_for() -> None:
    context = make_context(INVENTORY)
    with pytest.raises(Usage) as caught:
        check_ends(context)
    assert str(caught.value) == (
        "`strategy: standalone` has servers that never end, and no program to wait for; "
        "use `up`, `tfprov client -- PROGRAM`, and `down`"
    )
    with pytest.raises(
        Usage,
        match=r"^`strategy: standalone` has servers that never end, and no program to wait for; use `up`, "
        r"`tfprov client -- PROGRAM`, and `down`$",
    ):
        verbs.run(context, partial=False, discard=False)


def test_a_client_needs_running_servers_of_this_strategy() -> None:
    with pytest.raises(TaskFailed, match="ps/0: does not run; start it with `tfprov up`"):
        client_config(make_context(INVENTORY), 5000)
    other = INVENTORY.replace("strategy: standalone", "command: [python, x.py]")
    with pytest.raises(Usage) as caught:
        client_config(make_context(other), 5000)
    assert str(caught.value) == (
        "the tasks of `strategy: between_graph` have programs of their own, and no client; "
        "set `strategy: standalone` for servers that a client drives"
    )


def test_the_address_of_the_client_is_the_one_that_leads_to_the_servers() -> None:
    assert own_address("127.0.0.1") == "127.0.0.1"
    with pytest.raises(Usage, match=r"^this machine has no route to no-such-host\.invalid: .*; use --address$"):
        own_address("no-such-host.invalid")


def test_only_kubernetes_can_run_servers_that_never_end() -> None:
    text = INVENTORY.replace(", code: ./program", "")
    for target in ("compose", "swarm", "marathon", "slurm", "kubernetes", "jobset", "spark-submit"):
        with pytest.raises(InvalidInput, match="servers that never end"):
            files_of(text, target)
    (rendered,) = files_of(text, "kubernetes", "kind=Deployment", "storage=none").values()
    assert rendered.count("tfprov.runtime.server") == 3


def test_a_client_is_one_more_task_of_the_running_servers() -> None:
    context = make_context(INVENTORY)
    run_up(context)[1].check()
    config = json.loads(client_config(context, 5000, "10.0.0.9"))
    assert config["cluster"] == {
        "ps": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"], "chief": ["10.0.0.9:5000"],
    }  # fmt: skip
    assert config["task"] == {"type": "chief", "index": 0}
    in_processes = INVENTORY.partition("worker:")[0].replace('image: {name: "train:1.0"}, ', "")
    here = make_context(in_processes.replace("10.0.0.1", "127.0.0.1") + "worker: {hosts: {h1: }}\n")
    run_up(here)[1].check()
    assert json.loads(client_config(here, 5000))["cluster"]["chief"] == ["127.0.0.1:5000"]


def test_the_status_of_bare_servers_has_no_chief() -> None:
    context = make_context(INVENTORY)
    run_up(context)[1].check()
    assert status(context, 10.0).chief == ""


def test_a_server_that_has_ended_is_named() -> None:
    hosts: Runtimes = {}
    context = make_context(INVENTORY, (), hosts)
    run_up(context)[1].check()
    hosts["h3"].loses("worker/1")
    with pytest.raises(TaskFailed, match="worker/1: does not run; start it with `tfprov up`"):
        client_config(context, 5000)


def test_a_server_without_a_route_is_named_with_the_option() -> None:
    with pytest.raises(Usage) as caught:
        own_address("255.255.255.255")
    assert str(caught.value) == "this machine has no route to 255.255.255.255: Permission denied; use --address"
