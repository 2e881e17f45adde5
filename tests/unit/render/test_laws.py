"""What holds of every inventory in every target: each task reads who it is, and every address leads to the right one."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, reject

from tests.support.examples import examples
from tests.support.inventory_strategies import inventories
from tests.support.kubernetes_objects import KUBE, StartedContainer, cluster_of, objects_of, started_containers
from tfprov.errors import InvalidInput
from tfprov.model.cluster import Cluster, Task
from tfprov.wiring import from_flags, from_names, from_tf_config

laws = examples(30)
SET = ("image=registry.example.com/train:1.0", "access=ReadWriteMany")


@pytest.mark.parametrize("target", KUBE)
def test_every_kubernetes_task_reads_its_wiring_and_every_address_leads_to_its_task(target: str) -> None:
    seen = 0

    @laws
    @given(inventory=inventories())
    def law(inventory: str) -> None:
        nonlocal seen
        try:
            cluster, pods = cluster_of(inventory, target, *SET), started_containers(objects_of(inventory, target, *SET))
        except InvalidInput as error:
            if target == "kubeflow-tfjob" and "a TFJob has one template for both" in str(error):
                reject()
            raise
        seen += 1
        assert sorted(pod.task for pod in pods) == sorted(task.name for task in cluster.tasks)
        by_flags = json.loads(inventory)["all"]["vars"]["tfprov"]["wiring"] != "tf_config"
        for pod in pods:
            reads_who_it_is(cluster, pod, by_flags=by_flags, told=not is_alone(target, cluster))
        addresses_lead_to_their_tasks(cluster, pods)
        checkpoints_reach_who_reads_them(cluster, {pod.task: place_of(pod) for pod in pods})

    law()
    assert seen >= 10


def is_alone(target: str, cluster: Cluster) -> bool:
    """Whether the training operator tells the only replica of a TFJob nothing."""
    return target == "kubeflow-tfjob" and sum(task.trains or task.job == "evaluator" for task in cluster.tasks) == 1


def reads_who_it_is(cluster: Cluster, pod: StartedContainer, *, by_flags: bool, told: bool) -> None:
    task = cluster.find(pod.task)
    assert task is not None
    wiring = cluster.wiring(task)
    has_tf_config = not task.feeds and told and task.role != "tensorboard"
    assert from_tf_config(pod.env.get("TF_CONFIG", "")) == (wiring if has_tf_config else None)
    has_flags = by_flags and not task.feeds and task.role != "tensorboard"
    names = from_names(pod.env.get("TFPROV_FLAGS", ""))
    assert from_flags(pod.argv, names) == (wiring if has_flags else None)


def addresses_lead_to_their_tasks(cluster: Cluster, pods: list[StartedContainer]) -> None:
    by_host = {pod.host: pod for pod in pods}
    assert len(by_host) == len(pods)
    for task in cluster.tasks:
        pod = by_host[task.address]
        assert pod.task == task.name
        assert pod.ports == ([task.port] if task.serves else [])


def checkpoints_reach_who_reads_them(cluster: Cluster, places: Mapping[str, tuple[str | None, str]]) -> None:
    """The chief's outlive its pod; nobody else writes among them but a ps, with its parts."""
    of_chief = places[cluster.chief.name]
    assert of_chief[0] is not None
    for task in cluster.tasks:
        assert (places[task.name] == of_chief) == works_on_them(task, cluster.chief)


def works_on_them(task: Task, chief: Task) -> bool:
    return task == chief or task.reads or task.job == "ps"


def place_of(pod: StartedContainer) -> tuple[str | None, str]:
    """Return the claim, and the directory in it, where a task finds its checkpoints."""
    (mount,) = (one for one in pod.container["volumeMounts"] if one["name"] == "checkpoints")
    assert mount["mountPath"] == pod.env["TFPROV_CHECKPOINT_DIR"]
    (volume,) = (one for one in pod.spec["volumes"] if one["name"] == "checkpoints")
    computed = mount.get("subPathExpr", "").replace("$(TFPROV_INDEX)", pod.env.get("TFPROV_INDEX", ""))
    claim = volume.get("persistentVolumeClaim", {}).get("claimName")
    return claim, (mount.get("subPath") or computed) if claim else pod.task
