"""Desired containers: arguments, environment, and which settings count as a change."""

import json
from dataclasses import replace
from typing import Any

import docker
import pytest

from tests.support.memory_cluster import make_context, packed
from tfprov.errors import InvalidInput
from tfprov.hosts.docker.labels import container_config
from tfprov.model.state import Container, DockerOptions, HostState, Observation, Observed, State
from tfprov.planning.plan_text import summary
from tfprov.planning.reconcile import differences, incomparable_secrets
from tfprov.vault.redaction import KeyedHash, is_secret_name

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
    desired = make_context(inventory, extra).container(task)
    assert desired is not None
    return desired


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


def test_a_task_has_its_wiring_in_the_environment() -> None:
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


def test_the_code_is_part_of_the_spec() -> None:
    assert container("worker/0").artifact == packed("./program").digest
    assert container("worker/0").spec != container("worker/0", FULL, "tfprov.code=./other").spec


BOXED = """
all:
  vars:
    tfprov:
      cluster: linear
      image: {name: "train:1.0"}
      command: [python, train.py]
      flags: {lr: 0.10, verbose: }
      env: {DEBUG: 1, API_TOKEN: s3cret}
      wiring: {flags: {job_name: "--role"}}
      data_service: {address: "10.0.0.9:5050"}
      data: {path: /data/mnist, to: /mnist}
      checkpoints: {dir: "s3://bucket/run", link: ./logs/}
      restart_on: [137]
      no_restart_on: [2, 3]
      memory: 2g
      shm_size: 1g
      cpus: 1.5
      pids: 100
      ulimits: {memlock: -1}
      user: 1000
      mounts: [{source: /srv/a, target: /a}]
ps: {hosts: {h2: {ansible_host: 10.0.0.2}}}
worker: {hosts: {h1: {ansible_host: 10.0.0.1, tfprov: {gpus: 1, devices: [/dev/dri]}}, h3: {ansible_host: 10.0.0.3}}}
tensorboard: {hosts: {h1: }}
"""
OF_IMAGE = {
    "runtime": "docker", "image": "name train:1.0", "code": None, "restart_codes": {"only": [137], "never": [2, 3]},
    "memory": "2g", "shm_size": "1g", "cpus": 1.5, "gpus": 1, "pids": 100, "user": "1000", "link": "logs",
    "devices": ["/dev/dri"], "ulimits": {"memlock": -1},
    "mounts": [{"source": "/srv/a", "target": "/a", "read_only": True}],
}  # fmt: skip
IN_PROCESS = """
all:
  vars:
    tfprov:
      {cluster: lab, code: ./program, command: [python, t.py], python: /usr/bin/python3, checkpoints: {link: out},
       wiring: tf_config, strategy: multi_worker_mirrored}
worker: {hosts: {localhost: {ansible_connection: local}}}
"""
WITH_DATA_SERVICE = """
all: {vars: {tfprov: {cluster: lab, command: [python, t.py]}}}
worker: {hosts: {h1: }}
ps: {hosts: {h2: }}
dispatcher: {hosts: {h3: }}
data_worker: {hosts: {h4: }}
"""
OF_PROCESS: dict[str, Any] = {"runtime": "process", "code": None, "flags": {}, "env": []}
SERVICE = ["python", "-m", "tfprov.runtime.data_service"]
STORED = {
    ("dispatcher/0", WITH_DATA_SERVICE): {
        **OF_PROCESS, "endpoint": "h3:2222", "wiring": {},
        "command": [*SERVICE, "dispatcher", "--port=2222", "--work_dir=/checkpoints/dispatcher/0"],
    },
    ("data_worker/0", WITH_DATA_SERVICE): {
        **OF_PROCESS, "endpoint": "h4:2222", "wiring": {"data_service": "grpc://h3:2222"},
        "command": [*SERVICE, "worker", "--port=2222", "--address=h4:2222", "--dispatcher=h3:2222"],
    },
    ("ps/0", WITH_DATA_SERVICE): {
        **OF_PROCESS, "command": ["python", "t.py"], "endpoint": "h2:2222",
        "wiring": {
            "style": "flags", "job_name": "ps", "task_index": 0, "ps_hosts": ["h2:2222"], "worker_hosts": ["h1:2222"],
        },
    },
    ("worker/0", BOXED): {
        **OF_IMAGE,
        "command": ["python", "train.py"],
        "flags": {"lr": "0.10", "verbose": None},
        "env": ["DEBUG", "API_TOKEN"],
        "endpoint": "10.0.0.1:2222",
        "bind": "10.0.0.1",
        "mirror": "s3://bucket/run",
        "data": {"path": "/data/mnist", "to": "/mnist"},
        "wiring": {
            "style": "flags", "names": {"job_name": "role"}, "job_name": "worker", "task_index": 0,
            "ps_hosts": ["10.0.0.2:2222"], "worker_hosts": ["10.0.0.1:2222", "10.0.0.3:2222"],
            "data_service": "grpc://10.0.0.9:5050",
        },
    },
    ("tensorboard/0", BOXED): {
        **OF_IMAGE,
        "command": ["tensorboard", "--logdir=/checkpoints/tensorboard/0", "--host=0.0.0.0", "--port=6006"],
        "flags": {}, "env": [], "endpoint": "127.0.0.1:6006", "bind": "127.0.0.1", "reads": "worker/0", "wiring": {},
    },
    ("worker/0", IN_PROCESS): {
        "runtime": "process", "code": packed("./program").digest, "command": ["python", "t.py"], "flags": {}, "env": [],
        "endpoint": "127.0.0.1:2222", "link": "out", "python": "/usr/bin/python3",
        "wiring": {
            "style": "tf_config", "strategy": "multi_worker_mirrored", "job_name": "worker", "task_index": 0,
            "worker_hosts": ["127.0.0.1:2222"],
        },
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "inventory"), STORED, ids=["dispatcher", "data worker", "ps", "program", "reader", "process"]
)
def test_the_spec_on_a_container_stays_the_same_for_later_versions(task: str, inventory: str) -> None:
    """Its labels have it: with another name of a field, an update of tfprov would restart every training."""
    spec = container(task, inventory).spec
    assert {**spec, "env": list(spec["env"])} == STORED[task, inventory]


