"""What tasks train on: where a host has it, where its tasks find it, and what of that counts as a change."""

import os
from collections.abc import Callable, Iterable

from tfprov.model.sections import Data
from tfprov.model.state import DataFile, DataSet, Mount
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import resolve_path

DatasetPath = Callable[[str, str], str]
"""Returns where processes of a host find the data set with a key."""


def dataset_of(role: RoleSettings) -> DataSet | None:
    """Return what the host of `role` fetches for it; None where its data lies there, or where it reads none."""
    return _files(role.values.data) if role.reads_data else None


def datasets_of(roles: Iterable[RoleSettings]) -> dict[str, DataSet]:
    """Return all that hosts fetch for `roles`, by its name as an artifact."""
    found = (dataset_of(role) for role in roles)
    return {data.artifact: data for data in found if data is not None}


def _files(data: Data | None) -> DataSet | None:
    sources = data.fetch if data else None
    return DataSet(tuple(DataFile(one.file, one.url, one.sha256) for one in sources)) if sources else None


def data_dir(role: RoleSettings, fetched: DatasetPath | None = None) -> str | None:
    """Return where a task finds the data; `fetched` is given where tasks are processes of the host."""
    data = role.values.data
    if data is None or fetched is None:
        return data.to if data else None
    if data.path is not None:
        return _path(role)
    files = _files(data)  # also of a ps, which reads none, but may get the same flags as all others
    return fetched(role.host, files.key) if files else None


def data_path(role: RoleSettings) -> str | None:
    """Return the directory that its host has already; None where it has none, or fetches it."""
    data = role.values.data
    return _path(role) if data is not None and data.path is not None else None


def data_spec(role: RoleSettings, *, in_container: bool) -> dict[str, str | None]:
    """Return what of the data is part of a task, so that a change of it restarts the task."""
    found = dataset_of(role)
    what: dict[str, str | None] = {"fetch": found.key} if found else {"path": _path(role)}
    return {**what, "to": data_dir(role)} if in_container else what


def data_mounts(role: RoleSettings) -> tuple[Mount, ...]:
    """Return the mount of a directory that lies on the host already."""
    data, path = role.values.data, data_path(role) if role.reads_data else None
    return (Mount(path, data.to),) if path and data else ()


def _path(role: RoleSettings) -> str:
    """Return the directory of the host with the data; a relative path counts from the file it is written in."""
    return os.path.abspath(resolve_path(role, "data", "path"))  # noqa: PTH100  it need not be there
