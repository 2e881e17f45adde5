"""Files and options to an inventory and its settings: the one door of this package."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.errors import InvalidInput, Problem, Warn, ignore_warning
from tfprov.inventory.ansible_cfg import read_ansible_cfg
from tfprov.inventory.builder import InventoryBuilder
from tfprov.inventory.extra_vars import parse_extra_vars
from tfprov.inventory.sources import SourceReader, vars_bases
from tfprov.inventory.vars_files import DIRECTORIES, VarsFileReader
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import Mapping
from tfprov.vault.decrypt import Vault
from tfprov.yamltext.load import FileOverlay

if TYPE_CHECKING:
    from tfprov.settings.resolve import RoleSettings

__all__ = ["load", "load_inventory", "parse_extra_vars"]

SourceList = Path | Sequence[str]
"""Where an inventory is: one file, or the sources as `-i` gives them, of which later ones win."""


@dataclass(frozen=True)
class InventoryOptions:
    """Where an inventory comes from: the values of `-i`, `-e` and `--lookup-dir`, and the vault that decrypts it.

    `warn` gets warnings. `file_overlay` replaces the contents of some files.
    """

    sources: SourceList
    extra: Sequence[str] = ()
    vault: Vault | None = None
    warn: Warn = ignore_warning
    lookup_dirs: Sequence[str] = ()
    file_overlay: FileOverlay | None = None


def load_inventory(
    sources: SourceList,
    extra: Sequence[str] = (),
    vault: Vault | None = None,
    warn: Warn = ignore_warning,
    lookup_dirs: Sequence[str] = (),
) -> Inventory:
    """Read the inventory in `sources`, with the `-e` options in `extra`; InvalidInput carries all problems of both.

    `vault` decrypts values; without one, nothing is decrypted. `warn` gets warnings. Templates may read files below
    `lookup_dirs`, and below the directories of the sources.
    """
    inventory, problems = read_inventory(InventoryOptions(sources, extra, vault, warn, lookup_dirs))
    if problems:
        raise InvalidInput(problems)
    return inventory


def load(  # noqa: PLR0913
    sources: SourceList,
    extra: Sequence[str] = (),
    vault: Vault | None = None,
    warn: Warn = ignore_warning,
    lookup_dirs: Sequence[str] = (),
    *,
    needs_files: bool = True,
) -> "tuple[Inventory, tuple[RoleSettings, ...]]":
    """Read the inventory in `sources` and check what it says under `tfprov:`.

    See load_inventory for the arguments, and settings.resolve.resolve for `needs_files`.
    """
    # Here, because the schema takes a while to import, and whoever only shows an inventory does not check it.
    from tfprov.settings.cluster_rules import (  # noqa: PLC0415
        check_copies_in_image,
        check_image_tags,
        check_processes,
        check_runtime_in_image,
        check_similar_groups,
    )
    from tfprov.settings.resolve import resolve  # noqa: PLC0415

    inventory, problems = read_inventory(InventoryOptions(sources, extra, vault, warn, lookup_dirs))
    for problem in () if problems else check_similar_groups(inventory):
        warn(problem)
    roles = resolve(inventory, problems, [check_processes], needs_files=needs_files)
    for problem in (*check_image_tags(roles), *check_runtime_in_image(roles), *check_copies_in_image(roles)):
        warn(problem)
    return inventory, roles


def read_inventory(options: InventoryOptions) -> tuple[Inventory, list[Problem]]:
    """Return what can be read of an inventory, and the problems of the rest; settings are not checked."""
    sources = [str(options.sources)] if isinstance(options.sources, Path) else list(options.sources)
    vault, builder = options.vault or Vault(), InventoryBuilder()
    variables = Mapping()
    try:
        if options.extra:
            variables = parse_extra_vars(options.extra, vault, options.file_overlay)
    except InvalidInput as error:
        builder.problems.extend(error.problems)
    config = read_ansible_cfg(sources)
    if config.vault_password_file:
        vault.use_password_file(config.vault_password_file)
    alone, ignore = len(sources) == 1, config.ignore_extensions
    reader = SourceReader(builder, vault, alone=alone, ignore=ignore, file_overlay=options.file_overlay)
    for source in sources:
        reader.add(source)
    vars_reader = VarsFileReader(vault, builder.problems, options.file_overlay)
    bases = vars_bases(sources)
    beside = tuple(
        vars_reader.read(base, builder.groups, builder.hosts)
        for base in bases
        if any(os.path.lexists(base / name) for name in DIRECTORIES)
    )
    for problem in (*config.warnings, *builder.warnings, *vault.warnings):
        options.warn(problem)
    inventory = builder.inventory(sources[0], beside, variables)
    lookup_dirs = (*map(str, bases), *options.lookup_dirs)
    return replace(inventory, lookup_dirs=lookup_dirs), builder.problems
