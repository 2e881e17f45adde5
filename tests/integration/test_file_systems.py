"""Checkpoints and data on file systems that outlive a host, with real servers: S3 (SeaweedFS) and HDFS.

Hosts of their own that are lost, with S3, are in `test_strategies.py`.
"""

import hashlib
import json
import multiprocessing
import random
import re
import signal
from pathlib import Path

import pytest

from tests.support import seaweedfs
from tests.support.hdfs import Hdfs
from tests.support.local_cluster import LocalCluster
from tests.support.programs import read_back
from tests.support.remote_dirs import mirror_until_death
from tests.support.seaweedfs import S3Server
from tests.support.waiting import until
from tfprov.filesystems.generations import read_newest
from tfprov.filesystems.remote_dir import open_remote

pytestmark = [pytest.mark.tensorflow]

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: linear
      code: PROGRAMS
      command: [python, linear.py]
      flags: {train_steps: STEPS, save_every_steps: 100, pause: PAUSE}
      env: {TF_CPP_MIN_LOG_LEVEL: "2", VARIABLES}
      checkpoints: {dir: "REMOTE"}
      restart: never
      port: PORT
  children:
    ps: {hosts: {HOST: {ansible_connection: local}}}
    worker: {hosts: {HOST: }}
"""


def write(cluster: LocalCluster, url: str, env: dict[str, str], *, steps: int, pause: float, host: str) -> None:
    variables = ", ".join(f"{name}: {json.dumps(value)}" for name, value in env.items())
    text = INVENTORY.replace("STEPS", str(steps)).replace("PAUSE", str(pause)).replace("HOST", host)
    cluster.write(text.replace("VARIABLES", variables).replace("REMOTE", url))


def mirrored(cluster: LocalCluster) -> dict[str, object]:
    """Return what the chief's mirror last wrote down."""
    # Only this way: a walk through all directories would meet some that the mirror removes meanwhile.
    paths = list((cluster.directory / "state").glob("tfprov/clusters/*/hosts/*/tasks/worker-0/checkpoints/mirror.json"))
    facts: dict[str, object] = json.loads(paths[0].read_text()) if paths else {}
    return facts


def test_data_in_s3_is_copied_once_and_read_by_every_task(local_cluster: LocalCluster, s3: S3Server) -> None:
    url = f"s3://{seaweedfs.BUCKET}/data"
    remote = open_remote(url, s3.env)
    remote.write("train/part-0", [b"first"])
    remote.write("part-1", [b"second"])
    program = "import os, sys; sys.exit(open(os.environ['TFPROV_DATA_DIR'] + '/train/part-0').read() != 'first')"
    text = INVENTORY.replace("linear.py", f'-c, "{program}"').replace('dir: "REMOTE"', "to: ./checkpoints")
    text = text.replace(
        "restart: never", f'restart: never\n      strategy: single\n      ready: start\n      data: {{path: "{url}"}}'
    )
    text = re.sub(r"      (flags|code): .*\n", "", text).replace(
        "    ps: {hosts: {HOST: {ansible_connection: local}}}\n", ""
    )
    variables = ", ".join(f"{name}: {json.dumps(value)}" for name, value in s3.env.items())
    local_cluster.write(text.replace("VARIABLES", variables).replace("{HOST: }", "{localhost: }"))
    assert f"{url} can be read: 2 files, 11 bytes" in local_cluster("check")
    assert "fetch  data" in local_cluster("plan")
    local_cluster("up")
    until(lambda: local_cluster.tasks()["worker/0"]["state"] != "running", "the program has read it")
    assert local_cluster.tasks()["worker/0"]["state"] == "finished"
    remote.remove(["part-1"])
    assert "fetch  data" not in local_cluster("plan")
    for path in (local_cluster.directory / "state").rglob("*"):
        assert not path.is_file() or path.name == "order.json" or seaweedfs.SECRET.encode() not in path.read_bytes()


def test_a_training_goes_on_from_hdfs_after_every_host_is_lost(local_cluster: LocalCluster, hdfs: Hdfs) -> None:
    url = f"{hdfs.url}/linear/run-1"
    write(local_cluster, url, hdfs.env, steps=1_000_000, pause=0.01, host="a")
    assert f"{url} can be written, read and cleaned, and is empty" in local_cluster("check")
    local_cluster("up")
    until(lambda: (mirrored(local_cluster).get("step") or -1) >= 200, "a checkpoint is in HDFS")  # type: ignore[operator]
    assert re.search(rf"{url} has model\.ckpt-\d+\n", local_cluster("status"))
    local_cluster.lose_every_host()
    assert re.search(r"gathered into .*: model.ckpt-\d+ \(3 tensors read\)", local_cluster("gather"))
    write(local_cluster, url, hdfs.env, steps=1000, pause=0, host="b")
    step = int(re.search(rf"the training goes on from step (\d+) \({url}\)", local_cluster("plan"))[1])  # type: ignore[index]
    assert step >= 200
    output = local_cluster("run")
    assert f"restored model.ckpt-{step} from {url}" in output
    assert "is behind" not in output
    values = read_back(local_cluster.directory / "checkpoints" / "linear")
    assert abs(values["W"] - 2) < 0.05
    assert values["global_step"] >= 1000
    assert local_cluster.processes() == []


def test_a_task_that_dies_at_20_random_points_of_an_upload_leaves_whole_checkpoints_in_s3(
    tmp_path: Path, s3: S3Server
) -> None:
    url, rng = f"s3://{seaweedfs.BUCKET}/cut", random.Random(20)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["s3fs", "tests.support.remote_dirs"])  # half a second for each task otherwise
    reader, reached, midway = open_remote(url, s3.env), 0, 0
    for attempt in range(20):
        arguments = (tmp_path / f"host-{attempt}", url, s3.env, rng.randrange(1, 60))
        task = context.Process(target=mirror_until_death, args=arguments)
        task.start()
        task.join()
        assert task.exitcode == -signal.SIGKILL
        manifest = read_newest(reader)
        if manifest is None:
            continue
        midway += bool(manifest.uploading)
        whole = manifest.whole(reader.files())
        assert whole.checkpoints == manifest.checkpoints
        for name, file in whole.files.items():
            assert hashlib.sha256(b"".join(reader.chunks(file.object))).hexdigest() == file.sha256, name
        newest = whole.newest()
        assert (newest.step if newest else 0) >= reached
        reached = newest.step if newest else 0
    assert reached > 10
    assert midway > 5, "it also dies in the middle of uploads"
