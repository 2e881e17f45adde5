"""Kubernetes objects to what may be tasks: those that run one pod each, and a TFJob, which runs them all."""

import re
from collections.abc import Iterator

from tfprov.errors import Position, printable
from tfprov.importing.identify import ForeignTask, Notes, Setting, SourceText, Volume
from tfprov.importing.tracked_mapping import Fields, as_text, cpus, kubernetes_memory, quantity
from tfprov.model.node import Mapping, Node, Scalar

_RUN_PODS = ("ReplicaSet", "ReplicationController", "Deployment", "StatefulSet", "Job")
_SILENT = ("Service", "Namespace")
"""Kinds that only lead to the pods, which tfprov's addresses do."""
_JOBS = {"PS": "ps", "Worker": "worker", "Chief": "chief", "Master": "chief", "Evaluator": "evaluator"}
_RESTART = {"Never": "never", "OnFailure": "on-failure", "ExitCode": "on-failure", "Always": "on-failure"}
_MANAGED = "app.kubernetes.io/managed-by"
_HOST = "kubernetes.io/hostname"
_OWN = "TFPROV_"
_SECRET = "secrets are not copied; put what is needed into `env`, encrypted with ansible-vault"  # noqa: S105  no password
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\((?P<name>[A-Za-z_.-][\w.-]*)\))")


def is_kubernetes(document: Node) -> bool:
    """Whether a document is an object of Kubernetes."""
    return isinstance(document, Mapping) and "kind" in document.entries and "apiVersion" in document.entries


def read_kubernetes(document: Node, notes: Notes) -> Iterator[ForeignTask]:
    """Yield what may be tasks in one object."""
    fields = Fields(document, "", notes, document.at)
    said = fields.text("kind")
    kind = said.text if said else ""
    fields.without("apiVersion", "status")
    name, labels = _metadata(fields)
    if kind == "TFJob":
        with fields:
            yield from _tfjob(fields.below("spec"), name, notes)
    elif kind == "Pod":
        yield _Pod(fields, name, labels, notes).found(1)
    elif kind in _RUN_PODS:
        with fields, fields.below("spec") as spec:
            spec.without("selector", "serviceName", "minReadySeconds", "backoffLimit", "strategy", "updateStrategy")
            spec.without("podManagementPolicy", "completionMode", "manualSelector", "revisionHistoryLimit", "suspend")
            counts = [spec.whole(key) for key in ("replicas", "completions", "parallelism")]
            template = spec.below("template")
            below = _metadata(template)[1]
            count = next((count[0] for count in counts if count), 1)
            yield _Pod(template, name, {**labels, **below}, notes).found(count)
    elif kind == "Secret":
        notes.add(document.at, f"the Secret `{printable(name)}` is not carried over: {_SECRET}")
    elif kind not in _SILENT and labels.get(_MANAGED) != "tfprov":  # what its own renderer adds, tfprov does itself
        notes.add(document.at, f"the {printable(kind)} `{printable(name)}` is not carried over: it runs no task")


def _metadata(fields: Fields) -> tuple[str, dict[str, str]]:
    metadata = fields.below("metadata")
    name, labels = metadata.text("name") or metadata.text("generateName"), metadata.take("labels")
    entries = labels.entries if isinstance(labels, Mapping) else {}
    return name.text if name else "", {key: as_text(one) for key, one in entries.items() if isinstance(one, Scalar)}


def _tfjob(spec: Fields, name: str, notes: Notes) -> Iterator[ForeignTask]:
    with spec:
        spec.without("successPolicy")
        with spec.below("runPolicy") as policy:
            policy.without("cleanPodPolicy", "backoffLimit", "suspend")
        with spec.below("tfReplicaSpecs") as replicas:
            for kind, node in replicas.entries():
                if kind not in _JOBS:
                    what = f"the replicas `{printable(kind)}` are not carried over: no role is like it"
                    notes.add(replicas.where(kind), what)
                    continue
                with Fields(node, f"spec.tfReplicaSpecs.{kind}", notes, replicas.where(kind)) as replica:
                    count, policy_ = replica.whole("replicas"), replica.text("restartPolicy")
                    template = replica.below("template")
                    labels = _metadata(template)[1]
                    pod = _Pod(template, f"{name}-{_JOBS[kind]}", labels, notes, job=_JOBS[kind], group=name)
                    pod.restart(policy_)
                    yield pod.found(count[0] if count else 1)


