"""Compose: all tasks on one engine, each a service, with the checkpoints in a volume.

The file is one that docker-compose 1.29 reads as well as today's `docker compose`. Compose can end a cluster with its
chief only while it watches nobody else, so the chief depends on all others, and is the one that is started by name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import tfprov
from tfprov.delivery.layer import RUNTIME_DIRECTORY
from tfprov.errors import Problem
from tfprov.model.cluster import Task
from tfprov.render import options
from tfprov.render.compose_service import Service, bind, check_services, services, volume_names
from tfprov.render.naming import short_name, too_long
from tfprov.render.options import Option, Values
from tfprov.render.target import Asked, BaseTarget, Rendering

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

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield names that are too long."""
        yield from too_long(asked.first, map(short_name, asked.cluster.tasks))

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return the services, that of the chief, the volumes, and what must be in the environment."""
        found = [_with_code(service) for service in services(rendering)]
        chief = next(service for service in found if service.member.is_chief)
        return {
            "services": found,
            "chief_service": chief,
            "others": [service.name for service in found if service is not chief],
            "volumes": volume_names(found),
            "secrets": list(dict.fromkeys(name for service in found for name in service.asked_for)),
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
    package = Path(tfprov.__file__).parent
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
