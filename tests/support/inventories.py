"""Short inventories for tests."""

import re

from tfprov.errors import Problem
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.inventory import Inventory
from tfprov.settings.load import parse_extra_vars
from tfprov.settings.resolve import RoleSettings, resolve
from tfprov.yamltext.load import parse


def inventory(text: str, *extra: str) -> Inventory:
    read = read_groups(parse(text, "i.yml"), "i.yml")
    return Inventory(read.path, read.groups, read.hosts, parse_extra_vars(extra))


def roles(text: str, *extra: str) -> tuple[RoleSettings, ...]:
    return resolve(inventory(text, *extra))


def points_at_its_setting(problem: Problem, text: str) -> bool:
    """Whether a problem whose message begins with the name of a setting has the position of that key in `text`."""
    named = re.match(r"`(?:\w+\.)*(\w+)(?:: [^`]+)?`", problem.what)
    pointed = text.splitlines()[problem.at.line - 1][problem.at.column - 1 :]
    return named is None or pointed.startswith(f"{named[1]}:")
