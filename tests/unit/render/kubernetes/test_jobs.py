"""Plain Kubernetes: the objects, their validation by real tools, and the programs that run inside."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.support.fast_yaml import read_all_yaml
from tests.support.inventories import points_at_its_setting
from tests.support.kubernetes_objects import (
    Json,
    files_of,
    kinds,
    object_named,
    objects_of,
    of_kind,
    roles_of,
    started_containers,
)
from tfprov.errors import InvalidInput, Position
from tfprov.images.code import pack
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.yaml_node import Mapping, find, mark_secret
from tfprov.render.kubernetes.cluster_settings import bundle
from tfprov.render.render import render
from tfprov.render.target import find_target
from tfprov.runtime.wait_for_job import finished_condition, wait
from tfprov.settings.resolve import resolve
from tfprov.wiring import from_tf_config
from tfprov.yamltext.load import parse

TEXTBOOK = """
all:
  vars:
    tfprov: {cluster: tf, image: {name: "img:v1"}, command: [/usr/bin/python, /mnist.py], port: 5000}
  children:
    ps: {hosts: {p: }}
    worker: {hosts: {"w[0:1]": }}
"""
"""A typical cluster of the reference system."""

BARE = ("network_policy=false", "storage=none", "code=image")
"""Settings for tasks and their names only."""

RICH = """
all:
  vars:
    tfprov:
      cluster: rich
      image: {name: "registry.example.com/team/train:1.0"}
      code: ./one
      command: [python, x.py, "a \\"quoted\\" word", "$(HOME) costs 5$"]
      wiring: tf_config
      flags: {data_dir: "{{ data_dir }}", train_dir: "{{ checkpoint_dir }}"}
      env: {PATH_LIKE: "C:\\\\new: 'x' #y"}
      data: {path: '/data/a "b" c'}
      mounts: [{source: /scratch, target: /scratch, read_only: false}]
      memory: 1.5g
      shm_size: 1g
      cpus: 2.5
      gpus: 2
      stop_grace: 90
  children:
    ps: {hosts: {p: }}
    chief: {hosts: {c: }}
    worker: {hosts: {"w[0:1]": }}
    evaluator: {hosts: {c: }}
    tensorboard: {hosts: {c: }}
    dispatcher: {hosts: {d: }}
    data_worker: {hosts: {"d[1:2]": }}
"""
EVERYTHING = (
    *("namespace=research", "node_selector=example.com/pool=gpu,zone=a", "pull_secrets=regcred"),
    *("tolerations=nvidia.com/gpu:NoSchedule,dedicated=training:NoExecute", "credential_secret=gcs", "ttl=600"),
    *("storage=100Gi", "storage_class=fast", "priority_class=high"),
)


def containers(item: Json) -> dict[str, Json]:
    spec = item["spec"]["template"]["spec"]
    return {container["name"]: container for container in [*spec.get("initContainers", ()), *spec["containers"]]}


def problems(inventory: str, *settings: str, target: str = "kubernetes") -> list[tuple[Position, str]]:
    with pytest.raises(InvalidInput) as caught:
        files_of(inventory, target, *settings)
    assert [problem for problem in caught.value.problems if not points_at_its_setting(problem, inventory)] == []
    return [(problem.at, problem.what) for problem in caught.value.problems]


def test_the_textbook_cluster_is_six_objects_of_existing_apis() -> None:
    objects = objects_of(TEXTBOOK, "kubernetes", *BARE, "kind=StatefulSet")
    assert sorted(kinds(objects)) == ["Service"] * 3 + ["StatefulSet"] * 3
    for item in of_kind(objects, "StatefulSet"):
        assert item["apiVersion"] == "apps/v1"
        assert item["spec"]["replicas"] == 1
        assert item["spec"]["selector"]["matchLabels"].items() <= item["spec"]["template"]["metadata"]["labels"].items()
    argv = {pod.task: pod.argv for pod in started_containers(objects)}
    assert argv["worker/1"] == (
        *("/usr/bin/python", "/mnist.py", "--job_name=worker", "--task_index=1"),
        *("--ps_hosts=tf-ps-0:5000", "--worker_hosts=tf-worker-0:5000,tf-worker-1:5000"),
    )


def test_the_file_of_a_secret_takes_the_place_of_a_path_in_the_inventory() -> None:
    inventory = TEXTBOOK.replace("port: 5000", "port: 5000, env: {GOOGLE_APPLICATION_CREDENTIALS: /own.json}")
    for item in of_kind(objects_of(inventory, "kubernetes", *BARE, "credential_secret=gcs"), "Job"):
        names = [variable["name"] for variable in containers(item)["tensorflow"]["env"]]
        assert sorted(set(names)) == sorted(names)
    assert {"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/etc/credential/key.json"} in (
        containers(item)["tensorflow"]["env"]
    )


DISTRIBUTED = """
all:
  vars:
    tfprov: {{cluster: dist-strat-example, image: {{name: "img:v1"}}, command: [python, x.py], wiring: tf_config, gpus: 2}}
  children:
    worker: {{hosts: {{w0: , w1: }}}}
{}
"""
MORE = """\
    ps: {hosts: {p: }}
    evaluator: {hosts: {w0: }}
    tensorboard: {hosts: {w0: }, vars: {tfprov: {command: null}}}
