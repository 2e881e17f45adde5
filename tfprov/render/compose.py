"""Compose: all tasks on one engine, each a service, with the checkpoints in a volume.

Both docker-compose 1.29 and `docker compose` read the file. Compose ends a cluster with its chief only if it is attached to
no other service, so the chief depends on all others and is started by name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from tfprov.errors import Problem
from tfprov.images.code_layer import RUNTIME_DIRECTORY
from tfprov.model.cluster import Cluster, Task
from tfprov.paths import PACKAGE
from tfprov.render import options
from tfprov.render.dns_names import short_name
from tfprov.render.options import Option, Values
from tfprov.render.output import documents
from tfprov.render.target import BaseTarget, Member, RenderInput, RenderRequest
from tfprov.settings.role_settings import data_path, resolve_path

SHARED = "checkpoints"
"""The volume of the chief, the ps, and the readers of its files; each other task has its own."""

Volume = Mapping[str, object]
"""A volume or bind mount in Compose's long syntax."""


@dataclass(frozen=True)
class Service:
    """A member in Compose's terms.

    `name` is its host name. `required_env` maps secret variables to `${NAME:?…}`, which Compose reads from its own
    environment; the filter `compose` quotes all other values, and not these. `build` is for an image that is not pulled.
    """

    name: str
    member: Member
    image: str
    build: Mapping[str, object] | None
    entrypoint: list[str]
    environment: Mapping[str, str]
    required_env: Mapping[str, str]
    volumes: list[Volume]
    memory: str | None


def services(rendering: RenderInput) -> list[Service]:
    """Return every task as a service without its code."""
    rendered = []
    for member in rendering.members:
        task = rendering.cluster.find(member.task)
        assert task is not None, "members come from the cluster's tasks"
        build = _build(rendering.request, task) if not member.image else None
        rendered.append(
            Service(
                name=short_name(task),
                member=member,
                image=member.image or f"tfprov-compose/{rendering.name}",
                build=build,
                entrypoint=member.command,
                environment={**_home(member), **member.env},
                required_env={name: f"${{{name}:?is secret and not in this file}}" for name in member.secrets},
                volumes=list(_volumes(rendering.request, member, task)),
                memory=size(member.memory) if member.memory else None,
            )
        )
    return rendered


def _home(member: Member) -> Mapping[str, str]:
    """Return HOME as `tfprov up` sets it: on a file system that is only read, a program can write to no other."""
    return {"HOME": "/tmp"} if member.read_only and "HOME" not in member.secrets else {}  # noqa: S108  a tmpfs of its own


def _build(request: RenderRequest, task: Task) -> Mapping[str, object]:
    """Return the build section for a task whose image is built from a directory of this machine."""
    role = request.role(task)
    assert role.values.image is not None, "a cluster without an image is refused"
    context = str(resolve_path(role, "image", "build").absolute())
    build_args = {name: str(value) for name, value in role.values.image.build_args.items()}
    args = {"args": build_args} if build_args else {}
    return {"context": context, "dockerfile": role.values.image.dockerfile, **args}


def volume_names(services: list[Service]) -> list[str]:
    """Return the named volumes of all services, each once."""
    names = [str(volume["source"]) for service in services for volume in service.volumes if volume["type"] == "volume"]
    return list(dict.fromkeys(names))


def size(amount: int) -> str:
    """Return bytes in the largest unit without a fraction: `2g`."""
    for power, unit in ((3, "g"), (2, "m"), (1, "k")):
        if amount % 1024**power == 0:
            return f"{amount // 1024**power}{unit}"
    return f"{amount}b"


def _volumes(request: RenderRequest, member: Member, task: Task) -> Iterator[Volume]:
    # A ps shares the chief's: with TensorFlow's own saver, each ps writes its part.
    shares = member.is_chief or task.job == "ps" or task.reads
    yield {"type": "volume", "source": SHARED if shares else short_name(task), "target": member.checkpoint_dir}
    role = request.role(task)
    if member.data and role.reads_data:
        yield bind(str(data_path(role)), member.data.to)
    for mount in member.mounts:
        yield bind(mount.source, mount.target, read_only=mount.read_only)


