"""`tfprov import`: conversion of Compose files and Kubernetes objects, notes and errors."""

import contextlib
import copy
import io
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.command_output import CommandResult, run_command
from tests.support.examples import examples
from tests.support.fast_yaml import read_all_yaml
from tests.support.full_disk import full_disk
from tests.support.kubernetes_objects import files_of
from tests.support.paths import CASES
from tfprov.errors import InvalidInput
from tfprov.importing.convert import Conversion, convert, documents
from tfprov.importing.emit import TargetHost
from tfprov.model.cluster import Cluster
from tfprov.model.yaml_node import Items
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.load import load

FILES = CASES / "import"


def convert_case(name: str, *machines: str) -> Conversion:
    """Convert one of the case files."""
    return convert((FILES / name).read_bytes(), name, FILES, [TargetHost(machine) for machine in machines])


def convert_text(text: str, *machines: str) -> Conversion:
    return convert(text.encode(), "f.yml", Path("/home/me"), [TargetHost(machine) for machine in machines])


def settings(text: str, *path: str) -> Any:
    value = yaml.load(text, _Loader)["all"]
    for key in path:
        value = value[key]
    return value


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


_Loader.add_constructor("!unsafe", lambda loader, node: f"unsafe {node.value}")


def cluster_of(text: str, directory: Path) -> Cluster:
    """Return the cluster that an inventory describes."""
    path = directory / "made.yml"
    path.write_text(text)
    return assign_tasks(load(path)[1])


