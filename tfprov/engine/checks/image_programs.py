"""Checks the programs in images, on hosts that have the image."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from tfprov.engine.checks import remote_data, remote_dirs
from tfprov.engine.checks.check import split_error
from tfprov.engine.checks.collect import Collected
from tfprov.engine.checks.host_rules import IN_IMAGE, Finding, Verdict, command, failed, note, tensorflow, undelivered
from tfprov.engine.checks.remote_dirs import chief_with_remote
from tfprov.engine.checks.temporary_containers import container_pool
from tfprov.engine.command_checks import Fault, Programs, alternatives, fault_of_image, refuse, tasks_by_program
from tfprov.engine.context import Context
from tfprov.errors import HostError, combine_errors
from tfprov.hosts.docker.image_contents import ImageLookup, find_programs, image_user, missing_mount, try_import
from tfprov.hosts.docker.reachability_probe import sweep_created, temporary
from tfprov.hosts.machine import Machine
from tfprov.hosts.program_checks import ImportResult
from tfprov.model.state import Container
from tfprov.planning.plan_text import join_names


def refuse_images(context: Context, programs: Programs, containers: Iterable[Container]) -> None:
    """Raise InvalidInput if an image lacks a program of `containers`; one host looks up each image and command.

    A host that does not answer is skipped: the start of its task reports the error.
    """
    faults: dict[str, Fault | None] = {}
    groups = [
        (container, tasks)
        for container, tasks in tasks_by_program(containers)
        if container.task.host in context.machines
    ]

    def look_up(container: Container) -> Fault | None:
        with suppress(HostError):
            return image_fault(context.machines[container.task.host], programs, container, context.cluster.name)
        return None

    def sweep(host: str) -> None:
        with suppress(HostError):
            sweep_created(context.machines[host].engine, context.cluster.name)

    machines = {container.task.host: context.machines[container.task.host] for container, _ in groups}
    with container_pool(context.cluster.name, machines, context.forks) as looks:
        list(looks.map(sweep, machines))
        seen_faults = list(looks.map(look_up, [container for container, _ in groups]))
    for (_, tasks), fault in zip(groups, seen_faults, strict=True):
        faults |= dict.fromkeys(tasks, fault)
    refuse(context, list(containers), lambda container: faults.get(container.task.name))


def refuse_mounts(context: Context, containers: Iterable[Container]) -> None:
    """Raise HostError for every source of `mounts` that does not exist on a host where one of `containers` starts.

    Its engine would refuse the container after the tasks before it were stopped. Other errors are those of the start.
    """
    wanted = {
        (container.task.host, container.docker.mounts): container
        for container in containers
        if container.docker and any(not mount.volume_options for mount in container.docker.mounts)
    }

    def look(container: Container) -> HostError | None:
        host = container.task.host
        with suppress(HostError):
            source = missing_mount(context.machines[host].engine, container, temporary(context.cluster.name))
            if source is not None:
                return HostError(host, f"{source} of `mounts` does not exist there", "create it, or correct `mounts`")
        return None

    machines = {host: context.machines[host] for host, _ in wanted}
    with container_pool(context.cluster.name, machines, context.forks) as looks:
        errors = [error for error in looks.map(look, wanted.values()) if error is not None]
    if errors:
        raise combine_errors(errors)


def image_fault(machine: Machine, programs: Programs, container: Container, cluster: str) -> Fault | None:
    """Return the fault of a task's command in its image, or None. Raises HostError."""
    needs = programs.needs(container)
    if not needs:
        return None
    labels = temporary(cluster)
    looked = find_programs(machine.engine, container, labels, needs)
    fault = fault_of_image(programs, container, looked)
    more = [name for name in alternatives(needs) if name not in looked.present] if fault else []
    if more:
        further = find_programs(machine.engine, container, labels, more)
        return fault_of_image(
            programs, container, ImageLookup({**further.present, **looked.present}, looked.entrypoint)
        )
    return fault or old_python(programs, container, looked)


_VERSION = re.compile(r"/python(3\.([0-9]{1,3}))\Z")
_OLDEST = 8


