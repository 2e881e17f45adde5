"""Read rendered Kubernetes objects: the started containers, their arguments, and the Services that lead to them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.support.fast_yaml import read_all_yaml
from tests.support.memory_cluster import packed
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.cluster import Cluster
from tfprov.render.options import parse_settings
from tfprov.render.render import build_request, options_of, render
from tfprov.render.target import find_target
from tfprov.settings.load import parse_extra_vars
from tfprov.settings.resolve import RoleSettings, resolve
from tfprov.yamltext.load import parse

Json = dict[str, Any]

KUBE = ("kubernetes", "kubeflow-tfjob", "jobset", "kubeflow-trainer")
"""The targets on Kubernetes."""


def roles_of(inventory: str, *extra: str) -> Sequence[RoleSettings]:
    """Return the settings of an inventory's text."""
    read = replace(read_groups(parse(inventory, "inventory.yml"), "inventory.yml"), extra=parse_extra_vars(extra))
    return resolve(read)


def files_of(inventory: str, target: str, *settings: str) -> dict[str, str]:
    """Return the rendered files of `target`, with the code that the inventory names."""
    roles = roles_of(inventory)
    codes = {(role.role, role.host): packed(role.values.code) for role in roles if role.values.code}
    return render(roles, find_target(target), settings, codes=codes)


def objects_of(inventory: str, target: str, *settings: str) -> list[Json]:
    """Return the Kubernetes objects, in order."""
    (text,) = files_of(inventory, target, *settings).values()
    return read_all_yaml(text)


def cluster_of(inventory: str, target: str, *settings: str) -> Cluster:
    """Return the cluster with the addresses of `target`."""
    chosen = find_target(target)
    return build_request(roles_of(inventory), chosen, parse_settings(target, options_of(chosen), settings)).cluster


def is_dns_1035(name: str) -> bool:
    """Whether `name` is valid for a Service: at most 63 lower-case letters, digits and `-`, beginning with a letter."""
    return re.fullmatch(r"(?=.{1,63}\Z)[a-z]([-a-z0-9]*[a-z0-9])?", name) is not None


def kinds(objects: Sequence[Json]) -> list[str]:
    return [item["kind"] for item in objects]


def of_kind(objects: Sequence[Json], *wanted: str) -> list[Json]:
    return [item for item in objects if item["kind"] in wanted]


def object_named(objects: Sequence[Json], kind: str, name: str) -> Json:
    (match,) = (candidate for candidate in of_kind(objects, kind) if candidate["metadata"]["name"] == name)
    return match


@dataclass(frozen=True)
class StartedContainer:
    """A pod as the kubelet starts it, with its host name, and `argv` and `env` of the task's container."""

    host: str
    labels: Mapping[str, str]
    spec: Json
    container: Json
    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def task(self) -> str:
        return self.env["TFPROV_TASK"]

    @property
    def ports(self) -> list[int]:
        return [port["containerPort"] for port in self.container.get("ports", ())]


def started_containers(objects: Sequence[Json]) -> list[StartedContainer]:
    """Return a container for every pod of these objects."""
    containers = []
    for item in objects:
        if item["kind"] in ("Job", "StatefulSet", "Deployment"):
            containers.append(_start(objects, item["spec"]["template"], {}))
        elif item["kind"] == "JobSet":
            containers += _of_jobset(objects, item["metadata"]["name"], item["spec"])
        elif item["kind"] == "TrainingRuntime":
            (job,) = of_kind(objects, "TrainJob")
            containers += _of_jobset(objects, job["metadata"]["name"], item["spec"]["template"]["spec"])
        elif item["kind"] == "TFJob":
            containers += _of_tfjob(objects, item)
    return containers


def _of_jobset(objects: Sequence[Json], name: str, spec: Json) -> Iterator[StartedContainer]:
    for job in spec["replicatedJobs"]:
        assert job["replicas"] == job["template"]["spec"]["completions"] == 1
        host = f"{name}-{job['name']}-0-0.{spec['network']['subdomain']}"
        yield replace(_start(objects, job["template"]["spec"]["template"], {}), host=host)


def _of_tfjob(objects: Sequence[Json], job: Json) -> Iterator[StartedContainer]:
    name, space = job["metadata"]["name"], job["metadata"]["namespace"]
    replicas = job["spec"]["tfReplicaSpecs"]
    for kind, spec in replicas.items():
        for index in range(spec["replicas"]):
            marks = {"job-name": name, "replica-type": kind.lower(), "replica-index": str(index)}
            labels = {f"training.kubeflow.org/{mark}": value for mark, value in marks.items()}
            operator_env = operators_tf_config(job, kind.lower(), index)
            pod = _start(objects, spec["template"], labels, operator_env)
            yield replace(pod, host=f"{name}-{kind.lower()}-{index}.{space}.svc")


def operators_tf_config(job: Json, kind: str, index: int) -> dict[str, str]:
    """Return the variables that the training operator adds; none for a single replica."""
    replicas = job["spec"]["tfReplicaSpecs"]
    if sum(spec["replicas"] for spec in replicas.values()) == 1:
        return {}
    name, space = job["metadata"]["name"], job["metadata"]["namespace"]
    cluster = {
        key.lower(): [f"{name}-{key.lower()}-{n}.{space}.svc:{_tfjob_port(spec)}" for n in range(spec["replicas"])]
        for key, spec in replicas.items()
        if key != "Evaluator"
    }
    operator_env = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
    return {"TF_CONFIG": json.dumps(operator_env)}


def _tfjob_port(spec: Json) -> int:
    (container,) = (
        container_spec
        for container_spec in spec["template"]["spec"]["containers"]
        if container_spec["name"] == "tensorflow"
    )
    return next((port["containerPort"] for port in container["ports"] if port["name"] == "tfjob-port"), 2222)


def _start(
    objects: Sequence[Json], template: Json, marks: Mapping[str, str], operator_env: Mapping[str, str] = {}
) -> StartedContainer:
    labels = {**template["metadata"]["labels"], **marks}
    all_containers = [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]
    (container,) = (item for item in all_containers if item["name"] in ("tensorflow", "node"))
    env = _environment(objects, container, labels)
    argv = tuple(_expanded(word, {**env, **operator_env}) for word in container["command"])
    hosts = [
        item["metadata"]["name"]
        for item in of_kind(objects, "Service")
        if item["spec"]["selector"].items() <= labels.items()
    ]
    return StartedContainer(
        hosts[0] if len(hosts) == 1 else "", labels, template["spec"], container, argv, {**env, **operator_env}
    )


def _environment(objects: Sequence[Json], container: Json, labels: Mapping[str, str]) -> dict[str, str]:
    env: dict[str, str] = {}
    for variable in container["env"]:
        if "value" in variable:
            env[variable["name"]] = _expanded(variable["value"], env)
        elif "fieldRef" in variable["valueFrom"]:
            label = re.fullmatch(r"metadata\.labels\['(.*)'\]", variable["valueFrom"]["fieldRef"]["fieldPath"])
            assert label is not None
            env[variable["name"]] = labels[label[1]]
        elif "configMapKeyRef" in variable["valueFrom"]:
            key_ref = variable["valueFrom"]["configMapKeyRef"]
            env[variable["name"]] = object_named(objects, "ConfigMap", key_ref["name"])["data"][key_ref["key"]]
    return env


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Expand `$(NAME)` of known variables, and `$$`, as the kubelet does."""

    def expand(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else env.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", expand, text)
