"""Files and options to an inventory and its settings: the one door of this package."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tfprov.config.groups import read_structure
from tfprov.config.secrets import discreet, mentions_secret
from tfprov.config.settings import RoleSettings, resolve
from tfprov.config.together import processes_here
from tfprov.config.yaml import MAX_DEPTH, parse, read
from tfprov.errors import InvalidInput, Position, Problem, one_line, shown
from tfprov.model.inventory import NAMESPACE, Inventory, overlay
from tfprov.model.node import Items, Mapping, Node, Scalar

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def load_inventory(path: Path, extra: Sequence[str] = ()) -> Inventory:
    """Read the inventory at `path`, with the `-e` options in `extra`; InvalidInput carries all problems of both."""
    inventory, problems = _load(path, extra)
    if problems:
        raise InvalidInput(problems)
    return inventory


def load(path: Path, extra: Sequence[str] = ()) -> tuple[Inventory, tuple[RoleSettings, ...]]:
    """Read the inventory at `path` and check what it says under `tfprov:`."""
    inventory, problems = _load(path, extra)
    return inventory, resolve(inventory, problems, [processes_here])


def _load(path: Path, extra: Sequence[str]) -> tuple[Inventory, list[Problem]]:
    variables = Mapping()
    problems: list[Problem] = []
    try:
        variables = extra_vars(extra)
    except InvalidInput as error:
        problems.extend(error.problems)
    try:
        document = read(path)
    except InvalidInput as error:
        raise InvalidInput([*problems, *error.problems]) from None
    inventory, found = read_structure(document, str(path))
    return replace(inventory, extra=variables), [*problems, *found]


def extra_vars(options: Sequence[str]) -> Mapping:
    """Return the variables of the `-e` options: `key=value` pairs, YAML or JSON in braces, or `@FILE`; later ones win.

    `key.sub=value` is short for a nested mapping (`-e tfprov.flags.train_steps=100`). Values of `key=value` are text,
    as in Ansible, except under `tfprov`, where they are read as YAML.
    """
    merged = Mapping()
    problems: list[Problem] = []
    for option in options:
        try:
            merged = overlay(merged, _one(option))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return merged


def _one(option: str) -> Mapping:
    if option.strip() == "@":
        raise InvalidInput([Problem(Position("-e"), "`@` names no file", "write `-e @vars.yml`")])
    if option.startswith("@"):
        node = read(Path(option[1:]), fix="check the path given with -e @", start_from="write `name: value` lines")
    elif option.lstrip().startswith("{"):
        node = parse(option, "-e")
    else:
        return _pairs(option)
    if not isinstance(node, Mapping):
        raise InvalidInput([Problem(node.at, "variables must be a mapping", "write `name: value` lines")])
    return node


def _pairs(option: str) -> Mapping:
    merged = Mapping()
    try:
        words = shlex.split(option)
    except ValueError as error:
        what = f"`{shown(discreet(option))}`: {one_line(str(error)).lower()}"
        fix = "close the quote" if "quotation" in what else "remove the backslash at its end"
        raise InvalidInput([Problem(Position("-e"), what, fix)]) from None
    for number, word in enumerate(words or [option]):
        name, equals, value = word.partition("=")
        path = name.split(".")
        if not equals or len(path) > MAX_DEPTH or not _NAME.fullmatch(path[0]) or "" in path:
            fix = "write `-e name=value`, `-e '{name: value}'` or `-e @file.yml`"
            # What stands behind a password may be the rest of it, when its blanks are not quoted.
            said = "…" if any(map(mentions_secret, words[:number])) else shown(discreet(word))
            raise InvalidInput([Problem(Position("-e"), f"`{said}` is not a variable", fix)])
        merged = overlay(merged, _nested(path, value))
    return merged


def _nested(path: Sequence[str], value: str) -> Mapping:
    at = Position(f"-e {shown('.'.join(path))}")
    node: Node = _value(value, at) if path[0] == NAMESPACE and value else Scalar(value, at, value, quoted=True)
    for key in reversed(path):
        node = Mapping({key: node}, at, {key: Scalar(key, at, key, quoted=True)})
    assert isinstance(node, Mapping)
    return node


def _value(text: str, at: Position) -> Node:
    """Read a setting as YAML; there is no line to point at, only the option."""
    if text.startswith("{{"):  # a shell and shlex have taken away the quotes that YAML wants around it
        return Scalar(text, at, text, quoted=True)
    try:
        return _moved(parse(text, at.file), at)
    except InvalidInput as error:
        raise InvalidInput(Problem(at, problem.what, problem.fix) for problem in error.problems) from None


def _moved(node: Node, at: Position) -> Node:
    if isinstance(node, Mapping):
        entries = {key: _moved(value, at) for key, value in node.entries.items()}
        return Mapping(entries, at, {key: replace(value, at=at) for key, value in node.keys.items()})
    if isinstance(node, Items):
        return Items(tuple(_moved(item, at) for item in node.items), at)
    return replace(node, at=at)
