"""A client that drives bare TensorFlow servers from outside of the cluster."""

import sys

import pytest

from tests.support.local_cluster import LocalCluster

INVENTORY = """
all:
  vars:
    tfprov: {cluster: bare, strategy: standalone, env: {TF_CPP_MIN_LOG_LEVEL: "2"}, port: PORT}
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
"""
CLIENT = """
import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)


@tf.function
def step():
    total.assign_add(1.0)


for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
print("total", total.numpy(), total.device, flush=True)
raise SystemExit(7)
"""


@pytest.mark.tensorflow
def test_a_client_computes_on_servers_that_tfprov_started(local_cluster: LocalCluster) -> None:
    (local_cluster.directory / "client.py").write_text(CLIENT)
    local_cluster.write(INVENTORY)
    assert "worker/0 serves on 127.0.0.1:" in local_cluster("up")
    printed = local_cluster("client", "--", sys.executable, "client.py", code=7)
    assert "total 20.0 /job:ps/replica:0/task:0/device:CPU:0" in printed
    assert '"task": {"index": 0, "type": "chief"}' in local_cluster("client")
    assert "servers that never end" in local_cluster("run", code=2)
    assert "servers that never end" in local_cluster("run", "--detach", code=2)
    assert "servers that never end" in local_cluster("attach", code=2)
    assert "servers that never end" in local_cluster("wait", code=2)
    assert "nothing to do" in local_cluster("up")
    local_cluster("down")
    assert local_cluster.processes() == []
