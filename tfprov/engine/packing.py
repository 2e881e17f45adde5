"""What is read from the controller's disk before anything is planned: the code of every role."""

import os
import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfprov.config.load import SourceList
from tfprov.config.settings.beside import beside_file, python_at, python_of
from tfprov.config.settings.resolve import RoleSettings
from tfprov.config.sources.beside import DIRECTORIES
from tfprov.config.sources.reader import home_of, place_of
from tfprov.config.vault.opening import Vault
from tfprov.delivery.code import Code, pack
from tfprov.errors import InvalidInput, Problem
from tfprov.paths import cache_home, state_home
from tfprov.planning.desired import Place


def never_code(
    sources: SourceList, roles: Sequence[RoleSettings], vault: Vault | None = None, extra: Sequence[str] = ()
) -> frozenset[Path]:
    """Return the paths that are not code wherever they lie: a gather, or a host more, must not restart a training.

    That is where gathered checkpoints go, what the inventory is read from with its variables and vault passwords, and
    tfprov's own state.
    """
    names = [str(sources)] if isinstance(sources, Path) else list(sources)
    homes = {home for home in map(home_of, names) if home is not None}
    passwords = vault.passwords.sources() if vault else ()
    return frozenset(
        [
            *(Path(place_of(name)) for name in names if home_of(name) is not None),
            *(home / name for home in homes for name in DIRECTORIES),
            *(Path(option[1:]) for option in extra if option.startswith("@")),
            *(source.path for source in passwords if source.path is not None),
            *_gathered(roles),
            state_home(),
            cache_home(),
        ]
    )


def _gathered(roles: Sequence[RoleSettings]) -> Iterator[Path]:
    """Yield where checkpoints are gathered: `to`, and this cluster's own directories where `to` is that of the code."""
    name = roles[0].values.cluster
    for to in {beside_file(role, "checkpoints", "to") for role in roles}:
        earlier = (path for path in to.glob(f"{name}.*") if path.suffix[1:].isdigit())
        yield from (to, to / name, to / f".{name}.part", *earlier)


def pack_all(roles: Sequence[RoleSettings], never: Collection[Path] = ()) -> Mapping[Place, Code]:
    """Pack every `code:` directory once, however many tasks run it; `never` is what is no code wherever it lies."""
    packed: dict[Path, Code] = {}
    found = {}
    problems: list[Problem] = []
    for role in roles:
        if role.values.code is None:
            continue
        directory = beside_file(role, "code")
        try:
            if directory not in packed:
                packed[directory] = pack(directory, role.at("code"), never)
            found[role.role, role.host] = packed[directory]
            problems.extend(_in_the_way(role, packed[directory]))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return found


def _in_the_way(role: RoleSettings, code: Code) -> Iterator[Problem]:
    """Say that the code has what `checkpoints.link` is to make beside it."""
    if (link := role.values.checkpoints.link) is None:
        return
    name = posixpath.normpath(link.strip())
    if there := next(
        (one for one in code.names() if f"{one}/".startswith(f"{name}/") or name.startswith(f"{one}/")), ""
    ):
        what = f"`checkpoints.link`: the code has {there} in the place of the link"
        yield Problem(role.at("checkpoints", "link"), what, "name it in .dockerignore, or choose another name")


def check_data(roles: Sequence[RoleSettings]) -> None:
    """Raise InvalidInput for data that is to be on this machine, and is not."""
    missing = {}
    for role in roles:
        lies_there = role.reads_data and role.values.data is not None and role.values.data.path is not None
        if role.local and lies_there and not beside_file(role, "data", "path").is_dir():
            missing[role.at("data", "path")] = beside_file(role, "data", "path")
    if missing:
        what = "`data.path`: {} is not a directory on this machine"
        raise InvalidInput([Problem(at, what.format(path), "correct the path") for at, path in missing.items()])


def check_python(roles: Sequence[RoleSettings]) -> None:
    """Raise InvalidInput for a Python that is to run tasks on this machine, and is not there."""
    named = {python_at(role): path for role in roles if (path := python_of(role))}
    problems = []
    for at, path in named.items():
        if not os.access(path, os.X_OK) or Path(path).is_dir():
            reason = "is not a program" if Path(path).exists() else "does not exist on this machine"
            problems.append(Problem(at, f"the Python for tasks, {path}, {reason}", "correct the path in `python`"))
    if problems:
        raise InvalidInput(problems)


def all_problems(*attempts: Callable[[], Any]) -> list[Any]:
    """Try all of them, so that what is wrong with one does not hide what is wrong with the next; return the results."""
    problems: list[Problem] = []
    results: list[Any] = []
    for attempt in attempts:
        try:
            results.append(attempt())
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return results
