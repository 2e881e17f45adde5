"""TFJob, against the rules of the training operator's webhook, and what the operator makes of it."""

import json

import pytest

from tests.support.kubeflow import BY_FLAGS, CLUSTER
from tests.support.kubernetes_objects import (
    Json,
    files_of,
    is_dns_1035,
    kinds,
    object_named,
    objects_of,
    of_kind,
    operators_tf_config,
    started_containers,
)
from tfprov.errors import InvalidInput, Usage

SETTINGS = ("namespace=research", "code=image")


def tfjob(inventory: str, *settings: str) -> Json:
    (job,) = of_kind(objects_of(inventory, "kubeflow-tfjob", *SETTINGS, *settings), "TFJob")
    check_webhook_rules(job)
    return job


def check_webhook_rules(job: Json) -> None:
    """Check the rules of the training operator's webhook: the name, the required container, one chief at most."""
    replicas = job["spec"]["tfReplicaSpecs"]
    assert job["apiVersion"] == "kubeflow.org/v1"
    assert is_dns_1035(job["metadata"]["name"])
    assert set(replicas) <= {"Chief", "Worker", "PS", "Evaluator"}
    assert all(isinstance(spec["replicas"], int) and spec["replicas"] >= 1 for spec in replicas.values())
    assert replicas.get("Chief", {"replicas": 1})["replicas"] == 1
    for spec in replicas.values():
        assert spec["restartPolicy"] in ("Never", "OnFailure", "Always", "ExitCode")
        containers = spec["template"]["spec"]["containers"]
        assert [one["name"] for one in containers].count("tensorflow") == 1
        assert all(one["image"] for one in containers)


def test_a_tfjob_has_all_replica_types_and_a_run_policy() -> None:
    spec = tfjob(CLUSTER)["spec"]
    assert {kind: one["replicas"] for kind, one in spec["tfReplicaSpecs"].items()} == {
        "Chief": 1,
        "Worker": 2,
        "PS": 1,
        "Evaluator": 1,
    }
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 3, "suspend": False}
    assert spec["successPolicy"] == ""
    assert {one["restartPolicy"] for one in spec["tfReplicaSpecs"].values()} == {"OnFailure"}


def test_the_run_policy_follows_the_options() -> None:
    policy = tfjob(CLUSTER, "clean=All", "ttl=60", "deadline=3600", "success=AllWorkers")["spec"]
    assert policy["runPolicy"] == {
        "cleanPodPolicy": "All",
        "backoffLimit": 3,
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 3600,
        "suspend": False,
    }
    assert policy["successPolicy"] == "AllWorkers"


