"""`tfprov import`, line by line: other tools' units, forms that few files use, and what is told of the rest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfprov.errors import InvalidInput, Position
from tfprov.importing.convert import imported
from tfprov.importing.identify import Notes, Setting, SourceText
from tfprov.importing.tracked_mapping import cpus, docker_memory, kubernetes_memory, quantity, seconds

AT = Position("f.yml", 3, 5)
TASK = "--task_index=0 --ps_hosts=p0:2222 --worker_hosts=w0:2222"


def of(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return what a file becomes, and what is told of the rest."""
    found = imported(text.encode(), "f.yml", Path("/home/me"))
    return yaml.safe_load(found.text)["all"], [str(note) for note in found.notes]


def read(function: Callable[[SourceText, Notes], Setting | None], text: str) -> tuple[object, list[str]]:
    notes = Notes()
    found = function(SourceText(text, AT), notes)
    assert found is None or found.at == AT
    return found.value if found else None, [note.what for note in notes.all()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5), ("2", 2), ("1.5", 1.5), ("3k", 3000), ("3Ki", 3072), ("2M", 2e6), ("2Mi", 2 << 20),
        ("1G", 1e9), ("1Gi", 1 << 30), ("1T", 1e12), ("1Ti", 1 << 40), ("1Pi", 1 << 50), ("1Ei", 1 << 60),
    ],
)  # fmt: skip
def test_a_quantity_of_kubernetes(text: str, value: float) -> None:
    assert quantity(SourceText(text, AT)) == value


@pytest.mark.parametrize("text", ["", "1g", "-1", "1e3", "1.Gi", "Gi", "1 Gi"])
def test_what_is_no_quantity(text: str) -> None:
    assert quantity(SourceText(text, AT)) is None
    assert read(cpus, text) == (None, [f"`{text}` is not carried over: it is no number of CPUs"])


@pytest.mark.parametrize(
    ("function", "text", "value"),
    [
        (kubernetes_memory, "4Gi", "4g"), (kubernetes_memory, "1536Mi", "1536m"), (kubernetes_memory, "3Ki", "3k"),
        (kubernetes_memory, "1000", "1000b"), (kubernetes_memory, "0", "0b"),
        (docker_memory, "1.5g", "1536m"), (docker_memory, "512M", "512m"), (docker_memory, "2kb", "2k"),
        (docker_memory, "2 GiB", "2g"), (docker_memory, "1t", "1024g"), (docker_memory, "77", "77b"),
        (docker_memory, "77b", "77b"), (cpus, "2", 2), (cpus, "1.5", 1.5), (cpus, "250m", 0.25),
        (seconds, "90", 90), (seconds, "1m30s", 90), (seconds, "2h", 7200), (seconds, "1h1m1s", 3661),
        (seconds, "5.5s", 5), (seconds, "12345678", 12345678),
    ],
)  # fmt: skip
def test_an_amount_in_other_words(
    function: Callable[[SourceText, Notes], Setting | None], text: str, value: object
) -> None:
    assert read(function, text) == (value, [])


@pytest.mark.parametrize(
    ("function", "text", "why"),
    [
        (docker_memory, "much", "it is no amount of memory"),
        (kubernetes_memory, "much", "it is no amount of memory"),
        (seconds, "", "it is no time in whole seconds"),
        (seconds, "soon", "it is no time in whole seconds"),
        (seconds, "123456789", "it is no time in whole seconds"),
    ],
)
def test_what_is_no_amount(function: Callable[[SourceText, Notes], Setting | None], text: str, why: str) -> None:
    assert read(function, text) == (None, [f"`{text}` is not carried over: {why}"])


COMPOSE = f"""\
services:
  w0:
    build: ./train
    command: python x.py --job_name=worker {TASK} --a=$$x --b=${{UNSET}} --c=${{D:-5}}
    environment: ["A=1", "B", "C=${{X}}", "D=${{Y-7}}"]
    deploy:
      placement: {{constraints: ["node.hostname == gpu1", "node.role==manager", "node.labels.x == 1"]}}
      resources: {{limits: {{memory: 1.5g, cpus: "1.5", pids: 80}}}}
    gpus: all
    volumes:
      - "/srv/d:/data:ro"
      - "./e:/e:z"
      - "named:/x"
      - "/only"
      - {{type: bind, source: /srv/f, target: /f, read_only: true}}
      - {{type: bind, source: /srv/g, target: /g}}
      - {{type: volume, source: named, target: /h}}
      - {{type: bind, source: /srv/i}}
  p0:
    build: {{context: ./ps, dockerfile: D, args: {{A: 1}}}}
    command: python x.py --job_name=ps {TASK}
    gpus: [{{count: 2}}]
"""