"""


@pytest.mark.parametrize(("more", "count"), [("", 4), (MORE, 10)], ids=["workers", "all-roles"])
def test_a_tf_config_cluster_has_a_service_and_a_controller_for_each_task(more: str, count: int) -> None:
    settings = ("network_policy=false", "claim=shared", "code=image", "kind=Deployment")
    objects = objects_of(DISTRIBUTED.format(more), "kubernetes", *settings)
    assert len(objects) == count
    for pod in started_containers(objects):
        if pod.task != "tensorboard/0":  # it has no TF_CONFIG
            assert from_tf_config(pod.env["TF_CONFIG"]) is not None
            assert isinstance(json.loads(pod.env["TF_CONFIG"])["task"]["index"], int)
        with_gpus = "nvidia.com/gpu" in pod.container["resources"].get("limits", {})
        assert with_gpus == pod.task.startswith("worker")


SERVICE = """
all:
  vars: {{tfprov: {{cluster: data, image: {{name: "img:v1"}}, command: [python, x.py]}}}}
  children:
    worker: {{hosts: {{w: }}}}
    dispatcher: {{hosts: {{d: }}}}
    {}
"""


def test_a_data_service_has_a_pod_for_each_worker_and_the_dispatcher() -> None:
    workers = "data_worker: {hosts: {'e[0:2]': }}"
    pods = started_containers(objects_of(SERVICE.format(workers), "kubernetes", *BARE))
    served = [pod for pod in pods if "tfprov.runtime.data_service" in pod.argv]
    assert len(served) == 4
    assert "--dispatcher=data-dispatcher-0:2222" in served[-1].argv
    assert "--address=data-data-worker-2:2222" in served[-1].argv
    assert {pod.env["TFPROV_DATA_SERVICE"] for pod in pods if pod.task == "worker/0"} == {
        "grpc://data-dispatcher-0:2222"
    }


def test_a_data_service_without_workers_is_refused() -> None:
    assert problems(SERVICE.format(""), *BARE) == [
        (Position("inventory.yml", 6, 5), "`dispatcher` without a data_worker")
    ]


def test_trainers_are_jobs_that_end_and_servers_end_with_the_chief() -> None:
    objects = objects_of(TEXTBOOK, "kubernetes", "image=img:v2")
    chief, ps = object_named(objects, "Job", "tf-worker-0"), object_named(objects, "Job", "tf-ps-0")
    assert chief["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert chief["spec"]["backoffLimit"] == 3
    assert [one["name"] for one in ps["spec"]["template"]["spec"]["containers"]] == ["until-the-training-ends"]
    assert containers(ps)["tensorflow"]["restartPolicy"] == "Always"
    assert containers(ps)["until-the-training-ends"]["command"][-1].endswith("/jobs/tf-worker-0")
    (role,) = of_kind(objects, "Role")
    assert role["rules"] == [
        {"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": ["tf-worker-0"], "verbs": ["get"]}
    ]


def test_only_the_watching_container_gets_a_token() -> None:
    for item in of_kind(objects_of(TEXTBOOK, "kubernetes"), "Job"):
        assert item["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
        with_token = [n for n, c in containers(item).items() if any(m["name"] == "token" for m in c["volumeMounts"])]
        assert with_token == (["until-the-training-ends"] if "ps" in item["metadata"]["name"] else [])


@pytest.mark.parametrize(("strategy", "ends"), [("parameter_server", False), ("between_graph", True)])
def test_a_worker_that_only_serves_ends_with_the_chief(strategy: str, ends: bool) -> None:
    text = RICH.replace("wiring: tf_config", f"strategy: {strategy}\n      wiring: tf_config")
    worker = object_named(objects_of(text, "kubernetes"), "Job", "rich-worker-0")
    assert ("until-the-training-ends" not in containers(worker)) == ends


def test_restart_never_is_kept() -> None:
    text = TEXTBOOK.replace("port: 5000", "port: 5000, restart: never")
    chief = object_named(objects_of(text, "kubernetes"), "Job", "tf-worker-0")
    assert (chief["spec"]["backoffLimit"], chief["spec"]["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_all_options_reach_the_objects() -> None:
    objects = objects_of(RICH, "kubernetes", *EVERYTHING)
    assert {one["metadata"]["namespace"] for one in objects} == {"research"}
    job = object_named(objects, "Job", "rich-worker-0")
    spec = job["spec"]["template"]["spec"]
    task = containers(job)["tensorflow"]
    assert job["spec"]["ttlSecondsAfterFinished"] == 600
    assert spec["nodeSelector"] == {"example.com/pool": "gpu", "zone": "a"}
    assert spec["imagePullSecrets"] == [{"name": "regcred"}]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Equal", "value": "training", "effect": "NoExecute"},
    ]
    assert spec["terminationGracePeriodSeconds"] == 90
    assert spec["priorityClassName"] == "high"
    amount = {"cpu": "2500m", "memory": str(3 << 29)}
    assert task["resources"] == {"requests": amount, "limits": {**amount, "nvidia.com/gpu": "2"}}
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(2**30)}} in spec["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in task["volumeMounts"]
    assert {"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/etc/credential/key.json"} in task["env"]
    assert {"name": "credential", "mountPath": "/etc/credential", "readOnly": True} in task["volumeMounts"]
    (claim,) = of_kind(objects, "PersistentVolumeClaim")
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "100Gi"


def test_task_templates_in_flags_name_directories_of_the_pod() -> None:
    (pod,) = (pod for pod in started_containers(objects_of(RICH, "kubernetes")) if pod.task == "chief/0")
    assert pod.argv == (
        *("python", "x.py", 'a "quoted" word', "$(HOME) costs 5$", "--data_dir=/data", "--train_dir=/checkpoints"),
    )
    assert pod.env["PATH_LIKE"] == "C:\\new: 'x' #y"
    (data,) = (volume for volume in pod.spec["volumes"] if volume["name"] == "data")
    assert data["hostPath"] == {"path": '/data/a "b" c', "type": "Directory"}


def test_pods_run_without_privileges() -> None:
    objects = objects_of(RICH, "kubernetes")
    for item in of_kind(objects, "Job", "Deployment"):
        pod_security = item["spec"]["template"]["spec"]["securityContext"]
        assert pod_security["runAsNonRoot"] is True
        assert pod_security["runAsUser"] == 1000
        assert pod_security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(item).values():
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
    (policy,) = of_kind(objects, "NetworkPolicy")
    own = {"matchLabels": {"app.kubernetes.io/instance": "rich"}}
    assert policy["spec"] == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    }
    for item in of_kind(objects, "Job", "Deployment"):
        assert item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/instance"] == "rich"


def test_readers_of_checkpoints_run_on_the_chiefs_node_unless_several_nodes_can_mount_the_volume() -> None:
    def affinity(*settings: str) -> Json | None:
        objects = objects_of(RICH, "kubernetes", *settings)
        affinity_spec: Json | None = object_named(objects, "Job", "rich-evaluator-0")["spec"]["template"]["spec"].get(
            "affinity"
        )
        return affinity_spec

    (term,) = (affinity() or {})["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (chief,) = (pod for pod in started_containers(objects_of(RICH, "kubernetes")) if pod.task == "chief/0")
    assert term["labelSelector"]["matchLabels"].items() <= chief.labels.items()
    assert affinity("access=ReadWriteMany") is None


def test_a_tensorboard_is_a_deployment_that_outlives_the_training() -> None:
    (board,) = of_kind(objects_of(RICH, "kubernetes"), "Deployment")
    assert board["metadata"]["name"] == "rich-tensorboard-0"
    assert board["spec"]["strategy"] == {"type": "Recreate"}


def test_many_addresses_are_written_once() -> None:
    text = TEXTBOOK.replace("w[0:1]", "w[000:199]")
    (text_of_file,) = files_of(text, "kubernetes", *BARE).values()
    assert len(text_of_file) < 201 * 6_000
    objects = read_all_yaml(text_of_file)
    pods = {pod.task: pod for pod in started_containers(objects)}
    wiring = from_tf_config(pods["worker/199"].env["TF_CONFIG"])
    assert wiring is not None
    assert (wiring.address, len(wiring.cluster["worker"])) == ("tf-worker-199:5000", 200)
    assert f"--worker_hosts={','.join(wiring.cluster['worker'])}" in pods["ps/0"].argv


# -- problems are reported at their line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inventory", "settings", "line", "what"),
    [
        (TEXTBOOK.replace('image: {name: "img:v1"}, ', ""), (), 4, "no `image`: kubernetes has to pull it"),
        (TEXTBOOK.replace('name: "img:v1"', "build: ./x"), (), 4, "`image.build` is not in a registry: kubernetes has"),
        (TEXTBOOK.replace("cluster: tf", "cluster: 7tf"), (), 4, "the cluster's name `7tf` begins with a digit"),
        (RICH.replace("cluster: rich", f"cluster: {'t' * 40}"), ("kind=StatefulSet",), 5,
         f"`{'t' * 40}-tensorboard-0` has 54 characters, and at most 52 are allowed"),
        (TEXTBOOK.replace("port: 5000", "gpus: all"), (), 4, "`gpus: all`: Kubernetes counts GPUs"),
        (RICH, ("storage=none",), 23, "the evaluator cannot read the chief's checkpoints"),
    ],
    ids=["no-image", "image-to-build", "digit", "too-long", "all-gpus", "readers-without-storage"],
)  # fmt: skip
def test_settings_that_kubernetes_does_not_support_are_reported_at_their_line(
    inventory: str, settings: tuple[str, ...], line: int, what: str
) -> None:
    reported = problems(inventory, *settings)
    assert any(at.line == line and message.startswith(what) for at, message in reported), reported


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_an_invalid_cluster_name_is_reported_once(kind: str) -> None:
    ((_, message),) = problems(TEXTBOOK.replace("cluster: tf", "cluster: 9tf"), *BARE, f"kind={kind}")
    assert "begins with a digit" in message


def test_a_secret_variable_is_read_from_an_existing_secret_object() -> None:
    text = TEXTBOOK.replace("port: 5000", "env: {TOKEN: hunter2-hunter2}")
    document = parse(text, "inventory.yml")
    env = find(document, ["all", "vars", "tfprov", "env"])[0]
    assert isinstance(env, Mapping)
    env.entries["TOKEN"] = mark_secret(env.entries["TOKEN"])
    roles, target = resolve(read_groups(document, "inventory.yml")), find_target("kubernetes")
    with pytest.raises(InvalidInput, match=r"inventory.yml:4:\d+: error: `env.TOKEN` is secret") as caught:
        render(roles, target)
    (manifest,) = render(roles, target, ["env_secret=tokens"]).values()
    assert "hunter2" not in str(caught.value) + manifest
    (pod,) = (pod for pod in started_containers(read_all_yaml(manifest)) if pod.task == "ps/0")
    secret_ref = {"secretKeyRef": {"name": "tokens", "key": "TOKEN"}}
    assert {"name": "TOKEN", "valueFrom": secret_ref} in pod.container["env"]


# -- real tools ----------------------------------------------------------------------------------------------------------

VERSIONS = ("1.29", "1.33", "1.37")


@cache
def schema(name: str, version: str) -> Any:
    """Return a strict schema of a version of Kubernetes."""
    folder = resources.files(kubernetes_validate) / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    return json.loads((folder / f"{name}.json").read_text())


@cache
def validator(kind: str, api_version: str, version: str) -> Draft202012Validator:
    """Return what kubernetes_validate.validate uses, which reads a megabyte of schemas again for every object."""
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    name = f"{kind.lower()}-{group}"
    contents = [schema(name, version), schema("_definitions", version)]
    registry: Registry[Any] = [Resource.from_contents(one) for one in contents] @ Registry()
    return Draft202012Validator(contents[0], registry=registry)


def pod_specs(item: Any) -> Iterator[Json]:
    """Yield the specification of each pod in an object."""
    if isinstance(item, dict) and "containers" in item:
        yield item
    for below in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
        yield from pod_specs(below)


@pytest.mark.parametrize(
    ("inventory", "settings"),
    [(RICH, EVERYTHING), (TEXTBOOK, ("kind=StatefulSet",)), (TEXTBOOK, ("kind=Deployment",))],
    ids=["everything", "stateful-sets", "deployments"],
)
def test_the_schemas_of_kubernetes_accept_every_object(inventory: str, settings: tuple[str, ...]) -> None:
    for item in objects_of(inventory, "kubernetes", *settings):
        for version in VERSIONS:
            schema_of = validator(item["kind"], item["apiVersion"], version)
            schema_of.validate(item)
            assert not schema_of.is_valid({**item, "speck": {}}), "an unknown key is refused"
        for pod in pod_specs(item):
            mounts = [one for part in ("initContainers", "containers") for one in pod.get(part, ())]
            mounted = {mount["name"] for one in mounts for mount in one.get("volumeMounts", ())}
            assert mounted == {volume["name"] for volume in pod.get("volumes", ())}


class Discovery(BaseHTTPRequestHandler):
    """An API server without objects, with the discovery that kubectl needs before it checks an object."""

    KINDS = {  # noqa: RUF012
        "/api/v1": ["Service", "ConfigMap", "PersistentVolumeClaim", "ServiceAccount"],
        "/apis/apps/v1": ["Deployment", "StatefulSet"],
        "/apis/batch/v1": ["Job"],
        "/apis/networking.k8s.io/v1": ["NetworkPolicy"],
        "/apis/rbac.authorization.k8s.io/v1": ["Role", "RoleBinding"],
    }

    def do_GET(self) -> None:
        answer, code = self.answer(self.path.partition("?")[0])
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, path: str) -> tuple[Json, int]:
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}, 200
        if path == "/apis":
            versions = [name.removeprefix("/apis/") for name in self.KINDS if name != "/api/v1"]
            groups = [{"groupVersion": name, "version": "v1"} for name in versions]
            object_named = [{"name": g["groupVersion"][:-3], "versions": [g], "preferredVersion": g} for g in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": object_named}, 200
        if path in self.KINDS:
            version = path.removeprefix("/apis/").removeprefix("/api/")
            resources = [
                {"name": plural(kind), "singularName": "", "namespaced": True, "kind": kind, "verbs": ["create", "get"]}
                for kind in self.KINDS[path]
            ]
            return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}, 200
        return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}, 404

    def log_message(self, *args: object) -> None:
        pass


def plural(kind: str) -> str:
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_kubectl_accepts_every_object(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        (pytest.fail if os.environ.get("TFPROV_TESTS_ENGINE") == "required" else pytest.skip)("no kubectl")
    (text,) = files_of(RICH, "kubernetes", *EVERYTHING).values()
    (tmp_path / "rich.yml").write_text(text)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with served(Discovery) as api:
        command = ["kubectl", "--server", api, "--cache-dir", str(tmp_path / "cache"), "apply", "--validate=false"]
        command += ["--dry-run=client", "-f", str(tmp_path / "rich.yml")]
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("(dry run)") == len(read_all_yaml(text))


# -- what runs inside ------------------------------------------------------------------------------------------------------


def test_the_unpacked_program_imports_the_runtime(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "x.py").write_text("from tfprov import wiring\nprint(wiring.FLAGS[0])\n")
    roles = roles_of(RICH)
    code = pack(program, Position("inventory.yml"))
    (text,) = render(roles, find_target("kubernetes"), codes={(r.role, r.host): code for r in roles}).values()
    objects = read_all_yaml(text)
    (archives,) = (one for one in of_kind(objects, "ConfigMap") if "binaryData" in one)
    unpack = containers(object_named(objects, "Job", "rich-chief-0"))["unpack"]
    places = {m["mountPath"]: tmp_path / m["name"] for m in unpack["volumeMounts"]}
    for place in places.values():
        place.mkdir()
    for name, data in archives["binaryData"].items():
        (places["/tfprov-archives"] / name).write_bytes(base64.b64decode(data))
    words = unpack["command"][1:]
    for mount_path in sorted(places, reverse=True):  # the longest first: /tfprov-archives, then /tfprov
        words = [
            f"{places[mount_path]}{word[len(mount_path) :]}" if word.startswith(f"{mount_path}") else word
            for word in words
        ]
    subprocess.run([sys.executable, *words], check=True)
    result = subprocess.run(
        [sys.executable, "x.py"], cwd=places["/code"], env={"PYTHONPATH": str(places["/tfprov"])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (result.stdout, result.stderr) == ("job_name\n", "")


def test_packed_code_too_large_for_a_config_map_is_refused_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(Random(7).randbytes(1_000_000))
    roles = roles_of(RICH)
    code = pack(tmp_path, Position("inventory.yml"))
    with pytest.raises(InvalidInput, match=r"inventory.yml:7:\d+: error: `code` has \d+ bytes when packed"):
        render(roles, find_target("kubernetes"), codes={(r.role, r.host): code for r in roles})


class Api(BaseHTTPRequestHandler):
    """An API server with one Job. It gives each of `answers` in turn, then repeats the last one."""

    answers: list[tuple[int, Json]]
    authorizations: list[str | None]

    def do_GET(self) -> None:
        self.authorizations.append(self.headers["Authorization"])
        code, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        data = json.dumps(body).encode()
        self.send_response(code if self.path == "/apis/batch/v1/namespaces/research/jobs/tf-worker-0" else 400)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


def api_with(answers: list[tuple[int, Json]]) -> type[Api]:
    class Handler(Api):
        pass

    Handler.answers, Handler.authorizations = list(answers), []
    return Handler


def job(condition: str, status: str = "True") -> tuple[int, Json]:
    return 200, {"status": {"conditions": [{"type": condition, "status": status}]}}


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([(404, {}), (200, {}), job("Suspended"), job("Complete", "False"), job("Complete")], "Complete"),
        ([(500, {}), (403, {}), job("Failed")], "Failed"),
        ([(200, {}), (404, {})], "deleted"),
    ],
    ids=["complete", "failed", "deleted"],
)
def test_a_ps_ends_only_after_the_chiefs_job(answers: list[tuple[int, Json]], outcome: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "namespace").write_text("research")
    path = "/apis/batch/v1/namespaces/{namespace}/jobs/tf-worker-0"
    handler = api_with(answers)
    with served(handler) as api:
        assert wait(path, api, tmp_path, poll=0.001, patience=0.05 if outcome == "deleted" else 60) == outcome
    assert set(handler.authorizations) == {"Bearer t0ken"}
    assert len(handler.authorizations) >= len(answers)


@pytest.mark.parametrize("answer", [None, [], {}, {"status": None}, {"status": {"conditions": None}}])
def test_an_object_without_conditions_has_not_finished(answer: object) -> None:
    assert finished_condition(answer) is None


def test_archives_are_unpacked_alike_by_every_python(tmp_path: Path) -> None:
    packed, target = tmp_path / "code.tar", tmp_path / "code"
    with tarfile.open(packed, "w") as archive:
        entry = tarfile.TarInfo("run.sh")
        entry.mode = 0o777
        archive.addfile(entry)
    _, option, program, *_ = bundle(()).unpack(None)
    command = [sys.executable, "-W", "error::DeprecationWarning", option, program, str(packed), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0), "3.12 warns of an archive without a filter"
    if hasattr(tarfile, "data_filter"):
        assert (target / "run.sh").stat().st_mode & 0o777 == 0o755, "by the filter that is the default from 3.14 on"
