"""The wiring of each strategy, and the errors for clusters that TensorFlow could not run."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.inventories import inventory, roles
from tests.support.memory_cluster import HASHES, Runtimes, make_context, run_up
from tests.support.paths import ROOT
from tfprov.engine.observe import observe, plan
from tfprov.engine.rollback import plan_rollback
from tfprov.errors import InvalidInput
from tfprov.model.plan import ActionKind
from tfprov.model.state import Container, DockerOptions, HostState, Mount, Observation, Observed, State
from tfprov.planning.desired import desired_containers
from tfprov.planning.plan_text import summary
from tfprov.planning.reconcile import plan_teardown, servers_of_chief
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.load import load
from tfprov.settings.provenance import explain
from tfprov.wiring import from_flags, from_names, from_tf_config

LAB = """
all: {vars: {tfprov: {cluster: lab, command: [python, digits.py], MORE}}}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
chief: {hosts: {h1: }}
worker: {hosts: {h2: , h3: }}
evaluator: {hosts: {h1: }}
"""
MIRRORED = LAB.replace("ps: {hosts", "other: {hosts")
ALONE = """
all: {vars: {tfprov: {cluster: lab, command: [python, digits.py], MORE}}}
worker: {hosts: {h2: }}
tensorboard: {hosts: {h2: }}
"""
SERVED = LAB + "dispatcher: {hosts: {h1: }}\ndata_worker: {hosts: {h2: , h3: }}\n"


def containers(text: str, more: str = "port: 2222", *extra: str) -> dict[str, Container]:
    """Return all containers by their tasks."""
    return {container.task.name: container for container in make_context(text.replace("MORE", more), extra).wanted}


def cluster_of(container: Container) -> dict[str, list[str]]:
    jobs: dict[str, list[str]] = json.loads(container.env["TF_CONFIG"])["cluster"]
    return jobs


# --- the wiring of each strategy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["in_graph", "parameter_server"])
def test_a_strategy_with_a_chief_names_it_by_tf_config(strategy: str) -> None:
    tasks = containers(LAB, f"strategy: {strategy}")
    assert list(tasks) == ["ps/0", "chief/0", "worker/0", "worker/1", "evaluator/0"]
    assert all(container.argv == ("python", "digits.py") for container in tasks.values())
    assert cluster_of(tasks["chief/0"]) == {
        "ps": ["10.0.0.1:2222"], "chief": ["10.0.0.1:2223"], "worker": ["h2:2222", "h3:2222"],
    }  # fmt: skip
    assert {container.env["TFPROV_STRATEGY"] for container in tasks.values()} == {strategy}


def test_in_an_all_reduce_every_task_is_a_worker() -> None:
    tasks = containers(MIRRORED, "strategy: multi_worker_mirrored")
    assert list(tasks) == ["worker/0", "worker/1", "worker/2", "evaluator/0"]
    assert (tasks["worker/0"].task.role, tasks["worker/0"].argv) == ("chief", ("python", "digits.py"))
    assert cluster_of(tasks["worker/1"]) == {"worker": ["10.0.0.1:2222", "h2:2222", "h3:2222"]}


def test_an_all_reduce_can_be_wired_by_flags_as_well() -> None:
    argv = containers(MIRRORED, "strategy: multi_worker_mirrored, wiring: flags")["worker/1"].argv
    wiring = from_flags(argv)
    assert wiring is not None
    assert (wiring.job, wiring.index, list(wiring.cluster)) == ("worker", 1, ["worker"])


def test_a_single_task_gets_no_wiring() -> None:
    tasks = containers(ALONE, "strategy: single, flags: {steps: 5}")
    assert tasks["worker/0"].argv == ("python", "digits.py", "--steps=5")
    assert "TF_CONFIG" not in tasks["worker/0"].env
    assert tasks["worker/0"].env["TFPROV_STRATEGY"] == "single"
    assert list(tasks) == ["worker/0", "tensorboard/0"]


def test_an_evaluator_beside_a_single_task_gets_tf_config_or_it_would_train_too() -> None:
    tasks = containers(f"{ALONE}evaluator: {{hosts: {{h2: }}}}\n", "strategy: single")
    wiring = from_tf_config(tasks["evaluator/0"].env["TF_CONFIG"])
    assert wiring is not None
    assert (wiring.job, wiring.index, wiring.cluster) == ("evaluator", 0, {"worker": ("h2:2222",)})
    assert tasks["evaluator/0"].argv == ("python", "digits.py")
    assert tasks["evaluator/0"].spec["wiring"]["style"] == "tf_config"
    assert "TF_CONFIG" not in tasks["worker/0"].env
    assert "style" not in tasks["worker/0"].spec["wiring"]


def test_without_a_strategy_it_is_between_graph_and_by_flags() -> None:
    tasks = containers(LAB)
    assert {container.env["TFPROV_STRATEGY"] for container in tasks.values()} == {"between_graph"}
    assert "--job_name=ps" in tasks["ps/0"].argv
    assert "chief" not in cluster_of(tasks["worker/0"])
    assert containers(LAB, "wiring: tf_config")["chief/0"].task.role == "chief"


def test_wiring_flags_can_be_renamed() -> None:
    names = "wiring: {flags: {job_name: --role, task_index: --id, worker_hosts: --peers}}"
    container = containers(LAB, names)["worker/1"]
    assert container.argv[2:] == (
        "--role=worker", "--id=1", "--ps_hosts=10.0.0.1:2222", "--peers=10.0.0.1:2223,h2:2222,h3:2222",
    )  # fmt: skip
    explained_settings = from_names(container.env["TFPROV_FLAGS"])
    assert explained_settings == {"job_name": "role", "task_index": "id", "worker_hosts": "peers"}
    assert from_flags(container.argv, explained_settings) == from_tf_config(container.env["TF_CONFIG"])
    assert "TFPROV_FLAGS" not in containers(LAB)["worker/1"].env
    assert "TFPROV_FLAGS" not in containers(LAB, "wiring: {flags: {job_name: --job_name}}")["worker/1"].env


def test_a_flag_that_was_renamed_is_free_in_the_command() -> None:
    text = LAB.replace("digits.py]", "digits.py, --worker_hosts=mine]")
    assert containers(text, "wiring: {flags: {worker_hosts: --peers}}")["ps/0"].argv[2] == "--worker_hosts=mine"


# --- what is restarted -----------------------------------------------------------------------------------------------


def test_every_task_is_restarted_when_it_fails_unless_its_group_says_otherwise() -> None:
    tasks = containers(SERVED, "max_restarts: 3")
    assert {(container.restart, container.max_restarts) for container in tasks.values()} == {("on-failure", 3)}
    text = SERVED.replace(
        "worker: {hosts: {h2: , h3: }}", "worker: {hosts: {h2: , h3: }, vars: {tfprov: {restart: never}}}", 1
    )
    assert {name for name, container in containers(text).items() if container.restart == "never"} == {
        "worker/1",
        "worker/2",
    }


# --- tf.data's service -----------------------------------------------------------------------------------------------


def test_the_data_service_has_commands_of_its_own() -> None:
    tasks = containers(SERVED, "flags: {steps: 5}, gpus: 1, image: {name: train}")
    assert tasks["dispatcher/0"].argv[1:] == (
        "-m", "tfprov.runtime.data_service", "dispatcher", "--port=2225", "--work_dir=/checkpoints/dispatcher/0",
    )  # fmt: skip
    assert tasks["data_worker/1"].argv[3:] == (
        "worker", "--port=2223", "--address=h3:2223", "--dispatcher=10.0.0.1:2225",
    )  # fmt: skip
    assert {name for name, container in tasks.items() if container.docker and container.docker.gpus} == {
        "worker/0", "worker/1", "worker/2", "evaluator/0",
    }  # fmt: skip


def test_tasks_that_train_get_the_address_of_the_data_service() -> None:
    tasks = containers(SERVED)
    where = {name for name, container in tasks.items() if "TFPROV_DATA_SERVICE" in container.env}
    assert where == {"worker/0", "worker/1", "worker/2", "data_worker/0", "data_worker/1"}
    assert tasks["worker/0"].env["TFPROV_DATA_SERVICE"] == "grpc://10.0.0.1:2225"
    assert "dispatcher" not in cluster_of(tasks["worker/0"])
    assert not any("TF_CONFIG" in container.env for container in tasks.values() if container.task.feeds)


def test_a_data_service_outside_of_the_cluster_takes_the_dispatchers_place() -> None:
    service = "data_service: {address: 'grpc://feed.example.com:5050'}"
    without = SERVED.replace("dispatcher: {hosts: {h1: }}\n", "")
    tasks = containers(without, service)
    addresses = {name: container.env.get("TFPROV_DATA_SERVICE") for name, container in tasks.items()}
    readers = ("worker/0", "worker/1", "worker/2", "data_worker/0", "data_worker/1")
    assert {name: address for name, address in addresses.items() if address} == dict.fromkeys(
        readers, "grpc://feed.example.com:5050"
    )
    assert tasks["data_worker/0"].argv[-1] == "--dispatcher=feed.example.com:5050"
    alone = containers(without.replace("data_worker: {hosts: {h2: , h3: }}\n", ""), service)
    assert alone["worker/0"].env["TFPROV_DATA_SERVICE"] == "grpc://feed.example.com:5050"
    assert errors(SERVED.replace("MORE", service)) == [
        (
            "2:67: error: `data_service` is a service outside of the cluster, and the group `dispatcher` one of its own; "
            "remove one of them"
        )
    ]


EXAMPLE = "for example `address: 10.0.0.20:5050`"
AND_PORT = "82: error: `data_service.address` must be an address and a port, such as `10.0.0.20:5050`, not"
REFUSED_SERVICES = {
    "feed:5050": (
        "67: error: `data_service` must be a mapping, not `feed:5050`; write `data_service: {address: feed:5050}`"
    ),
    "{address: feed}": f"{AND_PORT} `feed`; {EXAMPLE}",
    "{address: 'feed:0'}": f"{AND_PORT} `feed:0`; {EXAMPLE}",
    "{address: 'feed:65536'}": f"{AND_PORT} `feed:65536`; {EXAMPLE}",
    "{address: '0.0.0.0:5050'}": (
        f"82: error: `data_service.address` must be an address that other hosts can reach, not `0.0.0.0`; {EXAMPLE}"
    ),
    "{address: 'http://feed:5050'}": (
        f"82: error: `data_service.address` must be a host name or an IPv4 address, not `http://feed`; {EXAMPLE}"
    ),
    "{}": f"67: error: `data_service.address` is missing under `tfprov:`; {EXAMPLE}",
}


def test_addresses_of_a_data_service_that_cannot_work_are_refused() -> None:
    without = SERVED.replace("dispatcher: {hosts: {h1: }}\n", "")
    for written, message in REFUSED_SERVICES.items():
        assert errors(without.replace("MORE", f"data_service: {written}")) == [f"2:{message}"]


def test_a_command_of_the_own_group_wins() -> None:
    text = SERVED.replace(
        "dispatcher: {hosts: {h1: }}", "dispatcher: {hosts: {h1: }, vars: {tfprov: {command: [serve], flags: {v: 1}}}}"
    )
    assert containers(text)["dispatcher/0"].argv == ("serve", "--v=1")


def test_everyone_reaches_the_data_service_by_its_port() -> None:
    assert all(container.task.serves for container in containers(SERVED).values() if container.task.feeds)
    assert summary(make_context(SERVED.replace("MORE", "port: 1")).cluster) == (
        "lab: 1 ps, 3 workers, 1 evaluator, 1 dispatcher, 2 data workers on 3 hosts"
    )


# --- data ------------------------------------------------------------------------------------------------------------


def test_data_is_mounted_for_the_tasks_that_read_it() -> None:
    data = 'data: {path: /srv/digits}, flags: {data_dir: "{{ data_dir }}"}'
    boxed = containers(SERVED, f"image: {{name: train}}, {data}")
    worker, ps = boxed["worker/1"], boxed["ps/0"]
    assert (worker.env["TFPROV_DATA_DIR"], worker.argv[-1]) == ("/data", "--data_dir=/data")
    assert isinstance(worker.docker, DockerOptions)
    assert worker.docker.mounts == (Mount("/srv/digits", "/data", read_only=True),)
    assert isinstance(ps.docker, DockerOptions)
    assert (ps.docker.mounts, ps.argv[-1], "TFPROV_DATA_DIR" in ps.env) == ((), "--data_dir=/data", False)
    here = containers(SERVED, data)["worker/1"]
    assert (here.env["TFPROV_DATA_DIR"], here.argv[-1]) == ("/srv/digits", "--data_dir=/srv/digits")


def test_a_relative_path_of_data_counts_from_the_file() -> None:
    text = ALONE.replace("{h2: }", "{localhost: }")
    assert containers(text, "data: {path: digits}")["worker/0"].env["TFPROV_DATA_DIR"] == str(Path("digits").absolute())


# --- the examples ----------------------------------------------------------------------------------------------------

EXAMPLES = {
    "all-reduce": ["worker/0", "worker/1", "evaluator/0"],
    "data-service": ["worker/0", "worker/1", "evaluator/0", "dispatcher/0", "data_worker/0", "data_worker/1"],
    "digits-async": ["ps/0", "worker/0", "worker/1", "evaluator/0"],
    "digits-sync": ["ps/0", "worker/0", "worker/1", "evaluator/0"],
    "in-graph": ["ps/0", "chief/0", "worker/0", "worker/1", "evaluator/0"],
    "lab": ["ps/0", "worker/0", "worker/1"],
    "local": ["ps/0", "worker/0", "worker/1"],
    "parameter-server": ["ps/0", "chief/0", "worker/0", "worker/1", "evaluator/0"],
    "single": ["worker/0"],
}


@pytest.mark.parametrize("path", sorted((ROOT / "inventories").glob("*.yml")), ids=lambda path: path.stem)
def test_every_example_is_a_cluster_with_an_existing_program(path: Path) -> None:
    _, roles = load(path)
    cluster = assign_tasks(roles)
    assert [task.name for task in cluster.tasks] == EXAMPLES[path.stem]
    for container in desired_containers(cluster, roles, {}, lambda task: f"/checkpoints/{task.name}", hashed=HASHES):
        assert container.task.feeds or (ROOT / "images" / "train" / "programs" / container.argv[1]).is_file()
        assert cluster.name in (path.stem, "linear")
    assert path.stem in ("lab", "local") or {role.values.data is not None for role in roles} == {True}


# --- where a value comes from ----------------------------------------------------------------------------------------


def explained_settings(text: str, host: str, role: str) -> dict[str, object]:
    return {origin.name: origin.value for origin in explain(inventory(text), host, role).settings[role]}


def test_a_default_that_follows_from_the_strategy_is_explained() -> None:
    assert explained_settings(LAB.replace("MORE", "port: 1"), "h1", "chief")["tfprov.wiring"] == "flags"
    assert explained_settings(LAB.replace("MORE", "strategy: in_graph"), "h1", "chief")["tfprov.wiring"] == "tf_config"
    settings = explained_settings(LAB.replace("MORE", "wiring: {flags: {job_name: --job}}"), "h1", "ps")
    assert {name: value for name, value in settings.items() if name.startswith("tfprov.wiring")} == {
        "tfprov.wiring.flags.job_name": "--job",
        "tfprov.wiring.flags.task_index": "--task_index",
        "tfprov.wiring.flags.ps_hosts": "--ps_hosts",
        "tfprov.wiring.flags.worker_hosts": "--worker_hosts",
    }


def test_a_setting_that_does_not_apply_to_a_role_is_not_explained() -> None:
    text = SERVED.replace("MORE", "flags: {steps: 5}, gpus: 1, image: {name: train}")
    settings = explained_settings(text, "h1", "dispatcher")
    assert (settings["tfprov.command"], settings["tfprov.flags"], settings["tfprov.gpus"]) == (None, {}, 0)
    assert explained_settings(text, "h1", "chief")["tfprov.flags.steps"] == 5


# --- where TensorFlow would trip -------------------------------------------------------------------------------------

TWO = "all: {vars: {tfprov: {cluster: lab, command: [python, x.py]}}}\n"


def errors(text: str) -> list[str]:
    """Return the errors of an inventory, with line and column."""
    try:
        assign_tasks(roles(text))
    except InvalidInput as error:
        return [str(problem).removeprefix("i.yml:") for problem in error.problems]
    return []


REPORTED: dict[str, tuple[str, str]] = {
    "the loopback address on several hosts": (
        "worker: {hosts: {h1: {ansible_host: 127.0.0.1}, h2: }}\nps: {hosts: {h2: }}",
        "2:37: error: the other hosts cannot reach h1 at 127.0.0.1; set `address` to the one it has on the network",
    ),
    "localhost by name on several hosts": (
        "worker: {hosts: {h1: {tfprov: {address: localhost}}, h2: }}\nps: {hosts: {h2: }}",
        "2:32: error: the other hosts cannot reach h1 at localhost; set `address` to the one it has on the network",
    ),
    "an address that is all addresses": (
        "worker: {hosts: {h1: {tfprov: {address: 0.0.0.0}}}}",
        ("2:32: error: `address` must be an address that other hosts can reach, not `0.0.0.0`; "
        "for example `address: 10.0.0.11`"),
    ),
    "port 0": (
        "worker: {hosts: {h1: }, vars: {tfprov: {port: 0}}}",
        "2:41: error: `port` must be at least 1, not 0; for example `port: 2222`",
    ),
    "ports above the last": (
        "worker: {hosts: {h1: }, vars: {tfprov: {port: 65535, tasks_per_host: 2}}}\nps: {hosts: {h2: }}",
        "2:41: error: h1 has more worker tasks than ports above `port`; choose a lower `port`",
    ),
    "a port in an address": (
        'worker: {hosts: {h1: {tfprov: {address: "10.0.0.1:2222"}}}}',
        ("2:32: error: `address` must be a host name or an IPv4 address, not `10.0.0.1:2222`; "
        "for example `address: 10.0.0.11`"),
    ),
    "two hosts that are one machine": (
        "worker: {hosts: {h1: {ansible_host: 10.0.0.1}, h2: {ansible_host: 10.0.0.1}}}",
        ("2:67: error: h2 has the address and the SSH port of h1 (10.0.0.1:22); "
        "put one host into both groups, or set `tasks_per_host`"),
    ),
    "two chiefs": (
        "chief: {hosts: {h1: , h2: }}\nps: {hosts: {h1: }}",
        "2:1: error: more than one chief task; keep one host with one task in the group `chief`",
    ),
    "a ps that nobody uses": (
        "ps: {hosts: {h1: }}",
        "2:1: error: `ps` without a worker; put a host into the group `worker`",
    ),
    "an evaluator without the chief's files": (
        "worker: {hosts: {h1: }}\nevaluator: {hosts: {h2: }}",
        ("3:1: error: the evaluator is on h2, and cannot read the chief's checkpoints, which are on h1; "
        "put h1 into the group `evaluator` instead: hosts do not share a checkpoint directory"),
    ),
    "a strategy that is set and needs a ps": (
        "worker: {hosts: {h1: , h2: }, vars: {tfprov: {strategy: between_graph, wiring: tf_config}}}",
        (
            "2:47: error: `strategy: between_graph` with 2 tasks that train needs a ps for their variables; "
            "put a host into the group `ps`, or set another `strategy:`, such as `multi_worker_mirrored`"
        ),
    ),
    "tasks with settings of their own": (
        "worker: {hosts: {h1: , h2: {tfprov: {wiring: tf_config}}}}",
        ("2:38: error: `wiring` is `tf_config` for worker on h2 and `flags` for worker on h1; "
        "one inventory is one cluster: state it once, for `all`"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "what"), REPORTED.values(), ids=REPORTED)
def test_a_setting_that_tensorflow_would_fail_on_is_reported_at_its_line(groups: str, what: str) -> None:
    assert errors(TWO + groups) == [what]


def test_a_wiring_alone_does_not_tell_that_a_program_needs_a_ps() -> None:
    assert errors(f"{TWO}worker: {{hosts: {{h1: , h2: }}, vars: {{tfprov: {{wiring: tf_config}}}}}}") == []


def jobs(containers: Sequence[Container]) -> dict[str, list[int]]:
    indices: dict[str, list[int]] = {}
    for container in containers:
        indices.setdefault(container.task.job, []).append(container.task.index)
    return indices


@pytest.mark.parametrize("more", ["wiring: flags", "wiring: tf_config", "strategy: parameter_server"])
def test_an_index_has_no_gap_whatever_the_groups_are_called(more: str) -> None:
    text = LAB.replace(
        "worker: {hosts: {h2: , h3: }}", "worker: {hosts: {h9: , h2: , h5: }, vars: {tfprov: {tasks_per_host: 2}}}"
    )
    for indices in jobs(list(containers(text, more).values())).values():
        assert indices == list(range(len(indices)))


@pytest.mark.parametrize(
    "more", ["wiring: flags", "wiring: tf_config", "strategy: in_graph", "strategy: parameter_server"]
)
def test_only_the_chief_acts_as_chief(more: str) -> None:
    cluster = make_context(SERVED.replace("MORE", more)).cluster
    assert [task.name for task in cluster.tasks if cluster.wiring(task).is_chief] == [cluster.chief.name]
    assert cluster.chief.host == "h1"


@pytest.mark.parametrize("more", ["wiring: tf_config", "strategy: in_graph", "strategy: parameter_server"])
def test_only_tasks_that_train_are_in_the_cluster_spec(more: str) -> None:
    for container in containers(SERVED, more).values():
        if not container.task.feeds:
            assert set(cluster_of(container)) == {"ps", "chief", "worker"}


def test_a_ps_takes_no_gpu_of_other_roles() -> None:
    text = LAB.replace("MORE", "gpus: 1, image: {name: train}")
    assert {role.role: role.values.gpus for role in roles(text)} == {"ps": 0, "chief": 1, "worker": 1, "evaluator": 1}
    assert inventory(text).members("ps") == ("h1",)


# --- the order of stops ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "waits"),
    [("in_graph", True), ("parameter_server", True), ("between_graph, wiring: tf_config", False)],
)
def test_workers_that_only_serve_the_chief_are_stopped_after_it(strategy: str, waits: bool) -> None:
    """While they are down, the chief waits for them and cannot save: it would be killed when its grace period ends."""
    hosts: Runtimes = {}
    text = LAB.replace("MORE", f"strategy: {strategy}, flags: {{steps: 5}}")
    run_up(make_context(text, (), hosts))
    changed = make_context(text.replace("steps: 5", "steps: 6"), (), hosts)
    seen = observe(changed)
    nothing = replace(seen, hosts={})
    started = [(container.task, container.host) for container in seen.containers()]
    plans = [
        plan(changed, seen),
        plan_teardown("lab", seen, lambda _container: True, remove=True),
        plan_rollback("lab", nothing, seen, started),
    ]
    for made in plans:
        stops = {action.subject: action for action in made.actions if action.kind == ActionKind.STOP}
        assert (stops["chief/0"].id in stops["worker/1"].needs) is waits
        assert stops["chief/0"].needs == ()
        assert {stops["worker/0"].id, stops["chief/0"].id} <= set(stops["ps/0"].needs)


def test_a_start_waits_for_the_stop_that_frees_its_address() -> None:
    """Two hosts of an inventory may be one machine, on which the port is taken until then."""
    text = """
all: {vars: {tfprov: {cluster: lab, command: [python], address: 10.0.0.2}}}
ps: {hosts: {a: PS}}
worker: {hosts: {a: WORKER}}
"""
    more = ", b: {tfprov: {port: 3000}}"
    hosts: Runtimes = {}
    run_up(make_context(text.replace("PS", "").replace("WORKER", more), (), hosts))
    changed = make_context(text.replace("PS", more.replace("b", "c")).replace("WORKER", ""), (), hosts)
    starts = [action for action in plan(changed, observe(changed)).actions if action.kind == ActionKind.START]
    assert [one.subject for one in starts if "stop worker/1 on b" in one.needs] == ["ps/1"]


def test_a_spec_that_others_wrote_names_no_strategy() -> None:
    seen = Observed("worker/0", "h1", State.RUNNING, {})
    labels: list[object] = [None, [], "in_graph", {"strategy": ["in_graph"]}, {"strategy": None}]
    for wiring in labels:
        observation = Observation({"h1": HostState("h1", (replace(seen, spec={"wiring": wiring}),))})
        assert servers_of_chief(observation) == frozenset(), wiring