def test_compose_in_forms_that_few_files_use() -> None:
    found, told = of(COMPOSE)
    tfprov = found["vars"]["tfprov"]
    assert tfprov["image"] == {"build": "/home/me/train"}
    assert found["children"]["worker"]["vars"]["tfprov"] == {
        "flags": {"a": "$x", "b": "", "c": 5},
        "env": {"A": "1", "D": "7"},
        "mounts": [
            {"source": "/srv/d", "target": "/data", "read_only": True},
            {"source": "/home/me/e", "target": "/e", "read_only": False},
            {"source": "/srv/f", "target": "/f", "read_only": True},
            {"source": "/srv/g", "target": "/g", "read_only": False},
        ],
        "gpus": "all",
        "memory": "1536m",
        "cpus": 1.5,
        "pids": 80,
    }
    assert told == [
        "f.yml:4:14: `$UNSET` is not carried over: it comes from the environment of Compose",
        "f.yml:5:26: `services.w0.environment.B` is not carried over: it comes from the environment of Compose",
        "f.yml:5:31: `services.w0.environment.C` is not carried over: it comes from the environment of Compose",
        "f.yml:7:80: `node.labels.x == 1` is not carried over: say which hosts are in which group",
        "f.yml:13:9: the storage at /x is not carried over: mount a directory of the host, with `mounts`",
        "f.yml:14:9: the storage at /only is not carried over: mount a directory of the host, with `mounts`",
        "f.yml:17:47: the storage at /h is not carried over: mount a directory of the host, with `mounts`",
        "f.yml:20:12: this image is not carried over: all tasks of a cluster have one",
        "f.yml:20:49: `services.p0.build.args` is not carried over: write them as `image.build_args`",
        "f.yml:22:20: gpus: 2 is not carried over: a ps does not use a GPU",
        "ps: the machines of some tasks are not carried over: all are on this one",
    ]


@pytest.mark.parametrize(
    ("said", "image"),
    [
        ("image: x:1", {"name": "x:1"}),
        ('image: "${NONE:-x}:2"', {"name": "x:2"}),
        ("build: sub", {"build": "/home/me/sub"}),
        ("build: {context: sub}", {"build": "/home/me/sub"}),
        ("build: {dockerfile: D}", {"build": "/home/me", "dockerfile": "D"}),
        ("build: {}", {"build": "/home/me"}),
    ],
)
def test_the_image_of_a_service(said: str, image: dict[str, str]) -> None:
    found, _ = of(
        f"services: {{w0: {{{said}, command: python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1}}}}"
    )
    assert found["vars"]["tfprov"]["image"] == image


@pytest.mark.parametrize(
    ("said", "gpus", "told"),
    [
        ("all", "all", []),
        ("-1", "all", []),
        ("2", 2, []),
        ("some", None, ["f.yml:1:33: `some` is not carried over: it is no number of GPUs"]),
        ("12345", None, ["f.yml:1:33: `12345` is not carried over: it is no number of GPUs"]),
        ("[{driver: nvidia, count: 3, capabilities: [gpu]}]", 3, []),
        ("[{capabilities: [gpu]}]", "all", []),
    ],
)
def test_the_gpus_of_a_service(said: str, gpus: object, told: list[str]) -> None:
    command = "python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1"
    found, notes = of(f"services: {{w0: {{image: x, gpus: {said}, command: {command}}}}}")
    alone = of(f"services: {{w0: {{image: x, command: {command}}}}}")[1]
    assert (found["vars"]["tfprov"].get("gpus"), [note for note in notes if note not in alone]) == (gpus, told)


def test_a_quote_that_is_not_closed_keeps_a_service_from_being_imported() -> None:
    with pytest.raises(InvalidInput, match=r"`services.w0.command`: no closing quotation; close the quote"):
        of('services: {w0: {image: x, command: "python \'x.py"}}')


