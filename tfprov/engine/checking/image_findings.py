"""What `check` makes of the programs in images: every host that has its image looks into it."""

from collections.abc import Iterator, Sequence

from tfprov.engine.checking.asking import Asked
from tfprov.engine.checking.check import words
from tfprov.engine.checking.findings import Finding, Verdict, failed, note
from tfprov.engine.checking.program_findings import IN_IMAGE, command, tensorflow, undelivered
from tfprov.engine.image_programs import image_fault, look_labels
from tfprov.engine.pools import pool
from tfprov.engine.programs import Programs, tasks_by_program
from tfprov.errors import HostError
from tfprov.hosts.docker_look import image_user, try_import
from tfprov.hosts.tensorflow_import import Imported
from tfprov.model.state import Container
from tfprov.planning.text import listed


def of_images(asked: Asked) -> dict[str, list[Finding]]:
    """Return what there is to say about the programs of every host, also of those that cannot be asked."""
    programs = Programs.of(asked.context)
    hosts = [host for host in asked.answers if host not in asked.context.left]
    with pool(asked.context.forks) as asking:
        return dict(zip(hosts, asking.map(lambda host: _of_host(asked, programs, host), hosts), strict=True))


def _of_host(asked: Asked, programs: Programs, host: str) -> list[Finding]:
    wanted = [container for container in asked.context.wanted if container.task.host == host]
    found: list[Finding] = []
    imported: dict[tuple[str, str], Imported] = {}
    for container, tasks in tasks_by_program(wanted):
        fault = programs.fault(container)
        engine = asked.facts[host].engine if host in asked.facts else None
        assert container.box is not None, "containers on machines have one"
        if fault is not None:
            found += command(container, tasks, fault)
        elif engine is not None and container.box.image in engine.images:
            found += _in_image(asked, programs, asked.by_id(container), tasks, imported)
        elif engine is not None:
            found += undelivered(container)
    return list(dict.fromkeys(found))


def _in_image(
    asked: Asked,
    programs: Programs,
    container: Container,
    tasks: list[str],
    imported: dict[tuple[str, str], Imported],
) -> Iterator[Finding]:
    machine, cluster = asked.context.machines[container.task.host], asked.context.cluster.name
    try:
        findings = list(command(container, tasks, image_fault(machine, programs, container, cluster)))
        yield from findings
        assert container.box is not None, "containers on machines have one"
        user = container.box.user or image_user(machine.engine, container.box.image)
        if is_root(user):
            yield note(
                "image", as_root(tasks), "set `user`, for example `user: 1000`, where the program can do without"
            )
        python, uses = programs.python(container), programs.uses_tensorflow(container)
        if python is None or uses is False or any(it.verdict is Verdict.FAILED for it in findings):
            return
        key = container.box.image, python
        if key not in imported:
            imported[key] = try_import(machine.engine, container, look_labels(cluster), python)
        yield tensorflow(imported[key], python, IN_IMAGE, is_sure=bool(uses))
    except HostError as error:
        yield failed("command", *words(error))


def is_root(user: str) -> bool:
    """Whether the user that an image or `user` names is root."""
    return user.partition(":")[0] in ("", "0", "root")


def as_root(tasks: Sequence[str]) -> str:
    """Say that these tasks are root in their containers."""
    one = len(tasks) == 1
    return f"{listed(tasks, 4)} {'runs' if one else 'run'} as root in {'its container' if one else 'their containers'}"
