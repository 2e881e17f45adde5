"""Settings that targets refuse, and the checks of rendered files."""

import base64
import hashlib
import io
import json
import os
import random
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.fast_yaml import read_all_yaml
from tests.support.kubernetes_objects import cluster_of, files_of, object_named, objects_of, of_kind, roles_of
from tests.support.render_options import filled
from tfprov.errors import InvalidInput, TfprovError, Usage
from tfprov.images.code import Code
from tfprov.planning.plan_text import format_count, format_size
from tfprov.render import output
from tfprov.render.compose import Compose, size
from tfprov.render.dns_names import dns_1123, subdomain
from tfprov.render.kubernetes import cluster_settings
from tfprov.render.kubernetes.common import code_size_problem
from tfprov.render.quoting import SHIPPED, Unquoted, as_json
from tfprov.render.render import render, render_cluster
from tfprov.render.slurm import DOMAIN, Lookup, WordPart, Words
from tfprov.render.target import find_target

INVENTORY = """
all: {{vars: {{tfprov: {{cluster: lab, image: {{name: "x:1"}}, command: [python, x.py]{settings}}}}}}}
ps: {{hosts: {{h1: {{ansible_host: 10.0.0.1}}}}}}
worker: {{hosts: {{h2: {{ansible_host: 10.0.0.2}}, h3: {{ansible_host: 10.0.0.3}}}}}}
{more}
"""


def inventory(settings: str = "", more: str = "") -> str:
    return INVENTORY.format(settings=f", {settings}" if settings else "", more=more)


def refused(target: str, text: str, *settings: str) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        files_of(text, target, *settings)
    return [str(problem) for problem in raised.value.problems]


# --- checks of rendered files ------------------------------------------------------------------------------------------

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
APP: dict[str, Any] = {"id": "/lab/ps-0", "cmd": "python", "container": {"docker": {"image": "x:1"}}}


REFUSED = [
    ("kubernetes", f"{POD}---\n{POD}", ": two objects are Pod a"),
    ("kubernetes", "[1]", ": a document is not a Kubernetes object"),
    ("kubernetes", POD.replace("apiVersion: v1\n", ""), ": a document is not a Kubernetes object"),
    ("kubernetes", POD.replace("{name: a}", "{}"), ": a document is not a Kubernetes object"),
    ("kubernetes", POD.replace("{name: a}", "a"), ": a document is not a Kubernetes object"),
    ("kubernetes", POD.replace("Pod", "1"), ": a document is not a Kubernetes object"),
    ("compose", "services: {}\n", " has no services"),
    ("compose", "volumes: {}\n", " has no services"),
    ("compose", "[1]\n", " has no services"),
    ("compose", "services: {a: 1}\n", ": the service `a` is invalid"),
    ("compose", 'services: {"a b": {image: x, entrypoint: [a]}}\n', ": the service `a b` is invalid"),
    ("compose", "services: {a: {entrypoint: [a]}}\n", ": the service `a` has no `image`"),
    ("compose", "services: {a: {image: x}}\n", ": the service `a` has no `entrypoint`"),
    ("marathon", json.dumps({"apps": [APP, APP]}), " has two apps with the same id"),
    ("marathon", json.dumps({"apps": [APP | {"cmd": ""}]}), ": the app /lab/ps-0 has no image or no command"),
    (
        "marathon",
        json.dumps({"apps": [APP | {"container": {"docker": {"image": ""}}}]}),
        ": the app /lab/ps-0 has no image or no command",
    ),
    ("slurm", "#!/bin/sh\n", " must begin with `#!/bin/bash`"),
    ("slurm", "#!/bin/bash\n" + "#" * (4 << 20), " is longer than the 4 MiB that Slurm accepts"),
    ("swarm", "version: '2'\nservices: {a: {image: x, entrypoint: [a]}}\n", ": `docker stack deploy` reads version 3"),
    ("spark-submit", "x =\n", " is no Python program: invalid syntax (<unknown>, line 1)"),
]


