"""The tensorboard role: its settings, its address, and its read-only access to the chief's files."""

from dataclasses import replace
from typing import Any

import docker
import pytest

from tests.support.inventories import inventory, roles
from tests.support.memory_cluster import make_context, packed
from tfprov.engine.machines import publish_addresses
from tfprov.hosts.docker.labels import container_config
from tfprov.hosts.process.spec import task_order
from tfprov.model.state import Container, DockerOptions
from tfprov.planning.reconcile import differences
from tfprov.settings.provenance import explain

TRAINING = """
all:
  vars:
    tfprov:
      cluster: lab
      code: ./program
      command: [python, digits.py]
      flags: {train_steps: 5, lr: 0.1}
      env: {TOKEN: secret, TF_CPP_MIN_LOG_LEVEL: "2"}
      MORE
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2, tfprov: {flags: {batch: 7}, HOST}}}}
evaluator: {hosts: {h2: }}
tensorboard: {hosts: {h2: }, vars: {tfprov: {OWN}}}
"""
IN_DOCKER = "image: {name: train}"
OURS = ("tensorboard", "--logdir=/checkpoints/tensorboard/0")


def inventory_text(own: str = "port: 6006", more: str = "restart: never", host: str = "max_restarts: 3") -> str:
    return TRAINING.replace("MORE", more).replace("HOST", host).replace("OWN", own)


def tensorboard(own: str = "port: 6006", more: str = "restart: never", host: str = "max_restarts: 3") -> Container:
    board_task = make_context(inventory_text(own, more, host)).container("tensorboard/0")
    assert board_task is not None
    return board_task


def docker_tensorboard(
    own: str = "port: 6006", more: str = "restart: never", host: str = "max_restarts: 3"
) -> tuple[Container, DockerOptions]:
    board_task = tensorboard(own, f"{IN_DOCKER}, {more}".replace(", ", "\n      ", 1), host)
    assert board_task.docker is not None
    return board_task, board_task.docker


# --- what it takes from the inventory --------------------------------------------------------------------------------


def test_it_takes_no_settings_of_the_training() -> None:
    board_task = tensorboard()
    assert board_task.argv == (*OURS, "--host=127.0.0.1", "--port=6006")
    assert set(board_task.env) == {"TFPROV_CLUSTER", "TFPROV_TASK", "TFPROV_STRATEGY", "TFPROV_CHECKPOINT_DIR"}
    assert (board_task.artifact, board_task.spec["code"], board_task.spec["env"]) == (None, None, {})


def test_it_takes_only_the_settings_of_its_own_group() -> None:
    board_task = tensorboard("flags: {reload_interval: 5, lr: 7}, env: {HOME: /tmp}")
    assert board_task.argv == (*OURS, "--host=127.0.0.1", "--port=6006", "--lr=7", "--reload_interval=5")
    assert {name: value for name, value in board_task.env.items() if not name.startswith("TFPROV_")} == {"HOME": "/tmp"}


def test_a_command_of_its_own_finds_the_code() -> None:
    board_task = tensorboard("command: [python, board.py]")
    assert board_task.argv == ("python", "board.py")
    assert board_task.artifact == packed("./program").digest
    assert tensorboard("code: ./board").artifact == packed("./board").digest


def test_an_edit_of_the_program_is_no_reason_to_restart_it() -> None:
    for more in ("restart: never", IN_DOCKER):
        before, after = (
            make_context(inventory_text(more=more), extra).wanted for extra in ((), ("tfprov.code=./edited",))
        )
        changed = {
            container.task.name for container, other in zip(before, after, strict=True) if container.spec != other.spec
        }
        assert changed == {"ps/0", "worker/0", "evaluator/0"}


def test_it_takes_no_gpu_of_other_roles() -> None:
    assert docker_tensorboard(more="gpus: 1")[1].gpus == 0
    assert docker_tensorboard("gpus: 1", "gpus: 2")[1].gpus == 1
    assert task_order(tensorboard(), "run-1")["env"]["CUDA_VISIBLE_DEVICES"] == "-1"


