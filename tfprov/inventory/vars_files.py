"""Reads the variables in `group_vars/` and `host_vars/` beside the sources of an inventory, as Ansible does."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem
from tfprov.inventory.detect import is_blank
from tfprov.model.inventory import VarsFiles
from tfprov.model.yaml_node import Mapping, Scalar
from tfprov.vault.decrypt import Vault
from tfprov.yamltext.load import FileOverlay, parse_json_or_yaml, read_bytes

EXTENSIONS = ("", ".yml", ".yaml", ".json")
"""Extensions of vars files, in the order of the search: only the first that exists is read."""
DIRECTORIES = ("group_vars", "host_vars")


class VarsFileReader:
    """Reads `group_vars/` and `host_vars/`; what is wrong with their files goes to `problems`."""

    def __init__(self, vault: Vault, problems: list[Problem], file_overlay: FileOverlay | None) -> None:
        self.vault, self.problems, self.file_overlay = vault, problems, file_overlay

    def read(self, directory: Path, groups: Collection[str], hosts: Collection[str]) -> VarsFiles:
        """Return the variables that lie in `directory` for these groups and hosts; other files are not read."""
        of_groups, of_hosts = (
            self._read_all(directory / name, owners) for name, owners in zip(DIRECTORIES, (groups, hosts), strict=True)
        )
        return VarsFiles(of_groups, of_hosts)

    def _read_all(self, directory: Path, names: Collection[str]) -> dict[str, tuple[Mapping, ...]]:
        variables: dict[str, list[Mapping]] = {}
        for name, file in find_vars_files(directory, names, self.problems):
            try:
                variables.setdefault(name, []).append(_load_variables(file, self.vault, self.file_overlay))
            except InvalidInput as error:
                self.problems.extend(error.problems)
        layers = {name: tuple(values for values in read if values.entries) for name, read in variables.items()}
        return {name: values for name, values in layers.items() if values}


def find_vars_files(directory: Path, names: Collection[str], problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    """Yield each file below `directory` with variables of one of the groups or hosts `names`, with that name."""
    for name, path in _vars_paths(directory, names, problems):
        for file in _files_below(path, problems):
            yield name, file


def base_directory(file: str) -> Path:
    """Return the directory to which relative paths in `file` are relative: its own.

    For a file of `group_vars/` or `host_vars/` it is the directory of the inventory: a setting may move from the inventory
    into such a file without a change.
    """
    path = Path(file)
    outer = (parent.parent for parent in path.parents if parent.name in DIRECTORIES)
    return next(outer, path.parent)


def _vars_paths(directory: Path, names: Collection[str], problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    """Yield the names with a file or directory, and its path. The directory is listed only once."""
    if not _may_exist(directory):
        return
    present = frozenset(_list_names(directory, problems))
    for name in names if present else ():
        for extension in EXTENSIONS:
            if name + extension in present and _may_exist(directory / (name + extension)):
                yield name, directory / (name + extension)
                break


def _may_exist(path: Path) -> bool:
    """Whether `path` is there, or cannot be looked at: reading it names the reason then."""
    try:
        return path.exists()
    except OSError:
        return True


def _list_names(directory: Path, problems: list[Problem]) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208  only names are needed
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        problems.append(Problem(Position(str(directory)), f"cannot be read: {reason}", "give a readable directory"))
        return []


def _files_below(path: Path, problems: list[Problem], outer: Collection[str] = ()) -> Iterator[Path]:
    """Yield `path`, or the files below it if it is a directory, except hidden and backup files."""
    real = os.path.realpath(path)
    if not os.path.isdir(path):  # noqa: PTH112  Path.is_dir() raises for what may not be looked at
        yield path
    elif real in outer:
        problems.append(Problem(Position(str(path)), "a directory inside itself", "remove the link that leads back"))
    else:
        for name in _list_names(path, problems):
            extension = os.path.splitext(name)[1]  # noqa: PTH122  Path.suffix differs for `a.`
            below = path / name
            if name.startswith(".") or name.endswith("~") or extension not in EXTENSIONS:
                continue
            if not (os.path.isdir(below) and extension) and _may_exist(below):  # noqa: PTH112
                yield from _files_below(below, problems, (*outer, real))


def _load_variables(path: Path, vault: Vault, file_overlay: FileOverlay | None) -> Mapping:
    data = read_bytes(path, Position(str(path)), fix="check the link", file_overlay=file_overlay)
    if is_blank(data):
        return Mapping()
    node = parse_json_or_yaml(data, str(path), vault=vault)
    if isinstance(node, Mapping):
        return node
    if isinstance(node, Scalar) and node.data is None:
        return Mapping()
    raise InvalidInput([Problem(node.at, "variables must be a mapping", "write `name: value` lines")])
