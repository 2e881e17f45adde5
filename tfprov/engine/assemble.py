"""From an inventory file to a Context: the pure chain, and the hosts at its end."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprov.atomic_write import private_directory
from tfprov.engine import connect
from tfprov.engine.artifacts import PackedCode, all_problems, check_data, check_python, fetched, never_code, pack_all
from tfprov.engine.checkpoints.manifest import LOGS
from tfprov.engine.connect import Reach
from tfprov.engine.context import DEFAULT_FORKS, Context
from tfprov.engine.events import Reporter
from tfprov.engine.host_registry import Delivered, Record, keyed_hash
from tfprov.engine.image_sources import Supplier, made
from tfprov.errors import HostError, InvalidInput, Usage, Warn, hide, unheard
from tfprov.hosts.process.runtime import ProcessRuntime
from tfprov.images.code import Code, CodeStore
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.cluster import Cluster
from tfprov.model.inventory import Inventory
from tfprov.model.state import Container
from tfprov.paths import cache_home, state_home
from tfprov.planning.datasets import data_sets
from tfprov.planning.desired import desired
from tfprov.planning.tasks import place
from tfprov.settings.load import SourceList, load
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import beside_file
from tfprov.vault.decrypt import Vault


@dataclass(frozen=True)
class Wishes:
    """What a command line says about how to work; see the options of the same names.

    `everywhere` is said by verbs that need every host: its connections are begun while other things load. `warn` prints
    what is odd about the inventory. Templates may read files below `lookup_dirs`, too.
    """

    limit: str | None = None
    forks: int = DEFAULT_FORKS
    accept_new: bool = False
    resume: bool = False
    everywhere: bool = False
    warn: Warn = unheard
    lookup_dirs: Sequence[str] = ()


@dataclass(frozen=True)
class Given:
    """All that was read and asked for.

    `home` is the cluster's directory on the controller, `limit` that of `--limit`, `never` what is no code wherever it
    lies.
    """

    inventory: Inventory
    roles: tuple[RoleSettings, ...]
    home: Path
    report: Reporter
    wishes: Wishes
    limit: frozenset[str] | None
    never: frozenset[Path]


def prepare(
    sources: SourceList,
    extra: Sequence[str],
    report: Reporter,
    wishes: Wishes | None = None,
    vault: Vault | None = None,
) -> Context:
    """Return the context for the inventory in `sources`; InvalidInput with all that is wrong in it."""
    wishes = wishes or Wishes()
    for directory in (state_home(), cache_home()):  # an earlier version left them open to others
        if directory.is_dir():
            private_directory(directory)
    inventory, roles = load(sources, extra, vault, wishes.warn, wishes.lookup_dirs)
    limit = _limit(inventory, wishes.limit)
    home = state_home() / "clusters" / roles[0].values.cluster
    in_docker = roles[0].values.runtime == "docker"
    given = Given(inventory, roles, home, report, wishes, limit, never_code(sources, roles, vault, extra))
    _check_runtime(home, roles[0].values.cluster, in_docker=in_docker)
    if in_docker:
        return _in_docker(given)
    return _as_processes(given)


def _in_docker(given: Given) -> Context:
    # Here, because the SSH library and the docker SDK take as long to import as all the rest together; and one after the
    # other, because hosts can answer while the SDK is being imported.
    from tfprov.engine.connect import reach  # noqa: PLC0415

    found = reach(given.inventory, given.roles, given.home, accept_new=given.wishes.accept_new)
    if given.wishes.everywhere and _is_possible(given.roles):
        found.begin(given.wishes.forks)

    try:
        return docked(given, found)
    except BaseException:
        found.close()
        raise


def _is_possible(roles: tuple[RoleSettings, ...]) -> bool:
    """Whether there is such a cluster; what is wrong with it is told later, with all else, and no host is bothered."""
    try:
        place(roles)
    except InvalidInput:
        return False
    return True


def _as_processes(given: Given) -> Context:
    roles, home = given.roles, given.home
    cluster, codes, *_ = all_problems(
        lambda: place(roles),
        lambda: pack_all(roles, given.never),
        lambda: check_data(roles),
        lambda: check_python(roles),
    )
    runtimes = _processes(roles, home)
    store = CodeStore(cache_home() / "code")
    checkpoints = runtimes[cluster.chief.host].checkpoint_dir(cluster.chief.name)
    wanted = desired(
        cluster,
        roles,
        {place: code.digest for place, code in codes.items()},
        # An evaluator and a tensorboard work on the chief's files; everyone else has a directory of their own.
        lambda task: checkpoints if task.reads else runtimes[task.host].checkpoint_dir(task.name),
        hashed=keyed_hash(),
        fetched=lambda host, key: str(runtimes[host].data.path(key)),
    )
    hide_secrets(wanted)
    return Context(
        inventory=given.inventory,
        cluster=cluster,
        wanted=wanted,
        runtimes=runtimes,
        data=fetched(data_sets(roles), wanted, runtimes),
        artifacts={code.digest: PackedCode(code, store, runtimes) for code in codes.values()},
        codes={code.digest: code for code in codes.values()},
        home=home,
        code={place: code.source for place, code in codes.items()},
        target=target_of(cluster, roles),
        roles=roles,
        logs=target_of(cluster, roles) / LOGS,
        saves=chief_of(cluster, roles).values.saves,
        report=given.report,
        forks=given.wishes.forks,
        hosts=given.limit,
        left=frozenset(runtimes) - {role.host for role in roles},
        resume=given.wishes.resume,
    )


def hide_secrets(wanted: Sequence[Container]) -> None:
    """Have no message of this process repeat the secrets of containers."""
    for container in wanted:
        for name in container.secret:
            hide(container.env[name])


def target_of(cluster: Cluster, roles: Sequence[RoleSettings]) -> Path:
    """Return where gathered checkpoints go: as the chief's settings say."""
    return beside_file(chief_of(cluster, roles), "checkpoints", "to") / cluster.name


