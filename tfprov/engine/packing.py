"""What is read from the controller's disk before anything is planned: the code of every role."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfprov.config.settings.beside import beside_file
from tfprov.config.settings.resolve import RoleSettings
from tfprov.delivery.code import Code, pack
from tfprov.errors import InvalidInput, Problem
from tfprov.planning.desired import Place


def pack_all(roles: Sequence[RoleSettings]) -> Mapping[Place, Code]:
    """Pack every `code:` directory once, however many tasks run it."""
    packed: dict[Path, Code] = {}
    found = {}
    problems: list[Problem] = []
    for role in roles:
        if role.values.code is None:
            continue
        directory = beside_file(role, "code")
        try:
            if directory not in packed:
                packed[directory] = pack(directory, role.at("code"))
            found[role.role, role.host] = packed[directory]
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return found


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