@pytest.mark.parametrize(("target", "text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_an_invalid_rendered_file_is_refused(target: str, text: str, message: str) -> None:
    checked = find_target(target)
    (name,) = files_of(inventory(), target, *(("claim=c",) if target == "kubernetes" else ()))
    with pytest.raises(ValueError, match=rf"^{re.escape(name + message)}\Z"):
        checked.check({name: text})


TAKEN = [
    ("kubernetes", f"{POD}---\n{POD.replace('a}', 'b}')}---\n{POD.replace('Pod', 'Job')}"),
    ("compose", "services: {a: {image: x, entrypoint: [a]}, b.c-d_2: {image: x, entrypoint: [a]}}\n"),
    ("marathon", json.dumps({"apps": [APP, APP | {"id": "/lab/ps-1"}]})),
    ("slurm", "#!/bin/bash\n" + "#" * ((4 << 20) - 12)),
]


@pytest.mark.parametrize(("target", "text"), TAKEN, ids=range(len(TAKEN)))
def test_a_valid_rendered_file_is_accepted(target: str, text: str) -> None:
    (name,) = files_of(inventory(), target, *(("claim=c",) if target == "kubernetes" else ()))
    find_target(target).check({name: text})


def test_values_that_cannot_be_quoted_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a text leaves the template unquoted"):
        filled(tmp_path, "{{ x | indent(2) }}", x="text")
    with pytest.raises(Unquoted, match="a set cannot be written as JSON"):
        as_json({1, 2})
    with pytest.raises(InvalidInput, match="a set cannot be written as JSON"):
        filled(tmp_path, "{{ x | json }}", x={1, 2})


# --- what cannot be rendered ---------------------------------------------------------------------------------------------


def test_options_that_exclude_each_other_are_refused() -> None:
    for pair in (("claim=a", "storage_class=b"), ("data_claim=a", "data_path=/b")):
        names = [setting.partition("=")[0] for setting in pair]
        with pytest.raises(Usage) as raised:
            files_of(inventory(), "kubernetes", *pair)
        assert str(raised.value) == f"`--set {names[0]}` and `--set {names[1]}` exclude each other; use one of them"
        for setting in pair:
            files_of(inventory(), "kubernetes", *({setting, "claim=c"} if setting.startswith("data") else {setting}))


LOCAL = """
all: {vars: {tfprov: {cluster: lab, image: {name: "x:1"}, command: [python, x.py], data: {path: %s, to: /sets}}}}
worker: {hosts: {localhost: }}
"""


def test_data_next_to_the_inventory_is_refused_if_no_node_has_it() -> None:
    [message] = refused("kubernetes", LOCAL % "sets", "claim=c")
    assert message.partition(": error: ")[0] == "inventory.yml:2:91"
    assert message.partition(": error: ")[2] == (
        "`data.path` is on this machine, and not on the cluster's nodes; "
        "use `--set data_claim=CLAIM`, or `--set data_path=/PATH` for a directory that every node has"
    )
    for option in ("data_claim=d", "data_path=/d"):
        files_of(LOCAL % "sets", "kubernetes", "claim=c", option)
    files_of(LOCAL % "/sets", "kubernetes", "claim=c")
    for target in ("swarm", "marathon"):
        [message] = refused(target, LOCAL % "sets")
        assert "`data.path` must be an absolute path: it is on " in message
        assert message.endswith("; for example `path: /data/mnist`")
        files_of(LOCAL % "/sets", target)


def test_readers_of_checkpoints_need_a_shared_volume() -> None:
    text = inventory(more="evaluator: {hosts: {h2: }}\ntensorboard: {hosts: {h2: }}")
    messages = [
        f"the {role} cannot read the chief's checkpoints with `--set storage=none`; set a size, such as "
        f"`--set storage=10Gi`, or remove the {role}"
        for role in ("evaluator", "tensorboard")
    ]
    assert [message.partition(" error: ")[2] for message in refused("kubernetes", text, "storage=none")] == messages
    files_of(text, "kubernetes", "storage=10Gi")
    files_of(text, "kubernetes", "storage=none", "claim=c")


def test_data_is_mounted_from_the_nodes() -> None:
    text = inventory("data: {path: /sets, to: /data}")
    [group] = (json.loads(file_text) for file_text in files_of(text, "marathon").values())
    volumes = {app["id"].rpartition("/")[2]: app["container"].get("volumes", []) for app in group["apps"]}
    assert all(
        ({"hostPath": "/sets", "containerPath": "/data", "mode": "RO"} in mounted) == ("worker" in name)
        for name, mounted in volumes.items()
    )
    pods = of_kind(objects_of(text, "kubernetes", "claim=c", "data_path=/nodes"), "StatefulSet", "Job", "Deployment")
    assert "/nodes" in json.dumps(pods)


def test_slurm_carries_one_code_and_keeps_paths_without_containers() -> None:
    several = inventory("code: ./a", "gpu: {vars: {tfprov: {code: ./b}}, hosts: {h2: }}")
    [message] = refused("slurm", several)
    what = "a script carries only one `code`, and the roles have several"
    assert message == f"inventory.yml:2:84: error: {what}; set the same for all"
    files_of(several, "slurm", "code=image")
    text = inventory("mounts: [{source: /a, target: /a}, {source: /a, target: /b}]")
    [message] = refused("slurm", text, "container=none")
    assert message.partition(" error: ")[2] == (
        "`mounts[1]`: without containers a directory keeps its path, /a; set the same `target`, or remove the mount"
    )
    files_of(text, "slurm")
    for mount in ('{source: "/a,b", target: /a}', '{source: /a, target: "/a:b"}'):
        [message] = refused("slurm", inventory(f"mounts: [{mount}]"), "container=apptainer")
        assert message.partition(" error: ")[2] == (
            "`mounts[0]` has a `:` or `,`, where apptainer ends a path; choose another path"
        )


def test_several_files_need_a_directory(tmp_path: Path) -> None:
    existing = tmp_path / "file"
    existing.write_text("before")
    with pytest.raises(Usage) as raised:
        list(output.write({"a": "1", "b": "2"}, existing))
    assert str(raised.value) == f"{existing} is a file, and there are 2 to write; use a directory with `-o`"
    assert existing.read_text() == "before"
    assert list(output.write({"a": "1", "b": "2"}, tmp_path / "new")) == [
        tmp_path / "new" / "a",
        tmp_path / "new" / "b",
    ]
    assert list(output.write({"a": "1"}, existing)) == [existing]
    assert existing.read_text() == "1"
    with pytest.raises(Usage, match="cannot be written: File exists; choose another path with `-o`"):
        list(output.write({"a": "1"}, existing / "below"))


def test_a_pipe_takes_what_is_rendered(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert list(output.write({"a": "text"}, pipe)) == [pipe]
    assert os.read(reader, 10) == b"text"
    os.close(reader)


# --- texts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (3 << 30, "3g"), (1 << 30, "1g"), ((1 << 30) + (1 << 20), "1025m"), (5 << 20, "5m"), (7 << 10, "7k"),
        (1025, "1025b"), (1023, "1023b"),
    ],
)  # fmt: skip
def test_a_size_for_compose_is_in_the_largest_exact_unit(amount: int, text: str) -> None:
    assert size(amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"), (1, "1 B"), (999, "999 B"), (1000, "1.0 kB"), (1550, "1.6 kB"), (999_900, "999.9 kB"),
        (1_000_000, "1.0 MB"), (2_500_000_000, "2.5 GB"), (10**12, "1.0 TB"), (5 * 10**15, "5000.0 TB"),
    ],
)  # fmt: skip
def test_a_formatted_size_has_one_to_three_digits_before_the_point(amount: float, text: str) -> None:
    assert format_size(amount) == text


