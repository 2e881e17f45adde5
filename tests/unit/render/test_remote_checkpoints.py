"""A remote checkpoint directory in what is rendered: the same mirror, with the secret as a reference."""

import json

import pytest

from tests.support.kubernetes_objects import files_of, objects_of, of_kind
from tfprov.errors import InvalidInput

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: lab
      image: {name: "x:1"}
      command: [python, x.py]
      checkpoints: {dir: "s3://bucket/run"}
      env: {AWS_ENDPOINT_URL: "http://minio:9000", AWS_SECRET_ACCESS_KEY: hidden-key}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}, h3: {ansible_host: 10.0.0.3}}}
"""
MIRROR = ["python", "-m", "tfprov.runtime.mirror.task", "--"]


def test_the_chief_of_kubernetes_jobs_runs_beside_the_mirror() -> None:
    jobs = {it["metadata"]["name"]: it for it in of_kind(objects_of(INVENTORY, "kubernetes", "env_secret=s3"), "Job")}
    task = jobs["lab-worker-0"]["spec"]["template"]["spec"]["containers"][0]
    assert task["command"][:6] == [*MIRROR, "python", "x.py"]
    variables = {it["name"]: it for it in task["env"]}
    assert variables["TFPROV_CHECKPOINT_URL"]["value"] == "s3://bucket/run"
    assert variables["AWS_ENDPOINT_URL"]["value"] == "http://minio:9000"
    assert "secretKeyRef" in variables["AWS_SECRET_ACCESS_KEY"]["valueFrom"]
    assert "hidden-key" not in json.dumps(jobs)
    other = jobs["lab-worker-1"]["spec"]["template"]["spec"]["containers"][0]
    assert other["command"][:2] == ["python", "x.py"]


@pytest.mark.parametrize("target", ["compose", "swarm"])
def test_other_targets_start_it_in_the_same_way(target: str) -> None:
    text = "\n".join(files_of(INVENTORY, target).values())
    assert text.count("tfprov.runtime.mirror.task") == 1
    assert "s3://bucket/run" in text
    assert "hidden-key" not in text


def test_marathon_takes_no_secret() -> None:
    with pytest.raises(InvalidInput, match=r"`env\.AWS_SECRET_ACCESS_KEY` is secret"):
        files_of(INVENTORY, "marathon")


def test_a_batch_script_without_containers_refuses_it() -> None:
    without_image = INVENTORY.replace('      image: {name: "x:1"}\n', "")
    with pytest.raises(
        InvalidInput, match="is a URL, and tasks without containers save to the nodes' shared file system"
    ):
        files_of(without_image, "slurm")
