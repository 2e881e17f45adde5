"""Swarm: a stack file for `docker stack deploy`, where every task is a service with one replica.

Names resolve to the task itself (dnsrr): a virtual IP drops connections that are idle for 15 minutes. A volume belongs to
one node, so the chief and the readers of its files are placed on the same one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfprov.errors import Problem
from tfprov.model.cluster import Task
from tfprov.render import options
from tfprov.render.compose import Service, check_services, relative_data, services, volume_names
from tfprov.render.dns_names import short_name
from tfprov.render.options import Option, Values
from tfprov.render.target import BaseTarget, Member, RenderInput, RenderRequest

FILE = "stack.yml"

_OPTIONS = (
    Option(
        "place",
        "any",
        "where tasks run: on `any` node, or on the nodes with the names of the inventory's `hosts`",
        options.choice("any", "hosts"),
    ),
    Option(
        "node",
        "",
        "the host name of the node with the checkpoints; without it, the manager",
        options.matching(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", "the host name of a node"),
    ),
    Option(
        "publish",
        0,
        "the port on which TensorBoard's node publishes it, for everyone; without it, it is not published",
        options.integer(1, 65535),
    ),
    *(
        Option(
            f"publish_{role}",
            0,
            f"the port on which the node of the {role} publishes it, for everyone; without it, it is not published",
            options.integer(1, 65535),
        )
        for role in ("serving", "notebook")
    ),
    Option(
        "gpu_resource",
        "NVIDIA-GPU",
        "the name of a GPU in the `node-generic-resources` of the nodes' engines",
        options.matching(r"[A-Za-z0-9_-]{1,63}", "letters, digits, `_` and `-`"),
    ),
)


@dataclass(frozen=True)
class Placed:
    """A service with its placement constraints."""

    service: Service
    constraints: list[str]


@dataclass(frozen=True)
class Swarm(BaseTarget):
    """A stack."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of the task's service, its host name in the stack's network."""
        return short_name(task)

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield problems of data next to the inventory, of `gpus: all`, and of devices."""
        yield from relative_data(request, "the swarm's nodes")
        yield from request.refuse_all_gpus("a swarm counts GPUs")
        yield from request.refuse_devices("a swarm gives its tasks no devices of their nodes")

    def values(self, rendering: RenderInput) -> Mapping[str, object]:
        """Return the services with their placement, the chief's service, the volumes, and the secret variables."""
        rendered = services(rendering)
        return {
            "placed": [Placed(service, _constraints(rendering, service.member)) for service in rendered],
            "chief_service": next(service for service in rendered if service.member.is_chief),
            "published": {"tensorboard": "publish", "serving": "publish_serving", "notebook": "publish_notebook"},
            "volumes": volume_names(rendered),
            "secrets": list(dict.fromkeys(name for service in rendered for name in service.required_env)),
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Check the services and the version."""
        if not str(check_services(FILE, files[FILE]).get("version", "")).startswith("3."):
            raise ValueError(f"{FILE}: `docker stack deploy` reads version 3")


def _constraints(rendering: RenderInput, member: Member) -> list[str]:
    settings, task = rendering.settings, rendering.cluster.find(member.task)
    is_pinned = member.is_chief or member.files_of is not None or member.role == "dispatcher"
    if settings["node"] and is_pinned:
        return [f"node.hostname == {settings['node']}"]
    if settings["place"] == "hosts" and task is not None:
        return [f"node.hostname == {task.host}"]
    return ["node.role == manager"] if is_pinned else []


TARGET = Swarm(
    name="swarm",
    title="a stack file, for Docker Swarm",
    options={option.name: option for option in _OPTIONS},
    templates={FILE: "swarm.yml.j2"},
)