TFJOB = """\
apiVersion: v1
kind: Secret
metadata: {name: s}
---
apiVersion: v1
kind: Gateway
metadata: {name: g}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: j}
spec:
  tfReplicaSpecs:
    Odd: {replicas: 1, template: {spec: {containers: [{image: x, command: [a]}]}}}
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          nodeSelector: {kubernetes.io/hostname: gpu7, zone: z}
          containers:
            - name: tensorflow
              image: "x:1"
              command: [python, x.py]
              resources: {limits: {memory: 4Gi, cpu: 500m, nvidia.com/gpu: 1}}
"""


def test_kubernetes_objects_that_are_no_tasks_are_told() -> None:
    found, told = of(TFJOB)
    assert found == {
        "vars": {
            "tfprov": {
                "cluster": "j",
                "image": {"name": "x:1"},
                "wiring": "tf_config",
                "command": ["python", "x.py"],
                "memory": "4g",
                "cpus": 0.5,
                "gpus": 1,
            }
        },
        "children": {"worker": {"hosts": {"localhost": None}, "vars": {"tfprov": {"tasks_per_host": 2}}}},
    }
    secret = "secrets are not copied; put what is needed into `env`, encrypted with ansible-vault"
    assert told == [
        f"f.yml:1:1: the Secret `s` is not carried over: {secret}",
        "f.yml:5:1: the Gateway `g` is not carried over: it runs no task",
        "f.yml:14:5: the replicas `Odd` are not carried over: no role is like it",
        "f.yml:20:62: `nodeSelector.zone` is not carried over: say which hosts are in which group",
    ]


@pytest.mark.parametrize(
    ("said", "restart"),
    [
        ("restart: 'no'", "never"), ("restart: always", None), ("restart: unless-stopped", None),
        ("restart: on-failure", None), ("restart: 'on-failure:5'", None),
        ("deploy: {restart_policy: {condition: none}}", "never"),
        ("deploy: {restart_policy: {condition: any}}", None),
    ],
)  # fmt: skip
def test_what_becomes_of_a_restart_policy(said: str, restart: str | None) -> None:
    command = "python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1"
    found, told = of(f"services: {{w0: {{image: x, {said}, command: {command}}}}}")
    assert found["vars"]["tfprov"].get("restart") == restart
    assert not any("restart" in note for note in told)


OF_A_PS = "image: x, command: python x.py --job_name=ps --task_index=0 --worker_hosts=w0:1 --ps_hosts=p:1"
SERVICE = "image: x, command: python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1"


@pytest.mark.parametrize(
    "key",
    [
        "container_name", "hostname", "init", "networks", "network_mode", "depends_on", "links", "expose", "labels",
        "stdin_open", "tty", "cap_drop", "security_opt", "logging", "platform", "pull_policy", "working_dir",
    ],
)  # fmt: skip
def test_what_a_service_needs_in_compose_only_is_left_out_without_a_word(key: str) -> None:
    assert of(f"services: {{w0: {{{SERVICE}, {key}: x}}}}") == of(f"services: {{w0: {{{SERVICE}}}}}")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("secrets", "secrets are not copied; put what is needed into `env`, encrypted with ansible-vault"),
        ("env_file", "that file is not read; put what is needed into `env`"),
        ("ports", "tfprov publishes a task's own port, on the address of its host"),
        ("healthcheck", "tfprov looks whether a task answers on its port"),
        ("privileged", "tfprov's containers have no privileges"),
        ("cap_add", "tfprov's containers have no capabilities"),
        ("user", "tfprov's containers have the user of their image"),
        ("extends", "that file is not read"),
        ("configs", "mount a directory of the host, or put it into `code`"),
        ("devices", "tfprov gives GPUs only, with `gpus`"),
        ("profiles", "all services are imported"),
        ("sysctls", "an inventory has no word for it"),
    ],
)
def test_what_a_service_cannot_bring_along_is_told_with_the_reason(key: str, why: str) -> None:
    found, told = of(f"services: {{w0: {{{key}: x, {SERVICE}}}}}")
    assert found == of(f"services: {{w0: {{{SERVICE}}}}}")[0]
    said = f"`services.w0.{key}` is not carried over: {why}"
    assert [note.partition(": ")[2] for note in told if f"w0.{key}`" in note] == [said]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("version: '3'", []), ("networks: {}", []), ("volumes: {}", []), ("x-more: {}", []),
        ("include: [x]", ["`include` is not carried over: that file is not read"]),
        ("configs: {}", ["`configs` is not carried over: mount a directory of the host, or put it into `code`"]),
        ("models: {}", ["`models` is not carried over: an inventory has no word for it"]),
    ],
)  # fmt: skip
def test_what_stands_beside_the_services_of_compose(key: str, told: list[str]) -> None:
    alone = of(f"services: {{w0: {{{SERVICE}}}}}")
    found, notes = of(f"{{services: {{w0: {{{SERVICE}}}}}, {key}}}")
    assert found == alone[0]
    assert [note.partition(": ")[2] for note in notes if note not in alone[1]] == told