class _Pod:
    """The pod that an object runs, read from the mapping that has its `spec`."""

    def __init__(  # noqa: PLR0913  what surrounds a pod says who it is
        self, outer: Fields, name: str, labels: dict[str, str], notes: Notes, *, job: str | None = None, group: str = ""
    ) -> None:
        self.outer, self.name, self.labels, self.notes = outer, name, labels, notes
        self.is_ours = labels.get(_MANAGED) == "tfprov"
        self.job = job or labels.get("job")
        self.group = group or labels.get("name") or labels.get("app.kubernetes.io/instance") or ""
        self.settings: dict[str, Setting] = {}
        self.host: SourceText | None = None

    def found(self, count: int) -> ForeignTask:
        notes = self.notes
        with self.outer as outer, outer.below("spec") as spec:
            spec.without("enableServiceLinks", "automountServiceAccountToken", "securityContext")
            spec.without("hostname", "subdomain", "schedulerName", "dnsPolicy")
            if self.is_ours:
                spec.without("serviceAccountName")
            self.restart(spec.text("restartPolicy"))
            grace = spec.whole("terminationGracePeriodSeconds")
            if grace:
                self.settings["stop_grace"] = Setting(*grace)
            self.host = spec.text("nodeName") or self.selected(spec)
            spec.refuse({"imagePullSecrets": "log in to the registry on the hosts, or let tfprov deliver the image"})
            storage = dict(_storage(spec, notes))
            containers = (*spec.items("containers"), *spec.items("initContainers"))
            chosen = _chosen(containers)
            for extra in (one for one in containers if one is not chosen and not self.is_ours):
                notes.add(extra.at, "a further container is not carried over: a task is one")
            found = self.container(chosen, storage, spec.at) if chosen is not None else None
        if found is None:
            notes.refuse(
                self.outer.at, f"`{printable(self.name)}` has no container", "give the file as its engine takes it"
            )
            return ForeignTask(self.name, self.outer.at)
        image, words, env, volumes = found
        task = self.labels.get("task") or self.labels.get("app.kubernetes.io/task") or ""
        return ForeignTask(
            name=self.name, at=self.outer.at, group=self.group, job=self.job, count=count, image=image,
            index=int(task) if task.isdecimal() and len(task) < 6 else None, words=words, env=env, volumes=volumes,
            settings=self.settings, host=self.host,
        )  # fmt: skip

    def restart(self, text: SourceText | None) -> None:
        if text and text.text in _RESTART and "restart" not in self.settings:
            self.settings["restart"] = Setting(_RESTART[text.text], text.at)

    def selected(self, spec: Fields) -> SourceText | None:
        node = spec.take("nodeSelector")
        host = None
        for key, value in node.entries.items() if isinstance(node, Mapping) else ():
            if key == _HOST and isinstance(value, Scalar):
                host = SourceText(as_text(value), value.at)
            else:
                self.notes.left(f"nodeSelector.{key}", value.at, "say which hosts are in which group")
        return host

    def container(
        self, node: Node, storage: dict[str, str | None], at: Position
    ) -> tuple[Setting | None, tuple[SourceText, ...], dict[str, SourceText], tuple[Volume, ...]]:
        notes = self.notes
        with Fields(node, "containers[]", notes, at) as fields:
            if self.is_ours:
                fields.without("restartPolicy", "readinessProbe")
            fields.without(
                "name", "imagePullPolicy", "ports", "securityContext", "workingDir", "terminationMessagePolicy"
            )
            fields.refuse(
                {
                    "envFrom": "put what is needed into `env`",
                    "readinessProbe": "tfprov looks whether a task answers on its port",
                    "livenessProbe": "tfprov looks whether a task answers on its port",
                    "startupProbe": "tfprov looks whether a task answers on its port",
                }
            )
            image = fields.text("image")
            env = dict(self.environment(fields))
            listed = (*fields.items("command"), *fields.items("args"))
            words = [SourceText(as_text(one), one.at) for one in listed if isinstance(one, Scalar)]
            volumes = tuple(_mounted(fields, storage, notes))
            with fields.below("resources") as resources:
                self.limits(resources)
        return (
            Setting({"name": image.text}, image.at) if image else None,
            tuple(self.expanded(word, env) for word in words),
            {name: self.expanded(value, env) for name, value in env.items()},
            volumes,
        )

    def environment(self, fields: Fields) -> Iterator[tuple[str, SourceText]]:
        for node in fields.items("env"):
            with Fields(node, "env[]", self.notes, node.at) as one:
                name, value, source = one.text("name"), one.text("value"), one.take("valueFrom")
            if name and value:
                yield name.text, SourceText(value.text, value.at)
            elif name and source is not None and not name.text.startswith(_OWN):
                self.notes.left(f"env.{name.text}", source.at, f"its value is not in the file: {_SECRET}")

    def expanded(self, text: SourceText, env: dict[str, SourceText]) -> SourceText:
        """Return a text with the variables in it that Kubernetes would replace."""

        def replaced(match: re.Match[str]) -> str:
            if match["dollar"]:
                return "$"
            known = env.get(match["name"])
            if known is None and not match["name"].startswith(_OWN):
                self.notes.add(text.at, f"`$({printable(match['name'])})` stays as it is: its value is not in the file")
            return known.text if known else match[0]

        return SourceText(_REFERENCE.sub(replaced, text.text), text.at)

    def limits(self, resources: Fields) -> None:
        with resources.below("limits") as limits:
            memory, cores = limits.text("memory"), limits.text("cpu")
            gpus = limits.text("nvidia.com/gpu")
        resources.without("requests")
        if memory and (setting := kubernetes_memory(memory, self.notes)):
            self.settings["memory"] = setting
        if cores and (setting := cpus(cores, self.notes)):
            self.settings["cpus"] = setting
        amount = quantity(gpus) if gpus else None
        if gpus and amount is not None:
            self.settings["gpus"] = Setting(int(amount), gpus.at)


