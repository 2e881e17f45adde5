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


PLACED = """
all:
  vars:
    tfprov:
      cluster: lab
      %s
      command: [python, train.py, "{{ ps_hosts }}", "{{ chief_address }}", data]
      flags: {hosts: "{{ worker_hosts.split(',') | length }}", world: "{{ world_size }}"}
ps: {hosts: {"h[1:2]": }}
worker: {hosts: {"h[2:3]": }, vars: {tfprov: {env: {RANK: "{{ rank }}", MASTER: "{{ chief_address.split(':')[0] }}"}}}}
"""


def test_a_program_can_be_told_of_the_cluster_in_words_of_its_own() -> None:
    rows = {
        # the settings, a task: its arguments behind the script, and the variables RANK and MASTER
        ("wiring: tf_config", "worker/1"): (["h1:2222,h2:2222", "h2:2223", "data", "--hosts=2", "--world=2"], "1 h2"),
        ("wiring: tf_config", "ps/0"): (["h1:2222,h2:2222", "h2:2223", "data", "--hosts=2", "--world=2"], "None None"),
        ("wiring: {flags: {ps_hosts: null, worker_hosts: , job_name: --role}}", "worker/0"): (
            ["h1:2222,h2:2222", "h2:2223", "data", "--role=worker", "--task_index=0", "--hosts=2", "--world=2"],
            "0 h2",
        ),
    }
    for (settings, task), (argv, variables) in rows.items():
        found = container(task, PLACED % settings)
        assert (list(found.argv[2:]), f"{found.env.get('RANK')} {found.env.get('MASTER')}") == (argv, variables), task
    # A variable of the inventory that was always there goes on meaning what it meant.
    own = PLACED.replace("    tfprov:", "    world_size: 7\n    tfprov:", 1) % "wiring: tf_config"
    assert "--world=7" in container("ps/0", own).argv


def test_flags_of_the_wiring_are_the_users_where_tfprov_appends_none() -> None:
    for wiring in ("wiring: tf_config", "wiring: {flags: {job_name: --role}}", "strategy: single"):
        inventory = f"all: {{vars: {{tfprov: {{cluster: lab, {wiring}, command: [x], flags: {{job_name: mine}}}}}}}}"
        assert "--job_name=mine" in container("worker/0", f"{inventory}\nworker: {{hosts: {{h1: }}}}").argv, wiring
