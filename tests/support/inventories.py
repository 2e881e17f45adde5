"""Short inventories for tests."""

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
