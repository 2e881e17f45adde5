"""JobSet and Kubeflow Trainer, against the rules of their webhooks."""

import pytest

from tests.support.kubeflow import BY_FLAGS, CLUSTER
from tests.support.kubernetes_objects import Json, files_of, is_dns_1035, kinds, objects_of, of_kind, started_containers
from tfprov.errors import InvalidInput

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def check_webhook_rules(name: str, spec: Json) -> None:
    """Check the rules of JobSet's webhook: valid names of Jobs, pods and Service, and known Jobs in the success policy."""
    assert is_dns_1035(spec["network"]["subdomain"])
    names = [job["name"] for job in spec["replicatedJobs"]]
    assert len(set(names)) == len(names)
    for job in spec["replicatedJobs"]:
        assert is_dns_1035(f"{name}-{job['name']}-{job['replicas'] - 1}")
        assert is_dns_1035(f"{name}-{job['name']}-0-0-abcde")
        assert job["template"]["spec"]["template"]["spec"]["restartPolicy"] in ("Never", "OnFailure")
    assert set(spec["successPolicy"]["targetReplicatedJobs"]) <= set(names)


def jobset(inventory: str, *settings: str) -> Json:
    (rendered,) = of_kind(objects_of(inventory, "jobset", *settings), "JobSet")
    assert rendered["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    check_webhook_rules(rendered["metadata"]["name"], rendered["spec"])
    spec: Json = rendered["spec"]
    return spec


def test_a_jobset_succeeds_with_the_chief_and_removes_servers() -> None:
    spec = jobset(CLUSTER)
    assert [job["name"] for job in spec["replicatedJobs"]] == ["ps-0", "chief-0", "worker-0", "worker-1", "evaluator-0"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["chief-0"]}
    assert spec["failurePolicy"] == {"maxRestarts": 3}
    assert "ttlSecondsAfterFinished" not in spec


def test_worker_0_is_the_chief_if_the_flags_have_none() -> None:
    assert jobset(BY_FLAGS)["successPolicy"]["targetReplicatedJobs"] == ["worker-0"]


def test_a_jobset_can_wait_for_the_evaluator() -> None:
    spec = jobset(CLUSTER, "await_evaluator=true", "restarts=0", "ttl=5")
    assert spec["successPolicy"]["targetReplicatedJobs"] == ["chief-0", "evaluator-0"]
    assert (spec["failurePolicy"]["maxRestarts"], spec["ttlSecondsAfterFinished"]) == (0, 5)


def test_host_names_are_those_of_jobset() -> None:
    (pod,) = (pod for pod in started_containers(objects_of(BY_FLAGS, "jobset")) if pod.task == "worker/1")
    assert "--ps_hosts=tf-ps-0-0-0.tf:2222" in pod.argv
    assert "--worker_hosts=tf-worker-0-0-0.tf:2222,tf-worker-1-0-0.tf:2222" in pod.argv


def test_a_tensorboard_outlives_the_jobset() -> None:
    assert kinds(objects_of(CLUSTER, "jobset"))[-3:-1] == ["Service", "Deployment"]


@pytest.mark.parametrize("target", ["jobset", "kubeflow-trainer"])
def test_pod_names_that_are_too_long_are_refused_at_the_clusters_line(target: str) -> None:
    service = "    dispatcher: {hosts: {d: }}\n    data_worker: {hosts: {d: }}\n"
    long = CLUSTER.replace("cluster: tf", f"cluster: {'t' * 40}") + service
    what = r"inventory.yml:5:7: error: `t+-data-worker-0-0-0-xxxxx` has 64 characters.* shorten the cluster's name by 1"
    with pytest.raises(InvalidInput, match=what):
        files_of(long, target)


def trainer(inventory: str, *settings: str) -> tuple[Json, Json]:
    objects = objects_of(inventory, "kubeflow-trainer", *settings)
    (runtime,), (job,) = of_kind(objects, "TrainingRuntime"), of_kind(objects, "TrainJob")
    assert objects.index(runtime) < objects.index(job)
    return runtime, job


def test_a_train_job_refers_to_the_rendered_runtime() -> None:
    runtime, job = trainer(CLUSTER, "namespace=research")
    assert runtime["apiVersion"] == job["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
    assert job["spec"]["runtimeRef"] == {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "tf"}
    assert runtime["metadata"]["name"] == "tf"
    assert runtime["metadata"]["namespace"] == job["metadata"]["namespace"] == "research"
    assert runtime["metadata"]["labels"]["trainer.kubeflow.org/framework"] == "tensorflow"
    check_webhook_rules(job["metadata"]["name"], runtime["spec"]["template"]["spec"])


def test_the_trainer_step_has_the_container_that_trainer_requires() -> None:
    """Trainer's webhook requires a trainer Job with one replica and a container `node`."""
    runtime, _ = trainer(CLUSTER)
    assert runtime["spec"]["mlPolicy"] == {"numNodes": 1}
    trainers = [
        job
        for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]
        if job["template"]["metadata"]["labels"].get(ANCESTOR) == "trainer"
    ]
    assert [job["name"] for job in trainers] == ["chief-0"]
    containers = trainers[0]["template"]["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["node"]
    assert trainers[0]["replicas"] == 1
