"""`tfprov import`, key by key: units of other tools, rare forms, and the note for each dropped key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fast_yaml import read_yaml
from tests.support.kubernetes_objects import files_of
from tfprov.errors import InvalidInput, Position
from tfprov.importing.convert import convert
from tfprov.importing.emit import TargetHost
from tfprov.importing.identify import Notes, Setting, SourceText
from tfprov.importing.tracked_mapping import cpus, docker_memory, kubernetes_memory, quantity, seconds

AT = Position("f.yml", 3, 5)
TASK = "--task_index=0 --ps_hosts=p0:2222 --worker_hosts=w0:2222"


def convert_text(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the inventory of a file, and the notes."""
    conversion = convert(text.encode(), "f.yml", Path("/home/me"))
    return read_yaml(conversion.text)["all"], [str(note) for note in conversion.notes]


def convert_value(function: Callable[[SourceText, Notes], Setting | None], text: str) -> tuple[object, list[str]]:
    notes = Notes()
    setting = function(SourceText(text, AT), notes)
    assert setting is None or setting.at == AT
    return setting.value if setting else None, [note.what for note in notes.all()]


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
def test_an_invalid_quantity_is_dropped(text: str) -> None:
    assert quantity(SourceText(text, AT)) is None
    assert convert_value(cpus, text) == (None, [f"`{text}` is not carried over: not a number of CPUs"])


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
def test_amounts_are_converted_to_the_inventorys_units(
    function: Callable[[SourceText, Notes], Setting | None], text: str, value: object
) -> None:
    assert convert_value(function, text) == (value, [])


@pytest.mark.parametrize(
    ("function", "text", "why"),
    [
        (docker_memory, "much", "not an amount of memory"),
        (kubernetes_memory, "much", "not an amount of memory"),
        (seconds, "", "not a duration in whole seconds"),
        (seconds, "soon", "not a duration in whole seconds"),
        (seconds, "123456789", "not a duration in whole seconds"),
    ],
)
def test_an_invalid_amount_is_dropped(
    function: Callable[[SourceText, Notes], Setting | None], text: str, why: str
) -> None:
    assert convert_value(function, text) == (None, [f"`{text}` is not carried over: {why}"])