def test_the_gate_of_restarts_and_the_mirror_go_before_the_program() -> None:
    desired = container("worker/0", BOXED)
    gate = ("python", "-m", "tfprov.runtime.restart_gate", "--only", "137", "--never", "2,3", "--")
    mirror = ("python", "-m", "tfprov.runtime.mirror.task", "--")
    assert desired.argv[:14] == (*gate, *mirror, "python", "train.py")
    assert container("tensorboard/0", BOXED).argv[:9] == ("python3", *gate[1:], "tensorboard")
    assert (desired.link, desired.remote) == (("logs", "/checkpoints/worker/0"), "s3://bucket/run")
    assert {name: value for name, value in desired.env.items() if name.startswith("TFPROV_")} == {
        "TFPROV_CHECKPOINT_DIR": "/checkpoints/worker/0",
        "TFPROV_CHECKPOINT_URL": "s3://bucket/run",
        "TFPROV_CLUSTER": "linear",
        "TFPROV_DATA_DIR": "/mnist",
        "TFPROV_DATA_SERVICE": "grpc://10.0.0.9:5050",
        "TFPROV_FLAGS": '{"job_name": "role"}',
        "TFPROV_STRATEGY": "between_graph",
        "TFPROV_TASK": "worker/0",
    }


KNOWN = "{{ [ps_hosts, worker_hosts, chief_address, world_size, rank | default('none')] | join(' ') }}"
KNOWING = """
all: {vars: {tfprov: {cluster: lab, command: [python, t.py], env: {KNOWN: "KNOWN"}}}}
ps: {hosts: {"h[1:2]": }}
worker: {hosts: {"h[3:4]": }}
"""


@pytest.mark.parametrize(("task", "rank"), [("ps/1", "none"), ("worker/0", "0"), ("worker/1", "1")])
def test_templates_know_the_other_tasks(task: str, rank: str) -> None:
    env = container(task, KNOWING.replace(': "KNOWN"', f': "{KNOWN}"')).env
    assert env["KNOWN"] == f"h1:2222,h2:2222 h3:2222,h4:2222 h3:2222 2 {rank}"