def test_the_operator_sets_tf_config_with_these_values() -> None:
    job = tfjob(CLUSTER)
    assert "TF_CONFIG" not in json.dumps(job)
    assert json.loads(operators_tf_config(job, "worker", 1)["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["tf-chief-0.research.svc:2222"],
            "ps": ["tf-ps-0.research.svc:2222"],
            "worker": ["tf-worker-0.research.svc:2222", "tf-worker-1.research.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }


SINGLE = """
all:
  vars:
    tfprov: {cluster: lab, image: {name: "x:1"}, command: [python, x.py], strategy: multi_worker_mirrored}
worker: {hosts: {a: }}
"""


@pytest.mark.parametrize("beside", ["", "tensorboard: {hosts: {a: }}\n"])
def test_a_single_task_brings_the_tf_config_that_the_operator_does_not_set(beside: str) -> None:
    objects = objects_of(SINGLE + beside, "kubeflow-tfjob", *SETTINGS)
    assert operators_tf_config(of_kind(objects, "TFJob")[0], "worker", 0) == {}
    (pod,) = (pod for pod in started_containers(objects) if pod.task == "worker/0")
    assert json.loads(pod.env["TF_CONFIG"]) == {
        "cluster": {"worker": ["lab-worker-0.research.svc:2222"]},
        "task": {"type": "worker", "index": 0},
    }


def test_the_port_has_the_name_that_the_operator_requires() -> None:
    for kind, spec in tfjob(CLUSTER.replace("command:", "port: 3333\n      command:"))["spec"][
        "tfReplicaSpecs"
    ].items():
        ports = spec["template"]["spec"]["containers"][0].get("ports", [])
        assert ports == ([] if kind == "Evaluator" else [{"name": "tfjob-port", "containerPort": 3333}])


def test_flags_take_the_index_from_the_operators_label() -> None:
    pods = started_containers(objects_of(BY_FLAGS, "kubeflow-tfjob", *SETTINGS, "access=ReadWriteMany"))
    assert {pod.task: pod.argv[2:4] for pod in pods if pod.task.startswith("worker")} == {
        "worker/0": ("--job_name=worker", "--task_index=0"),
        "worker/1": ("--job_name=worker", "--task_index=1"),
    }
    hosts = "--worker_hosts=tf-worker-0.research.svc:2222,tf-worker-1.research.svc:2222"
    assert all(hosts in pod.argv for pod in pods if pod.task.startswith(("worker", "ps")))


def test_workers_that_share_a_template_need_a_volume_for_several_nodes() -> None:
    with pytest.raises(
        InvalidInput, match=r"inventory.yml:11:5: error: worker/0 shares its template with other workers"
    ):
        files_of(BY_FLAGS, "kubeflow-tfjob", *SETTINGS, "access=ReadWriteOnce")
    (claim,) = of_kind(objects_of(BY_FLAGS, "kubeflow-tfjob", *SETTINGS), "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"], "by default it is one"
    (claim,) = of_kind(objects_of(CLUSTER, "kubeflow-tfjob", *SETTINGS), "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"], "a chief of its own mounts it alone"
    spec = tfjob(BY_FLAGS)["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    (mount,) = (one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "checkpoints")
    assert mount["subPathExpr"] == "worker-$(TFPROV_INDEX)"


def test_tasks_without_a_replica_type_are_rendered_beside_the_tfjob() -> None:
    objects = objects_of(CLUSTER, "kubeflow-tfjob", *SETTINGS)
    assert kinds(objects) == ["PersistentVolumeClaim", "NetworkPolicy", "TFJob", "Service", "Deployment"]
    service = "    dispatcher: {hosts: {d: }}\n    data_worker: {hosts: {d: }}\n"
    objects = objects_of(CLUSTER + service, "kubeflow-tfjob", *SETTINGS)
    (role,) = of_kind(objects, "Role")
    assert role["rules"][0]["resources"] == ["tfjobs"]
    data = object_named(objects, "Job", "tf-data-worker-0")["spec"]["template"]["spec"]["containers"][0]
    assert data["command"][-1] == "/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/tf"


def test_two_chiefs_are_refused_at_their_line() -> None:
    with pytest.raises(InvalidInput, match=r"inventory.yml:11:5: error: more than one chief task"):
        files_of(CLUSTER.replace("chief: {hosts: {c: }}", "chief: {hosts: {c: , c2: }}"), "kubeflow-tfjob", *SETTINGS)


def test_workers_that_differ_are_refused_at_the_differing_line() -> None:
    for setting in (
        "command: [y]", "flags: {lr: 1}", "memory: 1g", "shm_size: 1g", "cpus: 2", "gpus: 1",
        "mounts: [{source: /a, target: /b}]", "data: {path: /d}", "checkpoints: {dir: /other}", "port: 99", "code: ./a",
        "restart: never", "max_restarts: 7", "stop_grace: 77", "ready: start", "env: {A: b}", "env: {A_TOKEN: b}",
    ):  # fmt: skip
        text = CLUSTER.replace('"w[0:1]": ', f"w0: , w1: {{tfprov: {{{setting}}}}}")
        with pytest.raises(InvalidInput) as raised:
            files_of(text, "kubeflow-tfjob", *SETTINGS, "env_secret=s")
        [problem] = raised.value.problems
        name = setting.partition(":")[0]
        assert (problem.at.line, problem.what, problem.fix) == (
            12,
            f"`{name}` differs between worker/1 and worker/0, and a TFJob has one template for both",
            "set the same for both; a program can read its task from TFPROV_TASK",
        )


def test_a_command_that_depends_on_the_task_is_refused() -> None:
    text = CLUSTER.replace("command: [python, x.py]", 'command: [python, x.py, "{{ task.index }}"]')
    with pytest.raises(InvalidInput, match=r"`command` differs between worker/1 and worker/0"):
        files_of(text, "kubeflow-tfjob", *SETTINGS)


@pytest.mark.parametrize("option", ["clean=Everything", "deadline=-1", "ttl=soon", "namespace=Research", "user=0"])
def test_an_option_value_of_a_wrong_type_is_refused(option: str) -> None:
    with pytest.raises(Usage, match=f"`--set {option.partition('=')[0]}` must be"):
        files_of(CLUSTER, "kubeflow-tfjob", option)