COMPOSE = f"""\
services:
  w0:
    build: ./train
    command: python x.py --job_name=worker {TASK} --a=$$x --b=${{UNSET}} --c=${{D:-5}}
    environment: ["A=1", "B", "C=${{X}}", "D=${{Y-7}}", "E=${{Y-${{X}}}}"]
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


def test_rare_forms_of_compose() -> None:
    inventory, notes = convert_text(COMPOSE)
    tfprov = inventory["vars"]["tfprov"]
    assert tfprov["image"] == {"build": "/home/me/train"}
    assert inventory["children"]["worker"]["vars"]["tfprov"] == {
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
    assert notes == [
        "f.yml:4:14: `$UNSET` is not carried over: it comes from the environment of Compose",
        "f.yml:5:26: `services.w0.environment.B` is not carried over: it comes from the environment of Compose",
        "f.yml:5:31: `services.w0.environment.C` is not carried over: it comes from the environment of Compose",
        "f.yml:5:53: `services.w0.environment.E` is not carried over: it comes from the environment of Compose",
        "f.yml:7:33: the hosts of some tasks are not carried over: all tasks are on this machine",
        "f.yml:7:80: `node.labels.x == 1` is not carried over: put the hosts into groups of the inventory",
        "f.yml:13:9: the storage at /x is not carried over: mount a directory of the host, with `mounts`",
        "f.yml:14:9: the storage at /only is not carried over: mount a directory of the host, with `mounts`",
        "f.yml:17:47: the storage at /h is not carried over: mount a directory of the host, with `mounts`",
        "f.yml:20:12: this image is not carried over: all tasks of a cluster use the same image",
        "f.yml:20:49: `services.p0.build.args` is not carried over: write them as `image.build_args`",
        "f.yml:22:20: gpus: 2 is not carried over: a ps does not use a GPU",
    ]


@pytest.mark.parametrize(
    ("yaml_text", "image"),
    [
        ("image: x:1", {"name": "x:1"}),
        ('image: "${NONE:-x}:2"', {"name": "x:2"}),
        ('image: "${NONE:-${OTHER-x}}:${ALSO:-${V}3}"', {"name": "x:3"}),
        ("build: sub", {"build": "/home/me/sub"}),
        ("build: {context: sub}", {"build": "/home/me/sub"}),
        ("build: {dockerfile: D}", {"build": "/home/me", "dockerfile": "D"}),
        ("build: {}", {"build": "/home/me"}),
    ],
)
def test_the_image_of_a_service(yaml_text: str, image: dict[str, str]) -> None:
    inventory, _ = convert_text(
        f"services: {{w0: {{{yaml_text}, command: python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1}}}}"
    )
    assert inventory["vars"]["tfprov"]["image"] == image


@pytest.mark.parametrize(
    ("yaml_text", "gpus", "expected"),
    [
        ("all", "all", []),
        ("-1", "all", []),
        ("2", 2, []),
        ("some", None, ["f.yml:1:33: `some` is not carried over: not a number of GPUs"]),
        ("12345", None, ["f.yml:1:33: `12345` is not carried over: not a number of GPUs"]),
        ("[{driver: nvidia, count: 3, capabilities: [gpu]}]", 3, []),
        ("[{capabilities: [gpu]}]", "all", []),
    ],
)
def test_the_gpus_of_a_service(yaml_text: str, gpus: object, expected: list[str]) -> None:
    command = "python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1"
    inventory, notes = convert_text(f"services: {{w0: {{image: x, gpus: {yaml_text}, command: {command}}}}}")
    alone = convert_text(f"services: {{w0: {{image: x, command: {command}}}}}")[1]
    assert (inventory["vars"]["tfprov"].get("gpus"), [note for note in notes if note not in alone]) == (gpus, expected)


def test_an_unclosed_quote_in_a_command_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"^f.yml:1:36: error: `services.w0.command`: no closing quotation; close the quote$"
    ):
        convert_text('services: {w0: {image: x, command: "python \'x.py"}}')


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


def test_kubernetes_objects_without_a_task_are_noted() -> None:
    inventory, notes = convert_text(TFJOB)
    assert inventory == {
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
    secret = "secrets are not copied; put the values into `env`, encrypted with ansible-vault"
    assert notes == [
        f"f.yml:1:1: the Secret `s` is not carried over: {secret}",
        "f.yml:5:1: the Gateway `g` is not carried over: it runs no task",
        "f.yml:14:5: the replicas `Odd` are not carried over: tfprov has no such role",
        "f.yml:20:50: the hosts of some tasks are not carried over: all tasks are on this machine",
        "f.yml:20:62: `nodeSelector.zone` is not carried over: put the hosts into groups of the inventory",
    ]


@pytest.mark.parametrize(
    ("yaml_text", "restart"),
    [
        ("restart: 'no'", "never"), ("restart: never", "never"),
        ("restart: always", None), ("restart: unless-stopped", None),
        ("restart: on-failure", None), ("restart: 'on-failure:5'", None),
        ("deploy: {restart_policy: {condition: none}}", "never"),
        ("deploy: {restart_policy: {condition: any}}", None),
    ],
)  # fmt: skip
def test_restart_policies_of_a_service(yaml_text: str, restart: str | None) -> None:
    command = "python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1"
    inventory, notes = convert_text(f"services: {{w0: {{image: x, {yaml_text}, command: {command}}}}}")
    assert inventory["vars"]["tfprov"].get("restart") == restart
    assert not any("restart" in note for note in notes)


OF_A_PS = "image: x, command: python x.py --job_name=ps --task_index=0 --worker_hosts=w0:1 --ps_hosts=p:1"
SERVICE = "image: x, command: python x.py --job_name=worker --task_index=0 --worker_hosts=w0:1"


IN_HOST_NETWORK = "a task's own port is published; `network: host` is for libraries that open further ports"
IN_ITS_DIRECTORY = (
    "a task starts in the directory of its image, or in `code`: write whole paths in `command`, or set `code`"
)


@pytest.mark.parametrize(
    "key",
    [
        "container_name", "hostname", "init", "networks", "depends_on", "links", "expose", "labels",
        "stdin_open", "tty", "cap_drop", "security_opt", "logging", "platform", "pull_policy",
    ],
)  # fmt: skip
def test_keys_that_only_compose_needs_are_ignored(key: str) -> None:
    assert convert_text(f"services: {{w0: {{{SERVICE}, {key}: x}}}}") == convert_text(
        f"services: {{w0: {{{SERVICE}}}}}"
    )


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("secrets", "secrets are not copied; put the values into `env`, encrypted with ansible-vault"),
        ("env_file", "name it as `env_file`, in which quotes and `$` mean nothing"),
        ("ports", "tfprov publishes a task's own port, on the address of its host"),
        ("healthcheck", "tfprov checks the task's port itself"),
        ("privileged", "tfprov's containers have no privileges"),
        ("cap_add", "tfprov's containers have no capabilities"),
        ("working_dir", IN_ITS_DIRECTORY),
        ("network_mode", IN_HOST_NETWORK),
        ("extends", "tfprov does not read that file"),
        ("configs", "mount a directory of the host, or put it into `code`"),
        ("profiles", "all services are imported"),
        ("sysctls", "an inventory has no such setting"),
    ],
)
def test_dropped_keys_of_a_service_are_noted_with_the_reason(key: str, why: str) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{key}: x, {SERVICE}}}}}")
    assert inventory == convert_text(f"services: {{w0: {{{SERVICE}}}}}")[0]
    expected = f"`services.w0.{key}` is not carried over: {why}"
    assert [note.partition(": ")[2] for note in notes if f"w0.{key}`" in note] == [expected]


def test_the_directory_of_a_service_that_tfprov_has_rendered_is_not_noted() -> None:
    _, notes = convert_text(f"services: {{w0: {{working_dir: /code, environment: {{TFPROV_TASK: w0}}, {SERVICE}}}}}")
    assert not any("working_dir" in note for note in notes)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("version: '3'", []), ("networks: {}", []), ("volumes: {}", []), ("x-more: {}", []),
        ("include: [x]", ["`include` is not carried over: tfprov does not read that file"]),
        ("configs: {}", ["`configs` is not carried over: mount a directory of the host, or put it into `code`"]),
        ("models: {}", ["`models` is not carried over: an inventory has no such setting"]),
    ],
)  # fmt: skip
def test_top_level_keys_of_compose(key: str, expected: list[str]) -> None:
    alone = convert_text(f"services: {{w0: {{{SERVICE}}}}}")
    inventory, notes = convert_text(f"{{services: {{w0: {{{SERVICE}}}}}, {key}}}")
    assert inventory == alone[0]
    assert [note.partition(": ")[2] for note in notes if note not in alone[1]] == expected


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
        (1, ("enableServiceLinks", "automountServiceAccountToken")),
        (1, ("hostname", "subdomain", "schedulerName", "dnsPolicy")),
        (2, ("name", "imagePullPolicy", "ports", "terminationMessagePolicy")),
    ],
)
def test_keys_that_only_kubernetes_needs_are_ignored(depth: int, keys: tuple[str, ...]) -> None:
    pad = "\n" + ("  ", "      ", "          ")[depth]
    yaml_text = "".join(f"{pad}{key}: x" for key in keys)
    assert convert_text(POD % tuple(yaml_text if at == depth else "" for at in range(3))) == convert_text(
        POD % ("", "", "")
    )


OF_A_POD = "env: [{name: I, valueFrom: {fieldRef: {fieldPath: x}}}], volumeMounts: [{name: shm, mountPath: /dev/shm}]"


@pytest.mark.parametrize(
    ("volume", "shm_size", "notes"),
    [
        ("emptyDir: {medium: Memory, sizeLimit: 1Gi}", "1g", []),
        ("emptyDir: {medium: Memory}", None,
         ["`/dev/shm` is not carried over: set `shm_size`: without a limit, it is Docker's 64m"]),
    ],
)  # fmt: skip
def test_shared_memory_and_the_index_of_a_pod(volume: str, shm_size: str | None, notes: list[str]) -> None:
    argv = '[python, x.py, --job_name, worker, --task_index, $(I), --worker_hosts, "w:1"]'
    pod = f"containers: [{{image: x, command: {argv}, {OF_A_POD}}}], volumes: [{{name: shm, {volume}}}]"
    inventory, printed = convert_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: w}}\nspec: {{{pod}}}\n")
    own = inventory["vars"]["tfprov"]
    assert (own["command"], own.get("shm_size")) == (["python", "x.py"], shm_size)
    assert [note.partition(": ")[2] for note in printed] == [
        "`$(I)` stays as it is: its value is not in the file",
        "`env.I` is not carried over: it is a value of the pod",
        *notes,
    ]


@pytest.mark.parametrize(
    ("read_only", "mount", "expected"),
    [
        ("", "mountPath: /d, subPath: a", ("/x/a", False)),
        (", readOnly: true", "mountPath: /d", ("/x", True)),
        ("", "mountPath: /d/, readOnly: true", ("/x", True)),
        (", readOnly: false", "mountPath: /ckpt/", None),
    ],
)
def test_an_nfs_volume_of_a_pod_is_a_mount(read_only: str, mount: str, expected: tuple[str, bool] | None) -> None:
    argv = '[python, x.py, --job_name=worker, --task_index=0, "--worker_hosts=w:1", --model_dir=/ckpt]'
    pod = (
        f"containers: [{{image: x, command: {argv}, volumeMounts: [{{name: v, {mount}}}]}}], "
        f"volumes: [{{name: v, nfs: {{server: nas, path: /x{read_only}}}}}]"
    )
    inventory, notes = convert_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: w}}\nspec: {{{pod}}}\n")
    mounts = inventory["vars"]["tfprov"].get("mounts")
    if expected:
        nfs = {"server": "nas", "path": expected[0]}
        assert mounts == [{"nfs": nfs, "target": "/d", "read_only": expected[1]}]
        assert notes == []
    else:
        assert mounts is None
        assert [note.partition(": ")[2] for note in notes] == [f"`nas:/x at /ckpt` is not carried over: {STAYS}"]


SAME_DEVICE = "`devices` has paths below /dev, which are the same in the container, to be read and written"
ONE_NUMBER = "`ulimits` has one number for each of the engine's limits"


@pytest.mark.parametrize(
    ("key", "setting", "value", "notes"),
    [
        ("devices: [/dev/kfd, '/dev/dri:/dev/dri', '/dev/tty1:/dev/tty1:rwm', '/dev/fuse:/dev/fuse:rw']", "devices",
         ["/dev/kfd", "/dev/dri", "/dev/tty1", "/dev/fuse"], []),
        ("devices: [{source: /dev/kfd, target: /dev/kfd, permissions: rwm}]", "devices", ["/dev/kfd"], []),
        ("devices: ['/dev/kfd:/dev/dri', /dev/fuse]", "devices", ["/dev/fuse"],
         [f"`/dev/kfd:/dev/dri` is not carried over: {SAME_DEVICE}"]),
        ("devices: ['/dev/kfd:/dev/kfd:r']", "devices", None,
         [f"`/dev/kfd:/dev/kfd:r` is not carried over: {SAME_DEVICE}"]),
        ("devices: ['${DEVICE}', [/dev/kfd]]", "devices", None,
         ["`$DEVICE` is not carried over: it comes from the environment of Compose",
          f"`services.w0.devices` is not carried over: {SAME_DEVICE}"]),
        ("devices: ['nvidia.com/gpu=all']", "devices", None,
         ["`nvidia.com/gpu=all` is not carried over: set `gpus`"]),
        ("ulimits: {memlock: -1, core: 0, stack: {soft: 8, hard: 8}}", "ulimits",
         {"memlock": -1, "core": 0, "stack": 8}, []),
        ("ulimits: {nofile: {soft: 1, hard: 2}, nproc: 9}", "ulimits", {"nproc": 9},
         [f"`services.w0.ulimits.nofile` is not carried over: {ONE_NUMBER}"]),
        ("ulimits: {memory: 1, core: unlimited, nice: -2, cpu: [1], stack: 9999999999999}", "ulimits", None,
         [f"`services.w0.ulimits.{name}` is not carried over: {ONE_NUMBER}"
          for name in ("memory", "core", "nice", "cpu", "stack")]),
    ],
)  # fmt: skip
def test_devices_and_limits_of_a_service(key: str, setting: str, value: object, notes: list[str]) -> None:
    inventory, every = convert_text(f"services: {{w0: {{{SERVICE}, {key}}}}}")
    assert inventory["vars"]["tfprov"].get(setting) == value
    alone = convert_text(f"services: {{w0: {{{SERVICE}}}}}")[1]
    assert [note.partition(": ")[2] for note in every if note not in alone] == notes


def test_a_key_without_a_value_is_as_one_that_is_missing() -> None:
    keys = "mem_limit: , pids_limit: , gpus: , build: , environment: , volumes: , deploy: , entrypoint: , restart: ~"
    assert convert_text(f"services: {{w0: {{{SERVICE}, {keys}}}}}") == convert_text(f"services: {{w0: {{{SERVICE}}}}}")


ON_ITS_PORT = "tfprov checks the task's port itself"


@pytest.mark.parametrize(
    ("depth", "key", "expected"),
    [
        (0, "ttl", "`spec.ttl` is not carried over: an inventory has no such setting"),
        (
            1,
            "imagePullSecrets",
            (
                "`spec.template.spec.imagePullSecrets` is not carried over: log in to the registry on the hosts, "
                "or let tfprov deliver the image"
            ),
        ),
        (1, "hostNetwork", f"`spec.template.spec.hostNetwork` is not carried over: {IN_HOST_NETWORK}"),
        (2, "workingDir", f"`containers[].workingDir` is not carried over: {IN_ITS_DIRECTORY}"),
        (2, "envFrom", "`containers[].envFrom` is not carried over: put the values into `env`"),
        (2, "readinessProbe", f"`containers[].readinessProbe` is not carried over: {ON_ITS_PORT}"),
        (2, "livenessProbe", f"`containers[].livenessProbe` is not carried over: {ON_ITS_PORT}"),
        (2, "startupProbe", f"`containers[].startupProbe` is not carried over: {ON_ITS_PORT}"),
    ],
)
def test_dropped_keys_of_a_pod_are_noted_with_the_reason(depth: int, key: str, expected: str) -> None:
    yaml_text = "\n" + ("  ", "      ", "          ")[depth] + f"{key}: x"
    inventory, notes = convert_text(POD % tuple(yaml_text if at == depth else "" for at in range(3)))
    alone = convert_text(POD % ("", "", ""))
    assert inventory == alone[0]
    assert [note.partition(": ")[2] for note in notes if note not in alone[1]] == [expected]


def test_node_grace_period_and_environment_of_a_pod() -> None:
    spec = "\n      nodeName: gpu3\n      terminationGracePeriodSeconds: 40\n      initContainers: [{image: y}]"
    env = "\n          env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}, {name: B, value: $(A)-$(C)-$$}]"
    inventory, all_notes = convert_text(POD % ("", spec, env))
    assert inventory["vars"]["tfprov"]["stop_grace"] == 40
    assert inventory["vars"]["tfprov"]["env"] == {"B": "$(A)-$(C)-$"}
    assert list(inventory["children"]["worker"]["hosts"]) == ["gpu3"]
    secret = "secrets are not copied; put the values into `env`, encrypted with ansible-vault"
    notes = [note.partition(": ")[2] for note in all_notes]
    for expected in (
        "a further container is not carried over: a task has one container",
        f"`env.A` is not carried over: its value is not in the file: {secret}",
        "`$(A)` stays as it is: its value is not in the file",
        "`$(C)` stays as it is: its value is not in the file",
    ):
        assert expected in notes


def test_a_limit_of_a_pod_that_is_no_number_of_gpus_is_noted() -> None:
    inventory, notes = convert_text(POD % ("", "", "\n          resources: {limits: {nvidia.com/gpu: many}}"))
    assert "gpus" not in inventory["vars"]["tfprov"]
    assert "f.yml:10:48: `many` is not carried over: not a number of GPUs" in notes


@pytest.mark.parametrize(
    "deploy",
    [
        "mode: replicated", "mode: replicated-job", "endpoint_mode: x", "update_config: x", "rollback_config: x",
        "labels: x", "restart_policy: {delay: 5s, window: 5s}", "placement: {constraints: ['node.role == manager']}",
    ],
)  # fmt: skip
def test_keys_that_only_swarm_needs_are_ignored(deploy: str) -> None:
    assert convert_text(f"services: {{w0: {{{SERVICE}, deploy: {{{deploy}}}}}}}") == convert_text(
        f"services: {{w0: {{{SERVICE}}}}}"
    )


@pytest.mark.parametrize(
    ("yaml_text", "setting", "value"),
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
        ("shm_size: 1gb", "shm_size", "1g"), ("user: 1000:50", "user", "1000:50"), ("user: 0", "user", "0"),
        ("read_only: true", "read_only", True), ("read_only: false", "read_only", None),
        ("volumes: [{type: tmpfs, target: /dev/shm, tmpfs: {size: 2097152000}}]", "shm_size", "2000m"),
        ("mem_limit: 2g", "memory", "2g"), ("cpus: 1.5", "cpus", 1.5), ("stop_grace_period: 1m", "stop_grace", 60),
        ("pids_limit: 70", "pids", 70), ("gpus: 1024", "gpus", 1024),
    ],
)  # fmt: skip
def test_limits_of_a_service(yaml_text: str, setting: str, value: object) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE}, {yaml_text}}}}}")
    assert inventory["vars"]["tfprov"].get(setting) == value
    assert notes == convert_text(f"services: {{w0: {{{SERVICE}}}}}")[1]


@pytest.mark.parametrize(
    ("yaml_text", "expected"),
    [
        ("restart: always", "`always` becomes `on-failure`: a task that exits with 0 is not started again"),
        ("restart: unless-stopped", "`unless-stopped` becomes `on-failure`: a task that exits with 0 is not started again"),
        ("restart: sometimes", "`sometimes` is not carried over: an inventory has no such setting"),
        ("deploy: {restart_policy: {condition: any}}",
         "`always` becomes `on-failure`: a task that exits with 0 is not started again"),
        ("deploy: {placement: {constraints: ['node.hostname != a']}}",
         "`node.hostname != a` is not carried over: put the hosts into groups of the inventory"),
    ],
)  # fmt: skip
def test_changed_restart_policies_and_dropped_constraints_are_noted(yaml_text: str, expected: str) -> None:
    alone = convert_text(f"services: {{w0: {{{SERVICE}}}}}")[1]
    notes = convert_text(f"services: {{w0: {{{SERVICE}, {yaml_text}}}}}")[1]
    assert [note.partition(": ")[2] for note in notes if note not in alone] == [expected]


GIVE = "correct the file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "1:1: error: neither a Compose file nor a Kubernetes object; give one of these, or a TFJob"),
        ("services: {}", " error: no task of a TensorFlow cluster in it; its tasks need TF_CONFIG or cluster flags"),
        ("services: {w0: 1}", f"1:16: error: `services.w0` must be a mapping; {GIVE}"),
        ("services: 1", f"1:11: error: `services` must be a mapping; {GIVE}"),
        (f"services: {{w0: {{{SERVICE.partition(', ')[2]}}}}}", f"1:12: error: no image; {GIVE}"),
        (
            f"services: {{w0: {{{SERVICE.replace('python x.py ', '')}}}}}",
            "1:12: error: `w0` has no command; add its command to the file",
        ),
        (
            f"services:\n  w0: {{{SERVICE}}}\n  w1: {{{SERVICE}}}",
            "3:3: error: duplicate worker/0 (first on line 2); keep one of them",
        ),
        (
            f"services: {{w0: {{{SERVICE.replace('index=0', 'index=x')}}}}}",
            "1:12: error: `w0`: --task_index must be a whole number, not 'x'; correct its flags",
        ),
        (
            f"services: {{w0: {{{SERVICE.replace('index=0', 'index x$I')}}}}}",
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
        (f"services: {{w0: {{{SERVICE}, environment: {{TFPROV_STRATEGY: in_graph}}}}}}",
         ("1:12: error: `wiring: flags` cannot name the chief that `strategy: in_graph` needs; "
          "remove it: programs of this strategy read TF_CONFIG")),
        (("services: {worker: {image: x, command: a, environment: {TFPROV_STRATEGY: in_graph, TFPROV_TASK: worker/0}}, "
         "ps: {image: x, command: a, environment: {TFPROV_STRATEGY: in_graph, TFPROV_TASK: ps/0}}}"),
         "1:12: error: `strategy: in_graph` needs a chief; put a host into the group `chief`"),
        ('services: {worker: {image: x, command: ["a\\nb"]}}',
         "1:41: error: `command[0]` must be one line; remove the line break"),
        ("{% if a %}\nservices: {\n", "1:1: error: a template; render it first"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: w}\nspec: {}", f"1:1: error: `w` has no container; {GIVE}"),
    ],
)  # fmt: skip
def test_a_refused_file_is_an_error_with_a_fix(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        convert_text(text)
    assert [str(problem) for problem in raised.value.problems] == [f"f.yml:{message}"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--model_dir /ckpt/ -v", ["--model_dir", "{{ checkpoint_dir }}", "-v"]),
        ("-model_dir=/ckpt -v", ["-model_dir={{ checkpoint_dir }}", "-v"]),
        ("--model_dir /ckpt --log_dir /logs -v", ["--model_dir", "{{ checkpoint_dir }}", "--log_dir", "/logs", "-v"]),
        ("--model_dir runs -v", ["--model_dir", "runs", "-v"]),
        ("-v --model_dir", ["-v", "--model_dir"]),
    ],
)
def test_a_checkpoint_directory_within_the_command_line_is_that_of_tfprov(words: str, expected: list[str]) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE} {words}, volumes: [/a:/logs, /srv/old:/ckpt]}}}}")
    own = inventory["vars"]["tfprov"]
    is_named = "/ckpt" in words
    assert (own["command"], own.get("checkpoints")) == (
        ["python", "x.py", *expected],
        {"dir": "/ckpt"} if is_named else None,
    )
    assert [mount["target"] for mount in own["mounts"]] == (["/logs"] if is_named else ["/logs", "/ckpt"])
    assert [note.partition(": ")[2] for note in notes] == (
        [f"`/srv/old at /ckpt` is not carried over: {STAYS}"] if is_named else []
    )


IN_A_SCRIPT = "`worker0` names its task and all addresses in a script of a shell: take them out"


@pytest.mark.parametrize(
    ("argv", "expected", "notes"),
    [
        (["sh", "-c", "exec python 'a b.py' --job_name=worker --task_index=$${H##*-} --worker_hosts=w:1 $$X '' #1"],
         ["python", "a b.py", "$X", "", "#1"], []),
        (["bash", "-c", "python x.py --job_name worker --worker_hosts w:1 a=1;true"], None, [IN_A_SCRIPT]),
        (["/bin/bash", "-lc", " python x.py \\\n --job_name worker --task_index $$I --worker_hosts w:1 a:b,c=1\n"],
         ["python", "x.py", "a:b,c=1"], []),
        (["sh", "-c", "cd /app && python x.py --job_name=worker --task_index=0"], None, [IN_A_SCRIPT]),
        (["sh", "-c", "python x.py --job_name 'worker"], None, [IN_A_SCRIPT]),
        (["sh", "-c", ""], None, []),
        (["sh", "-c", "python x.py", "more"], None, []),
        (["fish", "-c", "python x.py"], None, []),
        (["sh", "-x", "python x.py"], None, []),
    ],
)  # fmt: skip
def test_a_script_of_one_command_is_read_as_its_words(
    argv: list[str], expected: list[str] | None, notes: list[str]
) -> None:
    inventory, printed = convert_text(f"services: {{worker0: {{image: x, command: {json.dumps(argv)}}}}}")
    as_it_is = [word.replace("$$", "$") for word in argv]
    assert inventory["vars"]["tfprov"]["command"] == (as_it_is if expected is None else expected)
    assert [note.partition(": ")[2] for note in printed] == notes


STAYS = "checkpoints are in storage of the task, and are gathered; those in there stay where they are"
SECRET_FIX = "add it to `env` as `ansible-vault encrypt_string` prints it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"services: {{w0: {{{SERVICE}, environment: {{API_KEY: x, KEYS: /etc/keys, MY_TOKEN: ''}}}}}}",
            [f"f.yml:1:116: `env.API_KEY` looks like a secret and is not copied: {SECRET_FIX}"],
        ),
        (
            "services: {worker-0: {image: x, command: [x.py, --api_key=x, --b=1]}}",
            [f"f.yml:1:49: `flags.api_key` looks like a secret and is not copied: {SECRET_FIX}"],
        ),
        (
            f"services: {{w0: {{{SERVICE}, environment: {{WANDB_KEY: x, MONKEY: y}}}}}}",
            [f"f.yml:1:116: `env.WANDB_KEY` looks like a secret and is not copied: {SECRET_FIX}"],
        ),
        (
            f"services: {{w0: {{{SERVICE}, environment: {{URL: 'http://me:pw@h'}}}}}}",
            [f"f.yml:1:116: `env.URL` looks like a secret and is not copied: {SECRET_FIX}"],
        ),
        (
            f"services: {{w0: {{{SERVICE} --api-key=k --lr=1 --token t redis://me:pw@h --token --eos_token}}}}",
            [
                f"f.yml:1:36: `flags.api-key` looks like a secret and is not copied: {SECRET_FIX}",
                f"f.yml:1:36: `flags.token` looks like a secret and is not copied: {SECRET_FIX}",
                f"f.yml:1:36: `command[6]` looks like a secret and is not copied: {SECRET_FIX}",
            ],
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
            ["f.yml:1:124: this image is not carried over: all tasks of a cluster use the same image"],
        ),
        (
            f"services: {{tensorboard: {{image: tb, command: tensorboard --logdir=/x}}, w0: {{{SERVICE}}}}}",
            ["f.yml:1:33: this image is not carried over: all tasks of a cluster use the same image"],
        ),
        (
            f"services: {{w0: {{{SERVICE}}}, worker: {{image: x, command: a}}, p: {{{OF_A_PS}}}}}",
            ["f.yml:1:131: worker/0 has another `command` than the first worker, which is used for all"],
        ),
        (
            "services: {worker-1: {image: x, command: a}, worker-0: {image: x, command: b}}",
            ["f.yml:1:42: worker/1 has another `command` than the first worker, which is used for all"],
        ),
    ],
)
def test_dropped_parts_of_a_file_are_noted(text: str, expected: list[str]) -> None:
    assert convert_text(text)[1] == expected


def test_code_data_and_own_programs_of_a_rendered_file_are_imported() -> None:
    env = "TFPROV_TASK: worker/0, TFPROV_CLUSTER: lab, TFPROV_DATA_DIR: /data, TFPROV_CHECKPOINT_DIR: /c"
    volumes = "['/srv/code:/code:ro', '/srv/digits:/data/:ro', '/srv/c:/c', '/srv/x:/x']"
    serves = (
        "image: x, command: python -m tfprov.runtime.data_service --port=1, environment: {TFPROV_TASK: dispatcher/0}"
    )
    inventory, notes = convert_text(
        f"services:\n  w0: {{{SERVICE}, environment: {{{env}}}, volumes: {volumes}}}\n  d0: {{{serves}}}\n"
        "  dw: {image: x, command: python serve.py, environment: {TFPROV_TASK: data_worker/0}}\n"
    )
    worker = inventory["children"]["worker"]["vars"]["tfprov"]
    assert {name: worker[name] for name in ("code", "data", "mounts", "checkpoints")} == {
        "code": "/srv/code",
        "data": {"path": "/srv/digits", "to": "/data"},
        "mounts": [{"source": "/srv/x", "target": "/x", "read_only": False}],
        "checkpoints": {"dir": "/c"},
    }
    assert "command" not in inventory["children"]["dispatcher"].get("vars", {}).get("tfprov", {})
    assert inventory["children"]["data_worker"]["vars"]["tfprov"]["command"] == ["python", "serve.py"]
    assert notes == [f"f.yml:2:260: `/srv/c at /c` is not carried over: {STAYS}"]


@pytest.mark.parametrize(
    ("policy", "restart"),
    [("OnFailure", None), ("ExitCode", None), ("Always", None), ("Never", "never"), ("Odd", "never")],
)
def test_the_restart_policy_of_the_replicas_wins_over_that_of_their_pods(policy: str, restart: str | None) -> None:
    text = TFJOB.replace("restartPolicy: OnFailure", f"restartPolicy: {policy}")
    inventory, notes = convert_text(text.replace("        spec:\n", "        spec:\n          restartPolicy: Never\n"))
    assert inventory["vars"]["tfprov"].get("restart") == restart
    assert len(notes) == len(convert_text(TFJOB)[1]), "of these values, none is dropped"


@pytest.mark.parametrize(
    ("services", "roles"),
    [
        (("master-0", "worker-0"), {"chief", "worker"}),
        (("chief", "worker-0"), {"chief", "worker"}),
        (("lab-ps-0", "trainer_worker1"), {"ps", "worker"}),
        (
            ("data-worker-0", "dispatcher", "worker-0", "evaluator"),
            {"data_worker", "dispatcher", "worker", "evaluator"},
        ),
    ],
)
def test_the_name_of_a_service_is_that_of_its_role(services: tuple[str, ...], roles: set[str]) -> None:
    lines = [f"  {service}: {{image: x, command: python a.py}}\n" for service in services]
    assert set(convert_text(f"services:\n{''.join(lines)}")[0]["children"]) == roles


ON_HOSTS = """\
services:
  w0:
    image: x
    command: python x.py --job_name=worker --task_index=0 --ps_hosts=p:1 --worker_hosts=w0:1,w1:1 --rate=0.5 --name={a}
    environment: {TFPROV_FLAGS: '1:2', A: !vault x, B: 1}
    volumes: [/srv/d:/data:ro]
  w1:
    image: x
    command: python x.py --job_name=worker --task_index=1 --ps_hosts=p:1 --worker_hosts=w0:1,w1:1 --rate=0.5 --name={a}
    environment: {A: '', B: 1}
    volumes: [/srv/d:/data:ro]
  p: {image: x, command: "python x.py --job_name=ps --task_index=0 --ps_hosts=p:1 --worker_hosts=w0:1,w1:1"}
  tensorboard: {image: x, command: tensorboard --logdir=/c}