def changes_spec(setting: str) -> bool:
    desired: Any = container("worker/0", FULL, setting).spec
    return bool(desired != container("worker/0").spec)


def test_settings_that_need_no_restart_are_not_in_the_spec() -> None:
    assert not changes_spec("tfprov.restart=never")
    assert not changes_spec("tfprov.max_restarts=7")
    assert not changes_spec("tfprov.stop_grace=7")
    assert not changes_spec("tfprov.start_timeout=7")
    assert not changes_spec("tfprov.ready=start")
    assert changes_spec("tfprov.flags.lr=0.2")
    assert changes_spec("tfprov.port=7000")
    assert changes_spec("tfprov.wiring=tf_config")


def test_a_cluster_is_summed_up_in_one_line() -> None:
    assert summary(make_context(FULL).cluster) == "linear: 1 ps, 2 workers, 1 tensorboard on 3 hosts"


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


def test_templates_can_use_the_cluster_variables() -> None:
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
        desired = container(task, PLACED % settings)
        assert (list(desired.argv[2:]), f"{desired.env.get('RANK')} {desired.env.get('MASTER')}") == (
            argv,
            variables,
        ), task
    # A variable of the inventory that was always there keeps its meaning.
    own = PLACED.replace("    tfprov:", "    world_size: 7\n    tfprov:", 1) % "wiring: tf_config"
    assert "--world=7" in container("ps/0", own).argv


def test_variables_of_the_inventory_can_use_the_cluster_variables() -> None:
    text = PLACED % "wiring: tf_config"
    text = text.replace("    tfprov:", '    of_all: "{{ ps_hosts }}"\n    place: "r{{ rank }}"\n    tfprov:', 1)
    text = text.replace('"{{ ps_hosts }}", ', '"{{ of_all }}", ').replace('"{{ rank }}"', '"{{ place }}"')
    desired = container("worker/1", text)
    assert (desired.argv[2], desired.env["RANK"]) == ("h1:2222,h2:2222", "r1")
    with pytest.raises(InvalidInput, match=r"only a chief and workers have a `rank`, and ps/0 is neither"):
        container("ps/0", text.replace("flags: {", 'flags: {place: "{{ place }}", '))


def test_users_may_set_the_wiring_flags_if_tfprov_appends_none() -> None:
    for wiring in ("wiring: tf_config", "wiring: {flags: {job_name: --role}}", "strategy: single"):
        inventory = f"all: {{vars: {{tfprov: {{cluster: lab, {wiring}, command: [x], flags: {{job_name: mine}}}}}}}}"
        assert "--job_name=mine" in container("worker/0", f"{inventory}\nworker: {{hosts: {{h1: }}}}").argv, wiring


SECRETS = """
all:
  vars:
    ansible_become_pass: become-secret
    tfprov:
      cluster: linear
      image: {name: registry.example/tf@sha256:%s}
      command: [python, train.py]
      env: {HF_TOKEN: hf-secret, MONKEY: banana, SORT_KEY: by-name, KEY_FILE: /etc/key, SUDO: "x{{ ansible_become_pass }}"}
      public_env: [SORT_KEY]
      flags: {name: plain}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
""" % ("0" * 64)


def test_variables_are_secret_by_origin_or_name_unless_public() -> None:
    desired = container("worker/0", SECRETS)
    assert desired.secret == {"HF_TOKEN", "SUDO"}
    spec = desired.spec["env"]
    assert {name: spec[name] for name in ("MONKEY", "SORT_KEY", "KEY_FILE")} == {
        "MONKEY": "banana",
        "SORT_KEY": "by-name",
        "KEY_FILE": "/etc/key",
    }
    made = container_config(
        docker.APIClient(version="1.41"),
        desired,
        desired.docker or DockerOptions(""),
        "linear",
        "run-1",
        "",
        ["/bin/sh"],
    )
    assert not [secret for secret in ("hf-secret", "become-secret") if secret in json.dumps(made, default=str)]
    assert made["environment"]["MONKEY"] == "banana"