def _chosen(containers: tuple[Node, ...]) -> Node | None:
    """Return the container of the program: the one with the name that a TFJob's must have, else the first."""
    named = [one for one in containers if isinstance(one, Mapping) and isinstance(one.get("name"), Scalar)]
    ours = [one for one in named if as_text(one.entries["name"]) == "tensorflow"]  # type: ignore[arg-type]
    return next(iter([*ours, *containers]), None)


def _storage(spec: Fields, notes: Notes) -> Iterator[tuple[str, str | None]]:
    """Yield every volume by its name: a directory of the node, or None for storage of the cluster's."""
    for node in spec.items("volumes"):
        volume = Fields(node, "volumes[]", notes, node.at)
        name = volume.text("name")
        host = volume.below("hostPath")
        path = host.text("path")
        if name:
            if volume.take("secret") is not None:
                notes.left(f"volumes.{name.text}", node.at, _SECRET)
                continue
            yield name.text, path.text if path else None


def _mounted(fields: Fields, storage: dict[str, str | None], notes: Notes) -> Iterator[Volume]:
    for node in fields.items("volumeMounts"):
        mount = Fields(node, "volumeMounts[]", notes, node.at)
        name, target, read_only = mount.text("name"), mount.text("mountPath"), mount.text("readOnly")
        below = mount.text("subPath")
        if name and target and name.text in storage:
            source = storage[name.text]
            source = f"{source}/{below.text}" if source and below else source
            yield Volume(target, source, read_only is not None and read_only.text == "true")
