"""The roles serving and notebook: their commands, ports, addresses and the settings that they take."""

from typing import Any

import pytest

from tests.support.inventories import roles
from tests.support.memory_cluster import make_context
from tfprov.errors import InvalidInput
from tfprov.hosts.process.spec import task_order
from tfprov.model.state import Container
from tfprov.planning.tasks import assign_tasks

TRAINING = """
all:
  vars:
    tfprov:
      cluster: lab
      code: ./program
      command: [python, digits.py]
      flags: {train_steps: 5}
      env: {LEVEL: "2"}
      data: {path: /data, to: /data}
      MORE
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}}}
serving: {hosts: {HOST: }, vars: {tfprov: {OWN}}}
notebook: {hosts: {HOST: }}
"""


def text(own: str = "restart: never", more: str = "bind: 10.0.0.7", host: str = "h2") -> str:
    more = more if "image" in more else f"image: {{name: train}}\n      {more}"
    return TRAINING.replace("MORE", more).replace("HOST", host).replace("OWN", own)


def container(name: str, **how: Any) -> Container:
    wanted = make_context(text(**how)).container(name)
    assert wanted is not None
    return wanted


def test_they_serve_on_their_hosts_loopback_at_the_ports_of_their_programs() -> None:
    tasks = {task.name: task.endpoint for task in assign_tasks(roles(text())).tasks}
    assert (tasks["serving/0"], tasks["notebook/0"]) == ("127.0.0.1:8501", "127.0.0.1:8888")
    opened = container("serving/0", own="bind: 10.0.0.2, port: 9000")
    assert (opened.task.endpoint, opened.spec["bind"]) == ("10.0.0.2:9000", "10.0.0.2")


def test_a_model_server_loads_from_the_chiefs_directory() -> None:
    served = container("serving/0", more="serving: {model_name: digits}")
    directory = served.checkpoint_dir
    assert served.argv == (
        *("python", "-m", "tfprov.runtime.serving", "--host=0.0.0.0", "--rest_api_port=8501"),
        *("--model_name=digits", f"--model_base_path={directory}/export"),
    )
    assert "TF_CONFIG" not in served.env
    assert served.docker is not None
    assert (served.docker.files_of, served.docker.only_reads) == ("worker/0", True)
    assert served.docker.mounts == ()


def test_tensorflow_serving_gets_the_same_model() -> None:
    more = "serving: {server: tensorflow_serving, model_base_path: /models}"
    assert container("serving/0", more=more).argv == (
        *("tensorflow_model_server", "--port=0", "--rest_api_port=8501"),
        *("--model_name=model", "--model_base_path=/models"),
    )


def test_a_url_of_models_reaches_tensorflow_serving_as_it_is() -> None:
    more = "serving: {server: tensorflow_serving, model_base_path: 's3://bucket/models'}"
    assert container("serving/0", more=more).argv[-1] == "--model_base_path=s3://bucket/models"


def test_a_notebook_has_code_data_and_environment_of_the_training_but_not_its_program() -> None:
    opened = container("notebook/0")
    assert opened.argv == ("python", "-m", "tfprov.runtime.notebook", "--ip=0.0.0.0", "--port=8888")
    assert opened.env["LEVEL"] == "2"
    assert opened.artifact is not None
    assert opened.docker is not None
    assert [mount.target for mount in opened.docker.mounts] == ["/data"]
    assert opened.docker.only_reads


def test_a_command_of_the_group_replaces_the_program() -> None:
    own = "command: [serve, '{{ checkpoint_dir }}'], flags: {v: 1}"
    assert container("serving/0", own=own).argv[0::2] == ("serve", "--v=1")


def test_they_get_no_gpu_of_other_roles() -> None:
    for name in ("serving/0", "notebook/0"):
        options = container(name, more="gpus: 1").docker
        assert options is not None
        assert options.gpus == 0
        assert task_order(container(name), "run-1")["env"]["CUDA_VISIBLE_DEVICES"] == "-1"


AWAY = (
    "the {0} is on h1, and cannot read the chief's checkpoints, which are on h2; "
    "put h2 into the group `{0}` instead: hosts do not share a checkpoint directory"
)


@pytest.mark.parametrize(
    ("how", "messages"),
    [
        ({"host": "h1"}, [f"15:1: error: {AWAY.format('serving')}", f"16:1: error: {AWAY.format('notebook')}"]),
        ({"more": "serving: {model_name: a/b}"},
         [("12:17: error: `serving.model_name` must be letters, digits, `_`, `.` and `-`, not `a/b`; "
          "for example `model_name: digits`")]),
        ({"more": "serving: {model_base_path: /}"},
         [("12:17: error: `serving.model_base_path` must not be the whole file system; "
          "for example `model_base_path: export`")]),
        ({"more": "serving: {model_base_path: 's3://bucket/models'}"},
         [("12:17: error: `serving.model_base_path`: the server of tfprov reads a directory, and not s3://bucket/models; "
          "set `server: tensorflow_serving`, or name a directory")]),
        ({"more": "serving: {server: torchserve}"},
         [("12:17: error: `serving.server` must be `tfprov` or `tensorflow_serving`, not `torchserve`; "
          "for example `server: tensorflow_serving`")]),
        ({"more": "serving: {modle_name: a}"},
         ["12:17: error: unknown key `serving.modle_name`; did you mean `model_name`?"]),
        ({"own": "tasks_per_host: 2"},
         ["15:42: error: more than one serving task; keep one host with one task in the group `serving`"]),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_at_their_line(how: dict[str, str], messages: list[str]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        assign_tasks(roles(text(**how)))
    assert [str(problem) for problem in refusal.value.problems] == [f"i.yml:{message}" for message in messages]


def test_a_change_of_the_workers_restarts_neither() -> None:
    before = {one.task.name: one.spec for one in make_context(text()).wanted}
    more = text().replace("{h2: {ansible_host: 10.0.0.2}}", "{h2: {ansible_host: 10.0.0.2}, h1: }")
    after = {one.task.name: one.spec for one in make_context(more).wanted}
    assert before["worker/0"] != after["worker/0"]
    assert all(before[name] == after[name] for name in ("serving/0", "notebook/0"))
