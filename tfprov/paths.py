"""Directories on the controller: the XDG base directories, and those that ship with tfprov."""

import os
from pathlib import Path

from tfprov.errors import Usage

PACKAGE = Path(__file__).parent
"""The installed package, of which parts are copied into containers."""
INVENTORY = "inventory.yml"
"""The default inventory."""


def working_directory() -> Path:
    """Return the working directory. Raises Usage if it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise Usage("the working directory was removed", "change to another one") from None


def state_home() -> Path:
    """Return the directory of running clusters and locks: $XDG_STATE_HOME/tfprov."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def clusters_directory() -> Path:
    """Return the directory with one directory for each cluster."""
    return state_home() / "clusters"


def runs_directory(cluster: Path) -> Path:
    """Return the directory of the recorded runs in `cluster`, a cluster's directory."""
    return cluster / "runs"


def cache_home() -> Path:
    """Return the directory of files that can be recreated: $XDG_CACHE_HOME/tfprov."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def _xdg(variable: str, default: str) -> Path:
    path = Path(os.environ.get(variable) or "")
    # The specification requires that relative paths in these variables are ignored.
    return (path if path.is_absolute() else Path.home() / default) / "tfprov"


def shipped_directory(name: str) -> Path:
    """Return a directory that ships with tfprov, such as `playbooks`: in the wheel, or in a source checkout."""
    in_checkout = {"programs": "images/train/programs", "train_image": "images/train"}.get(name, name)
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / in_checkout
