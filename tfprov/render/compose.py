"""Compose: all tasks on one engine, each a service, with the checkpoints in a volume.

The file is one that docker-compose 1.29 reads as well as today's `docker compose`. Compose can end a cluster with its
chief only while it watches nobody else, so the chief depends on all others, and is the one that is started by name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.errors import Problem
from tfprov.images.code_layer import RUNTIME_DIRECTORY
from tfprov.model.cluster import Task
from tfprov.paths import PACKAGE
from tfprov.render import options
from tfprov.render.dns_names import short_name, too_long
from tfprov.render.options import Option, Values
from tfprov.render.output import documents
from tfprov.render.target import BaseTarget, Member, Rendering, RenderRequest
from tfprov.settings.role_settings import data_path, resolve_path

SHARED = "checkpoints"
"""The volume of the chief, of the ps, and of those who read its files; others have one of their own."""

Volume = Mapping[str, object]
"""A volume or a directory of the machine in a container, in Compose's long form."""


@dataclass(frozen=True)
class Service:
    """A member with the words that Compose has for what it needs.

    `name` is what the others call it. `environment` has in place of each secret what makes Compose ask its own
    environment for it; values are quoted for Compose's interpolation by the filter `compose`, `asked_for` must not be.
    `build` is how the image is made where it is not pulled.
    """

    name: str
    member: Member
    image: str
    build: Mapping[str, object] | None
    entrypoint: list[str]
    environment: Mapping[str, str]
    asked_for: Mapping[str, str]
    volumes: list[Volume]
    memory: str | None


def services(rendering: Rendering) -> list[Service]:
    """Return every task as a service, without the code that would have to be brought to it."""
    rendered = []
    for member in rendering.members:
        task = rendering.cluster.find(member.task)
        assert task is not None, "members are made of the cluster's tasks"
        build = _build(rendering.asked, task) if not member.image else None
        rendered.append(
            Service(
                name=short_name(task),
                member=member,
                image=member.image or f"tfprov-compose/{rendering.name}",
                build=build,
                entrypoint=member.command,
                environment=member.env,
                asked_for={name: f"${{{name}:?is secret and not in this file}}" for name in member.secrets},
                volumes=list(_volumes(rendering.asked, member, task)),
                memory=size(member.memory) if member.memory else None,
            )
        )
    return rendered


def _build(request: RenderRequest, task: Task) -> Mapping[str, object] | None:
    """Return the directory of this machine that a task's image is made of."""
    role = request.role(task)
    if role.values.image is None or role.values.image.build is None:
        return None
    context = str(resolve_path(role, "image", "build").absolute())
    build_args = {name: str(value) for name, value in role.values.image.build_args.items()}
    args = {"args": build_args} if build_args else {}
    return {"context": context, "dockerfile": role.values.image.dockerfile, **args}


def volume_names(services: list[Service]) -> list[str]:
    """Return the volumes that services have between them, each once."""
    named = [str(volume["source"]) for service in services for volume in service.volumes if volume["type"] == "volume"]
    return list(dict.fromkeys(named))


def size(amount: int) -> str:
    """Return bytes in the largest unit that says them exactly: `2g`."""
    for power, unit in ((3, "g"), (2, "m"), (1, "k")):
        if amount % 1024**power == 0:
            return f"{amount // 1024**power}{unit}"
    return f"{amount}b"


def _volumes(request: RenderRequest, member: Member, task: Task) -> Iterator[Volume]:
    # A ps shares the chief's: a program with TensorFlow's own saver has each ps write its part.
    shares = member.is_chief or task.job == "ps" or task.reads
    yield {"type": "volume", "source": SHARED if shares else short_name(task), "target": member.checkpoint_dir}
    role = request.role(task)
    if member.data and role.reads_data:
        yield bind(str(data_path(role)), member.data.to)
    for mount in member.mounts:
        yield bind(mount.source, mount.target, read_only=mount.read_only)


def bind(source: str, target: str, *, read_only: bool = True) -> Volume:
    """Return a directory of the machine inside a container; it must be there."""
    return {"type": "bind", "source": source, "target": target, "read_only": read_only}


def relative_data(request: RenderRequest, engine: str) -> Iterator[Problem]:
    """Yield a problem for data whose path counts from a file of this machine, which others do not have there."""
    reported = set()
    for role in request.roles.values():
        at = role.at("data", "path")
        if (
            role.values.data
            and role.reads_data
            and not (role.values.data.path or "/").startswith("/")
            and at not in reported
        ):
            reported.add(at)
            what = f"`data.path` must be an absolute path: it is one of {engine}"
            yield Problem(at, what, "for example `path: /data/mnist`")


_REMARKABLE = re.compile(r"[A-Za-z0-9_.-]+")


def check_services(file: str, text: str) -> Mapping[str, object]:
    """Return a rendered file as it is read; ValueError where a service lacks its image or its program, or there is none."""
    found = documents(file, text)
    rendered = found[0].get("services") if len(found) == 1 and isinstance(found[0], dict) else None
    if not isinstance(rendered, dict) or not rendered:
        raise ValueError(f"{file} has no services")
    for name, service in rendered.items():
        if not isinstance(service, dict) or not _REMARKABLE.fullmatch(str(name)):
            raise ValueError(f"{file}: the service `{name}` is none")
        for key in ("image", "entrypoint"):
            if not service.get(key):
                raise ValueError(f"{file}: the service `{name}` has no `{key}`")
    document: Mapping[str, object] = found[0]
    return document


FILE = "compose.yml"

_PATH = "PYTHONPATH"

_PUBLISH = Option(
    "publish",
    "127.0.0.1",
    "the address of this machine on which a TensorBoard is reached",
    options.matching(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", "an IPv4 address, such as 127.0.0.1"),
)


@dataclass(frozen=True)
class Compose(BaseTarget):
    """Services of one Compose project; the code lies on the machine already, as this is the one that runs it."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of the task's service, which is a host name in the project's network."""
        return short_name(task)

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield names that are too long."""
        yield from too_long(request.first, map(short_name, request.cluster.tasks))

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return the services, that of the chief, the volumes, and what must be in the environment."""
        rendered = [_with_code(service) for service in services(rendering)]
        chief = next(service for service in rendered if service.member.is_chief)
        return {
            "services": rendered,
            "chief_service": chief,
            "others": [service.name for service in rendered if service is not chief],
            "volumes": volume_names(rendered),
            "secrets": list(dict.fromkeys(name for service in rendered for name in service.asked_for)),
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Read the file again."""
        check_services(FILE, files[FILE])


def _with_code(service: Service) -> Service:
    """Return a service with its code and tfprov's runtime, from where they lie on this machine."""
    member = service.member
    if member.code is None or member.workdir is None:
        return service
    path = ":".join(filter(None, (RUNTIME_DIRECTORY, member.env.get(_PATH))))
    package = PACKAGE
    return replace(
        service,
        environment={**service.environment, _PATH: path},
        volumes=[
            *service.volumes,
            bind(str(Path(member.code.source).absolute()), member.workdir),
            bind(str(package), f"{RUNTIME_DIRECTORY}/{package.name}"),
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
