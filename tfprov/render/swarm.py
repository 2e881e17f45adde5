"""Swarm: a stack file for `docker stack deploy`, in which every task is a service with one replica.

A name leads to the task itself (dnsrr) and not to a virtual address, which forgets connections that are idle for 15
minutes. Volumes belong to one node, so the chief and those who read its files are kept on one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfprov.errors import Problem
from tfprov.model.cluster import Task
from tfprov.render import options
from tfprov.render.compose import Service, check_services, relative_data, services, volume_names
from tfprov.render.dns_names import short_name, too_long
from tfprov.render.options import Option, Values
from tfprov.render.target import BaseTarget, Member, Rendering, RenderRequest

FILE = "stack.yml"

_OPTIONS = (
    Option(
        "place",
        "any",
        "where tasks run: on `any` node, or on the nodes that are called as the `hosts` of the inventory",
        options.choice("any", "hosts"),
    ),
    Option(
        "node",
        "",
        "the node that has the checkpoints, by its host name; without it, the manager",
        options.matching(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", "the host name of a node"),
    ),
    Option(
        "publish",
        0,
        "the port of its node at which a TensorBoard is reached, from everywhere; without it, it is not",
        options.whole(1, 65535),
    ),
    Option(
        "gpu_resource",
        "NVIDIA-GPU",
        "what the engines of the nodes call a GPU, in their `node-generic-resources`",
        options.matching(r"[A-Za-z0-9_-]{1,63}", "letters, digits, `_` and `-`"),
    ),
)


@dataclass(frozen=True)
class Placed:
    """A service and what it says of the node it runs on."""

    service: Service
    constraints: list[str]


@dataclass(frozen=True)
class Swarm(BaseTarget):
    """Services of a stack."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of the task's service, which is a host name in the stack's network."""
        return short_name(task)

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield what a swarm cannot do: count `all` GPUs, find data beside the inventory, have long names."""
        yield from too_long(
            request.first, (f"{request.cluster.name}_{short_name(task)}" for task in request.cluster.tasks)
        )
        yield from relative_data(request, "the swarm's nodes")
        yield from request.refuse_all_gpus("a swarm counts GPUs")

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return the services with their places, that of the chief, the volumes, and what must be in the environment."""
        rendered = services(rendering)
        return {
            "placed": [Placed(service, _constraints(rendering, service.member)) for service in rendered],
            "chief_service": next(service for service in rendered if service.member.is_chief),
            "volumes": volume_names(rendered),
            "secrets": list(dict.fromkeys(name for service in rendered for name in service.asked_for)),
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Read the file again."""
        if not str(check_services(FILE, files[FILE]).get("version", "")).startswith("3."):
            raise ValueError(f"{FILE}: `docker stack deploy` reads version 3")


def _constraints(rendering: Rendering, member: Member) -> list[str]:
    settings, task = rendering.settings, rendering.cluster.find(member.task)
    keeps = member.is_chief or member.files_of is not None or member.role == "dispatcher"
    if settings["node"] and keeps:
        return [f"node.hostname == {settings['node']}"]
    if settings["place"] == "hosts" and task is not None:
        return [f"node.hostname == {task.host}"]
    return ["node.role == manager"] if keeps else []


TARGET = Swarm(
    name="swarm",
    title="a stack file, for Docker Swarm",
    options={option.name: option for option in _OPTIONS},
    templates={FILE: "swarm.yml.j2"},
)
