"""The pod of a member, as a dictionary."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfprov.images.code_layer import RUNTIME_DIRECTORY
from tfprov.model.state import Mount
from tfprov.render.kubernetes.cluster_settings import ARCHIVE_DIR, EMPTY_DIR, Json, PodSettings, labels
from tfprov.render.kubernetes.wiring import literal
from tfprov.render.options import Values
from tfprov.render.target import Member

_SERVER_STRATEGIES = ("in_graph", "parameter_server")
"""Strategies whose workers only serve and so never end by themselves."""
CREDENTIALS = "/etc/credential"
"""The mount point of the credential file."""
GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS"
"""The variable with its path."""
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  the mount point of a token


@dataclass(frozen=True)
class Pod:
    """The pod of a member."""

    member: Member
    common: PodSettings

    @property
    def name(self) -> str:
        """The name of the member's objects."""
        return self.member.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels that Kubernetes recommends, and those of the task."""
        return {**labels(self.common.rendering.name, self.member.job), **self.selector}

    @property
    def selector(self) -> dict[str, str]:
        """The labels that select exactly this pod."""
        return self.common.labels_of(self.member)

    @property
    def ends(self) -> bool:
        """Whether its program ends by itself, unlike a server."""
        if self.member.role == "worker" and not self.member.is_chief:
            return self.common.rendering.strategy not in _SERVER_STRATEGIES
        return self.member.role in ("chief", "evaluator", "worker")

    @property
    def port_name(self) -> str:
        """The name of its port."""
        return self.common.port_name(self.member)

    @property
    def backoff(self) -> int:
        """How often it is restarted."""
        return self.member.max_restarts if self.member.restart == "on-failure" else 0

    @property
    def restart_policy(self) -> str:
        """The restart policy of its containers."""
        return "OnFailure" if self.member.restart == "on-failure" else "Never"

    def job_template(self, watched: str) -> Json:
        """Return the pod template of a Job. A server is a sidecar beside a container that waits for the training.

        `watched` is the API path of the object that ends with the training.
        """
        if self.ends:
            return self.template(self.restart_policy)
        cluster = self.common.rendering.name
        spec = {"restartPolicy": "OnFailure", "serviceAccountName": f"{cluster}-until"}
        sidecar = {"name": "tensorflow", "restartPolicy": "Always", **self._task_container}
        containers = {"initContainers": [*self._unpack, sidecar], "containers": [_watcher(self.member.image, watched)]}
        watch_volumes = [{"name": "until", "configMap": {"name": f"{cluster}-until"}}, TOKEN_VOLUME]
        return self._with_labels({**spec, **self._options, **containers, "volumes": [*self._volumes, *watch_volumes]})

    def template(self, restart_policy: str, container: str = "tensorflow") -> Json:
        """Return a pod template whose only `container` is the task."""
        return self._with_labels({"restartPolicy": restart_policy, **self.spec(container)})

    def spec(self, container: str = "tensorflow") -> Json:
        """Return the spec of a pod whose only `container` is the task, without a restart policy."""
        return {
            **self._options,
            **({"initContainers": self._unpack} if self._unpack else {}),
            "containers": [{"name": container, **self._task_container}],
            "volumes": self._volumes,
        }

    def _with_labels(self, spec: Json) -> Json:
        return {"metadata": {"labels": self.labels}, "spec": spec}

    @property
    def _task_container(self) -> Json:
        """The container of the task, without a name."""
        member = self.member
        return {
            "image": member.image,
            "command": self.common.command(member),
            **({"workingDir": member.workdir} if member.workdir else {}),
            "env": self.environment(),
            **({"ports": [{"name": self.port_name, "containerPort": member.port}]} if member.serves else {}),
            **({"readinessProbe": _probe(member)} if member.serves and member.ready == "port" else {}),
            "resources": self.resources,
            "securityContext": CONFINED,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [mount for _, mount in self._mounted],
        }

    def environment(self) -> list[Json]:
        """Return all variables of the task."""
        settings, member = self.common.settings, self.member
        variables = self.common.environment(member)
        variables += [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": settings["env_secret"], "key": name}}}
            for name in member.secrets
        ]
        if settings["credential_secret"]:
            path = f"{CREDENTIALS}/{settings['credential_key']}"
            others = [variable for variable in variables if variable["name"] != GOOGLE]  # the API refuses a name twice
            variables = [*others, {"name": GOOGLE, "value": path}]
        if not self._carries:
            return variables
        paths = ":".join(filter(None, (RUNTIME_DIRECTORY, literal(member.env.get("PYTHONPATH", "")))))
        others = [variable for variable in variables if variable["name"] != "PYTHONPATH"]
        return [*others, {"name": "PYTHONPATH", "value": paths}]

    @property
    def resources(self) -> Json:
        """Its requests and limits."""
        member = self.member
        limits: Json = {
            **({"cpu": f"{round(member.cpus * 1000)}m"} if member.cpus else {}),
            **({"memory": str(member.memory)} if member.memory else {}),
        }
        gpus = {str(self.common.settings["gpu_resource"]): str(member.gpus)} if member.gpus else {}
        return {"requests": limits, "limits": {**limits, **gpus}} if limits or gpus else {}

    @property
    def _carries(self) -> bool:
        """Whether code and runtime are unpacked for it: the default TensorBoard needs neither."""
        is_default_board = self.member.role == "tensorboard" and self.member.program[0] == "tensorboard"
        return self.common.bundle is not None and not is_default_board

    @cached_property
    def _unpack(self) -> list[Json]:
        """The init container that unpacks code and runtime; none if the image has them."""
        bundle, member = self.common.bundle, self.member
        if bundle is None or not self._carries:
            return []
        mounts = [mount for volume, mount in self._mounted if volume["name"] in ("runtime", "code")]
        mounts = [{key: value for key, value in mount.items() if key != "readOnly"} for mount in mounts]
        return [
            {
                "name": "unpack",
                "image": member.image,
                "command": bundle.unpack(member.code),
                "resources": {},
                "securityContext": CONFINED,
                "volumeMounts": [*mounts, {"name": "archives", "mountPath": ARCHIVE_DIR, "readOnly": True}],
            }
        ]

    @property
    def _volumes(self) -> list[Json]:
        """The volumes of the pod."""
        volumes = {str(volume["name"]): volume for volume, _ in self._mounted}
        if self._carries and self.common.bundle:
            name = f"{self.common.rendering.name}-code-{self.common.bundle.key}"
            volumes["archives"] = {"name": "archives", "configMap": {"name": name}}
        return list(volumes.values())

    @cached_property
    def _mounted(self) -> list[tuple[Json, Json]]:
        return list(self._mounts())

    def _mounts(self) -> Iterator[tuple[Json, Json]]:
        """Yield every volume with its mount."""
        member, settings = self.member, self.common.settings
        yield self.common.checkpoints(member)
        if member.data:
            mount_point = {"name": "data", "mountPath": member.data.to, "readOnly": True}
            yield {"name": "data", **_data(str(settings["data_path"] or member.data.path), settings)}, mount_point
        for number, mount in enumerate(member.mounts):
            volume = {"name": f"mount-{number}", **_source(mount)}
            yield volume, {"name": f"mount-{number}", "mountPath": mount.target, "readOnly": mount.read_only}
        if member.shm_size:
            memory = {"medium": "Memory", "sizeLimit": str(member.shm_size)}
            yield {"name": "shm", "emptyDir": memory}, {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108
        if settings["credential_secret"]:
            volume = {"name": "credential", "secret": {"secretName": settings["credential_secret"]}}
            yield volume, {"name": "credential", "mountPath": CREDENTIALS, "readOnly": True}
        if self._carries:
            yield _empty("runtime"), {"name": "runtime", "mountPath": RUNTIME_DIRECTORY, "readOnly": True}
            if member.code and member.workdir:
                yield (
                    _empty("code"),
                    {"name": "code", "mountPath": member.workdir},
                )  # a program may write next to itself

    @property
    def _options(self) -> Json:
        """The part of the spec besides containers and volumes."""
        settings, user = self.common.settings, self.common.settings["user"]
        spec: Json = {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": self.member.stop_grace,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
        if settings["pull_secrets"]:
            spec["imagePullSecrets"] = [{"name": name} for name in settings["pull_secrets"]]  # type: ignore[union-attr]
        if settings["node_selector"]:
            spec["nodeSelector"] = settings["node_selector"]
        if settings["tolerations"]:
            spec["tolerations"] = [_toleration(taint) for taint in settings["tolerations"]]  # type: ignore[union-attr]
        if settings["priority_class"]:
            spec["priorityClassName"] = settings["priority_class"]
        if self.member.files_of is not None and self.common.on_one_node:
            spec["affinity"] = {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [self._chief_affinity]}
            }
        return spec

    @property
    def _chief_affinity(self) -> Json:
        chief = self.common.labels_of(self.common.rendering.chief)
        return {"labelSelector": {"matchLabels": chief}, "topologyKey": "kubernetes.io/hostname"}


CONFINED: Mapping[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The security context of every container."""
TOKEN_VOLUME: Mapping[str, Any] = {
    "name": "token",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]
    },
}
"""The volume that Kubernetes mounts into every pod by default; here only the waiting container mounts it."""


