"""Paths in settings."""

import os
from pathlib import Path

from tfprov.config.settings.role_settings import RoleSettings
from tfprov.config.sources.beside import base_of


def beside_file(role: RoleSettings, *path: str) -> Path:
    """Return a path setting as a path: a relative one counts from the file it is written in, `~` is the home directory.

    One in a file of `group_vars/` or `host_vars/` counts from where that directory lies.
    """
    value: object = role.values
    for name in path:
        value = getattr(value, name)
    written = role.at(*path).file
    base = Path() if written.startswith("-e") else base_of(written)
    return Path(os.path.normpath(base / Path(str(value)).expanduser()))
