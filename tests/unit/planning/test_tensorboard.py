"""A tensorboard beside a training: what it takes from the inventory, where it serves, and that it only reads."""

from dataclasses import replace
from typing import Any

import docker
import pytest

from tests.support.inventories import inventory, roles
from tests.support.memory_cluster import make_context, packed
from tfprov.engine.machines import published
from tfprov.hosts.docker.labels import creation
from tfprov.hosts.process.spec import order
from tfprov.model.state import Box, Container
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


def text(own: str = "port: 6006", more: str = "restart: never", host: str = "max_restarts: 3") -> str:
    return TRAINING.replace("MORE", more).replace("HOST", host).replace("OWN", own)


def board(own: str = "port: 6006", more: str = "restart: never", host: str = "max_restarts: 3") -> Container:
    found = make_context(text(own, more, host)).container("tensorboard/0")
    assert found is not None
    return found


def boxed(
    own: str = "port: 6006", more: str = "restart: never", host: str = "max_restarts: 3"
) -> tuple[Container, Box]:
    found = board(own, f"{IN_DOCKER}, {more}".replace(", ", "\n      ", 1), host)
    assert found.box is not None
    return found, found.box


# --- what it takes from the inventory --------------------------------------------------------------------------------


def test_it_takes_nothing_that_is_meant_for_the_training() -> None:
    found = board()
    assert found.argv == (*OURS, "--host=127.0.0.1", "--port=6006")
    assert set(found.env) == {"TFPROV_CLUSTER", "TFPROV_TASK", "TFPROV_STRATEGY", "TFPROV_CHECKPOINT_DIR"}
    assert (found.artifact, found.spec["code"], found.spec["env"]) == (None, None, {})


def test_its_own_group_says_what_it_takes_and_no_word_more() -> None:
    found = board("flags: {reload_interval: 5, lr: 7}, env: {HOME: /tmp}")
    assert found.argv == (*OURS, "--host=127.0.0.1", "--port=6006", "--lr=7", "--reload_interval=5")
    assert {name: value for name, value in found.env.items() if not name.startswith("TFPROV_")} == {"HOME": "/tmp"}


def test_a_command_of_its_own_finds_the_code() -> None:
    found = board("command: [python, board.py]")
    assert found.argv == ("python", "board.py")
    assert found.artifact == packed("./program").digest
    assert board("code: ./board").artifact == packed("./board").digest


def test_an_edit_of_the_program_is_no_reason_to_restart_it() -> None:
    for more in ("restart: never", IN_DOCKER):
        before, after = (make_context(text(more=more), extra).wanted for extra in ((), ("tfprov.code=./edited",)))
        changed = {one.task.name for one, other in zip(before, after, strict=True) if one.spec != other.spec}
        assert changed == {"ps/0", "worker/0", "evaluator/0"}


def test_it_gets_no_gpu_that_is_meant_for_others() -> None:
    assert boxed(more="gpus: 1")[1].gpus == 0
    assert boxed("gpus: 1", "gpus: 2")[1].gpus == 1
    assert order(board(), "run-1")["env"]["CUDA_VISIBLE_DEVICES"] == "-1"


def test_what_it_does_not_take_is_not_shown_as_its_settings() -> None:
    found = {one.name: one.value for one in explain(inventory(text("flags: {v: 1}")), "h2").settings["tensorboard"]}
    assert [name for name in found if name.startswith("tfprov.flags")] == ["tfprov.flags.v"]
    assert (found["tfprov.command"], found["tfprov.code"], found["tfprov.env"]) == (None, None, {})
    workers = {one.name for one in explain(inventory(text()), "h2").settings["worker"]}
    assert {"tfprov.flags.train_steps", "tfprov.flags.batch", "tfprov.env.TOKEN"} <= workers


def test_flags_of_the_data_service_are_each_its_own_as_well() -> None:
    served = text() + "dispatcher: {hosts: {h1: }, vars: {tfprov: {flags: {v: 1}}}}\ndata_worker: {hosts: {h1: }}\n"
    found = {one.task.name: one.argv for one in make_context(served).wanted}
    assert found["dispatcher/0"][-1] == "--v=1"
    assert not any("train_steps" in word for name in ("dispatcher/0", "data_worker/0") for word in found[name])


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
    container, box = boxed(own, more, host)
    assert (container.task.address, box.address, container.spec["bind"]) == (address, address, address)
    assert container.argv[2] == "--host=0.0.0.0"  # inside


def test_each_role_publishes_its_ports_where_its_own_group_says() -> None:
    found = published(roles(text("port: 6006", f"{IN_DOCKER}\n      bind: 10.0.0.7")))
    assert found["worker", "h2"] == "10.0.0.7"
    assert found["tensorboard", "h2"] == "127.0.0.1"
    split = text(more=IN_DOCKER).replace("ps: {hosts: {", "ps: {vars: {tfprov: {bind: 10.0.0.8}}, hosts: {h2: , ")
    assert published(roles(split)) == {
        ("ps", "h1"): "10.0.0.8", ("ps", "h2"): "10.0.0.8", ("worker", "h2"): "10.0.0.2", ("evaluator", "h2"): "10.0.0.2",
        ("tensorboard", "h2"): "127.0.0.1",
    }  # fmt: skip


# --- what it reads ---------------------------------------------------------------------------------------------------


def mounted(container: Container, box: Box) -> dict[str, Any]:
    """Return how the engine is asked to mount the checkpoints."""
    made = creation(docker.APIClient(version="1.41"), container, box, "lab", "run-1", "sha256:1")
    found: dict[str, Any] = made["host_config"]["Mounts"][0]
    return found


def test_it_cannot_write_to_the_chiefs_files_and_an_evaluator_can() -> None:
    found = {one.task.name: one for one in make_context(text(more=IN_DOCKER)).wanted}
    for name, read_only in (("tensorboard/0", True), ("evaluator/0", False), ("worker/0", False)):
        one = replace(found[name], checkpoint_dir="/checkpoints")
        assert one.box is not None
        mount = mounted(one, one.box)
        assert (mount["Source"], mount["Target"]) == ("tfprov-lab-worker-0-checkpoints", "/checkpoints")
        assert bool(mount.get("ReadOnly")) is read_only


def test_another_chief_has_other_files() -> None:
    before, _ = boxed()
    after = make_context(text(more=IN_DOCKER) + "chief: {hosts: {h2: }}\n", ("tfprov.wiring=tf_config",))
    changed = after.container("tensorboard/0")
    assert changed is not None
    assert "reads: worker/0 -> chief/0" in differences(before.spec, changed.spec)