def _watcher(image: str, path: str) -> Json:
    """Return the container that ends with the object at the API's `path`."""
    return {
        "name": "until-the-training-ends",
        "image": image,
        "command": ["python3", "/etc/tfprov/until.py", path],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": CONFINED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "until", "mountPath": "/etc/tfprov", "readOnly": True},
            {"name": "token", "mountPath": _TOKEN, "readOnly": True},
        ],
    }


def _probe(member: Member) -> Json:
    return {"tcpSocket": {"port": member.port}, "periodSeconds": 10}


def _empty(name: str) -> Json:
    return {"name": name, **EMPTY_DIR}


def _data(path: str, settings: Values) -> Json:
    if settings["data_claim"]:
        return {"persistentVolumeClaim": {"claimName": settings["data_claim"], "readOnly": True}}
    return {"hostPath": {"path": path, "type": "Directory"}}


def _toleration(taint: str) -> Json:
    key_and_value, _, effect = taint.partition(":")
    key, equals, value = key_and_value.partition("=")
    match = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **match, **({"effect": effect} if effect else {})}


def _source(mount: Mount) -> Json:
    """Return the source of a mount's volume: a directory of the node, or of an NFS server."""
    options = dict(mount.volume_options)
    if not options:
        return {"hostPath": {"path": mount.source}}
    server = options["o"].partition(",")[0].removeprefix("addr=")
    return {"nfs": {"server": server, "path": options["device"][1:], "readOnly": mount.read_only}}
