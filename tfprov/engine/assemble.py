"""Assembles the Context of a cluster: tasks, containers, artifacts, and a runtime for each host."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfprov.atomic_write import private_directory
from tfprov.engine.artifacts import PackedCode, all_problems, check_data, check_python, fetched, if_needed, pack_all
from tfprov.engine.checkpoints.manifest import LOGS
from tfprov.engine.concurrency import default_forks
from tfprov.engine.context import Context, Definition, chief_of, gather_directory
from tfprov.engine.host_registry import DeliveredImages, HostRegistry, keyed_hash
from tfprov.engine.reporter import Reporter
from tfprov.errors import HostError, InvalidInput, Usage, hide_secret
from tfprov.hosts.base import Runtime
from tfprov.hosts.process.data_dirs import DataDirs
from tfprov.hosts.process.runtime import ProcessRuntime
from tfprov.images.code import Code, CodeStore
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.cluster import Cluster
from tfprov.model.inventory import Inventory
from tfprov.model.state import Container
from tfprov.paths import cache_home, runs_directory, state_home
from tfprov.planning.desired import RoleHost, desired_containers
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import datasets_of

if TYPE_CHECKING:
    from tfprov.engine.connect import Connections
    from tfprov.engine.image_sources import ImageSources

RuntimeFactory = Callable[[str, Path], Runtime]
"""Makes the runtime of a host, from its name and its directory on the controller."""


@dataclass(frozen=True)
class Options:
    """How to reach the hosts: `limit` is a host pattern, `forks` the number of hosts to work on at the same time.

    Without `forks`, it depends on their number and on the cores of this machine. `accept_new` records unknown host keys.
    `connect` opens the SSH connections at once, for verbs that use every host; None does so unless checkpoints go to a
    remote directory, which a gather reads instead. `fold` prints many actions that are alike in one line of a plan. A verb
    that `starts` no task does without code, data, a Python or files of the image that are not there any more.
    """

    limit: str | None = None
    forks: int | None = None
    accept_new: bool = False
    connect: bool | None = False
    fold: bool = False
    starts: bool = True


@dataclass(frozen=True)
class _Assembly:
    """What the contexts of both runtimes are assembled from; `limit` holds the hosts of `--limit`."""

    definition: Definition
    options: Options
    report: Reporter
    limit: frozenset[str] | None
    never: frozenset[Path]
    forks: int


def assemble(
    definition: Definition, report: Reporter, options: Options | None = None, factory: RuntimeFactory = ProcessRuntime
) -> Context:
    """Return the context of a cluster: its tasks, and a runtime for each host.

    `factory` makes the hosts of the process runtime. Raises InvalidInput with every problem, such as missing code.
    """
    options = options or Options()
    if not options.starts:
        with suppress(InvalidInput):
            return assemble(definition, report, replace(options, starts=True), factory)
    else:
        definition.check_files()
    forks = options.forks or default_forks(len({role.host for role in definition.roles}))
    for directory in (state_home(), cache_home()):  # earlier versions made them readable for others
        if directory.is_dir():
            private_directory(directory)
    limit = _limit(definition.inventory, options.limit)
    in_docker = definition.roles[0].values.runtime == "docker"
    assembly = _Assembly(definition, options, report, limit, definition.never_code, forks)
    _check_runtime(definition.home, definition.name, in_docker=in_docker)
    if in_docker:
        return _in_docker(assembly)
    return _as_processes(assembly, factory)


def _in_docker(assembly: _Assembly) -> Context:
    # Imported here: the SSH library and the docker SDK take as long as all other imports together. One after the other:
    # hosts can answer while the SDK is being imported.
    from tfprov.engine.connect import prepare_connections  # noqa: PLC0415

    definition = assembly.definition
    connections = prepare_connections(
        definition.inventory, definition.roles, definition.home, accept_new=assembly.options.accept_new
    )
    wanted = assembly.options.connect
    if (not definition.has_remote_checkpoints if wanted is None else wanted) and _is_possible(definition.roles):
        connections.open_all(assembly.forks)

    try:
        return _assemble_docker(assembly, connections)
    except BaseException:
        connections.close()
        raise


def _is_possible(roles: tuple[RoleSettings, ...]) -> bool:
    """Whether tasks can be assigned; if not, no connection is opened, and the problems are reported with all others."""
    try:
        assign_tasks(roles)
    except InvalidInput:
        return False
    return True


def _as_processes(assembly: _Assembly, factory: RuntimeFactory) -> Context:
    roles, home, starts = assembly.definition.roles, assembly.definition.home, assembly.options.starts
    cluster, codes, *_ = all_problems(
        lambda: assign_tasks(roles),
        lambda: if_needed(lambda: pack_all(roles, assembly.never), {}, needed=starts),
        lambda: if_needed(lambda: check_data(roles), needed=starts),
        lambda: if_needed(lambda: check_python(roles), needed=starts),
    )
    runtimes = _processes(roles, home, factory)
    store = CodeStore(cache_home() / "code")
    checkpoints = runtimes[cluster.chief.host].checkpoint_dir(cluster.chief.name)
    wanted = desired_containers(
        cluster,
        roles,
        {place: code.digest for place, code in codes.items()},
        # Readers use the chief's files; every other task has its own directory.
        lambda task: checkpoints if task.reads else runtimes[task.host].checkpoint_dir(task.name),
        hashed=keyed_hash(),
        fetched=lambda host, key: str(DataDirs(host, home / "hosts" / host / "data").path(key)),
    )
    return _context(
        assembly,
        _Tasks(cluster, roles, wanted, codes),
        runtimes,
        artifacts={code.digest: PackedCode(code, store, runtimes) for code in codes.values()},
        left=frozenset(runtimes) - {role.host for role in roles},
    )


@dataclass(frozen=True)
class _Tasks:
    """The tasks of a cluster as containers, with the settings and the code they come from."""

    cluster: Cluster
    roles: tuple[RoleSettings, ...]
    wanted: tuple[Container, ...]
    codes: Mapping[RoleHost, Code]


def _context(assembly: _Assembly, tasks: _Tasks, runtimes: Mapping[str, Runtime], **fields: Any) -> Context:
    """Return the context; `fields` are the fields of Context that only this runtime sets."""
    cluster, roles, wanted, codes = tasks.cluster, tasks.roles, tasks.wanted, tasks.codes
    hide_secrets(wanted)
    for url in (one.url for role in roles for one in role.values.notify if one.url is not None):
        hide_secret(url)
    target = gather_directory(cluster, roles)
    return Context(
        inventory=assembly.definition.inventory,
        cluster=cluster,
        wanted=wanted,
        runtimes=runtimes,
        data=fetched(datasets_of(roles), wanted, runtimes),
        codes={code.digest: code for code in codes.values()},
        home=assembly.definition.home,
        code={place: code.source for place, code in codes.items()},
        target=target,
        roles=roles,
        logs=target / LOGS,
        history=runs_directory(assembly.definition.home),
        saves=chief_of(cluster, roles).values.saves,
        report=assembly.report,
        forks=assembly.forks,
        fold=assembly.options.fold,
        hosts=assembly.limit,
        is_whole=assembly.options.starts,
        **fields,
    )


def hide_secrets(wanted: Sequence[Container]) -> None:
    """Mask the secrets of containers in all messages of this process."""
    for container in wanted:
        for name in container.secret:
            hide_secret(container.env[name])


def _limit(inventory: Inventory, pattern: str | None) -> frozenset[str] | None:
    if pattern is None:
        return None
    if not (hosts := frozenset(match_hosts(inventory, pattern))):
        raise Usage(f"`--limit {pattern}` leaves no host", "use `all`, a group or a host")
    return hosts


def _check_runtime(home: Path, cluster: str, *, in_docker: bool) -> None:
    """Raise Usage if tasks of the other runtime exist: they would not be observed, and would be started a second time."""
    before = "process" if in_docker else "docker"
    there = any((home / "hosts").glob("*/tasks/*")) if in_docker else bool(HostRegistry(home).read())
    if there:
        fix = f"take it down with `runtime: {before}` first"
        raise Usage(f"cluster {cluster} still has tasks under `runtime: {before}`", fix)


def _processes(roles: Sequence[RoleSettings], home: Path, factory: RuntimeFactory) -> dict[str, Runtime]:
    """Return the runtime of every host: those of the inventory, and removed hosts that still have tasks."""
    hosts = home / "hosts"
    left = {path.name for path in hosts.iterdir()} if hosts.is_dir() else set()
    names = dict.fromkeys([*(role.host for role in roles), *sorted(left)])
    return {name: factory(name, hosts / name) for name in names}


def _assemble_docker(assembly: _Assembly, connections: "Connections") -> Context:
    """Return the context of a cluster in Docker. Raises InvalidInput, or HostError if this machine's engine is down."""
    # Imported here for start-up time: the docker SDK takes 0.2 s, in which hosts already answer, and the process runtime
    # needs none of it.
    from tfprov.engine import machines  # noqa: PLC0415
    from tfprov.engine.image_sources import ImageSources, stored_image_ids  # noqa: PLC0415

    roles, home = assembly.definition.roles, assembly.definition.home
    by_host = machines.machines(connections, os.environ)
    store = CodeStore(cache_home() / "code")
    delivered = DeliveredImages(home / "images.json", stored_image_ids)
    sources = ImageSources(by_host, assembly.report, os.environ, store, delivered)
    try:
        roles = machines.with_gateway_addresses(roles, by_host)
    except HostError:
        _check_without_hosts(assembly, sources)
        raise
    cluster, codes, addresses, source, _ = all_problems(
        lambda: assign_tasks(roles),
        lambda: if_needed(lambda: pack_all(roles, assembly.never), {}, needed=assembly.options.starts),
        lambda: machines.publish_addresses(roles),
        lambda: sources.source(roles[0], needed=assembly.options.starts),
        lambda: if_needed(lambda: check_data(roles), needed=assembly.options.starts),
    )
    images = source.images(roles, codes, addresses)
    settings = {(role.role, role.host): role.values for role in roles}
    hosts = {host: machine for host, machine in by_host.items() if host not in connections.builder}
    sets = datasets_of(roles)
    archives = code_archives(store, {c.digest: c for c in codes.values()})
    runtimes = machines.runtimes(hosts, cluster.name, archives, delivered, fetches=bool(sets))
    wanted = desired_containers(
        cluster,
        roles,
        {place: code.digest for place, code in codes.items()},
        lambda task: settings[task.role, task.host].checkpoints.local,
        images.by_role,
        hashed=keyed_hash(),
    )
    return _context(
        assembly,
        _Tasks(cluster, roles, wanted, codes),
        runtimes,
        artifacts=images.artifacts,
        machines=by_host,
        changes=machines.changes(hosts, cluster.name),
        left=connections.left,
        registry=HostRegistry(home),
        connections=connections.present,
        former=connections.former,
    )


def _check_without_hosts(assembly: _Assembly, sources: "ImageSources") -> None:
    """Raise InvalidInput for problems that do not depend on hosts: they are reported before an unreachable host."""
    from tfprov.engine import machines  # noqa: PLC0415  see _assemble_docker

    roles, starts = assembly.definition.roles, assembly.options.starts
    all_problems(
        lambda: assign_tasks(machines.with_default_addresses(roles)),
        lambda: if_needed(lambda: pack_all(roles), {}, needed=starts),
        lambda: machines.publish_addresses(roles),
        lambda: sources.source(roles[0], needed=starts),
        lambda: if_needed(lambda: check_data(roles), needed=starts),
    )


def code_archives(store: CodeStore, codes: Mapping[str, Code]) -> Callable[[str], bytes]:
    """Return a function from a code's digest to the archive of code and runtime for an image that lacks them."""

    def archive(digest: str) -> bytes:
        from tfprov.images.code_layer import code_archive  # noqa: PLC0415  most images have their code in them

        return code_archive(codes[digest] if digest in codes else Code("", digest, store.get(digest)))

    return archive
