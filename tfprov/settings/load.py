"""Loads an inventory and its settings from files and options."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.errors import InvalidInput, Problem, Warn, ignore_warning
from tfprov.inventory.ansible_cfg import read_ansible_cfg
from tfprov.inventory.builder import Builder
from tfprov.inventory.extra_vars import extra_vars
from tfprov.inventory.sources import Sources, home_of
from tfprov.inventory.vars_files import DIRECTORIES, read_beside
from tfprov.model.inventory import Inventory, VarsFiles
from tfprov.model.node import Mapping
from tfprov.vault.decrypt import Vault

if TYPE_CHECKING:
    from tfprov.settings.resolve import RoleSettings

__all__ = ["extra_vars", "load", "load_inventory"]

SourceList = Path | Sequence[str]
"""The sources of an inventory: one file, or the values of `-i`, of which later ones win."""


def load_inventory(
    sources: SourceList,
    extra: Sequence[str] = (),
    vault: Vault | None = None,
    warn: Warn = ignore_warning,
    lookup_dirs: Sequence[str] = (),
) -> Inventory:
    """Read the inventory in `sources`, with the `-e` options in `extra`; InvalidInput carries all problems of both.

    Encrypted values need a `vault`. Warnings go to `warn`. Templates may look up files below `lookup_dirs`, and below the
    directories of the sources.
    """
    inventory, problems = _load(sources, extra, vault, warn, lookup_dirs)
    if problems:
        raise InvalidInput(problems)
    return inventory


def load(
    sources: SourceList,
    extra: Sequence[str] = (),
    vault: Vault | None = None,
    warn: Warn = ignore_warning,
    lookup_dirs: Sequence[str] = (),
) -> "tuple[Inventory, tuple[RoleSettings, ...]]":
    """Load the inventory in `sources` and resolve its settings. The arguments are those of load_inventory."""
    # Here, because the settings take a while to import, and commands that only show an inventory do not need them.
    from tfprov.settings.cluster_rules import check_processes, check_similar_groups  # noqa: PLC0415
    from tfprov.settings.resolve import resolve  # noqa: PLC0415

    inventory, problems = _load(sources, extra, vault, warn, lookup_dirs)
    for problem in () if problems else check_similar_groups(inventory):
        warn(problem)
    return inventory, resolve(inventory, problems, [check_processes])


def _load(
    source_list: SourceList, extra: Sequence[str], vault: Vault | None, warn: Warn, lookup_dirs: Sequence[str]
) -> tuple[Inventory, list[Problem]]:
    sources, vault = [str(source_list)] if isinstance(source_list, Path) else list(source_list), vault or Vault()
    builder = Builder()
    variables = Mapping()
    try:
        variables = extra_vars(extra, vault)
    except InvalidInput as error:
        builder.problems.extend(error.problems)
    config = read_ansible_cfg(sources)
    if config.vault_password_file:
        vault.use(config.vault_password_file)
    reader = Sources(builder, vault, alone=len(sources) == 1, ignore=config.ignore_extensions)
    for source in sources:
        reader.add(source)
    vars_files = _vars_files(sources, builder, vault)
    for problem in (*config.warnings, *builder.warnings, *vault.warnings):
        warn(problem)
    homes = (home_of(source) for source in sources)
    readable = (*(str(home) for home in homes if home is not None), *lookup_dirs)
    inventory = builder.inventory(sources[0], vars_files, variables)
    return replace(inventory, lookup_dirs=readable), builder.problems


def _vars_files(sources: Sequence[str], builder: Builder, vault: Vault) -> tuple[VarsFiles, ...]:
    """Return the vars files beside the sources; a directory with several sources counts as that of the last."""
    homes = [home for home in map(home_of, sources) if home is not None]
    last = dict.fromkeys(reversed(homes))
    with_files = [home for home in reversed(last) if any((home / name).exists() for name in DIRECTORIES)]
    return tuple(read_beside(home, builder.groups, builder.hosts, vault, builder.problems) for home in with_files)