def test_a_kubernetes_template_with_flags(tmp_path: Path) -> None:
    conversion = convert_case("reference.yml")
    cluster = cluster_of(conversion.text, tmp_path)
    assert cluster.name == "tf"
    assert [task.name for task in cluster.tasks] == ["ps/0", "worker/0", "worker/1"]
    assert settings(conversion.text, "vars", "tfprov") == {
        "cluster": "tf",
        "image": {"name": "img:v1"},
        "command": ["/usr/bin/python", "/train.py"],
        "flags": {"data_dir": "gs://bucket/data", "train_dir": "gs://bucket/train"},
        "env": {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/credential/key.json"},
        "port": 5000,
    }
    assert [(note.at.line, note.what.partition(":")[0]) for note in conversion.notes] == [
        (line, "`volumes.credential` is not carried over") for line in (41, 85, 129)
    ]


def test_a_tfjob(tmp_path: Path) -> None:
    conversion = convert_case("tfjob.yml", "a", "b", "c")
    cluster = cluster_of(conversion.text, tmp_path)
    names = ["ps/0", "chief/0", "worker/0", "worker/1", "worker/2", "worker/3"]
    assert [task.name for task in cluster.tasks] == names
    assert {task.name: task.host for task in cluster.tasks} == dict(zip(names, "caaabb", strict=True))
    assert settings(conversion.text, "vars", "tfprov", "wiring") == "tf_config"
    assert settings(conversion.text, "children", "chief", "vars", "tfprov") == {
        "flags": {"model_dir": "{{ checkpoint_dir }}", "steps": 2000, "rate": 0.1, "note": "unsafe hello {{ world }}"},
        "env": {"GREETING": "hello"},
        "mounts": [{"source": "/srv/mnist", "target": "/data", "read_only": True}],
        "checkpoints": {"dir": "/train"},
        "memory": "4g",
        "cpus": 2.5,
        "gpus": 1,
    }
    assert settings(conversion.text, "children", "ps", "vars", "tfprov") == {"restart": "never"}
    assert [(note.at.line, note.what.partition(" ")[0]) for note in conversion.notes] == [
        (9, "`spec.runPolicy.ttlSecondsAfterFinished`"),
        (17, "`spec.tfReplicaSpecs.Chief.template.spec.tolerations`"),
        (19, "a"),
        (27, "`env.API_TOKEN`"),
        (28, "`env.PASSWORD`"),
    ]


def test_a_compose_file(tmp_path: Path) -> None:
    conversion = convert_case("compose.yml")
    cluster = cluster_of(conversion.text, tmp_path)
    assert [task.name for task in cluster.tasks] == ["ps/0", "worker/0", "worker/1"]
    assert cluster.name == "import"  # the directory's name
    assert settings(conversion.text, "vars", "tfprov") == {
        "cluster": "import",
        "image": {"name": "registry.example.com/train:1.0"},
        "command": ["python", "train.py"],
        "flags": {"steps": 500},
        "port": 2222,
    }
    assert settings(conversion.text, "children", "ps", "vars", "tfprov") == {"memory": "2g"}
    assert settings(conversion.text, "children", "worker", "vars", "tfprov") == {
        "tasks_per_host": 2,
        "env": {"GREETING": "it costs $5", "REGION": "eu"},
        "mounts": [{"source": str(FILES / "data"), "target": "/data", "read_only": True}],
    }
    dropped, outside = "is not carried over", "it comes from the environment of Compose"
    ports = "tfprov publishes a task's own port, on the address of its host"
    vault = "add it to `env` as `ansible-vault encrypt_string` prints it"
    secrets = "secrets are not copied; put the values into `env`, encrypted with ansible-vault"
    assert [*map(str, conversion.notes)] == [
        "compose.yml:4:12: `unless-stopped` becomes `on-failure`: a task that exits with 0 is not started again",
        f"compose.yml:17:9: `services.worker0.environment.FROM_OUTSIDE` {dropped}: {outside}",
        f"compose.yml:19:9: `env.DB_PASSWORD` looks like a secret and is not copied: {vault}",
        f"compose.yml:20:9: `env.MIRROR` looks like a secret and is not copied: {vault}",
        f"compose.yml:21:34: the storage at /cache is not carried over: {MOUNT}",
        f"compose.yml:22:5: `services.worker0.ports` {dropped}: {ports}",
        f"compose.yml:23:5: `services.worker0.secrets` is not carried over: {secrets}",
        "compose.yml:24:3: worker/1 has another `env` than the first worker, which is used for all",
        "compose.yml:24:3: worker/1 has another `mounts` than the first worker, which is used for all",
        "compose.yml:26:12: this image is not carried over: all tasks of a cluster use the same image",
        "compose.yml:28:3: `redis` is not carried over: neither its command line nor TF_CONFIG says that it is a task",
        f"compose.yml:31:1: `secrets` is not carried over: {secrets}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["reference.yml", "tfjob.yml", "compose.yml"])
def test_no_secret_is_copied(name: str) -> None:
    conversion = convert_case(name)
    assert "do-not-copy-me" not in conversion.text
    assert "do-not-copy-me" not in "".join(map(str, conversion.notes))


LINEAR = """
all:
  vars:
    tfprov:
      cluster: linear
      image: {name: "img:v1"}
      env: {GREETING: "$HOME"}
      memory: 2g
      shm_size: 1g
      cpus: 1.5
      restart: never
      mounts: [{source: /srv/data, target: /data}]
  children:
    ps: {hosts: {a: }}
    worker: {hosts: {b: , c: }}
    evaluator: {hosts: {b: }, vars: {tfprov: {flags: {train_steps: 1}}}}
    tensorboard: {hosts: {b: }}
    program:
      children: {ps: , worker: , evaluator: }
      vars:
        tfprov:
          command: [python, linear.py]
          flags: {train_steps: 2000, note: "it's $5 {{ '{{ x }}' }}"}
"""
ROUND_TRIPS = {
    "flags": LINEAR,
    "TF_CONFIG": LINEAR.replace("restart: never", "strategy: parameter_server")
    .replace("    worker: {", "    chief: {hosts: {b: }}\n    worker: {")
    .replace("{ps: ,", "{ps: , chief: ,"),
    "renamed": LINEAR.replace("restart: never", "wiring: {flags: {job_name: --job, ps_hosts: --ps}}"),
    "all-reduce": LINEAR.replace("restart: never", "strategy: multi_worker_mirrored")
    .replace("    ps: {hosts: {a: }}\n", "")
    .replace("{ps: ,", "{"),
}


@pytest.mark.parametrize("target", ["compose", "swarm", "kubernetes", "kubeflow-tfjob"])
@pytest.mark.parametrize("how", ROUND_TRIPS)
def test_a_rendered_cluster_is_imported_unchanged(target: str, how: str, tmp_path: Path) -> None:
    options = {"kubernetes": ["access=ReadWriteMany"]}.get(target, [])
    (tmp_path / "was.yml").write_text(ROUND_TRIPS[how])
    was = assign_tasks(load(tmp_path / "was.yml")[1])
    (text,) = files_of(ROUND_TRIPS[how], target, *options).values()
    conversion = convert_text(text)
    again = cluster_of(conversion.text, tmp_path)
    assert again.name == "linear"
    assert [task.name for task in again.tasks] == [task.name for task in was.tasks]
    old = {role.role: role.values for role in load(tmp_path / "was.yml")[1]}
    new = {role.role: role.values for role in load(tmp_path / "made.yml")[1]}
    assert set(new) == set(old)
    for role, values in old.items():
        if role == "tensorboard":
            continue
        for name in ("image", "command", "wiring", "memory", "shm_size", "cpus", "mounts"):
            assert getattr(new[role], name) == getattr(values, name), (role, name)
        assert set(new[role].flags) == set(values.flags)
        assert new[role].env == values.env


# -- refused files ------------------------------------------------------------------------------------------------------

SERVICE = "services:\n  worker-0:\n    image: img:v1\n    command: [python, x.py]\n"
POD = """\
kind: Pod
apiVersion: v1
metadata: {name: a-worker-0}
spec: {containers: [{image: i, command: [p, --job_name=worker, --task_index=0]}]}
"""
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "f.yml: error: empty; give a Compose file, a TFJob or Kubernetes objects"),
    "a list": ("- a\n", "f.yml:1:1: error: neither a Compose file nor a Kubernetes object; give one of these, or a TFJob"),
    "not YAML": ("a: [", "f.yml:1:5: error: the file ends within brackets; close them"),
    "not UTF-8": (b"a: \xff", "f.yml:1:4: error: not UTF-8 text; write it as UTF-8"),
    "too large": (b"#" * 1_000_001, "f.yml: error: larger than 1,000,000 bytes; import a part of it"),
    "a template": ("{%- set name = 'x' %}\nkind: Service\n", "f.yml:1:1: error: a template; render it first"),
    "a program": (
        "a: !!python/object/apply:os.system [x]\n",
        "f.yml:1:4: error: the tag `!!python/object/apply:os.system` is not allowed here; write a plain value",
    ),
    "no task": (
        "services: {redis: {image: redis}}",
        "f.yml: error: no task of a TensorFlow cluster in it; its tasks need TF_CONFIG or cluster flags",
    ),
    "no image": ("services: {worker-0: {command: [a]}}", "f.yml:1:12: error: no image; correct the file"),
    "an empty image": (
        SERVICE.replace("img:v1", "''"),
        "f.yml:3:12: error: `image.name` must not be empty; for example `name: registry.example.com/train:1.0`",
    ),
    "no command": (
        "services: {worker-0: {image: a}}", "f.yml:1:12: error: `worker-0` has no command; add its command to the file",
    ),
    "no replicas": (
        SERVICE + "    deploy: {replicas: 0}\n", "f.yml: error: no task in it has a replica; correct its `replicas`",
    ),
    "only a ps": (
        SERVICE.replace("worker-0", "ps-0"), "f.yml: error: `ps` without a worker; put a host into the group `worker`",
    ),
    "twice": (f"---\n{POD}---\n{POD}", "f.yml:7:1: error: duplicate worker/0 (first on line 2); keep one of them"),
    "a bad index": (
        SERVICE.replace("x.py", "--job_name=worker, --task_index=x"),
        "f.yml:2:3: error: `worker-0`: --task_index must be a whole number, not 'x'; correct its flags",
    ),
    "a bad TF_CONFIG": (
        SERVICE + "    environment: {TF_CONFIG: '[]'}\n",
        "f.yml:5:19: error: TF_CONFIG is not valid: 'list' object has no attribute 'get'; correct it",
    ),
    "an open quote": (
        SERVICE.replace("[python, x.py]", "python 'x"),
        "f.yml:4:14: error: `services.worker-0.command`: no closing quotation; close the quote",
    ),
    "services in a list": ("services: [a, b]", "f.yml:1:11: error: `services` must be a mapping; correct the file"),
    "no container": (
        "kind: Pod\napiVersion: v1\nmetadata: {name: worker-0}\nspec: {}\n",
        "f.yml:1:1: error: `worker-0` has no container; correct the file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_unusable_file_is_refused(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(InvalidInput) as error:
        convert(text if isinstance(text, bytes) else text.encode(), "f.yml", Path("/home/me"))
    assert str(error.value) == message


NO_SETTING = "an inventory has no such setting"
MOUNT = "mount a directory of the host, with `mounts`"
OF_THE_SYSTEM = (
    "- {source: /srv, target: /etc, read_only: false} is not carried over: "
    "`mounts[0].target` must not be the system's own directory `/etc`"
)
NOTES = {
    "    volumes: [/cache]\n": f"f.yml:5:15: the storage at /cache is not carried over: {MOUNT}",
    "    volumes: ['~nobody-here/d:/d']\n": f"f.yml:5:15: the storage at /d is not carried over: {MOUNT}",
    "    restart: sometimes\n": f"f.yml:5:14: `sometimes` is not carried over: {NO_SETTING}",
    "    mem_limit: much\n": "f.yml:5:16: `much` is not carried over: not an amount of memory",
    "    volumes: ['/srv:/etc']\n": f"f.yml:5:15: {OF_THE_SYSTEM}",
}


@pytest.mark.parametrize("text", NOTES)
def test_a_dropped_key_of_a_service_is_noted(text: str) -> None:
    conversion = convert_text(SERVICE + text)
    assert [*map(str, conversion.notes)] == [NOTES[text]]
    assert not {"mounts", "restart", "memory"} & set(settings(conversion.text, "vars", "tfprov"))


def test_a_file_may_have_a_million_bytes() -> None:
    assert convert_text(SERVICE.ljust(1_000_000, "#")).text == convert_text(SERVICE).text


def test_a_document_may_begin_with_a_directive() -> None:
    plain = f"---\n{SERVICE}"
    assert convert_text(f"...\n{SERVICE}").text == convert_text(SERVICE).text
    assert (
        convert_text(f"%YAML 1.1\n# of ours\n{plain}...\n%YAML 1.1\n---\n# nothing\n").text == convert_text(plain).text
    )


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: worker}
spec:
  replicas: 1
  template:
    spec: {containers: [{name: worker, image: "a:1", command: [python, x.py], args: [$(NOWHERE)]}]}
---
{apiVersion: example.org/v1, kind: Queue, metadata: {name: jobs}}
"""


def test_unknown_references_and_objects_without_a_task_are_noted() -> None:
    assert [*map(str, convert_text(DEPLOYMENT).notes)] == [
        "f.yml:7:86: `$(NOWHERE)` stays as it is: its value is not in the file",
        "f.yml:9:1: the Queue `jobs` is not carried over: it runs no task",
    ]


def test_an_invalid_number_of_replicas_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"^f\.yml:5:13: error: `spec\.replicas` must be a whole number; write one, such as 1$"
    ):
        convert_text(DEPLOYMENT.replace("replicas: 1", "replicas: many"))


@pytest.mark.parametrize("hosts", [[], [TargetHost("a"), TargetHost("b")]])
def test_a_role_without_replicas_is_left_out_with_a_note(hosts: list[TargetHost]) -> None:
    evaluator = SERVICE.removeprefix("services:\n").replace("worker-0", "evaluator") + "    deploy: {replicas: 0}\n"
    text = f"{SERVICE}{evaluator}{evaluator.replace('evaluator', 'evaluator-1')}"
    conversion = convert(text.encode(), "f.yml", Path("/home/me"), hosts)
    assert list(settings(conversion.text, "children")) == ["worker"]
    assert [str(note) for note in conversion.notes] == ["f.yml:5:3: `evaluator` is not carried over: it has 0 replicas"]


def test_an_alias_bomb_is_refused() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else 'x'}]\n" for n in range(9))
    with pytest.raises(
        InvalidInput,
        match=r"^f.yml:5:5: error: more than 200,000 values once aliases are expanded; write fewer aliases$",
    ):
        convert_text(levels)
    # Each document is within the limit, all together are not.
    # All documents may have as many values together as one may have, and no more.
    most = f"- &a [{'x, ' * 999}]\n" + "- *a\n" * 198 + "- y\n" * 999
    assert [len(node.items) for node in documents(most.encode(), "f.yml") if isinstance(node, Items)] == [1198]
    with pytest.raises(InvalidInput, match=r"^f.yml: error: more than 200,000 values"):
        documents(f"{most}---\n- y\n".encode(), "f.yml")
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else 'x'}]\n" for n in range(5))
    with pytest.raises(
        InvalidInput, match=r"^f.yml: error: more than 200,000 values once aliases are expanded; write fewer aliases$"
    ):
        convert_text(f"---\n{levels}" * 30)


def test_values_that_an_inventory_refuses_are_dropped_with_a_note() -> None:
    conversion = convert_text(
        SERVICE + "    mem_limit: 1m\n    environment: {'a b': x, OK: 'y', LONG: \"a\\nb\"}\n"
        "    volumes: ['/srv:/etc', '/data:/data']\n    cpus: many\n    stop_grace_period: soon\n"
    )
    tfprov = settings(conversion.text, "vars", "tfprov")
    assert "memory" not in tfprov
    assert tfprov["env"] == {"OK": "y"}
    assert tfprov["mounts"] == [{"source": "/data", "target": "/data", "read_only": False}]
    assert [str(note) for note in conversion.notes] == [
        "f.yml:5:16: memory: 1m is not carried over: `memory` must be at least 6m, not `1m`",
        "f.yml:6:19: a b: x is not carried over: `env.a b` is not the name of an environment variable",
        'f.yml:6:38: LONG: "a\\nb" is not carried over: `env.LONG` must be one line',
        f"f.yml:7:15: {OF_THE_SYSTEM}",
        "f.yml:8:11: `many` is not carried over: not a number of CPUs",
        "f.yml:9:24: `soon` is not carried over: not a duration in whole seconds",
    ]


GPUS = "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 3, capabilities: [gpu]}]}}}\n"


@pytest.mark.parametrize(
    ("notes", "gpus"),
    [("    gpus: all\n", "all"), ("    gpus: 2\n", 2), ("    gpus: [{driver: nvidia, count: 2}]\n", 2), (GPUS, 3)],
    ids=["all", "a number", "a list", "a reservation"],
)
def test_gpus_in_each_form_of_compose(notes: str, gpus: object) -> None:
    assert settings(convert_text(SERVICE + notes).text, "vars", "tfprov", "gpus") == gpus


def test_an_invalid_number_of_gpus_is_noted() -> None:
    conversion = convert_text(SERVICE + "    gpus: many\n")
    assert [str(note) for note in conversion.notes] == [
        "f.yml:5:11: `many` is not carried over: not a number of GPUs",
    ]


def paths_in(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in below for place in paths_in(child, (*path, key)))]


FOREIGN = {
    name: [one for one in read_all_yaml((FILES / name).read_text()) if one]
    for name in ("compose.yml", "reference.yml", "tfjob.yml")
}
ODD = st.sampled_from(
    [None, "", "x", "-1", "${X}", "1.5e9", 0, -3, 2.5, True, [], [None], [["x"]], {}, {"a": None}, {1: 2}]
)


@examples(150)
@given(name=st.sampled_from(sorted(FOREIGN)), data=st.data())
def test_arbitrary_values_are_imported_noted_or_refused(name: str, data: st.DataObject) -> None:
    whole = copy.deepcopy(FOREIGN[name])
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from([place for place in paths_in(whole) if place]))
        within: Any = whole
        for key in above:
            within = within[key]
        within[last] = copy.deepcopy(data.draw(ODD))
    text = yaml.dump_all(whole, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
    with contextlib.suppress(InvalidInput):
        assert convert_text(text).text


def test_braces_are_imported_as_literal_text() -> None:
    conversion = convert_text(SERVICE.replace("x.py", "\"{{ lookup('pipe', 'id') }}\", \"--a={% x\""))
    assert settings(conversion.text, "vars", "tfprov", "command") == ["python", "unsafe {{ lookup('pipe', 'id') }}"]
    assert settings(conversion.text, "vars", "tfprov", "flags") == {"a": "unsafe {% x"}


def test_an_index_written_as_text_is_read(tmp_path: Path) -> None:
    # The reference writes it so.
    config = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": "0"}}'
    conversion = convert_text(SERVICE + f"    environment: {{TF_CONFIG: '{config}'}}\n")
    assert [task.name for task in cluster_of(conversion.text, tmp_path).tasks] == ["worker/0", "worker/1"]
    what = "the tasks have addresses of 2 worker tasks, the file has 1: the inventory has 2"
    assert [*map(str, conversion.notes)] == [f"f.yml:2:3: {what}"]


def test_hosts_named_in_the_file(tmp_path: Path) -> None:
    pinned = "services:\n" + "".join(
        f"  worker-{n}:\n    image: i\n    command: [p]\n"
        f"    deploy: {{placement: {{constraints: ['node.hostname == m{n}']}}}}\n"
        for n in range(2)
    )
    assert [task.host for task in cluster_of(convert_text(pinned).text, tmp_path).tasks] == ["m0", "m1"]
    assert [task.host for task in cluster_of(convert_text(pinned, "x").text, tmp_path).tasks] == ["x", "x"]


def test_kubectls_list_and_json(tmp_path: Path) -> None:
    pods = '{"spec": {"containers": [{"name": "tensorflow", "image": "i", "command": ["p"]}]}}'
    replicas = f'{{"Worker": {{"replicas": 2, "template": {pods}}}}}'
    job = f'{{"kind": "TFJob", "apiVersion": "v1", "metadata": {{"name": "j"}}, "spec": {{"tfReplicaSpecs": {replicas}}}}}'
    text = f'{{"kind": "List", "apiVersion": "v1", "items": [{job}]}}'
    assert [task.name for task in cluster_of(convert_text(text).text, tmp_path).tasks] == ["worker/0", "worker/1"]


# -- the command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("working_directory")
def test_the_inventory_is_written_to_the_output_file(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(
        capsys, "import", str(FILES / "reference.yml"), "-o", "new/inventory.yml", "--hosts", "me@a,me@b:2200"
    )
    assert result.code == 0
    assert result.out == (
        "wrote new/inventory.yml; 3 things not carried over, listed above\nnext: tfprov plan -i new/inventory.yml\n"
    )
    assert len(result.lines) == 3
    roles = load(Path("new/inventory.yml"))[1]
    assert {(role.host, role.connection.user, role.connection.port) for role in roles} == {
        ("a", "me", None),
        ("b", "me", 2200),
    }
    printed = run_command(capsys, "import", str(FILES / "reference.yml"))
    assert printed.out.startswith("# A TensorFlow cluster, imported from reference.yml.\nall:\n")
    assert run_command(capsys, "import", str(FILES / "reference.yml"), "-o", "-") == printed


@pytest.mark.usefixtures("working_directory")
def test_a_file_that_cannot_be_written_whole_is_removed_and_a_second_try_writes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ("import", str(FILES / "reference.yml"), "-o", "inventory.yml")
    with full_disk(10):
        failed = run_command(capsys, *argv)
    assert failed.code == 2
    assert failed.lines[-1].endswith("inventory.yml: error: cannot be written: file too large; choose another file")
    assert not Path("inventory.yml").exists()
    assert run_command(capsys, *argv).code == 0


@pytest.mark.usefixtures("working_directory")
def test_an_existing_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("inventory.yml").write_text("mine")
    refused = CommandResult(2, ("error: inventory.yml exists already; choose another file",))
    assert run_command(capsys, "import", str(FILES / "reference.yml"), "-o", "inventory.yml") == refused
    assert Path("inventory.yml").read_text() == "mine"
    Path("link.yml").symlink_to("nowhere.yml")
    assert run_command(capsys, "import", str(FILES / "reference.yml"), "-o", "link.yml").code == 2
    assert not Path("nowhere.yml").exists()


@pytest.mark.usefixtures("working_directory")
@pytest.mark.parametrize(
    ("argv", "notes"),
    [
        (["nothing.yml"], "nothing.yml: error: no such file; check the path"),
        (["."], ".: error: is a directory, not a file; give a file in it"),
        ([str(FILES / "reference.yml"), "--hosts", " "], "error: `--hosts` names no machine; for example"),
        ([str(FILES / "reference.yml"), "--hosts", "a/b"], "error: `a/b` is no machine"),
        ([str(FILES / "reference.yml"), "-o", "/proc/x/y.yml"], "/proc/x/y.yml: error: cannot be written: "),
    ],
    ids=["missing", "a directory", "no hosts", "a bad host", "no place to write"],
)
def test_wrong_calls(argv: list[str], notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "import", *argv)
    assert result.code == 2
    assert result.lines[-1].startswith(notes)
    assert not os.listdir()  # noqa: PTH208  nothing was written


def test_the_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((FILES / "reference.yml").read_bytes())))
    result = run_command(capsys, "import", "-")
    assert result.code == 0
    assert result.lines[0].startswith("(standard input):41:9: ")