def test_only_a_count_of_one_is_singular() -> None:
    assert [format_count(number, "shard") for number in (0, 1, 2)] == ["0 shards", "1 shard", "2 shards"]


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 63])
def test_a_valid_object_name_is_accepted(name: str) -> None:
    assert dns_1123(name) == name
    assert subdomain(f"{name}.b") == f"{name}.b"


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b"])
def test_an_invalid_object_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters, digits and `-`, at most 63"):
        dns_1123(name)
    with pytest.raises(ValueError, match="a name of lower-case letters, digits, `-` and"):
        subdomain(f"a.{name}")


def test_a_too_long_object_name_is_refused() -> None:
    assert subdomain(".".join(["a" * 61] * 4 + ["abcde"])) != ""
    with pytest.raises(ValueError, match="a name of lower-case letters"):
        subdomain(".".join(["a" * 61] * 4 + ["abcdef"]))
    assert issubclass(InvalidInput, TfprovError)


def test_slurm_words_look_up_addresses_with_and_without_a_port() -> None:
    cluster = cluster_of(inventory(), "slurm")
    words = Words(cluster)
    rank = {task.name: number for number, task in enumerate(cluster.tasks)}["worker/1"]
    name = f"worker-1.{DOMAIN}"
    assert words.word(f"a={name}:2222,{name} ps-7.{DOMAIN}") == (
        WordPart("a="),
        WordPart(lookup=Lookup.ENDPOINT, rank=rank),
        WordPart(","),
        WordPart(lookup=Lookup.HOST, rank=rank),
        WordPart(f" ps-7.{DOMAIN}"),
    )
    assert words.word("") == (WordPart(),)


