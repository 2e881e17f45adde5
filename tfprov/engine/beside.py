"""Paths in settings."""

import os
from pathlib import Path

from tfprov.config.settings import RoleSettings


def beside_file(role: RoleSettings, *path: str) -> Path:
    """Return a path setting as a path: a relative one counts from the file it is written in, `~` is the home directory."""
    value: object = role.values
    for name in path:
        value = getattr(value, name)
    written = role.at(*path).file
    base = Path() if written.startswith("-e") else Path(written).parent
    return Path(os.path.normpath(base / Path(str(value)).expanduser()))