POD = """\
apiVersion: batch/v1
kind: Job
metadata: {name: w, labels: {job: worker}}
spec:%s
  template:
    spec:%s
      containers:
        - image: "x:1"
          command: [python, x.py, --job_name=worker, --task_index=0, "--worker_hosts=w:1"]%s
"""


@pytest.mark.parametrize(
    ("depth", "keys"),
    [
        (0, ("selector", "serviceName", "minReadySeconds", "backoffLimit", "strategy", "updateStrategy")),
        (0, ("podManagementPolicy", "completionMode", "manualSelector", "revisionHistoryLimit", "suspend")),
        (1, ("enableServiceLinks", "automountServiceAccountToken", "securityContext")),
        (1, ("hostname", "subdomain", "schedulerName", "dnsPolicy")),
        (2, ("name", "imagePullPolicy", "ports", "securityContext", "workingDir", "terminationMessagePolicy")),
    ],
)
def test_what_a_pod_needs_on_kubernetes_only_is_left_out_without_a_word(depth: int, keys: tuple[str, ...]) -> None:
    pad = "\n" + ("  ", "      ", "          ")[depth]
    said = "".join(f"{pad}{key}: x" for key in keys)
    assert of(POD % tuple(said if at == depth else "" for at in range(3))) == of(POD % ("", "", ""))


ON_ITS_PORT = "tfprov looks whether a task answers on its port"


@pytest.mark.parametrize(
    ("depth", "key", "told"),
    [
        (0, "ttl", "`spec.ttl` is not carried over: an inventory has no word for it"),
        (
            1,
            "imagePullSecrets",
            (
                "`spec.template.spec.imagePullSecrets` is not carried over: log in to the registry on the hosts, "
                "or let tfprov deliver the image"
            ),
        ),
        (2, "envFrom", "`containers[].envFrom` is not carried over: put what is needed into `env`"),
        (2, "readinessProbe", f"`containers[].readinessProbe` is not carried over: {ON_ITS_PORT}"),
        (2, "livenessProbe", f"`containers[].livenessProbe` is not carried over: {ON_ITS_PORT}"),
        (2, "startupProbe", f"`containers[].startupProbe` is not carried over: {ON_ITS_PORT}"),
    ],
)
def test_what_a_pod_cannot_bring_along_is_told_with_the_reason(depth: int, key: str, told: str) -> None:
    said = "\n" + ("  ", "      ", "          ")[depth] + f"{key}: x"
    found, notes = of(POD % tuple(said if at == depth else "" for at in range(3)))
    alone = of(POD % ("", "", ""))
    assert found == alone[0]
    assert [note.partition(": ")[2] for note in notes if note not in alone[1]] == [told]


def test_a_pod_says_its_task_and_its_node_and_what_it_has_besides() -> None:
    spec = "\n      nodeName: gpu3\n      terminationGracePeriodSeconds: 40\n      initContainers: [{image: y}]"
    env = "\n          env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}, {name: B, value: $(A)-$(C)-$$}]"
    found, told = of(POD % ("", spec, env))
    assert found["vars"]["tfprov"]["stop_grace"] == 40
    assert found["vars"]["tfprov"]["env"] == {"B": "$(A)-$(C)-$"}
    assert list(found["children"]["worker"]["hosts"]) == ["gpu3"]
    secret = "secrets are not copied; put what is needed into `env`, encrypted with ansible-vault"
    notes = [note.partition(": ")[2] for note in told]
    for said in (
        "a further container is not carried over: a task is one",
        f"`env.A` is not carried over: its value is not in the file: {secret}",
        "`$(A)` stays as it is: its value is not in the file",
        "`$(C)` stays as it is: its value is not in the file",
    ):
        assert said in notes


