"""Which networks and GPU settings a training on Spark is refused for."""

from collections.abc import Callable

import pytest

from tfprov.errors import Usage
from tfprov.spark.distributor.local import check_local, visible_devices
from tfprov.spark.distributor.requirements import IGNORE_SSL, check_network, gpu_amount
from tfprov.spark.distributor.runner import TensorFlowRunner


def lookup(**settings: str) -> Callable[[str, str], str]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return named.get


def test_a_url_is_no_directory_of_the_executors() -> None:
    with pytest.raises(ValueError, match="`checkpoint_dir` must be a path that executors have, not the URL s3://b/run"):
        TensorFlowRunner(num_slots=1, checkpoint_dir="s3://b/run", spark=object())


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,512]"])
def test_a_spark_of_one_machine_needs_no_trust(master: str) -> None:
    check_network(lookup(spark_master=master), trusted=False)


def test_executors_that_reach_the_driver_on_its_loopback_are_on_its_machine() -> None:
    check_network(lookup(spark_master="spark://127.0.0.1:7077", spark_driver_host="127.0.0.1"), trusted=False)
    with pytest.raises(Usage, match="neither Spark nor TensorFlow encrypts"):
        check_network(lookup(spark_master="spark://127.0.0.1:7077", spark_driver_host="10.0.0.1"), trusted=False)


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h", "", "localhost"])
def test_a_spark_of_other_machines_is_refused_unless_it_is_trusted(master: str) -> None:
    with pytest.raises(Usage, match=r"neither Spark nor TensorFlow encrypts.*trusted_network=True"):
        check_network(lookup(spark_master=master), trusted=False)
    check_network(lookup(spark_master=master), trusted=True)
    settings = {"spark.master": master, IGNORE_SSL: "TRUE"}
    check_network(settings.get, trusted=False)


@pytest.mark.parametrize("name", ["spark_ssl_enabled", "spark_network_crypto_enabled"])
def test_a_spark_that_encrypts_is_refused_even_on_one_machine(name: str) -> None:
    settings = {"spark_master": "local[2]", name: "true"}
    with pytest.raises(Usage, match="Spark encrypts its traffic"):
        check_network(lookup(**settings), trusted=False)
    check_network(lookup(**settings), trusted=True)


def test_the_gpus_of_a_task_are_sparks_own_setting() -> None:
    assert gpu_amount(lookup(spark_task_resource_fpga_amount="0.5"), "fpga") == 0.5
    with pytest.raises(ValueError, match=r"use_gpu needs `spark.task.resource.gpu.amount`.*use_gpu=False"):
        gpu_amount(lookup(), "gpu")
    with pytest.raises(ValueError, match="must be a number, not 'two'"):
        gpu_amount(lookup(spark_task_resource_gpu_amount="two"), "gpu")


def test_local_mode_has_the_slots_of_the_driver() -> None:
    check_local(1, None)
    check_local(2, ["0", "1"])
    with pytest.raises(ValueError, match="one slot, the driver's process, not 2"):
        check_local(2, None)
    with pytest.raises(ValueError, match="more than the 1 GPUs of the driver"):
        check_local(2, ["0"])


def test_local_mode_restores_the_devices_that_were_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    import os  # noqa: PLC0415

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with visible_devices(1, ["1"]):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with visible_devices(1, None):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
