"""Files and options to an inventory and its settings: the one door of this package."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.errors import InvalidInput, Problem, Warn, unheard
from tfprov.inventory.ansible_cfg import read_ansible_cfg
from tfprov.inventory.builder import InventoryBuilder
from tfprov.inventory.extra_vars import parse_extra_vars
from tfprov.inventory.sources import Sources, vars_base
from tfprov.inventory.vars_files import DIRECTORIES, read_beside
from tfprov.model.inventory import Beside, Inventory
from tfprov.model.node import Mapping
from tfprov.vault.decrypt import Vault

if TYPE_CHECKING:
    from tfprov.settings.resolve import RoleSettings

__all__ = ["load", "load_inventory", "parse_extra_vars"]

SourceList = Path | Sequence[str]
"""Where an inventory is: one file, or the sources as `-i` gives them, of which later ones win."""


def load_inventory(
    sources: SourceList,
    extra: Sequence[str] = (),
    vault: Vault | None = None,
    warn: Warn = unheard,
    lookup_dirs: Sequence[str] = (),
) -> Inventory:
    """Read the inventory in `sources`, with the `-e` options in `extra`; InvalidInput carries all problems of both.

    `vault` opens what is encrypted; without one, nothing does. `warn` gets what is odd and ends nothing. Templates may read
    files below `lookup_dirs`, and below the directories of the sources.
    """
    inventory, problems = _load(sources, extra, vault, warn, lookup_dirs)
    if problems:
        raise InvalidInput(problems)
    return inventory


def load(
    sources: SourceList,
    extra: Sequence[str] = (),
    vault: Vault | None = None,
    warn: Warn = unheard,
    lookup_dirs: Sequence[str] = (),
) -> "tuple[Inventory, tuple[RoleSettings, ...]]":
    """Read the inventory in `sources` and check what it says under `tfprov:`. See load_inventory for the arguments."""
    # Here, because the schema takes a while to import, and whoever only shows an inventory does not check it.
    from tfprov.settings.cluster_rules import beside_roles, processes_here  # noqa: PLC0415
    from tfprov.settings.resolve import resolve  # noqa: PLC0415

    inventory, problems = _load(sources, extra, vault, warn, lookup_dirs)
    for problem in () if problems else beside_roles(inventory):
        warn(problem)
    return inventory, resolve(inventory, problems, [processes_here])


def _load(
    given: SourceList, extra: Sequence[str], vault: Vault | None, warn: Warn, lookup_dirs: Sequence[str]
) -> tuple[Inventory, list[Problem]]:
    sources, vault = [str(given)] if isinstance(given, Path) else list(given), vault or Vault()
    builder = InventoryBuilder()
    variables = Mapping()
    try:
        variables = parse_extra_vars(extra, vault)
    except InvalidInput as error:
        builder.problems.extend(error.problems)
    configured = read_ansible_cfg(sources)
    if configured.vault_password_file:
        vault.use(configured.vault_password_file)
    reader = Sources(builder, vault, alone=len(sources) == 1, ignore=configured.ignore_extensions)
    for source in sources:
        reader.add(source)
    beside = _beside(sources, builder, vault)
    for problem in (*configured.warnings, *builder.warnings, *vault.warnings):
        warn(problem)
    inventory = builder.inventory(sources[0], beside, variables)
    homes = (vars_base(source) for source in sources)
    inventory.seen["readable"] = (*(str(home) for home in homes if home is not None), *lookup_dirs)
    return inventory, builder.problems


def _beside(sources: Sequence[str], builder: InventoryBuilder, vault: Vault) -> tuple[Beside, ...]:
    """Return what lies beside the sources; a directory with several of them counts where the last one stands."""
    homes = [home for home in map(vars_base, sources) if home is not None]
    last = dict.fromkeys(reversed(homes))
    there = [home for home in reversed(last) if any((home / name).exists() for name in DIRECTORIES)]
    return tuple(read_beside(home, builder.groups, builder.hosts, vault, builder.problems) for home in there)
