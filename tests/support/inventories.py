"""Short inventories for tests."""

from tfprov.config.load import extra_vars
from tfprov.config.settings.resolve import RoleSettings, resolve
from tfprov.config.sources.groups import read_groups
from tfprov.config.text.yaml import parse
from tfprov.model.inventory import Inventory


def inventory(text: str, *extra: str) -> Inventory:
    read = read_groups(parse(text, "i.yml"), "i.yml")
    return Inventory(read.path, read.groups, read.hosts, extra_vars(extra))


def roles(text: str, *extra: str) -> tuple[RoleSettings, ...]:
    return resolve(inventory(text, *extra))
