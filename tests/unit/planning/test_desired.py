"""From tasks to what is run: the arguments, the environment, and what counts as a change."""

from typing import Any

from tests.support.world import packed, world
from tfprov.model.state import Container
from tfprov.planning.text import summary

FULL = """
all:
  vars:
    tfprov:
      cluster: linear
      code: ./program
      command: [python, train.py, "{{ task.name }}"]
      flags:
        {lr: 0.10, steps: 2000, sync: true, verbose: , name: "{{ cluster }}-{{ task.index }}", dir: "{{ checkpoint_dir }}"}
      env: {DEBUG: 1, WHO: "{{ task.job }} on {{ inventory_hostname }}", "OFF": false}
ps: {hosts: {h1: }}
worker: {hosts: {"h[2:3]": }}
tensorboard: {hosts: {h2: {ansible_host: 10.0.0.2}}}
"""


def container(task: str, inventory: str = FULL, *extra: str) -> Container:
    found = world(inventory, extra).container(task)
    assert found is not None
    return found


def test_a_program_gets_its_command_its_wiring_and_its_flags() -> None:
    assert container("worker/1").argv == (
        "python",
        "train.py",
        "worker/1",
        "--job_name=worker",
        "--task_index=1",
        "--ps_hosts=h1:2222",
        "--worker_hosts=10.0.0.2:2222,h3:2222",
        "--lr=0.10",
        "--steps=2000",
        "--sync=true",
        "--verbose",
        "--name=linear-1",
        "--dir=/checkpoints/worker/1",
    )


def test_a_task_finds_who_it_is_in_its_environment() -> None:
    env = container("worker/1").env
    assert {name: value for name, value in env.items() if name != "TF_CONFIG"} == {
        "DEBUG": "1",
        "WHO": "worker on h3",
        "OFF": "false",
        "TFPROV_CLUSTER": "linear",
        "TFPROV_TASK": "worker/1",
        "TFPROV_STRATEGY": "between_graph",
        "TFPROV_CHECKPOINT_DIR": "/checkpoints/worker/1",
    }


def test_a_tensorboard_needs_no_command() -> None:
    assert container("tensorboard/0").argv == (
        "tensorboard",
        "--logdir=/checkpoints/tensorboard/0",
        "--host=127.0.0.1",
        "--port=6006",
    )


def test_with_tf_config_no_wiring_is_on_the_command_line() -> None:
    argv = container("worker/1", FULL, "tfprov.wiring=tf_config").argv
    assert not any(word.startswith(("--job_name", "--worker_hosts")) for word in argv)


def test_the_code_is_part_of_what_a_task_is() -> None:
    assert container("worker/0").artifact == packed("./program").digest
    assert container("worker/0").spec != container("worker/0", FULL, "tfprov.code=./other").spec


def changed(setting: str) -> bool:
    found: Any = container("worker/0", FULL, setting).spec
    return bool(found != container("worker/0").spec)


def test_what_can_change_without_a_restart_is_no_part_of_it() -> None:
    assert not changed("tfprov.restart=never")
    assert not changed("tfprov.max_restarts=7")
    assert not changed("tfprov.stop_grace=7")
    assert not changed("tfprov.start_timeout=7")
    assert not changed("tfprov.ready=start")
    assert changed("tfprov.flags.lr=0.2")
    assert changed("tfprov.port=7000")
    assert changed("tfprov.wiring=tf_config")


def test_a_cluster_is_told_in_one_line() -> None:
    assert summary(world(FULL).cluster) == "linear: 1 ps, 2 workers, 1 tensorboard on 3 hosts"