def test_an_invalid_rendered_file_is_reported_as_an_error_of_the_users_template(tmp_path: Path) -> None:
    (tmp_path / "compose.yml.j2").write_text("services: {}\n")
    with pytest.raises(InvalidInput) as raised:
        render(roles_of(inventory()), find_target("compose"), template_dir=tmp_path)
    assert str(raised.value) == f"{tmp_path}: error: compose.yml has no services; correct the template"


class Broken(Compose):
    """A target that renders what it refuses."""

    def check(self, files: Mapping[str, str]) -> None:
        raise ValueError("compose.yml has no\nservices")


def test_an_invalid_rendered_file_of_a_shipped_template_is_a_bug() -> None:
    compose = find_target("compose")
    broken: Any = Broken(
        compose.name, compose.title, compose.options, compose.templates, compose.images, compose.carries_code
    )
    with pytest.raises(TfprovError) as raised:
        render(roles_of(inventory()), broken)
    assert str(raised.value) == "compose: compose.yml has no services; this is a bug in tfprov"


def test_a_template_directory_without_templates_is_refused() -> None:
    for directory, message in (
        ("/no/such", "no directory /no/such"),
        ("/", "/ has none of compose.yml.j2"),
    ):
        with pytest.raises(Usage) as raised:
            render(roles_of(inventory()), find_target("compose"), template_dir=Path(directory))
        assert str(raised.value) == f"`--template`: {message}; copy one from {SHIPPED}"


BOARD = "tensorboard: {hosts: {h2: }}"
NAMED = inventory().replace('{name: "x:1"}', "{archive: /x.tar}")
FETCHED = inventory(f"data: {{fetch: [{{url: 'http://a/b', sha256: {'ab' * 32}}}], to: /d}}")
FROM_CLAIM = "use `--set data_claim=CLAIM`, or `--set data_path=/PATH` for a directory that every node has"
ALIKE = "set the same for both; a program can read its task from TFPROV_TASK"