def test_a_container_has_the_user_and_the_read_only_file_system_of_its_settings() -> None:
    api = docker.APIClient(version="1.41")
    cases = {
        "": (None, False, None, None),
        "user: 1000, ": ("1000", False, None, "/tmp"),
        "user: 0, ": ("0", False, None, None),
        'user: "trainer:data", ': ("trainer:data", False, None, None),
        "read_only: true, ": (None, True, ["/tmp"], "/tmp"),
        'user: "7:8", read_only: true, env: {HOME: /home}, ': ("7:8", True, ["/tmp"], "/home"),
    }
    wrong = {}
    for setting, expected in cases.items():
        whole = f"cluster: linear, image: {{name: 'tf@sha256:{'0' * 64}'}}, {setting}command: [python, train.py]"
        text = f"all: {{vars: {{tfprov: {{{whole}}}}}}}\nps: {{hosts: {{h1: }}}}\nworker: {{hosts: {{h2: }}}}\n"
        desired = container("worker/0", text)
        assert desired.docker is not None
        made = container_config(api, desired, desired.docker, "linear", "run-1", "", [])
        config = made["host_config"]
        seen = (
            made.get("user"),
            config.get("ReadonlyRootfs", False),
            list(config["Tmpfs"]) if config.get("Tmpfs") else None,
            made["environment"].get("HOME"),
        )
        if seen != expected or desired.spec.get("user") != expected[0]:
            wrong[setting] = seen
    assert wrong == {}


def test_a_container_in_the_network_of_its_host_publishes_nothing() -> None:
    api, seen = docker.APIClient(version="1.41"), {}
    for setting in ("", "network: host, allow_insecure_network: true, "):
        whole = f"cluster: linear, image: {{name: 'tf@sha256:{'0' * 64}'}}, {setting}command: [python, train.py]"
        desired = container("worker/0", f"all: {{vars: {{tfprov: {{{whole}}}}}}}\nworker: {{hosts: {{h2: }}}}\n")
        assert desired.docker is not None
        made = container_config(api, desired, desired.docker, "linear", "run-1", "", [])
        host = made["host_config"]
        seen[setting[:13]] = (
            host["NetworkMode"], "PortBindings" in host and len(host["PortBindings"]), made["ports"],
            made["labels"].get("tfprov.port"), desired.spec.get("network"),
        )  # fmt: skip
    assert seen == {
        "": ("default", 1, [2222], None, None),
        "network: host": ("host", 0, [], "2222", "host"),
    }


NAMES = {
    "HF_TOKEN": True,
    "AWS_SECRET_ACCESS_KEY": True,
    "apiKey": True,
    "DB_PASSWORD": True,
    "WANDB_API_KEY": True,
    "MYSQL_PASSWD": True,
    "SSH_PASSPHRASE": True,
    "GIT_PASS": True,
    "WEATHER_APIKEY": True,
    "CLIENT_SECRET": True,
    "KEY_PATH": False,
    "TOKEN_DIR": False,
    "MONKEY": False,
    "TURKEY_COUNT": False,
    "MAX_TOKENS": False,
    "SSL_KEY_FILE": False,
    "KEYBOARD": False,
    "COMPASS": False,
}


def test_a_name_marks_a_secret_by_its_words() -> None:
    assert {name: is_secret_name(name) for name in NAMES} == NAMES


ELSEWHERE = (
    "is secret, and others on the host can read command lines; "
    "put it into `env`, or into a file on the host that `mounts` brings"
)
VARIABLE = "and others on the host can read command lines; have the program read the variable"
REFUSED = {
    'command: [python, train.py, "--pw={{ ansible_become_pass }}"]': (35, f"`command` {ELSEWHERE}"),
    'flags: {name: "{{ ansible_become_pass }}"}': (21, f"`flags.name` {ELSEWHERE}"),
    "command: [python, train.py, --token=hf-secret]": (
        35, f"`command` has the value of the secret `env.HF_TOKEN`, {VARIABLE}"
    ),
    "flags: {token: hf-secret}": (15, f"`flags.token` has the value of the secret `env.HF_TOKEN`, {VARIABLE}"),
    'memory: "{{ ansible_become_pass }}"': (
        15, (
            "`memory` is secret, and tfprov shows it in plans and labels; "
            "write it in plain; only `env` and passwords stay secret"
        )
    ),
}  # fmt: skip


