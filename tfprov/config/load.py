"""Files and options to an inventory and its settings: the one door of this package."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tfprov.config.groups import read_groups
from tfprov.config.settings import RoleSettings, resolve
from tfprov.config.yaml import parse, read
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.inventory import Inventory, overlay
from tfprov.model.node import Mapping, Scalar


def load_inventory(path: Path, extra: Sequence[str] = ()) -> Inventory:
    """Read the inventory at `path`, with the `-e` options in `extra`; InvalidInput carries all problems of both."""
    inventory = read_groups(read(path), str(path))
    return replace(inventory, extra=extra_vars(extra))


def load(path: Path, extra: Sequence[str] = ()) -> tuple[Inventory, tuple[RoleSettings, ...]]:
    """Read the inventory at `path` and check what it says under `tfprov:`."""
    inventory = load_inventory(path, extra)
    return inventory, resolve(inventory)


def extra_vars(options: Sequence[str]) -> Mapping:
    """Return the variables of the `-e` options: `key=value` pairs, YAML or JSON in braces, or `@FILE`; later ones win.

    `key.sub=value` is short for a nested mapping (`-e tfprov.flags.train_steps=100`). Values of `key=value` are text,
    as in Ansible, except under `tfprov`, where they are read as YAML.
    """
    merged = Mapping()
    for option in options:
        merged = overlay(merged, _one(option))
    return merged


def _one(option: str) -> Mapping:
    if option.startswith("@"):
        node = read(Path(option[1:]))
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
        raise InvalidInput([Problem(Position("-e"), f"`{option}`: {error}", "close the quote")]) from None
    for word in words or [option]:
        name, equals, value = word.partition("=")
        if not equals or not name:
            fix = "write `-e name=value`, `-e '{name: value}'` or `-e @file.yml`"
            raise InvalidInput([Problem(Position("-e"), f"`{word}` is not a variable", fix)])
        merged = overlay(merged, _nested(name.split("."), value))
    return merged


def _nested(path: Sequence[str], value: str) -> Mapping:
    at = Position(f"-e {'.'.join(path)}")
    node: Mapping | Scalar = Scalar(value, at, value, quoted=True)
    if path[0] == "tfprov" and value:
        node = parse(value, at.file)  # type: ignore[assignment]
    for key in reversed(path):
        node = Mapping({key: node}, at, {key: Scalar(key, at, key, quoted=True)})
    assert isinstance(node, Mapping)
    return node