def bind(source: str, target: str, *, read_only: bool = True) -> Volume:
    """Return a bind mount of an existing directory."""
    return {"type": "bind", "source": source, "target": target, "read_only": read_only}


def relative_data(request: RenderRequest, engine: str) -> Iterator[Problem]:
    """Yield a problem for data with a path relative to the inventory, which other machines do not have."""
    for role in request.roles.values():
        if role.values.data and role.reads_data and not (role.values.data.directory or "/").startswith("/"):
            what = f"`data.path` must be an absolute path: it is on {engine}"
            yield Problem(role.at("data", "path"), what, "for example `path: /data/mnist`")


_SERVICE_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def check_services(file: str, text: str) -> Mapping[str, object]:
    """Return a rendered file, parsed; ValueError if it has no services, or one without image or program."""
    parsed = documents(file, text)
    services = parsed[0].get("services") if len(parsed) == 1 and isinstance(parsed[0], dict) else None
    if not isinstance(services, dict) or not services:
        raise ValueError(f"{file} has no services")
    for name, service in services.items():
        if not isinstance(service, dict) or not _SERVICE_NAME.fullmatch(str(name)):
            raise ValueError(f"{file}: the service `{name}` is invalid")
        for key in ("image", "entrypoint"):
            if not service.get(key):
                raise ValueError(f"{file}: the service `{name}` has no `{key}`")
    document: Mapping[str, object] = parsed[0]
    return document


FILE = "compose.yml"

_PATH = "PYTHONPATH"

_PUBLISH = Option(
    "publish",
    "127.0.0.1",
    "the address of this machine on which a tensorboard, a model server and a notebook are published",
    options.matching(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", "an IPv4 address, such as 127.0.0.1"),
)


@dataclass(frozen=True)
class Compose(BaseTarget):
    """Services of one Compose project. The code is mounted, as this machine runs the project."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of the task's service, its host name in the project's network."""
        return short_name(task)

    def ports(self, cluster: Cluster, inventory_ports: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return the ports of the inventory, and different ones for the tasks that are published on this machine."""
        ports = dict(inventory_ports)
        taken: set[int] = set()
        for task in (task for task in cluster.tasks if task.is_web):
            ports[task.name] = next(port for port in count(inventory_ports[task.name]) if port not in taken)
            taken.add(ports[task.name])
        return ports

    def values(self, rendering: RenderInput) -> Mapping[str, object]:
        """Return the services, the chief's service, the volumes, and the secret variables."""
        rendered = [_with_code(service) for service in services(rendering)]
        chief = next(service for service in rendered if service.member.is_chief)
        return {
            "services": rendered,
            "chief_service": chief,
            "others": [service.name for service in rendered if service is not chief],
            "volumes": volume_names(rendered),
            "secrets": list(dict.fromkeys(name for service in rendered for name in service.required_env)),
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Check the services."""
        check_services(FILE, files[FILE])


def _with_code(service: Service) -> Service:
    """Return a service with its code and tfprov's runtime mounted from this machine."""
    member = service.member
    if member.code is None or member.workdir is None:
        return service
    path = ":".join(filter(None, (RUNTIME_DIRECTORY, member.env.get(_PATH))))
    return replace(
        service,
        environment={**service.environment, _PATH: path},
        volumes=[
            *service.volumes,
            bind(str(Path(member.code.source).absolute()), member.workdir),
            bind(str(PACKAGE), f"{RUNTIME_DIRECTORY}/{PACKAGE.name}"),
        ],
    )


TARGET = Compose(
    name="compose",
    title="a Compose file, for one machine with Docker",
    options={"publish": _PUBLISH},
    templates={FILE: "compose.yml.j2"},
    images=("name", "build"),
    carries_code=True,
)
