"""Where tfprov keeps things on the controller: the XDG base directories, and the files that ship with it."""

import os
from pathlib import Path

PACKAGE = Path(__file__).parent
"""The installed package, of which parts are copied into containers."""
INVENTORY = "inventory.yml"
"""The inventory that is read where none is named."""


def state_home() -> Path:
    """Return the directory of running clusters and locks: $XDG_STATE_HOME/tfprov."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def cache_home() -> Path:
    """Return the directory of what can be made again: $XDG_CACHE_HOME/tfprov."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def _xdg(variable: str, default: str) -> Path:
    stated = Path(os.environ.get(variable) or "")
    # The specification says that a relative path in these variables is to be ignored.
    return (stated if stated.is_absolute() else Path.home() / default) / "tfprov"


def shipped(name: str) -> Path:
    """Return a directory that ships with tfprov, such as `playbooks`: in the wheel, or in a source checkout."""
    in_checkout = {"programs": "images/train/programs", "train_image": "images/train"}.get(name, name)
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / in_checkout
