"""Properties of every inventory in every target: tasks read their wiring, and every address leads to its task."""

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
    checked = 0

    @laws
    @given(inventory=inventories())
    def law(inventory: str) -> None:
        nonlocal checked
        try:
            cluster, pods = cluster_of(inventory, target, *SET), started_containers(objects_of(inventory, target, *SET))
        except InvalidInput as error:
            if target == "kubeflow-tfjob" and "a TFJob has one template for both" in str(error):
                reject()
            raise
        checked += 1
        assert sorted(pod.task for pod in pods) == sorted(task.name for task in cluster.tasks)
        by_flags = json.loads(inventory)["all"]["vars"]["tfprov"]["wiring"] != "tf_config"
        for pod in pods:
            check_wiring(cluster, pod, by_flags=by_flags)
        check_addresses(cluster, pods)
        check_checkpoint_volumes(cluster, {pod.task: place_of(pod) for pod in pods})

    law()
    assert checked >= 10


def check_wiring(cluster: Cluster, pod: StartedContainer, *, by_flags: bool) -> None:
    task = cluster.find(pod.task)
    assert task is not None
    wiring = cluster.wiring(task)
    has_tf_config = not task.feeds and not task.is_web
    assert from_tf_config(pod.env.get("TF_CONFIG", "")) == (wiring if has_tf_config else None)
    has_flags = by_flags and not task.feeds and not task.is_web
    names = from_names(pod.env.get("TFPROV_FLAGS", ""))
    assert from_flags(pod.argv, names) == (wiring if has_flags else None)


def check_addresses(cluster: Cluster, pods: list[StartedContainer]) -> None:
    by_host = {pod.host: pod for pod in pods}
    assert len(by_host) == len(pods)
    for task in cluster.tasks:
        pod = by_host[task.address]
        assert pod.task == task.name
        assert pod.ports == ([task.port] if task.serves else [])


def check_checkpoint_volumes(cluster: Cluster, places: Mapping[str, tuple[str | None, str]]) -> None:
    """The chief's checkpoints outlive its pod, and only its readers and ps share their directory."""
    of_chief = places[cluster.chief.name]
    assert of_chief[0] is not None
    for task in cluster.tasks:
        assert (places[task.name] == of_chief) == uses_chiefs_checkpoints(task, cluster.chief)


def uses_chiefs_checkpoints(task: Task, chief: Task) -> bool:
    return task == chief or task.reads or task.job == "ps"


def place_of(pod: StartedContainer) -> tuple[str | None, str]:
    """Return the claim of a task's checkpoints, and the directory in it."""
    (mount,) = (one for one in pod.container["volumeMounts"] if one["name"] == "checkpoints")
    assert mount["mountPath"] == pod.env["TFPROV_CHECKPOINT_DIR"]
    (volume,) = (one for one in pod.spec["volumes"] if one["name"] == "checkpoints")
    computed = mount.get("subPathExpr", "").replace("$(TFPROV_INDEX)", pod.env.get("TFPROV_INDEX", ""))
    claim = volume.get("persistentVolumeClaim", {}).get("claimName")
    return claim, (mount.get("subPath") or computed) if claim else pod.task