def test_settings_that_do_not_apply_are_not_explained() -> None:
    settings = {
        origin.name: origin.value
        for origin in explain(inventory(inventory_text("flags: {v: 1}")), "h2").settings["tensorboard"]
    }
    assert [name for name in settings if name.startswith("tfprov.flags")] == ["tfprov.flags.v"]
    assert (settings["tfprov.command"], settings["tfprov.code"], settings["tfprov.env"]) == (None, None, {})
    workers = {origin.name for origin in explain(inventory(inventory_text()), "h2").settings["worker"]}
    assert {"tfprov.flags.train_steps", "tfprov.flags.batch", "tfprov.env.TOKEN"} <= workers


def test_the_data_service_takes_each_flag_of_its_own_group_alone() -> None:
    served = (
        inventory_text()
        + "dispatcher: {hosts: {h1: }, vars: {tfprov: {flags: {v: 1}}}}\ndata_worker: {hosts: {h1: }}\n"
    )
    argv_by_task = {container.task.name: container.argv for container in make_context(served).wanted}
    assert argv_by_task["dispatcher/0"][-1] == "--v=1"
    assert not any("train_steps" in word for name in ("dispatcher/0", "data_worker/0") for word in argv_by_task[name])


# --- where it serves -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "more", "host", "address"),
    [
        ("port: 6006", "restart: never", "max_restarts: 3", "127.0.0.1"),
        ("port: 6006", "bind: 10.0.0.7", "max_restarts: 3", "127.0.0.1"),
        ("port: 6006", "restart: never", "bind: 10.0.0.7", "127.0.0.1"),
        ("bind: 10.0.0.2", "bind: 10.0.0.7", "max_restarts: 3", "10.0.0.2"),
        ("bind: 0.0.0.0, allow_insecure_network: true", "restart: never", "max_restarts: 3", "0.0.0.0"),
    ],
)
def test_it_serves_on_its_hosts_loopback_unless_its_group_says_otherwise(
    own: str, more: str, host: str, address: str
) -> None:
    container, options = docker_tensorboard(own, more, host)
    assert (container.task.address, options.address, container.spec["bind"]) == (address, address, address)
    assert container.argv[2] == "--host=0.0.0.0"  # inside


def test_each_role_publishes_its_ports_on_its_own_groups_address() -> None:
    board_task = publish_addresses(roles(inventory_text("port: 6006", f"{IN_DOCKER}\n      bind: 10.0.0.7")))
    assert board_task["worker", "h2"] == "10.0.0.7"
    assert board_task["tensorboard", "h2"] == "127.0.0.1"
    split = inventory_text(more=IN_DOCKER).replace(
        "ps: {hosts: {", "ps: {vars: {tfprov: {bind: 10.0.0.8}}, hosts: {h2: , "
    )
    assert publish_addresses(roles(split)) == {
        ("ps", "h1"): "10.0.0.8", ("ps", "h2"): "10.0.0.8", ("worker", "h2"): "10.0.0.2", ("evaluator", "h2"): "10.0.0.2",
        ("tensorboard", "h2"): "127.0.0.1",
    }  # fmt: skip


# --- what it reads ---------------------------------------------------------------------------------------------------


def checkpoint_mount(container: Container, options: DockerOptions) -> dict[str, Any]:
    """Return the mount of the checkpoints in the request to the engine."""
    made = container_config(docker.APIClient(version="1.41"), container, options, "lab", "run-1", "sha256:1")
    board_task: dict[str, Any] = made["host_config"]["Mounts"][0]
    return board_task


def test_it_cannot_write_to_the_chiefs_files_and_an_evaluator_can() -> None:
    containers = {container.task.name: container for container in make_context(inventory_text(more=IN_DOCKER)).wanted}
    for name, read_only in (("tensorboard/0", True), ("evaluator/0", False), ("worker/0", False)):
        container = replace(containers[name], checkpoint_dir="/checkpoints")
        assert container.docker is not None
        mount = checkpoint_mount(container, container.docker)
        assert (mount["Source"], mount["Target"]) == ("tfprov-lab-worker-0-checkpoints", "/checkpoints")
        assert bool(mount.get("ReadOnly")) is read_only


def test_another_chief_has_other_files() -> None:
    before, _ = docker_tensorboard()
    after = make_context(inventory_text(more=IN_DOCKER) + "chief: {hosts: {h2: }}\n", ("tfprov.wiring=tf_config",))
    changed = after.container("tensorboard/0")
    assert changed is not None
    assert "reads: worker/0 -> chief/0" in differences(before.spec, changed.spec)