@pytest.mark.parametrize(
    ("target", "text", "settings", "message"),
    [
        ("swarm", inventory().replace('image: {name: "x:1"}, ', ""), (),
         "2:22: error: no `image`: swarm has to pull it; use `--set image=REGISTRY/NAME:TAG`"),
        ("kubernetes", NAMED, ("claim=c",),
         ("2:45: error: `image.archive` is not in a registry: kubernetes has to pull it; "
         "push the image to one and use `--set image=REGISTRY/NAME:TAG`")),
        ("swarm", FETCHED, (), ("2:91: error: `data.fetch` works on tfprov's own hosts only: swarm does not fetch data; "
         "set `data: {path: …}`")),
        ("kubernetes", FETCHED, ("claim=c",),
         f"2:91: error: `data.fetch` works on tfprov's own hosts only: kubernetes does not fetch data; {FROM_CLAIM}"),
        ("swarm", inventory("checkpoints: {link: logdir}"), (),
         ("2:98: error: `checkpoints.link` works on tfprov's own hosts only: swarm does not create links; "
         "remove it, and have the program save to `{{ checkpoint_dir }}`")),
        ("swarm", inventory("code: ./a"), (),
         ("2:84: error: swarm does not deliver `code` to its tasks; put it into the image, at /code, "
         "and use `--set code=image`")),
        *((target, inventory("gpus: all"), settings,
           f"2:84: error: `gpus: all`: {who} counts GPUs; set a number, such as `gpus: 1`")
          for target, who, settings in (
              ("kubernetes", "Kubernetes", ("claim=c",)), ("swarm", "a swarm", ()), ("marathon", "Mesos", ()),
              ("slurm", "Slurm", ()),
          )),
        *((target, inventory("devices: [/dev/kfd]"), settings, f"2:84: error: `devices`: {why}; remove it")
          for target, settings, why in (
              ("kubernetes", ("claim=c",), "a pod gets devices from a device plugin, such as GPUs by `gpus`"),
              ("swarm", (), "a swarm gives its tasks no devices of their nodes"),
              ("marathon", (), "an agent gives its tasks those of its own configuration"),
          )),
        ("kubernetes", inventory().replace("cluster: lab", "cluster: 9lab"), ("claim=c",),
         ("2:23: error: the cluster's name `9lab` begins with a digit, and names of Services begin with a letter; "
         "begin it with a letter")),
        ("marathon", inventory(more=BOARD), (),
         ("5:1: error: tensorboard reads the chief's files, and on Mesos each task has its own directory; "
         "use `--set checkpoints=DIR`, a directory that all agents share")),
        ("kubeflow-tfjob", inventory(), ("storage=10Gi", "access=ReadWriteOnce"),
         ("4:1: error: worker/0 shares its template with other workers, and several nodes cannot mount that volume; "
         "use `--set access=ReadWriteMany`, or `--set storage=none`")),
        ("kubeflow-tfjob", inventory(more="gpu: {vars: {tfprov: {memory: 1g}}, hosts: {h3: }}"), ("storage=none",),
         ("5:23: error: `memory` differs between worker/1 and worker/0, and a TFJob has one template for both; "
         f"{ALIKE}")),
        ("marathon", LOCAL % "sets", (),
         ("2:91: error: `data.path` must be an absolute path: it is on the agents; "
         "for example `path: /data/mnist`")),
        ("swarm", LOCAL % "sets", (),
         ("2:91: error: `data.path` must be an absolute path: it is on the swarm's nodes; "
         "for example `path: /data/mnist`")),
    ],
)  # fmt: skip
def test_the_full_message_for_an_unsupported_setting(
    target: str, text: str, settings: tuple[str, ...], message: str
) -> None:
    assert refused(target, text, *settings) == [f"inventory.yml:{message}"]


@pytest.mark.parametrize(
    ("target", "setting", "message"),
    [
        ("marathon", "port=65535", "`--set port=65535` leaves too few ports for 3 tasks; use a lower one"),
        ("kubernetes", "claim", "`--set claim` has no value; write `--set name=value`"),
        ("kubernetes", "tolerations=a b",
         ("`--set tolerations` must be a taint such as `nvidia.com/gpu:NoSchedule`, not `a b`; "
         "the taints to run under: `key[=value][:effect]`")),
        ("kubernetes", "node_selector=x=y z",
         ("`--set node_selector` must be letters, digits, `-`, `_` and `.`, at most 63, not `x=y z`; "
         "the labels of the nodes to run on: `key=value`")),
    ],
)  # fmt: skip
def test_the_full_message_for_an_unusable_option(target: str, setting: str, message: str) -> None:
    with pytest.raises(Usage) as raised:
        files_of(inventory(), target, setting)
    assert str(raised.value) == message


def test_the_highest_port_can_be_used() -> None:
    [group] = (json.loads(text) for text in files_of(inventory(), "marathon", "port=65532").values())
    assert len(group["apps"]) == 3


@pytest.mark.parametrize(("size", "fits"), [(899_999, True), (900_000, True), (900_001, False)])
def test_code_too_large_for_a_config_map_is_refused(size: int, fits: bool) -> None:
    role = roles_of(inventory("code: ./a"))[0]
    message = (
        "inventory.yml:2:84: error: `code` has 900001 bytes when packed, and a ConfigMap holds at most 900000; "
        "exclude other files with a .dockerignore, or put it into the image and use `--set code=image`"
    )
    assert list(map(str, code_size_problem(role, size))) == ([] if fits else [message])


def test_each_code_counts_once_for_a_config_map() -> None:
    one = Code("a", f"sha256:{1:064}", b"x" * 1000)
    other = Code("b", f"sha256:{2:064}", random.Random(1).randbytes(1000))
    alone = cluster_settings.packed_size([])
    assert alone > 1000, "the runtime is always with it"
    assert cluster_settings.packed_size([one, one]) == cluster_settings.packed_size([one]) < alone + 100
    assert alone + 1000 <= cluster_settings.packed_size([other]) < alone + 1100


