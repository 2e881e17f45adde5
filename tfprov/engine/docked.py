"""From checked settings to a Context, for clusters whose tasks are containers on machines with a Docker engine."""

import os
from collections.abc import Callable, Mapping

from tfprov.delivery.code import Code
from tfprov.delivery.store import CodeStore
from tfprov.engine import fleet
from tfprov.engine.artifacts import fetched
from tfprov.engine.checkpoints.manifest import LOGS
from tfprov.engine.context import Context
from tfprov.engine.controller_key import keyed_hash
from tfprov.engine.delivered import Delivered
from tfprov.engine.packing import all_problems, check_data, pack_all
from tfprov.engine.prepare import Given, chief_of, hide_secrets, target_of
from tfprov.engine.reach import Reach
from tfprov.engine.record import Record
from tfprov.engine.supply import Supplier, made
from tfprov.errors import HostError
from tfprov.paths import cache_home
from tfprov.planning.data import data_sets
from tfprov.planning.desired import desired
from tfprov.planning.place import place


def docked(given: Given, reach: Reach) -> Context:
    """Return the context; InvalidInput with all that is wrong, HostError when this machine's own engine does not run."""
    inventory, roles, home, wishes = given.inventory, given.roles, given.home, given.wishes
    found = fleet.machines(reach, os.environ)
    store = CodeStore(cache_home() / "code")
    delivered = Delivered(home / "images.json", made)
    supplier = Supplier(found, given.report, os.environ, store, delivered)
    try:
        roles = fleet.addressed(roles, found)
    except HostError:
        _check_without_hosts(given, supplier)
        raise
    cluster, codes, addresses, source, _ = all_problems(
        lambda: place(roles),
        lambda: pack_all(roles, given.never),
        lambda: fleet.published(roles),
        lambda: supplier.source(roles[0]),
        lambda: check_data(roles),
    )
    stock = source.stock(roles, codes, addresses)
    settings = {(role.role, role.host): role.values for role in roles}
    digests = {place: code.digest for place, code in codes.items()}
    hosts = {host: machine for host, machine in found.items() if host not in reach.builder}
    sets = data_sets(roles)
    put = put_into(store, {c.digest: c for c in codes.values()})
    runtimes = fleet.runtimes(hosts, cluster.name, put, delivered, fetches=bool(sets))
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
        lambda: place(fleet.elsewhere(roles)),
        lambda: pack_all(roles),
        lambda: fleet.published(roles),
        lambda: supplier.source(roles[0]),
        lambda: check_data(roles),
    )


def put_into(store: CodeStore, codes: Mapping[str, Code]) -> Callable[[str], bytes]:
    """Return what gives a container the code (by digest) and the runtime that its image does not have."""

    def archive(digest: str) -> bytes:
        from tfprov.delivery.layer import code_archive  # noqa: PLC0415  most images have their code in them

        return code_archive(codes[digest] if digest in codes else Code("", digest, store.get(digest)))

    return archive
