"""Parses Kubernetes objects: workloads with one task each, and a TFJob with all tasks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tfprov.errors import printable
from tfprov.importing.identify import ForeignTask, Notes, Setting, SourceText, Volume
from tfprov.importing.tracked_mapping import (
    IN_HOST_NETWORK,
    SHARED_MEMORY,
    Fields,
    as_text,
    cpus,
    kubernetes_memory,
    note_directory,
    quantity,
    security_settings,
)
from tfprov.model.yaml_node import Mapping, Node, Scalar

_WORKLOADS = ("ReplicaSet", "ReplicationController", "Deployment", "StatefulSet", "Job")
_IGNORED_KINDS = ("Service", "Namespace")
"""Kinds that an inventory replaces: tfprov addresses tasks itself."""
_JOBS = {"PS": "ps", "Worker": "worker", "Chief": "chief", "Master": "chief", "Evaluator": "evaluator"}
_RESTART = {"Never": "never", "OnFailure": "on-failure", "ExitCode": "on-failure", "Always": "on-failure"}
_MANAGED = "app.kubernetes.io/managed-by"
_HOST = "kubernetes.io/hostname"
_OWN = "TFPROV_"
_SECRET = "secrets are not copied; put the values into `env`, encrypted with ansible-vault"  # noqa: S105  no password
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\((?P<name>[A-Za-z_.-][\w.-]*)\))")


def is_kubernetes(document: Node) -> bool:
    """Whether a document is a Kubernetes object."""
    return isinstance(document, Mapping) and "kind" in document.entries and "apiVersion" in document.entries


def read_kubernetes(document: Node, notes: Notes) -> Iterator[ForeignTask]:
    """Yield the possible tasks of one object."""
    fields = Fields(document, "", notes, document.at)
    kind_field = fields.text("kind")
    kind = kind_field.text if kind_field else ""
    fields.ignore("apiVersion", "status")
    name, labels = _metadata(fields)
    if kind == "TFJob":
        with fields:
            yield from _tfjob(fields.mapping("spec"), name, notes)
    elif kind == "Pod":
        yield _Pod(fields, name, labels, notes).to_task(1)
    elif kind in _WORKLOADS:
        with fields, fields.mapping("spec") as spec:
            spec.ignore("selector", "serviceName", "minReadySeconds", "backoffLimit", "strategy", "updateStrategy")
            spec.ignore("podManagementPolicy", "completionMode", "manualSelector", "revisionHistoryLimit", "suspend")
            counts = [spec.integer(key) for key in ("replicas", "completions", "parallelism")]
            template = spec.mapping("template")
            template_labels = _metadata(template)[1]
            count = next((count[0] for count in counts if count), 1)
            yield _Pod(template, name, {**labels, **template_labels}, notes).to_task(count)
    elif kind == "Secret":
        notes.add(document.at, f"the Secret `{printable(name)}` is not carried over: {_SECRET}")
    elif kind not in _IGNORED_KINDS and labels.get(_MANAGED) != "tfprov":  # tfprov's renderer adds helper objects
        notes.add(document.at, f"the {printable(kind)} `{printable(name)}` is not carried over: it runs no task")


def _metadata(fields: Fields) -> tuple[str, dict[str, str]]:
    metadata = fields.mapping("metadata")
    name, labels = metadata.text("name") or metadata.text("generateName"), metadata.pop("labels")
    entries = labels.entries if isinstance(labels, Mapping) else {}
    return name.text if name else "", {
        key: as_text(value) for key, value in entries.items() if isinstance(value, Scalar)
    }


def _tfjob(spec: Fields, name: str, notes: Notes) -> Iterator[ForeignTask]:
    with spec:
        spec.ignore("successPolicy")
        with spec.mapping("runPolicy") as policy:
            policy.ignore("cleanPodPolicy", "backoffLimit", "suspend")
        with spec.mapping("tfReplicaSpecs") as replicas:
            for kind, node in replicas.entries():
                if kind not in _JOBS:
                    what = f"the replicas `{printable(kind)}` are not carried over: tfprov has no such role"
                    notes.add(replicas.position(kind), what)
                    continue
                with Fields(node, f"spec.tfReplicaSpecs.{kind}", notes, replicas.position(kind)) as replica:
                    count, policy_ = replica.integer("replicas"), replica.text("restartPolicy")
                    template = replica.mapping("template")
                    labels = _metadata(template)[1]
                    pod = _Pod(template, f"{name}-{_JOBS[kind]}", labels, notes, job=_JOBS[kind], group=name)
                    pod.read_restart(policy_)
                    yield pod.to_task(count[0] if count else 1)


@dataclass(frozen=True)
class _Storage:
    """A volume: a directory of the node, or of an NFS server; None for other storage, whose size may be limited."""

    path: str | None
    size: SourceText | None
    server: str | None = None
    read_only: bool = False


class _Pod:
    """The pod of an object, read from the mapping with its `spec`."""

    def __init__(  # noqa: PLR0913
        self, outer: Fields, name: str, labels: dict[str, str], notes: Notes, *, job: str | None = None, group: str = ""
    ) -> None:
        self.outer, self.name, self.labels, self.notes = outer, name, labels, notes
        self.is_ours = labels.get(_MANAGED) == "tfprov"
        self.job = job or labels.get("job")
        self.group = group or labels.get("name") or labels.get("app.kubernetes.io/instance") or ""
        self.settings: dict[str, Setting] = {}
        self.host: SourceText | None = None

    def to_task(self, count: int) -> ForeignTask:
        notes = self.notes
        with self.outer as outer, outer.mapping("spec") as spec:
            spec.ignore("enableServiceLinks", "automountServiceAccountToken")
            spec.ignore("hostname", "subdomain", "schedulerName", "dnsPolicy")
            if self.is_ours:
                spec.ignore("serviceAccountName")
            self.read_restart(spec.text("restartPolicy"))
            grace = spec.integer("terminationGracePeriodSeconds")
            if grace:
                self.settings["stop_grace"] = Setting(*grace)
            self.host = spec.text("nodeName") or self.node_selector(spec)
            spec.drop({"hostNetwork": IN_HOST_NETWORK})
            spec.drop({"imagePullSecrets": "log in to the registry on the hosts, or let tfprov deliver the image"})
            storage = dict(_storage(spec, notes))
            containers = (*spec.items("containers"), *spec.items("initContainers"))
            main = _main_container(containers)
            for extra in (container for container in containers if container is not main and not self.is_ours):
                notes.add(extra.at, "a further container is not carried over: a task has one container")
            security = spec.mapping("securityContext")
            parsed = self.container(main, storage, security) if main is not None else None
        if parsed is None:
            notes.refuse(self.outer.at, f"`{printable(self.name)}` has no container", "correct the file")
            return ForeignTask(self.name, self.outer.at, self.group, count)
        image, argv, env, volumes = parsed
        task = self.labels.get("task") or self.labels.get("app.kubernetes.io/task") or ""
        return ForeignTask(
            name=self.name, at=self.outer.at, group=self.group, job=self.job, count=count, image=image,
            index=int(task) if task.isdecimal() and len(task) < 6 else None, argv=argv, env=env, volumes=volumes,
            settings=self.settings, host=self.host,
        )  # fmt: skip

    def read_restart(self, text: SourceText | None) -> None:
        if text and text.text in _RESTART and "restart" not in self.settings:
            self.settings["restart"] = Setting(_RESTART[text.text], text.at)

    def node_selector(self, spec: Fields) -> SourceText | None:
        node = spec.pop("nodeSelector")
        host = None
        for key, value in node.entries.items() if isinstance(node, Mapping) else ():
            if key == _HOST and isinstance(value, Scalar):
                host = SourceText(as_text(value), value.at)
            else:
                self.notes.drop(f"nodeSelector.{key}", value.at, "put the hosts into groups of the inventory")
        return host

    def container(
        self, node: Node, storage: dict[str, _Storage], security: Fields
    ) -> tuple[Setting | None, tuple[SourceText, ...], dict[str, SourceText], tuple[Volume, ...]]:
        notes = self.notes
        with Fields(node, "containers[]", notes, node.at) as fields:
            if self.is_ours:
                fields.ignore("restartPolicy", "readinessProbe")
            fields.ignore("name", "imagePullPolicy", "ports", "terminationMessagePolicy")
            own = fields.mapping("securityContext")
            self.settings |= security_settings(security, own, is_ours=self.is_ours)
            note_directory(fields, "workingDir", notes, is_ours=self.is_ours)
            fields.drop(
                {
                    "envFrom": "put the values into `env`",
                    "readinessProbe": "tfprov checks the task's port itself",
                    "livenessProbe": "tfprov checks the task's port itself",
                    "startupProbe": "tfprov checks the task's port itself",
                }
            )
            image = fields.text("image")
            env = dict(self.environment(fields))
            items = (*fields.items("command"), *fields.items("args"))
            words = [SourceText(as_text(item), item.at) for item in items if isinstance(item, Scalar)]
            volumes = tuple(self.mounts(fields, storage))
            with fields.mapping("resources") as resources:
                self.read_limits(resources)
        return (
            Setting({"name": image.text}, image.at) if image else None,
            tuple(self.expand(word, env) for word in words),
            {name: self.expand(value, env) for name, value in env.items()},
            volumes,
        )

    def mounts(self, fields: Fields, storage: dict[str, _Storage]) -> Iterator[Volume]:
        """Yield the mounts of a container; storage of a limited size at /dev/shm is a setting."""
        for node in fields.items("volumeMounts"):
            with Fields(node, "volumeMounts[]", self.notes, node.at) as mount:
                name, target, is_read_only = mount.text("name"), mount.text("mountPath"), mount.boolean("readOnly")
                sub_path = mount.text("subPath")
                if self.is_ours:
                    mount.ignore("subPathExpr")
                mount.drop({"subPathExpr": "name its directory as `source` in `mounts`"})
            if not name or not target or name.text not in storage:
                continue
            volume = storage[name.text]
            source, size = volume.path, volume.size
            if target.text == SHARED_MEMORY and source is None:
                if size is None:
                    self.notes.drop(target.text, target.at, "set `shm_size`: without a limit, it is Docker's 64m")
                elif shm_size := kubernetes_memory(size, self.notes):
                    self.settings["shm_size"] = shm_size
                continue
            source = f"{source}/{sub_path.text}" if source and sub_path else source
            is_read_only = volume.read_only or is_read_only
            if volume.server and source:
                yield Volume(target, None, is_read_only, {"server": volume.server, "path": source})
            else:
                yield Volume(target, source, is_read_only)

    def environment(self, fields: Fields) -> Iterator[tuple[str, SourceText]]:
        for node in fields.items("env"):
            with Fields(node, "env[]", self.notes, node.at) as entry:
                name, value, source = entry.text("name"), entry.text("value"), entry.pop("valueFrom")
            if name and value:
                yield name.text, SourceText(value.text, value.at)
            elif name and source is not None and not name.text.startswith(_OWN):
                is_field = isinstance(source, Mapping) and source.entries.keys() & {"fieldRef", "resourceFieldRef"}
                why = "it is a value of the pod" if is_field else f"its value is not in the file: {_SECRET}"
                self.notes.drop(f"env.{name.text}", source.at, why)

    def expand(self, text: SourceText, env: dict[str, SourceText]) -> SourceText:
        """Expand `$(NAME)` as Kubernetes does."""

        def replaced(match: re.Match[str]) -> str:
            if match["dollar"]:
                return "$"
            value = env.get(match["name"])
            if value is None and not match["name"].startswith(_OWN):
                self.notes.add(text.at, f"`$({printable(match['name'])})` stays as it is: its value is not in the file")
            return value.text if value else match[0]

        return SourceText(_REFERENCE.sub(replaced, text.text), text.at)

    def read_limits(self, resources: Fields) -> None:
        with resources.mapping("limits") as limits:
            memory, cores = limits.text("memory"), limits.text("cpu")
            gpus = limits.text("nvidia.com/gpu")
        resources.ignore("requests")
        if memory and (setting := kubernetes_memory(memory, self.notes)):
            self.settings["memory"] = setting
        if cores and (setting := cpus(cores, self.notes)):
            self.settings["cpus"] = setting
        if gpus and (amount := quantity(gpus)) is not None:
            self.settings["gpus"] = Setting(int(amount), gpus.at)
        elif gpus:
            self.notes.drop(gpus.text, gpus.at, "not a number of GPUs")


def _main_container(containers: tuple[Node, ...]) -> Node | None:
    """Return the container named `tensorflow`, as a TFJob requires, else the first."""
    named = [
        container
        for container in containers
        if isinstance(container, Mapping) and isinstance(container.get("name"), Scalar)
    ]
    tensorflow = [container for container in named if as_text(container.entries["name"]) == "tensorflow"]  # type: ignore[arg-type]
    return next(iter([*tensorflow, *containers]), None)


def _storage(spec: Fields, notes: Notes) -> Iterator[tuple[str, _Storage]]:
    """Yield the volumes by name."""
    for node in spec.items("volumes"):
        volume = Fields(node, "volumes[]", notes, node.at)
        name = volume.text("name")
        path, size = volume.mapping("hostPath").text("path"), volume.mapping("emptyDir").text("sizeLimit")
        nfs = volume.mapping("nfs")
        server, path, is_read_only = nfs.text("server"), path or nfs.text("path"), nfs.boolean("readOnly")
        if name:
            if volume.pop("secret") is not None:
                notes.drop(f"volumes.{name.text}", node.at, _SECRET)
                continue
            yield name.text, _Storage(path.text if path else None, size, server.text if server else None, is_read_only)