def test_a_secret_on_a_command_line_is_refused_at_its_line() -> None:
    wrong = {}
    for setting, (column, what) in REFUSED.items():
        text = SECRETS.replace("flags: {name: plain}", setting)
        if setting.startswith("command"):
            text = text.replace("command: [python, train.py]", "pids: 100")
        with pytest.raises(InvalidInput) as caught:
            make_context(text)
        [problem] = caught.value.problems
        if str(problem) != f"inventory.yml:11:{column}: error: {what}":
            wrong[setting] = str(problem)
        assert not [secret for secret in ("hf-secret", "become-secret") if secret in str(caught.value)]
    assert wrong == {}


def test_hashes_with_another_controllers_key_are_no_change() -> None:
    one, other = KeyedHash(lambda: b"one"), KeyedHash(lambda: b"other")
    ours, same, changes_spec = (one.of("linear", "KEY", value) for value in ("a", "a", "b"))
    assert differences({"env": {"KEY": ours}}, {"env": {"KEY": same}}) == []
    assert differences({"env": {"KEY": ours}}, {"env": {"KEY": changes_spec}}) == ["env.KEY"]
    assert differences({"env": {"KEY": other.of("linear", "KEY", "b")}}, {"env": {"KEY": ours}}) == []
    assert differences({"env": {"KEY": "plain"}}, {"env": {"KEY": ours}}) == ["env.KEY"]
    wanted = container("worker/0", SECRETS)
    theirs = {**wanted.spec, "env": {**wanted.spec["env"], "HF_TOKEN": other.of("linear", "HF_TOKEN", "x")}}
    for spec, unknown in ((theirs, ["env.HF_TOKEN of worker/0"]), (wanted.spec, []), ({}, [])):
        seen = Observation({"h2": HostState("h2", (Observed("worker/0", "h2", State.RUNNING, spec),))})
        assert incomparable_secrets([wanted], seen) == unknown
    assert one.of("linear", "KEY", "a") not in (one.of("lab", "KEY", "a"), one.of("linear", "OTHER", "a"))


EVERYTHING = """
all:
  vars:
    tfprov:
      cluster: lab
      image: {name: "train@sha256:%s"}
      command: [python, train.py]
      wiring: {flags: {job_name: --role}}
      flags: {lr: 0.10, sync: }
      env: {DEBUG: 1}
      memory: 2g
      cpus: 1.5
      gpus: 1
      pids: 100
      user: 1000
      mounts: [{source: /srv/x, target: /x, read_only: true}]
      data: {path: /srv/digits}
      checkpoints: {dir: "s3://bucket/lab", link: out}
      restart_on: [3]
      no_restart_on: [4]
      data_service: {address: "10.0.0.20:5050"}
ps: {hosts: {h1: }, vars: {tfprov: {gpus: 0}}}
worker: {hosts: {h2: }}
tensorboard: {hosts: {h2: }}
""" % ("0" * 64)
GENERAL = {
    "runtime": "docker",
    "code": None,
    "link": "out",
    "restart_codes": {"only": [3], "never": [4]},
    "image": "name train@sha256:" + "0" * 64,
    "memory": "2g",
    "cpus": 1.5,
    "pids": 100,
    "user": "1000",
    "mounts": [{"source": "/srv/x", "target": "/x", "read_only": True}],
}
PROGRAM = {"command": ["python", "train.py"], "flags": {"lr": "0.10", "sync": None}, "env": {"DEBUG": "1"}}
WIRED = {
    "style": "flags",
    "names": {"job_name": "role"},
    "task_index": 0,
    "ps_hosts": ["h1:2222"],
    "worker_hosts": ["h2:2222"],
}
SPECS: dict[str, dict[str, Any]] = {
    "ps/0": {**PROGRAM, "wiring": {**WIRED, "job_name": "ps"}, "endpoint": "h1:2222", "bind": "h1"},
    "worker/0": {
        **PROGRAM,
        "wiring": {**WIRED, "job_name": "worker", "data_service": "grpc://10.0.0.20:5050"},
        "endpoint": "h2:2222",
        "mirror": "s3://bucket/lab",
        "data": {"path": "/srv/digits", "to": "/data"},
        "gpus": 1,
        "bind": "h2",
    },
    "tensorboard/0": {
        "command": ["tensorboard", "--logdir=/checkpoints/tensorboard/0", "--host=0.0.0.0", "--port=6006"],
        "flags": {},
        "env": {},
        "wiring": {},
        "endpoint": "127.0.0.1:6006",
        "reads": "worker/0",
        "bind": "127.0.0.1",
    },
}