"""


def test_the_whole_inventory_of_tasks_that_are_distributed_over_hosts() -> None:
    hosts = [TargetHost("a", "me", 2201), TargetHost("b", port=22), TargetHost("c", "you"), TargetHost("10.0.0.7")]
    conversion = convert(ON_HOSTS.encode(), "f.yml", Path("/home/me/My Lab_2"), hosts)
    assert conversion.notes == ()
    assert (
        conversion.text
        == """\
# A TensorFlow cluster, imported from f.yml.
all:
  vars:
    tfprov:
      cluster: my-lab-2
      image: {name: x}
  children:
    ps:
      hosts:
        10.0.0.7:
      vars:
        tfprov:
          command: [python, x.py]
          port: 1
    worker:
      hosts:
        a: {ansible_user: me, ansible_port: 2201}
        b: {ansible_port: 22}
      vars:
        tfprov:
          command: [python, x.py]
          flags:
            rate: 0.5
            name: "{a}"
          env:
            A: ""
            B: "1"
          mounts:
            - {source: /srv/d, target: /data, read_only: true}
          port: 1
    tensorboard:
      hosts:
        a: {ansible_user: me, ansible_port: 2201}
      vars:
        tfprov:
          checkpoints: {dir: /c}
"""
    )


JOB_OBJECT = """\
apiVersion: batch/v1
kind: Job
metadata: {generateName: trainer-worker-0, labels: {app.kubernetes.io/instance: My_Lab, odd: 1}}
spec:
  parallelism: 2
  completions: 1
  template:
    metadata: {labels: {task: "3"}}
    spec:
      nodeSelector: {kubernetes.io/hostname: gpu7}
      volumes:
        - {name: data, hostPath: {path: /srv/mnist}}
        - {name: scratch, emptyDir: {}}
        - {name: keys, secret: {secretName: s}}
        - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
        - {hostPath: {path: /srv/unnamed}}
      initContainers:
        - {name: prepare, image: "i:1"}
      containers:
        - {name: sidecar, image: "s:1"}
        - name: tensorflow
          image: "x:1"
          command: [python, x.py, --job_name=worker, --task_index=$(TFPROV_INDEX), "--worker_hosts=w0:2222"]
          args: [--rate=$(RATE), "--home=$$HOME", --none=$(NONE), --own=$(TFPROV_X)]
          env: [{name: RATE, value: "0.5"}, {name: EMPTY}, {name: URL, value: "$(RATE)/$(RATE)"}]
          resources: {requests: {cpu: 1}, limits: {memory: 1Gi, cpu: "2", nvidia.com/gpu: 2}}
          volumeMounts:
            - {name: data, mountPath: /data, subPath: digits, readOnly: true}
            - {name: data, mountPath: /all, readOnly: false}
            - {name: scratch, mountPath: /scratch, subPath: a}
            - {name: keys, mountPath: /keys}
            - {name: data}
            - {name: memory, mountPath: /dev/shm}
            - {name: data, mountPath: /last}