@pytest.mark.parametrize(
    "deploy",
    [
        "mode: x", "endpoint_mode: x", "update_config: x", "rollback_config: x", "labels: x",
        "restart_policy: {delay: 5s, window: 5s}", "placement: {constraints: ['node.role == manager']}",
    ],
)  # fmt: skip
def test_what_only_a_swarm_needs_of_a_service_is_left_out_without_a_word(deploy: str) -> None:
    assert of(f"services: {{w0: {{{SERVICE}, deploy: {{{deploy}}}}}}}") == of(f"services: {{w0: {{{SERVICE}}}}}")


@pytest.mark.parametrize(
    ("said", "setting", "value"),
    [
        ("deploy: {resources: {reservations: {devices: [{driver: x, count: 2, capabilities: [gpu]}]}}}", "gpus", 2),
        (("deploy: {resources: {reservations: {generic_resources: "
         "[{discrete_resource_spec: {kind: GPU, value: 3}}]}}}"), "gpus", 3),
        ("deploy: {resources: {limits: {memory: 2g}}}", "memory", "2g"),
        ("deploy: {resources: {limits: {cpus: 1.5}}}", "cpus", 1.5),
        ("deploy: {resources: {limits: {pids: 80}}}", "pids", 80),
        ("deploy: {restart_policy: {condition: on-failure, max_attempts: 7}}", "max_restarts", 7),
        ("restart: 'on-failure:1000'", "max_restarts", 1000),
        ("restart: 'on-failure:1001'", "max_restarts", None),
        ("restart: 'on-failure:0'", "max_restarts", None),
        ("mem_limit: 2g", "memory", "2g"), ("cpus: 1.5", "cpus", 1.5), ("stop_grace_period: 1m", "stop_grace", 60),
        ("pids_limit: 70", "pids", 70), ("gpus: 1024", "gpus", 1024),
    ],
)  # fmt: skip
def test_where_a_limit_of_a_service_is_said(said: str, setting: str, value: object) -> None:
    found, told = of(f"services: {{w0: {{{SERVICE}, {said}}}}}")
    assert found["vars"]["tfprov"].get(setting) == value
    assert told == of(f"services: {{w0: {{{SERVICE}}}}}")[1]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("restart: always", "`always` becomes `on-failure`: what ended well is not started again"),
        ("restart: unless-stopped", "`unless-stopped` becomes `on-failure`: what ended well is not started again"),
        ("restart: sometimes", "`sometimes` is not carried over: an inventory has no word for it"),
        ("deploy: {restart_policy: {condition: any}}",
         "`always` becomes `on-failure`: what ended well is not started again"),
        ("deploy: {placement: {constraints: ['node.hostname != a']}}",
         "`node.hostname != a` is not carried over: say which hosts are in which group"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_service_otherwise_is_told(said: str, told: str) -> None:
    alone = of(f"services: {{w0: {{{SERVICE}}}}}")[1]
    notes = of(f"services: {{w0: {{{SERVICE}, {said}}}}}")[1]
    assert [note.partition(": ")[2] for note in notes if note not in alone] == [told]


GIVE = "give the file as its engine takes it"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1", "1:1: error: neither a Compose file nor an object of Kubernetes; give one of these, or a TFJob"),
        ("services: {}", " error: no task of a TensorFlow cluster in it; give a file whose tasks are told who they are"),
        ("services: {w0: 1}", f"1:16: error: `services.w0` must be a mapping; {GIVE}"),
        ("services: 1", f"1:11: error: `services` must be a mapping; {GIVE}"),
        (f"services: {{w0: {{{SERVICE.partition(', ')[2]}}}}}", f"1:12: error: no image; {GIVE}"),
        (
            f"services: {{w0: {{{SERVICE.replace('python x.py ', '')}}}}}",
            "1:12: error: `w0` has no command, and runs its image's own; write it there",
        ),
        (
            f"services:\n  w0: {{{SERVICE}}}\n  w1: {{{SERVICE}}}",
            "3:3: error: worker/0 a second time (first on line 2); keep one of them",
        ),
        (
            f"services: {{w0: {{{SERVICE.replace('index=0', 'index=x')}}}}}",
            "1:12: error: `w0`: --task_index must be a whole number, not 'x'; correct its flags",
        ),
        (f"services: {{w0: {{{SERVICE}, pids_limit: many}}}}",
         "1:114: error: `services.w0.pids_limit` must be a whole number; write one, such as 1"),
        (f"services: {{w0: {{{SERVICE}, pids_limit: 1234567890}}}}",
         "1:114: error: `services.w0.pids_limit` must be a whole number; write one, such as 1"),
        (f"services: {{w0: {{{SERVICE}, mem_limit: [1]}}}}",
         "1:113: error: `services.w0.mem_limit` must be a single value; write one"),
        (f"services: {{w0: {{{SERVICE}, volumes: {{a: b}}}}}}",
         "1:111: error: `services.w0.volumes` must be a list; write one item per line, with dashes"),
        (f"services: {{w0: {{{SERVICE}, deploy: 1}}}}",
         f"1:110: error: `services.w0.deploy` must be a mapping; {GIVE}"),
        ("{% if a %}\nservices: {\n", "1:1: error: a template, not what it renders; render it first"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: w}\nspec: {}", f"1:1: error: `w` has no container; {GIVE}"),
    ],
)  # fmt: skip
def test_what_keeps_a_file_from_being_imported_is_told_with_what_to_do(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        of(text)
    assert [str(problem) for problem in raised.value.problems] == [f"f.yml:{told}"]


SECRET_FIX = "add it to `env` as `ansible-vault encrypt_string` prints it"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            f"services: {{w0: {{{SERVICE}, environment: {{API_KEY: x, KEYS: /etc/keys, MY_TOKEN: ''}}}}}}",
            [f"f.yml:1:116: `env.API_KEY` looks like a secret and is not copied: {SECRET_FIX}"],
        ),
        (
            f"services: {{w0: {{{SERVICE}, environment: {{URL: 'http://me:pw@h'}}}}}}",
            [f"f.yml:1:116: `env.URL` looks like a secret and is not copied: {SECRET_FIX}"],
        ),
        (
            f"services: {{w0: {{{SERVICE}, stop_grace_period: 12345678}}}}",
            ["f.yml:1:121: stop_grace: 12345678 is not carried over: `stop_grace` must be at most 86400, not 12345678"],
        ),
        (
            f"services: {{other: {{image: y}}, w0: {{{SERVICE}}}}}",
            ["f.yml:1:12: `other` is not carried over: neither its command line nor TF_CONFIG says that it is a task"],
        ),
        (
            f"services: {{w0: {{{SERVICE}}}, tensorboard: {{image: tb, command: tensorboard --logdir=/x}}}}",
            ["f.yml:1:124: this image is not carried over: all tasks of a cluster have one"],
        ),
        (
            f"services: {{w0: {{{SERVICE}}}, worker: {{image: x, command: a}}, p: {{{OF_A_PS}}}}}",
            ["f.yml:1:131: worker/0 has another `command` than the first worker, whose own counts for all"],
        ),
    ],
)
def test_what_of_a_file_is_not_carried_over_is_told(text: str, told: list[str]) -> None:
    assert of(text)[1] == told