def test_specs_keep_their_keys_so_that_a_new_tfprov_restarts_nothing() -> None:
    tasks = {container.task.name: container for container in make_context(EVERYTHING).wanted}
    assert {name: container.spec for name, container in tasks.items()} == {
        name: {**GENERAL, **spec} for name, spec in SPECS.items()
    }
    process = container("chief/0", IN_GRAPH).spec
    assert process == {
        "runtime": "process",
        "code": packed("./program").digest,
        "command": ["python", "train.py"],
        "flags": {},
        "env": {},
        "wiring": {
            "style": "tf_config",
            "strategy": "in_graph",
            "job_name": "chief",
            "task_index": 0,
            "ps_hosts": ["h1:2222"],
            "chief_hosts": ["h1:2223"],
            "worker_hosts": ["h2:2222"],
        },
        "endpoint": "h1:2223",
        "link": "out",
        "mirror": "s3://bucket/lab",
        "data": {"path": "/srv/digits"},
    }


IN_GRAPH = """
all:
  vars:
    tfprov:
      cluster: lab
      code: ./program
      command: [python, train.py]
      strategy: in_graph
      data: {path: /srv/digits}
      checkpoints: {dir: "s3://bucket/lab", link: " ./out/ "}
ps: {hosts: {h1: }}
chief: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""


def test_what_starts_the_program_comes_before_it_on_the_command_line() -> None:
    tasks = {container.task.name: container for container in make_context(EVERYTHING).wanted}
    gate = ("-m", "tfprov.runtime.restart_gate", "--only", "3", "--never", "4", "--")
    mirror = ("-m", "tfprov.runtime.mirror.task")
    assert tasks["worker/0"].argv[:12] == ("python", *gate, "python", *mirror, "--")
    assert tasks["ps/0"].argv[:10] == ("python", *gate, "python", "train.py")
    assert tasks["tensorboard/0"].argv[:9] == ("python3", *gate, "tensorboard")
    chief = container("chief/0", IN_GRAPH)
    assert chief.argv == ("python", *mirror, "--group", "--", "python", "train.py")
    assert (chief.remote, chief.link) == ("s3://bucket/lab", ("out", "/checkpoints/chief/0"))
    assert chief.env["TFPROV_CHECKPOINT_URL"] == "s3://bucket/lab"
    worker = container("worker/0", IN_GRAPH)
    assert (worker.argv, worker.remote, worker.link) == (("python", "train.py"), None, ("out", "/checkpoints/chief/0"))
    assert "TFPROV_CHECKPOINT_URL" not in worker.env


PLAIN_IMAGE = (
    "all: {vars: {tfprov: {cluster: lab, image: {name: 'train@sha256:%s'}, MORE command: [python, train.py]}}}\n"
)


def test_a_container_has_the_limits_of_its_settings_and_no_others() -> None:
    def options(more: str) -> DockerOptions:
        text = PLAIN_IMAGE.replace("MORE", more) % ("0" * 64) + "worker: {hosts: {h2: }}\n"
        docker = container("worker/0", text).docker
        assert docker is not None
        return docker

    plain = options("")
    assert plain == DockerOptions(image=plain.image, address="h2")
    of_host = options("devices: [/dev/kfd, /dev/dri], ulimits: {memlock: -1, stack: 8},")
    devices, ulimits = ("/dev/kfd", "/dev/dri"), {"memlock": -1, "stack": 8}
    assert of_host == replace(plain, image=of_host.image, devices=devices, ulimits=ulimits)
    limited = options("memory: 1g, shm_size: 2g, cpus: 2, pids: 64, gpus: all,")
    assert limited == replace(plain, image=limited.image, memory=2**30, shm_size=2**31, cpus=2.0, pids=64, gpus=-1)