"""


def test_the_whole_inventory_of_a_job_with_volumes_references_and_further_containers() -> None:
    inventory, notes = convert_text(JOB_OBJECT)
    assert inventory == {
        "vars": {
            "tfprov": {
                "cluster": "my-lab",
                "image": {"name": "x:1"},
                "command": ["python", "x.py"],
                "flags": {"rate": 0.5, "home": "$HOME", "none": "$(NONE)", "own": "$(TFPROV_X)"},
                "env": {"RATE": "0.5", "URL": "0.5/0.5"},
                "mounts": [
                    {"source": "/srv/mnist/digits", "target": "/data", "read_only": True},
                    {"source": "/srv/mnist", "target": "/all", "read_only": False},
                    {"source": "/srv/mnist", "target": "/last", "read_only": False},
                ],
                "shm_size": "1g",
                "memory": "1g",
                "cpus": 2,
                "gpus": 2,
                "port": 2222,
            }
        },
        "children": {"worker": {"hosts": {"gpu7": None}}},
    }
    secret = "secrets are not copied; put the values into `env`, encrypted with ansible-vault"
    assert notes == [
        f"f.yml:14:11: `volumes.keys` is not carried over: {secret}",
        "f.yml:18:11: a further container is not carried over: a task has one container",
        "f.yml:20:11: a further container is not carried over: a task has one container",
        "f.yml:24:51: `$(NONE)` stays as it is: its value is not in the file",
        "f.yml:30:42: the storage at /scratch is not carried over: mount a directory of the host, with `mounts`",
    ]


def test_a_flag_with_the_checkpoint_directory_becomes_a_template() -> None:
    flags = "--train_dir=/c/ --log_dir=/c --model_dir=/c/x --other_dir=/c"
    inventory, notes = convert_text(
        f"services: {{w0: {{{SERVICE} {flags}, environment: {{TFPROV_CHECKPOINT_DIR: /c}}, volumes: ['v:/c']}}}}"
    )
    template = "{{ checkpoint_dir }}"
    assert inventory["vars"]["tfprov"]["flags"] == {
        "train_dir": template, "log_dir": template, "model_dir": "/c/x", "other_dir": "/c"
    }  # fmt: skip
    assert notes == []


@pytest.mark.parametrize("name", ["train_dir", "checkpoint_dir", "ckpt_dir", "model_dir", "log_dir", "logdir"])
def test_each_flag_of_a_checkpoint_directory_names_it(name: str) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE} --steps=1 --{name}=/c/, volumes: ['v:/c/']}}}}")
    assert inventory["vars"]["tfprov"]["flags"] == {"steps": 1, name: "{{ checkpoint_dir }}"}
    assert inventory["vars"]["tfprov"]["checkpoints"] == {"dir": "/c"}
    assert notes == []


def test_of_several_directories_the_one_that_is_storage_has_the_checkpoints() -> None:
    flags = "--log_dir=s3://b --train_dir=/a --model_dir=/c/"
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE} {flags}, volumes: ['v:/c/', '/srv/a:/a']}}}}")
    assert inventory["vars"]["tfprov"]["checkpoints"] == {"dir": "/c"}
    assert inventory["vars"]["tfprov"]["mounts"] == [{"source": "/srv/a", "target": "/a", "read_only": False}]
    assert notes == []


@pytest.mark.parametrize(
    ("role", "command", "expected"),
    [
        ("tensorboard", "tensorboard --logdir=/c --host=0.0.0.0 --port=6006 --bind_all=true", None),
        ("tensorboard", "/usr/bin/tensorboard --logdir=/c", None),
        ("tensorboard", "tensorboard --logdir=logs", ["tensorboard", "--logdir=logs"]),
        ("tensorboard", "tensorboard --logdir /c --port 6006 --host=0.0.0.0", None),
        (
            "tensorboard",
            "tensorboard --logdir=/c --more=1",
            ["tensorboard", "--logdir={{ checkpoint_dir }}", "--more=1"],
        ),
        (
            "tensorboard",
            "tensorboard --logdir /c --more",
            ["tensorboard", "--logdir", "{{ checkpoint_dir }}", "--more"],
        ),
        ("tensorboard", "board --logdir=/c", ["board", "--logdir={{ checkpoint_dir }}"]),
        ("serving", "python -m tfprov.runtime.serving", None),
        ("serving", "serve --port=1", ["serve", "--port=1"]),
        ("notebook", "python -m tfprov.runtime.notebook", None),
    ],
)
def test_a_role_whose_program_is_tfprovs_own_has_no_command(
    role: str, command: str, expected: list[str] | None
) -> None:
    text = f"services: {{w0: {{{SERVICE}}}, {role}: {{image: x, command: {command}}}}}"
    inventory, notes = convert_text(text)
    own = (inventory["children"][role].get("vars") or {}).get("tfprov", {})
    assert (own.get("command"), "flags" in own) == (expected, False)
    assert notes == []


LONG_SYNTAX = "[{type: bind, source: /srv/a, target: /a, bind: {create_host_path: true}, volume: {nocopy: true}}]"
DROPPED = "is not carried over"


@pytest.mark.parametrize(
    ("keys", "setting", "expected"),
    [
        (f"volumes: {LONG_SYNTAX}", "mounts", [{"source": "/srv/a", "target": "/a", "read_only": False}]),
        ("volumes: ['/srv/a:/a:z,ro']", "mounts", [{"source": "/srv/a", "target": "/a", "read_only": True}]),
        ("volumes: ['./a/../b:/a']", "mounts", [{"source": "/home/me/b", "target": "/a", "read_only": False}]),
        ("volumes: ['/srv/a,b:/a']", "mounts", [{"source": "/srv/a,b", "target": "/a", "read_only": False}]),
        ("pids_limit: 123456789", "pids", None),
        ("stop_grace_period: 86400", "stop_grace", 86400),
        ("gpus: 1025", "gpus", None),
        ("environment: {PORT: 1}", "env", {"PORT": "1"}),
        ("environment: {TFPROV_TASK: worker/0, PYTHONPATH: /tfprov, PYTHONUNBUFFERED: '1', A: b}", "env", {"A": "b"}),
        ("environment: {PYTHONPATH: /tfprov, PYTHONUNBUFFERED: '1'}", "env",
         {"PYTHONPATH": "/tfprov", "PYTHONUNBUFFERED": "1"}),
        ("environment: {TFPROV_STRATEGY: single}", "strategy", "single"),
        ("environment: {TFPROV_STRATEGY: other}", "strategy", None),
    ],
)  # fmt: skip
def test_rare_values_of_a_service(keys: str, setting: str, expected: object) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE}, {keys}}}}}")
    assert inventory["vars"]["tfprov"].get(setting) == expected
    assert [note for note in notes if f": {setting}: " not in note] == [], "of what it has besides, nothing is dropped"


@pytest.mark.parametrize(
    ("port", "expected"), [("99999", None), ("65535", 65535), ("100000", None), ("x", None), ("8", 8)]
)
def test_the_port_is_that_of_the_address(port: str, expected: int | None) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE.replace('w0:1', f'w0:{port}')}}}}}")
    assert inventory["vars"]["tfprov"].get("port") == expected
    assert len(notes) == (port == "99999")


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("My Lab!", "my-lab"), ("x" * 41, "x" * 40), (f"{'x' * 39}--y", "x" * 39), ("---", "training"), ("", "me"),
        (f"!{'x' * 40}", "x" * 40),
    ],
)  # fmt: skip
def test_the_name_of_the_project_becomes_that_of_the_cluster(name: str, cluster: str) -> None:
    inventory, _ = convert_text(f"name: '{name}'\nservices: {{w0: {{{SERVICE}}}}}")
    assert inventory["vars"]["tfprov"]["cluster"] == cluster


def test_a_job_that_tfprov_does_not_know_is_noted() -> None:
    other = SERVICE.replace("job_name=worker", "job_name=gpu").replace(" --worker_hosts=w0:1", "")
    assert convert_text(f"services: {{w0: {{{SERVICE}}}, g: {{{other}}}}}")[1] == [
        f"f.yml:1:{len(SERVICE) + 20}: `g` {DROPPED}: tfprov has no role `gpu`"
    ]


REPLICAS = """\
kind: TFJob
apiVersion: v1
status: {}
metadata: {name: j}
spec:
  successPolicy: AllWorkers
  runPolicy: {cleanPodPolicy: None, backoffLimit: 1, suspend: false}
  tfReplicaSpecs:
"""


def test_each_kind_of_replicas_is_a_role() -> None:
    template = "template: {spec: {containers: [{image: x, command: [a]}]}}"
    kinds = {"PS": "ps", "Worker": "worker", "Master": "chief", "Evaluator": "evaluator"}
    lines = [f"    {kind}: {{{template}}}\n" for kind in kinds]
    inventory, notes = convert_text(f"{REPLICAS}{''.join(lines)}")
    assert inventory["children"] == {role: {"hosts": {"localhost": None}} for role in kinds.values()}
    assert notes == []


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "Deployment", "StatefulSet", "Job"])
def test_each_workload_of_kubernetes_is_a_task(kind: str) -> None:
    ignored = "".join(
        f"---\n{{kind: {other}, apiVersion: v1, metadata: {{name: n}}}}\n" for other in ("Service", "Namespace")
    )
    inventory, notes = convert_text(POD.replace("kind: Job", f"kind: {kind}") % ("", "", "") + ignored)
    assert inventory["children"] == {"worker": {"hosts": {"localhost": None}}}
    assert notes == []


@pytest.mark.parametrize(("label", "index"), [("7", 7), ("99999", 99999), ("100000", None), ("x", None)])
def test_the_number_of_a_task_is_that_of_its_label(label: str, index: int | None) -> None:
    """Which number it is shows in the error of a second one."""
    one = f"""\
