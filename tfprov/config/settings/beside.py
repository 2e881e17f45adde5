"""Paths in settings."""

import os
from pathlib import Path

from tfprov.config.settings.role_settings import RoleSettings
from tfprov.config.sources.beside import base_of
from tfprov.errors import Position
from tfprov.model.node import Scalar


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


INTERPRETER = "ansible_python_interpreter"
"""Ansible's variable for the Python of a host; only an absolute path in it says which one that is."""


def python_of(role: RoleSettings) -> str | None:
    """Return the path of the Python that runs tasks as processes; None for the one that runs tfprov.

    It is what `python` says, else what Ansible's variable says.
    """
    if role.values.python is not None:
        return os.path.abspath(beside_file(role, "python"))  # noqa: PTH100  links are kept: a venv is one
    stated = role.variables.meaning(INTERPRETER)
    if not isinstance(stated, Scalar) or "ansible_playbook_python" in str(stated.data):  # which is the one of tfprov
        return None
    found = str(role.variables[INTERPRETER])
    return found if found.startswith("/") else None


def python_at(role: RoleSettings) -> Position:
    """Return where `python_of` is written."""
    stated = role.variables.meaning(INTERPRETER)
    return stated.at if role.values.python is None and isinstance(stated, Scalar) else role.at("python")
