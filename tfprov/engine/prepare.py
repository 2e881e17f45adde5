"""From an inventory file to a Context: the pure chain, and the hosts at its end."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tfprov.config.load import load
from tfprov.config.patterns import match
from tfprov.config.settings import RoleSettings
from tfprov.delivery.code import Code, pack
from tfprov.delivery.store import CodeStore
from tfprov.engine.context import DEFAULT_FORKS, Context
from tfprov.engine.report import Reporter
from tfprov.errors import InvalidInput, Problem, Usage
from tfprov.hosts.base import Runtime
from tfprov.hosts.process import ProcessRuntime
from tfprov.model.inventory import Inventory
from tfprov.paths import cache_home, state_home
from tfprov.planning.desired import desired
from tfprov.planning.place import place

A = TypeVar("A")
B = TypeVar("B")


def prepare(
    path: Path, extra: Sequence[str], report: Reporter, *, limit: str | None = None, forks: int = DEFAULT_FORKS
) -> Context:
    """Return the context for the inventory at `path`; InvalidInput with all that is wrong in it."""
    inventory, roles = load(path, extra)
    hosts = _limit(inventory, limit)
    cluster, codes = _all_problems(lambda: place(roles), lambda: _pack(roles), lambda: _reachable(roles))
    home = state_home() / "clusters" / cluster.name
    runtimes = _runtimes(roles, home)
    digests = {place: code.digest for place, code in codes.items()}
    chief = next(role for role in roles if (role.role, role.host) == (cluster.chief.role, cluster.chief.host))
    checkpoints = runtimes[cluster.chief.host].checkpoint_dir(cluster.chief.name)
    return Context(
        inventory=inventory,
        cluster=cluster,
        wanted=desired(
            cluster,
            roles,
            digests,
            # An evaluator and a tensorboard work on the chief's files; everyone else has a directory of their own.
            lambda task: checkpoints if not task.trains else runtimes[task.host].checkpoint_dir(task.name),
        ),
        runtimes=runtimes,
        packed={code.digest: code for code in codes.values()},
        store=CodeStore(cache_home() / "code"),
        home=home,
        target=_beside_file(chief, "checkpoints", "to") / cluster.name,
        report=report,
        forks=forks,
        hosts=hosts,
    )


def _limit(inventory: Inventory, pattern: str | None) -> frozenset[str] | None:
    if pattern is None:
        return None
    if not (hosts := frozenset(match(inventory, pattern))):
        raise Usage(f"`--limit {pattern}` leaves no host", "use `all`, a group or a host")
    return hosts


def _all_problems(place: Callable[[], A], pack: Callable[[], B], reach: Callable[[], None]) -> tuple[A, B]:
    """Try all of them, so that what is wrong with one does not hide what is wrong with the next."""
    problems: list[Problem] = []
    results: list[Any] = []
    for attempt in (place, pack, reach):
        try:
            results.append(attempt())
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return results[0], results[1]


def _reachable(roles: Sequence[RoleSettings]) -> None:
    what = "is reached over SSH, and `runtime: process` runs tasks on this machine only"
    fix = "set `ansible_connection: local`"
    remote = {role.host: role.where for role in roles if not role.local}
    if remote:
        raise InvalidInput(Problem(at, f"{host} {what}", fix) for host, at in remote.items())


def _runtimes(roles: Sequence[RoleSettings], home: Path) -> dict[str, Runtime]:
    """Return the way to every host: those of the inventory, and those that left it with something still on them."""
    hosts = home / "hosts"
    left = {path.name for path in hosts.iterdir()} if hosts.is_dir() else set()
    names = dict.fromkeys([*(role.host for role in roles), *sorted(left)])
    return {name: ProcessRuntime(name, hosts / name) for name in names}


def _pack(roles: Sequence[RoleSettings]) -> Mapping[tuple[str, str], Code]:
    """Pack every `code:` directory once, however many tasks run it."""
    packed: dict[Path, Code] = {}
    found = {}
    problems: list[Problem] = []
    for role in roles:
        if role.values.code is None:
            continue
        directory = _beside_file(role, "code")
        try:
            if directory not in packed:
                packed[directory] = pack(directory, role.at("code"))
            found[role.role, role.host] = packed[directory]
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return found


def _beside_file(role: RoleSettings, *path: str) -> Path:
    """Return a path setting as a path: a relative one counts from the file it is written in, `~` is the home directory."""
    value: object = role.values
    for name in path:
        value = getattr(value, name)
    written = role.at(*path).file
    base = Path() if written.startswith("-e") else Path(written).parent
    return Path(os.path.normpath(base / Path(str(value)).expanduser()))