kind: Pod
apiVersion: v1
metadata: {{name: a, labels: {{job: worker, app.kubernetes.io/task: "{label}", name: lab}}}}
spec: {{containers: [{{image: i, command: [p]}}]}}
"""
    try:
        message = convert_text(f"{one}---\n{one}")[0]["vars"]["tfprov"]["cluster"]
    except InvalidInput as error:
        message = str(error)
    duplicate = f"f.yml:6:1: error: duplicate worker/{index} (first on line 1); keep one of them"
    assert message == ("lab" if index is None else duplicate)


OF_OURS = """\
kind: Pod
apiVersion: v1
metadata: {name: a, labels: {app.kubernetes.io/managed-by: tfprov, job: worker, app.kubernetes.io/instance: lab}}
spec:
  serviceAccountName: a
  initContainers: [{name: wait, image: i}]
  containers: [{name: tensorflow, image: i, command: [p], restartPolicy: Always, readinessProbe: {}}]
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: c, labels: {app.kubernetes.io/managed-by: tfprov}}}
"""


def test_what_tfprov_itself_adds_is_not_noted_and_the_same_of_others_is() -> None:
    inventory, notes = convert_text(OF_OURS)
    assert (inventory["vars"]["tfprov"]["cluster"], notes) == ("lab", [])
    assert convert_text(OF_OURS.replace("managed-by: tfprov", "managed-by: helm"))[1] == [
        f"f.yml:5:3: `spec.serviceAccountName` {DROPPED}: an inventory has no such setting",
        "f.yml:6:20: a further container is not carried over: a task has one container",
        f"f.yml:7:59: `containers[].restartPolicy` {DROPPED}: an inventory has no such setting",
        f"f.yml:7:82: `containers[].readinessProbe` {DROPPED}: tfprov checks the task's port itself",
        "f.yml:9:1: the ConfigMap `c` is not carried over: it runs no task",
    ]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("containers: [1]", "`containers[]` must be a mapping; correct the file"),
        ("containers: [{image: [1]}]", "`containers[].image` must be a single value; write one"),
        ("containers: [{env: [1]}]", "`env[]` must be a mapping; correct the file"),
        ("containers: [{env: [{name: {}}]}]", "`env[].name` must be a single value; write one"),
        ("containers: [{volumeMounts: [1]}]", "`volumeMounts[]` must be a mapping; correct the file"),
        (
            "containers: [{resources: {limits: 1}}]",
            "`containers[].resources.limits` must be a mapping; correct the file",
        ),
        ("containers: [{}], volumes: [1]", "`volumes[]` must be a mapping; correct the file"),
        ("containers: [{}], volumes: [{hostPath: 1}]", "`volumes[].hostPath` must be a mapping; correct the file"),
        ("containers: [{}], nodeName: []", "`spec.nodeName` must be a single value; write one"),
    ],
)
def test_a_value_of_a_pod_with_another_form_is_refused_with_its_path(where: str, message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        convert_text(f"kind: Pod\napiVersion: v1\nmetadata: {{name: worker-0}}\nspec: {{{where}}}\n")
    assert [str(problem).partition("error: ")[2] for problem in raised.value.problems] == [message]


def test_a_setting_that_all_roles_share_has_the_position_of_the_first() -> None:
    long = "stop_grace_period: 12345678"
    what = f"stop_grace: 12345678 {DROPPED}: `stop_grace` must be at most 86400, not 12345678"
    text = f"services:\n  w0: {{{SERVICE}, {long}}}\n  p0: {{{long}, {OF_A_PS}}}\n"
    assert convert_text(text)[1] == [f"f.yml:3:27: {what}"]


def test_of_a_flag_that_occurs_twice_the_last_is_a_setting_and_the_first_stays_in_the_command() -> None:
    service = SERVICE.replace("x.py", "x.py task_index=7").replace("job_name=worker", "job_name worker")
    inventory, notes = convert_text(f"services: {{w0: {{{service} --b=0 --a=1 --c=3 --a=2}}}}")
    tfprov = inventory["vars"]["tfprov"]
    assert tfprov["command"] == ["python", "x.py", "task_index=7", "--b=0", "--a=1"]
    assert tfprov["flags"] == {"c": 3, "a": 2}
    assert notes == []


FROM_OUTSIDE = "it comes from the environment of Compose"


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ("${ARGS:---steps=10 --lr=0.1}", {"steps": 10, "lr": 0.1}),
        ("--steps=${STEPS-10} ${MORE:---note='a b'} ${NONE}", {"steps": 10, "note": "a b"}),
        ("--home=$$HOME", {"home": "$HOME"}),
    ],
)
def test_a_command_of_compose_is_split_after_its_variables_have_values(
    arguments: str, flags: dict[str, object]
) -> None:
    quoted = SERVICE.replace("command: ", 'command: "')
    inventory, _ = convert_text(f'services: {{w0: {{{quoted} {arguments}"}}}}')
    own = inventory["vars"]["tfprov"]
    assert (own["command"], own["flags"]) == (["python", "x.py"], flags)


def test_an_item_of_a_command_stays_one_word() -> None:
    inventory, _ = convert_text('services: {worker-0: {image: x, command: [python, "${ARGS:-a b}", "it\'s"]}}')
    assert inventory["vars"]["tfprov"]["command"] == ["python", "a b", "it's"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in ("true", "True", "yes", "'on'", '"y"', '"${RO:-true}"', "!!bool True")),
        *((value, False) for value in ("false", "No", "off", "'n'", '"${RO:-false}"')),
        *((value, None) for value in ("1", "maybe", "''")),
    ],
)
def test_what_is_read_only_in_compose_stays_so(value: str, expected: bool | None) -> None:
    mount = f"{{type: bind, source: /srv/d, target: /d, read_only: {value}}}"
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE}, read_only: {value}, volumes: [{mount}]}}}}")
    own = inventory["vars"]["tfprov"]
    assert (own.get("read_only", False), own["mounts"][0]["read_only"]) == (bool(expected), bool(expected))
    printed = [note.partition(": ")[2] for note in notes]
    text = value.strip("'")
    assert printed == (
        []
        if expected is not None
        else [
            f"`services.w0.{where}: {text}` {DROPPED}: write `true` or `false`"
            for where in ("read_only", "volumes.read_only")
        ]
    )


@pytest.mark.parametrize("value", ["true", "True", "yes", "'on'"])
@pytest.mark.parametrize("where", ["mount", "volume"])
def test_what_is_read_only_in_a_pod_stays_so(value: str, where: str) -> None:
    of_mount, of_volume = (f", readOnly: {value}" if where == place else "" for place in ("mount", "volume"))
    mounts = f"\n          volumeMounts: [{{name: v, mountPath: /d{of_mount}}}]"
    volumes = f"\n      volumes: [{{name: v, nfs: {{server: nas, path: /x{of_volume}}}}}]"
    inventory, notes = convert_text(POD % ("", volumes, mounts))
    assert [mount["read_only"] for mount in inventory["vars"]["tfprov"]["mounts"]] == [True]
    assert notes == []


@pytest.mark.parametrize(
    ("keys", "setting", "value"),
    [
        ('build: "${DIR:-sub}"', "image", {"build": "/home/me/sub"}),
        ('build: {context: sub, dockerfile: "${FILE:-D}"}', "image", {"build": "/home/me/sub", "dockerfile": "D"}),
        ('mem_limit: "${M:-4g}"', "memory", "4g"),
        ('shm_size: "${M:-1g}"', "shm_size", "1g"),
        ('cpus: "${C:-1.5}"', "cpus", 1.5),
        ('pids_limit: "${P:-70}"', "pids", 70),
        ('gpus: "${G:-2}"', "gpus", 2),
        ('gpus: [{count: "${G:-2}"}]', "gpus", 2),
        ('devices: ["${D:-/dev/kfd}"]', "devices", ["/dev/kfd"]),
        ('ulimits: {nproc: "${N:-9}"}', "ulimits", {"nproc": 9}),
        ('stop_grace_period: "${S:-1m}"', "stop_grace", 60),
        ('restart: "${R:-no}"', "restart", "never"),
        ('user: "${U:-7}:${G-8}"', "user", "7:8"),
        ('deploy: {resources: {limits: {memory: "${M:-4g}"}}}', "memory", "4g"),
        ('volumes: ["${D:-/srv}:/d"]', "mounts", [{"source": "/srv", "target": "/d", "read_only": False}]),
    ],
)
def test_each_value_of_a_service_is_interpolated(keys: str, setting: str, value: object) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE}, {keys}}}}}")
    assert (inventory["vars"]["tfprov"].get(setting), notes) == (value, [])


def test_the_project_the_replicas_and_the_host_of_compose_are_interpolated() -> None:
    inventory, notes = convert_text(
        f'name: "${{P:-lab}}"\nservices: {{w0: {{{SERVICE}, deploy: {{replicas: "${{N:-1}}", '
        'placement: {constraints: ["node.hostname == ${H:-gpu1}"]}}}}\n'
    )
    assert inventory["vars"]["tfprov"]["cluster"] == "lab"
    assert inventory["children"] == {"worker": {"hosts": {"gpu1": None}}}
    assert notes == []
    ps = f'p: {{{OF_A_PS}, deploy: {{replicas: "${{N:-3}}"}}}}'
    inventory, _ = convert_text(f"services: {{w0: {{{SERVICE}}}, {ps}}}")
    assert inventory["children"]["ps"]["vars"]["tfprov"]["tasks_per_host"] == 3


@pytest.mark.parametrize(
    "keys",
    ["mem_limit: $V", "cpus: $V", "pids_limit: $V", "gpus: $V", "devices: [$V]", "restart: $V", "read_only: $V",
     "user: $V", "deploy: {replicas: $V}", "deploy: {mode: $V}"],
)  # fmt: skip
def test_a_value_that_is_an_unset_variable_is_as_one_that_is_missing(keys: str) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE}, {keys}}}}}")
    alone, _ = convert_text(f"services: {{w0: {{{SERVICE}}}}}")
    assert inventory == alone
    assert [note.partition(": ")[2] for note in notes] == [f"`$V` {DROPPED}: {FROM_OUTSIDE}"]


OF_POD, OF_CONTAINER = "spec.template.spec.securityContext", "containers[].securityContext"


@pytest.mark.parametrize(
    ("pod", "container", "settings", "expected"),
    [
        ("runAsUser: 1000", "", {"user": "1000"}, []),
        ("runAsUser: 1000650000, runAsGroup: 8", "", {"user": "1000650000:8"}, []),
        ("runAsUser: 1, runAsGroup: 2", "runAsUser: 3", {"user": "3:2"}, []),
        ("runAsUser: 1", "runAsUser: 3, runAsGroup: 4", {"user": "3:4"}, []),
        ("runAsGroup: 2", "", {}, [f"`runAsGroup` {DROPPED}: set `user` to a user, a colon and this group"]),
        ("", "readOnlyRootFilesystem: True", {"read_only": True}, []),
        ("", "readOnlyRootFilesystem: false, privileged: false, allowPrivilegeEscalation: false", {}, []),
        ("", "capabilities: {drop: [ALL]}", {}, []),
        ("", "privileged: true, allowPrivilegeEscalation: true, capabilities: {add: [IPC_LOCK]}", {}, [
            f"`{OF_CONTAINER}.privileged` {DROPPED}: tfprov's containers have no privileges",
            f"`{OF_CONTAINER}.allowPrivilegeEscalation` {DROPPED}: tfprov's containers have no privileges",
            f"`{OF_CONTAINER}.capabilities.add` {DROPPED}: tfprov's containers have no capabilities",
        ]),
        ("fsGroup: 5, runAsNonRoot: true", "seccompProfile: {}", {}, [
            f"`{OF_POD}.fsGroup` {DROPPED}: an inventory has no such setting",
            f"`{OF_POD}.runAsNonRoot` {DROPPED}: `tfprov check` warns about root",
            f"`{OF_CONTAINER}.seccompProfile` {DROPPED}: an inventory has no such setting",
        ]),
    ],
)  # fmt: skip
def test_the_security_context_of_a_pod_and_its_container(
    pod: str, container: str, settings: dict[str, object], expected: list[str]
) -> None:
    spec, own = (f"\n{pad}securityContext: {{{keys}}}" for pad, keys in ((" " * 6, pod), (" " * 10, container)))
    inventory, notes = convert_text(POD % ("", spec, own))
    alone, _ = convert_text(POD % ("", "", ""))
    assert inventory["vars"]["tfprov"] == alone["vars"]["tfprov"] | settings
    assert [note.partition(": ")[2] for note in notes] == expected


@pytest.mark.parametrize("options", [(), ("user=4321",)])
@pytest.mark.parametrize("target", ["kubernetes", "kubeflow-tfjob"])
def test_a_rendered_pod_keeps_its_user_and_nothing_of_it_is_noted(target: str, options: tuple[str, ...]) -> None:
    shared = "cluster: c, image: {name: i}, command: [p], strategy: multi_worker_mirrored"
    text = f"{{all: {{vars: {{tfprov: {{{shared}}}}}, children: {{worker: {{hosts: {{a: , b: }}}}}}}}}}"
    access = ["access=ReadWriteMany"] if target == "kubernetes" else []
    (rendered,) = files_of(text, target, *access, *options).values()
    inventory, notes = convert_text(rendered)
    user = options[0].removeprefix("user=") if options else "1000"
    assert inventory["vars"]["tfprov"]["user"] == f"{user}:{user}"
    assert notes == []


def test_keys_of_a_volume_mount_that_an_inventory_lacks_are_noted() -> None:
    mount = "{name: v, mountPath: /d, subPathExpr: $(N), mountPropagation: None}"
    volumes = "\n      volumes: [{name: v, hostPath: {path: /srv}}]"
    inventory, notes = convert_text(POD % ("", volumes, f"\n          volumeMounts: [{mount}]"))
    assert inventory["vars"]["tfprov"]["mounts"] == [{"source": "/srv", "target": "/d", "read_only": False}]
    assert [note.partition(": ")[2] for note in notes] == [
        f"`volumeMounts[].subPathExpr` {DROPPED}: name its directory as `source` in `mounts`",
        f"`volumeMounts[].mountPropagation` {DROPPED}: an inventory has no such setting",
    ]


@pytest.mark.parametrize("mode", ["global", "global-job"])
def test_a_service_with_a_task_on_each_node_is_noted(mode: str) -> None:
    _, notes = convert_text(f"services: {{w0: {{{SERVICE}, deploy: {{mode: {mode}}}}}}}")
    assert [note.partition(": ")[2] for note in notes] == [
        f"`services.w0.deploy.mode: {mode}` {DROPPED}: set the hosts of the group"
    ]


@pytest.mark.parametrize("value", ["-1", "0"])
@pytest.mark.parametrize("form", ["pids_limit: %s", "deploy: {resources: {limits: {pids: %s}}}"])
def test_an_unlimited_number_of_processes_is_noted(form: str, value: str) -> None:
    inventory, notes = convert_text(f"services: {{w0: {{{SERVICE}, {form % value}}}}}")
    assert "pids" not in inventory["vars"]["tfprov"]
    key = "pids_limit" if form.startswith("pids") else "deploy.resources.limits.pids"
    assert [note.partition(": ")[2] for note in notes] == [
        f"`services.w0.{key}` {DROPPED}: tfprov's containers have a limit, 4096: set `pids`"
    ]


def test_the_note_on_hosts_has_the_position_of_the_first() -> None:
    pinned = "deploy: {placement: {constraints: ['node.hostname == %s']}}"
    _, notes = convert_text(
        f"services:\n  w0: {{{SERVICE},\n    {pinned % 'b'}}}\n  p0: {{{OF_A_PS},\n    {pinned % 'a'}}}\n"
        "  evaluator: {image: x, command: python x.py}\n"
    )
    what = "the hosts of some tasks are not carried over: all tasks are on this machine"
    assert [note for note in notes if "hosts" in note] == [f"f.yml:3:40: {what}"]


def test_a_host_of_only_one_of_several_tasks_is_noted() -> None:
    pinned = "deploy: {replicas: 2, placement: {constraints: ['node.hostname == a']}}"
    inventory, notes = convert_text(f"services:\n  w0: {{{SERVICE}}}\n  p: {{{OF_A_PS},\n    {pinned}}}\n")
    assert inventory["children"]["ps"]["hosts"] == {"localhost": None}
    assert notes == ["f.yml:4:53: the hosts of some tasks are not carried over: all tasks are on this machine"]


def test_the_host_of_a_service_without_replicas_is_ignored() -> None:
    pinned = "deploy: {replicas: %s, placement: {constraints: ['node.hostname == %s']}}"
    one, other = (f"image: x, command: [a], {pinned % place}" for place in ((1, "a"), (0, "b")))
    inventory, notes = convert_text(f"services: {{worker0: {{{one}}}, worker1: {{{other}}}}}")
    assert (inventory["children"]["worker"]["hosts"], notes) == ({"a": None}, [])