def old_python(programs: Programs, container: Container, looked: ImageLookup) -> Fault | None:
    """Return the fault of a task that starts `tfprov.runtime` with a Python whose file's name has an older version."""
    program, inside = programs.program(container), programs.code(container)
    version = _VERSION.search(looked.files.get(programs.python(container) or "", ""))
    if program is None or version is None or int(version[2]) >= _OLDEST:
        return None
    is_run = any(word.startswith("tfprov.runtime") for word in container.argv)
    if not (is_run or (program.script and inside is not None and inside.imports_runtime(program.script))):
        return None
    what = f"the image has Python {version[1]}, and tfprov.runtime needs 3.{_OLDEST} or newer"
    return Fault(what, "use an image with a newer Python, or a program without tfprov.runtime")


def of_images(collected: Collected) -> dict[str, list[Finding]]:
    """Return the findings on the programs of every host, also of unreachable ones."""
    programs = Programs.of(collected.context)
    hosts = [host for host in collected.answers if host not in collected.context.left]
    machines = {host: collected.context.machines[host] for host, facts in collected.facts.items() if facts.engine}
    with container_pool(collected.context.cluster.name, machines, collected.context.forks) as executor:
        return dict(zip(hosts, executor.map(lambda host: _of_host(collected, programs, host), hosts), strict=True))


def _of_host(collected: Collected, programs: Programs, host: str) -> list[Finding]:
    wanted = [container for container in collected.context.wanted if container.task.host == host]
    findings: list[Finding] = []
    imported: dict[tuple[str, str], ImportResult] = {}
    for container, tasks in tasks_by_program(wanted):
        fault = programs.fault(container)
        engine = collected.facts[host].engine if host in collected.facts else None
        assert container.docker is not None, "containers on machines have Docker options"
        if fault is not None:
            findings += command(container, tasks, fault)
        elif engine is not None and container.docker.image in engine.images:
            findings += _in_image(collected, programs, collected.by_id(container), tasks, imported)
        elif engine is not None:
            findings += undelivered(container)
    return [*dict.fromkeys(findings), *_remote_directories(collected, host)]


def _in_image(
    collected: Collected,
    programs: Programs,
    container: Container,
    tasks: list[str],
    imported: dict[tuple[str, str], ImportResult],
) -> Iterator[Finding]:
    machine, cluster = collected.context.machines[container.task.host], collected.context.cluster.name
    try:
        findings = list(command(container, tasks, image_fault(machine, programs, container, cluster)))
        yield from findings
        assert container.docker is not None, "containers on machines have Docker options"
        user = container.docker.user or image_user(machine.engine, container.docker.image)
        if is_root(user):
            yield note(
                "image", as_root(tasks), "set `user`, for example `user: 1000`, where the program can do without"
            )
        python, uses = programs.python(container), programs.uses_tensorflow(container)
        if python is None or uses is False or any(it.verdict is Verdict.FAILED for it in findings):
            return
        key = container.docker.image, python
        if key not in imported:
            imported[key] = try_import(machine.engine, container, temporary(cluster), python)
        yield tensorflow(imported[key], python, IN_IMAGE, is_sure=bool(uses))
    except HostError as error:
        yield failed("command", *split_error(error))


def _remote_directories(collected: Collected, host: str) -> Iterator[Finding]:
    """Yield whether tasks on `host` can use the remote directories of their checkpoints and data."""
    context = collected.context
    engine = collected.facts[host].engine if host in collected.facts else None
    if engine is None:
        return
    machine, chief = context.machines[host], chief_with_remote(context, host)
    if chief is not None and chief.docker and chief.docker.image in engine.images:
        yield remote_dirs.of_machine(context, machine, collected.by_id(chief))
    elif chief is not None:
        yield note(remote_dirs.CHECK, f"{chief.remote} is not tried until the image is there")
    for url, container in remote_data.readers(context, host):
        if container.docker and container.docker.image in engine.images:
            yield remote_data.in_container(machine.engine, context.cluster.name, url, collected.by_id(container))
        else:
            yield note(remote_data.CHECK, f"{url} is not tried until the image is there")


def is_root(user: str) -> bool:
    """Whether the user that an image or `user` names is root."""
    return user.partition(":")[0] in ("", "0", "root")


def as_root(tasks: Sequence[str]) -> str:
    """Return the note that these tasks are root in their containers."""
    one = len(tasks) == 1
    return (
        f"{join_names(tasks, 4)} {'runs' if one else 'run'} as root in {'its container' if one else 'their containers'}"
    )