def chief_of(cluster: Cluster, roles: Sequence[RoleSettings]) -> RoleSettings:
    """Return the settings of the chief's role on its host."""
    return next(role for role in roles if (role.role, role.host) == (cluster.chief.role, cluster.chief.host))


def _limit(inventory: Inventory, pattern: str | None) -> frozenset[str] | None:
    if pattern is None:
        return None
    if not (hosts := frozenset(match_hosts(inventory, pattern))):
        raise Usage(f"`--limit {pattern}` leaves no host", "use `all`, a group or a host")
    return hosts


def _check_runtime(home: Path, cluster: str, *, in_docker: bool) -> None:
    """Whoever changes what runs the tasks would not see the tasks of before any more, and start them a second time."""
    before = "process" if in_docker else "docker"
    there = any((home / "hosts").glob("*/tasks/*")) if in_docker else bool(Record(home).read())
    if there:
        fix = f"take it down with `runtime: {before}` first"
        raise Usage(f"cluster {cluster} still has tasks under `runtime: {before}`", fix)


def _processes(roles: Sequence[RoleSettings], home: Path) -> dict[str, ProcessRuntime]:
    """Return the way to every host: those of the inventory, and those that left it with something still on them."""
    hosts = home / "hosts"
    left = {path.name for path in hosts.iterdir()} if hosts.is_dir() else set()
    names = dict.fromkeys([*(role.host for role in roles), *sorted(left)])
    return {name: ProcessRuntime(name, hosts / name) for name in names}


def docked(given: Given, reach: Reach) -> Context:
    """Return the context; InvalidInput with all that is wrong, HostError when this machine's own engine does not run."""
    inventory, roles, home, wishes = given.inventory, given.roles, given.home, given.wishes
    found = connect.machines(reach, os.environ)
    store = CodeStore(cache_home() / "code")
    delivered = Delivered(home / "images.json", made)
    supplier = Supplier(found, given.report, os.environ, store, delivered)
    try:
        roles = connect.addressed(roles, found)
    except HostError:
        _check_without_hosts(given, supplier)
        raise
    cluster, codes, addresses, source, _ = all_problems(
        lambda: place(roles),
        lambda: pack_all(roles, given.never),
        lambda: connect.published(roles),
        lambda: supplier.source(roles[0]),
        lambda: check_data(roles),
    )
    stock = source.stock(roles, codes, addresses)
    settings = {(role.role, role.host): role.values for role in roles}
    digests = {place: code.digest for place, code in codes.items()}
    hosts = {host: machine for host, machine in found.items() if host not in reach.builder}
    sets = data_sets(roles)
    put = put_into(store, {c.digest: c for c in codes.values()})
    runtimes = connect.runtimes(hosts, cluster.name, put, delivered, fetches=bool(sets))
    wanted = desired(
        cluster,
        roles,
        digests,
        lambda task: settings[task.role, task.host].checkpoints.dir,
        stock.boxes,
        hashed=keyed_hash(),
    )
    hide_secrets(wanted)
    return Context(
        inventory=inventory,
        cluster=cluster,
        wanted=wanted,
        runtimes=runtimes,
        data=fetched(sets, wanted, runtimes),
        artifacts=stock.artifacts,
        codes={code.digest: code for code in codes.values()},
        home=home,
        code={place: code.source for place, code in codes.items()},
        target=target_of(cluster, roles),
        roles=roles,
        logs=target_of(cluster, roles) / LOGS,
        saves=chief_of(cluster, roles).values.saves,
        report=given.report,
        forks=wishes.forks,
        hosts=given.limit,
        machines=found,
        left=frozenset(reach.recorded),
        resume=wishes.resume,
        record=Record(home),
        ways=reach.present,
    )


def _check_without_hosts(given: Given, supplier: Supplier) -> None:
    """Raise InvalidInput for what is wrong whatever the hosts say: it comes before that one of them does not answer."""
    roles = given.roles
    all_problems(
        lambda: place(connect.elsewhere(roles)),
        lambda: pack_all(roles),
        lambda: connect.published(roles),
        lambda: supplier.source(roles[0]),
        lambda: check_data(roles),
    )


def put_into(store: CodeStore, codes: Mapping[str, Code]) -> Callable[[str], bytes]:
    """Return what gives a container the code (by digest) and the runtime that its image does not have."""

    def archive(digest: str) -> bytes:
        from tfprov.images.code_layer import code_archive  # noqa: PLC0415  most images have their code in them

        return code_archive(codes[digest] if digest in codes else Code("", digest, store.get(digest)))

    return archive
