"""Marathon: the apps of a group, compared with those of the reference."""

import json
from typing import Any

import pytest
from hypothesis import given

from tests.support.examples import examples
from tests.support.inventory_strategies import inventories
from tests.support.kubernetes_objects import cluster_of, files_of
from tests.support.rendered_wiring import IMAGE, assert_wiring, by_app
from tfprov.errors import InvalidInput, Usage
from tfprov.wiring import from_flags

ECOSYSTEM = """
all:
  vars:
    tfprov:
      cluster: mnist
      image: {name: "img:v1"}
      command: [python, mnist.py]
      flags: {train_dir: "hdfs://namenode/train_dir"}
  children:
    ps: {hosts: {"p[1:2]": }}
    worker: {hosts: {"w[1:3]": }}
    tensorboard:
      hosts: {w1: }
      vars: {tfprov: {command: [tensorboard, "--logdir=hdfs://namenode/train_dir"], flags: {train_dir: null}}}
"""
"""The defaults of the reference's template."""
WITHOUT = ECOSYSTEM[: ECOSYSTEM.index("    tensorboard:")]


def apps(inventory: str, *settings: str) -> list[dict[str, Any]]:
    (text,) = files_of(inventory, "marathon", *settings).values()
    parsed: list[dict[str, Any]] = json.loads(text)["apps"]
    return parsed


def with_setting(text: str) -> str:
    return WITHOUT.replace("      command:", f"      {text}\n      command:")


def test_the_references_defaults_are_six_apps() -> None:
    rendered = apps(ECOSYSTEM)
    assert [app["id"] for app in rendered] == ["worker-0", "worker-1", "worker-2", "ps-0", "ps-1", "tensorboard-0"]
    (first_task, *_) = by_app(files_of(ECOSYSTEM, "marathon"))
    wiring = from_flags(first_task.argv)
    assert wiring is not None
    assert wiring.cluster == {
        "worker": tuple(f"worker-{n}-mnist.marathon.mesos:{2333 + n}" for n in range(3)),
        "ps": tuple(f"ps-{n}-mnist.marathon.mesos:{2336 + n}" for n in range(2)),
    }
    for app in rendered:
        assert (app["cpus"], app["mem"], app["instances"]) == (2, 4096, 1)
        assert app["container"]["docker"]["image"] == "img:v1"
        assert app["networks"] == [{"mode": "host"}]


def test_without_a_tensorboard_it_is_valid_and_has_five_apps() -> None:
    # The reference rendered a trailing comma, and a tensorboard.
    assert [app["id"] for app in apps(WITHOUT)] == ["worker-0", "worker-1", "worker-2", "ps-0", "ps-1"]


def test_an_empty_image_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`image\.name` must not be empty"):
        apps(ECOSYSTEM.replace("img:v1", ""))


def test_ports_and_domain_can_be_chosen() -> None:
    (first_task, *_) = by_app(files_of(WITHOUT, "marathon", "port=31000", "dns=marathon.example"))
    wiring = from_flags(first_task.argv)
    assert wiring is not None
    assert wiring.address == "worker-0-mnist.marathon.example:31000"
    (worker, *_) = apps(WITHOUT, "reserve=true")
    assert worker["portDefinitions"] == [{"port": 2333, "protocol": "tcp", "name": "tensorflow"}]
    assert worker["requirePorts"] is True
    with pytest.raises(Usage, match="`--set port=65534` leaves too few ports for 5 tasks"):
        apps(WITHOUT, "port=65534")


def test_a_tensorboard_does_not_use_a_servers_port() -> None:
    assert apps(ECOSYSTEM, "reserve=true")[-1]["portDefinitions"][0]["port"] == 6006
    assert apps(ECOSYSTEM, "reserve=true", "port=6004")[-1]["portDefinitions"][0]["port"] == 6009


def test_no_two_tasks_have_one_port() -> None:
    at_ends = ECOSYSTEM.replace("{tfprov: {command: [tensorboard,", "{tfprov: {port: 2338, command: [tensorboard,")
    serving = "    serving: {hosts: {w1: }, vars: {tfprov: {port: 2333, command: [serve], flags: {train_dir: null}}}}\n"
    made = apps(at_ends + serving, "reserve=true", "checkpoints=/shared")
    ports = [app["portDefinitions"][0]["port"] for app in made]
    assert sorted(ports) == [2333, 2334, 2335, 2336, 2337, 2338, 2339]
    with pytest.raises(Usage, match="`--set port=65531` leaves too few ports for 7 tasks; use a lower one"):
        apps(at_ends.replace("2338", "65534") + serving, "reserve=true", "checkpoints=/shared", "port=65531")


def test_settings_are_translated_to_marathons() -> None:
    inventory = with_setting("memory: 1000m\n      cpus: 1.5\n      gpus: 1\n      mounts: [{source: /d, target: /e}]")
    worker, *_, ps = apps(inventory, "checkpoints=/shared/mnist", "place=hosts")
    assert (worker["cpus"], worker["mem"], worker["gpus"]) == (1.5, 1000, 1)
    assert "gpus" not in ps
    assert worker["container"]["volumes"] == [
        {"hostPath": "/shared/mnist", "containerPath": "/checkpoints", "mode": "RW"},
        {"hostPath": "/d", "containerPath": "/e", "mode": "RO"},
    ]
    assert worker["constraints"] == [["hostname", "IS", "w1"]]


def test_shell_syntax_in_values_is_quoted() -> None:
    inventory = with_setting("env: {A: \"$HOME 'x'\"}").replace("hdfs://namenode/train_dir", "$(id) 'q' ; rm \\\\\\\"x")
    (first_task, *_) = by_app(files_of(inventory, "marathon"))
    assert first_task.argv[-1] == "--train_dir=$(id) 'q' ; rm \\\"x"
    assert first_task.env["A"] == "$HOME 'x'"


def test_readers_of_the_chiefs_files_need_a_shared_directory() -> None:
    inventory = WITHOUT.replace("hdfs://namenode", "") + "    evaluator: {hosts: {w1: }}\n"
    message = "evaluator reads the chief's files, and on Mesos each task has its own directory"
    with pytest.raises(InvalidInput, match=message):
        apps(inventory)
    assert apps(inventory, "checkpoints=/shared")[-1]["id"] == "evaluator-0"


def test_settings_that_marathon_does_not_support_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`gpus: all`: Mesos counts GPUs"):
        apps(with_setting("gpus: all"))
    with pytest.raises(InvalidInput, match=r"`data\.path` must be an absolute path: it is one of w1"):
        apps(with_setting("data: {path: here}"))
    with pytest.raises(Usage, match="`--set checkpoints` must be an absolute path"):
        apps(WITHOUT, "checkpoints=relative")


@examples(15)
@given(inventory=inventories())
def test_every_marathon_task_reads_its_wiring(inventory: str) -> None:
    options = [IMAGE, "code=image", "checkpoints=/shared"]
    cluster = cluster_of(inventory, "marathon", *options)
    assert_wiring(inventory, cluster, list(by_app(files_of(inventory, "marathon", *options))))
    ports = [task.port for task in cluster.tasks]
    assert len(set(ports)) == len(ports)