def test_what_tfprovs_own_files_say_of_code_data_and_its_own_programs_comes_back() -> None:
    env = "TFPROV_TASK: worker/0, TFPROV_CLUSTER: lab, TFPROV_DATA_DIR: /data, TFPROV_CHECKPOINT_DIR: /c"
    volumes = "['/srv/code:/code:ro', '/srv/digits:/data/:ro', '/srv/c:/c', '/srv/x:/x']"
    serves = (
        "image: x, command: python -m tfprov.runtime.data_service --port=1, environment: {TFPROV_TASK: dispatcher/0}"
    )
    found, told = of(
        f"services:\n  w0: {{{SERVICE}, environment: {{{env}}}, volumes: {volumes}}}\n  d0: {{{serves}}}\n"
        "  dw: {image: x, command: python serve.py, environment: {TFPROV_TASK: data_worker/0}}\n"
    )
    worker = found["children"]["worker"]["vars"]["tfprov"]
    assert {name: worker[name] for name in ("code", "data", "mounts", "checkpoints")} == {
        "code": "/srv/code",
        "data": {"path": "/srv/digits", "to": "/data"},
        "mounts": [{"source": "/srv/x", "target": "/x", "read_only": False}],
        "checkpoints": {"dir": "/c"},
    }
    assert "command" not in found["children"]["dispatcher"].get("vars", {}).get("tfprov", {})
    assert found["children"]["data_worker"]["vars"]["tfprov"]["command"] == ["python", "serve.py"]
    assert told == []