def test_on_slurm_only_workers_see_the_gpus() -> None:
    (script,) = files_of(inventory(), "slurm", "gpus=2").values()
    hidden = "environment+=(CUDA_VISIBLE_DEVICES='')"
    assert [hidden in part for part in re.split(r"# (?=ps/0|worker/)", script)[1:]] == [True, False, False]


def test_a_tensorboard_alone_needs_no_watcher() -> None:
    workers = inventory("wiring: tf_config").replace("ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}\n", "")
    ends = [
        bool(of_kind(objects_of(text, "kubernetes", "kind=Job", "claim=c"), "Role"))
        for text in (workers, workers + BOARD, inventory(), inventory(more=BOARD))
    ]
    assert ends == [False, False, True, True], "a ps does not end by itself, and a tensorboard may go on"


def test_code_is_packed_without_what_is_never_code_and_not_at_all_if_the_image_has_it(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for name in ("x.py", "pw.txt"):
        (source / name).write_text("")
    asked: list[str] = []

    def never_code() -> frozenset[Path]:
        asked.append("never")
        return frozenset([source / "pw.txt"])

    def rendered(code: Path, target: str, *settings: str) -> str:
        (text,) = render_cluster(roles_of(inventory(f"code: {code}")), target, settings, never_code, None).values()
        return text

    objects = read_all_yaml(rendered(source, "kubernetes", "claim=c"))
    [archives] = (one["binaryData"].values() for one in of_kind(objects, "ConfigMap") if "binaryData" in one)
    packed = []
    for data in archives:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(data))) as archive:
            packed.append(archive.getnames())
    assert [names for names in packed if "tfprov" not in str(names)] == [["x.py"]], "beside the runtime"
    assert asked == ["never"]
    assert "binaryData" not in rendered(tmp_path / "gone", "kubernetes", "code=image")
    assert asked == ["never"], "the image has it"


def test_carried_code_is_unpacked_into_directories_of_the_pod() -> None:
    board = "tensorboard: {hosts: {h2: }, vars: {tfprov: {%s}}}"
    own_path = inventory("code: ./a, env: {PYTHONPATH: '/a$b'}", board % "command: [python, board.py]")
    objects = objects_of(own_path, "kubernetes", "claim=c")
    boards = [objects, objects_of(inventory("code: ./a", board % ""), "kubernetes", "claim=c")]
    specs = [object_named(each, "Deployment", "lab-tensorboard-0")["spec"]["template"]["spec"] for each in boards]
    assert ["initContainers" in spec for spec in specs] == [True, False], "tensorboard itself needs none"
    spec = object_named(objects, "Job", "lab-worker-0")["spec"]["template"]["spec"]
    [unpack] = spec["initContainers"]
    [archives] = (one for one in of_kind(objects, "ConfigMap") if "binaryData" in one)
    assert spec["volumes"] == [
        {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "runtime", "emptyDir": {}},
        {"name": "code", "emptyDir": {}},
        {"name": "archives", "configMap": {"name": archives["metadata"]["name"]}},
    ]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "checkpoints", "mountPath": "/checkpoints"},
        {"name": "runtime", "mountPath": "/tfprov", "readOnly": True},
        {"name": "code", "mountPath": "/code"},
    ]
    assert {key: value for key, value in unpack.items() if key != "command"} == {
        "name": "unpack",
        "image": "x:1",
        "resources": {},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "runtime", "mountPath": "/tfprov"},
            {"name": "code", "mountPath": "/code"},
            {"name": "archives", "mountPath": "/tfprov-archives", "readOnly": True},
        ],
    }
    container = spec["containers"][0]
    assert container["workingDir"] == "/code"
    assert [it["value"] for it in container["env"] if it["name"] == "PYTHONPATH"] == ["/tfprov:/a$$b"]
    names = list(archives["binaryData"])
    assert all(re.fullmatch(r"[0-9a-f]{16}\.tar\.gz", name) for name in names)
    key = hashlib.sha256("-".join(sorted(name[:8] for name in names)).encode()).hexdigest()[:8]
    assert archives["metadata"]["name"] == f"lab-code-{key}"
    assert unpack["command"][:2] == ["python3", "-c"]
    runtime, program = names
    assert unpack["command"][3:] == [f"/tfprov-archives/{runtime}", "/tfprov", f"/tfprov-archives/{program}", "/code"]
    assert all(base64.b64decode(data)[4:8] == bytes(4) for data in archives["binaryData"].values()), "no time of day"
