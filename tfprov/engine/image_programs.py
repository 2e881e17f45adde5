"""The programs of tasks in their images: looked up on hosts that have them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from tfprov.engine.context import Context
from tfprov.engine.pools import pool
from tfprov.engine.programs import Fault, Programs, alternatives, fault_of_image, refuse, tasks_by_program
from tfprov.errors import HostError
from tfprov.hosts.docker_look import Looked, look
from tfprov.hosts.listener import CHECK, sweep_created
from tfprov.hosts.machine import Machine
from tfprov.model.state import Container


def refuse_images(context: Context, programs: Programs, containers: Iterable[Container]) -> None:
    """Raise InvalidInput when an image lacks what `containers` start; one host is asked about each image and command.

    A host that cannot answer is passed over: to start a task there says what is wrong with it.
    """
    faults: dict[str, Fault | None] = {}
    groups = [
        (container, tasks)
        for container, tasks in tasks_by_program(containers)
        if container.task.host in context.machines
    ]

    def seen(container: Container) -> Fault | None:
        with suppress(HostError):
            return image_fault(context.machines[container.task.host], programs, container, context.cluster.name)
        return None

    def sweep(host: str) -> None:
        with suppress(HostError):
            sweep_created(context.machines[host].engine, context.cluster.name)

    with pool(context.forks) as looks:
        list(looks.map(sweep, {container.task.host for container, _ in groups}))
        found = list(looks.map(seen, [container for container, _ in groups]))
    for (_, tasks), fault in zip(groups, found, strict=True):
        faults |= dict.fromkeys(tasks, fault)
    refuse(context, list(containers), lambda container: faults.get(container.task.name))


def image_fault(machine: Machine, programs: Programs, container: Container, cluster: str) -> Fault | None:
    """Return what the image of a task lacks of what the task starts. Raises HostError."""
    needs = programs.needs(container)
    if not needs:
        return None
    labels = look_labels(cluster)
    looked = look(machine.engine, container, labels, needs)
    fault = fault_of_image(programs, container, looked)
    more = [name for name in alternatives(needs) if name not in looked.there] if fault else []
    if more:
        further = look(machine.engine, container, labels, more)
        return fault_of_image(programs, container, Looked({**further.there, **looked.there}, looked.entrypoint))
    return fault


def look_labels(cluster: str) -> Mapping[str, str]:
    """Return the labels of throw-away containers that look into an image."""
    return {CHECK: cluster}
