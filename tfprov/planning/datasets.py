"""Training data: its path on a host and for tasks, and what of it is part of a task's spec."""

import os
from collections.abc import Callable, Iterable

from tfprov.model.sections import Data
from tfprov.model.state import DataFile, DataSet, Mount
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import resolve_path

DatasetPath = Callable[[str, str], str]
"""Returns the directory of a data set, by host and key, for tasks that are processes."""


def dataset_of(role: RoleSettings) -> DataSet | None:
    """Return the data set that the host of `role` fetches; None if its data is there already, or it reads none."""
    return _files(role.values.data) if role.reads_data else None


def datasets_of(roles: Iterable[RoleSettings]) -> dict[str, DataSet]:
    """Return the data sets that hosts fetch for `roles`, by artifact name."""
    datasets = (dataset_of(role) for role in roles)
    return {data.artifact: data for data in datasets if data is not None}


def _files(data: Data | None) -> DataSet | None:
    sources = data.fetch if data else None
    return DataSet(tuple(DataFile(source.file, source.url, source.sha256) for source in sources)) if sources else None


def data_dir(role: RoleSettings, fetched: DatasetPath | None = None) -> str | None:
    """Return the data directory of a task; `fetched` only for tasks that are processes of the host."""
    data = role.values.data
    if data is None or fetched is None:
        return data.to if data else None
    if data.path is not None:
        return _path(role)
    files = _files(data)  # also for a ps, which reads none, but may have the same flags as the others
    return fetched(role.host, files.key) if files else None


def data_path(role: RoleSettings) -> str | None:
    """Return the data directory on its host; None without data, or if the host fetches it."""
    data = role.values.data
    return _path(role) if data is not None and data.path is not None else None


def data_spec(role: RoleSettings, *, in_container: bool) -> dict[str, str | None]:
    """Return the data's part of a task's spec: a change of it restarts the task."""
    dataset = dataset_of(role)
    spec: dict[str, str | None] = {"fetch": dataset.key} if dataset else {"path": _path(role)}
    return {**spec, "to": data_dir(role)} if in_container else spec


def data_mounts(role: RoleSettings) -> tuple[Mount, ...]:
    """Return the mount of a data directory that is on the host already."""
    data, path = role.values.data, data_path(role) if role.reads_data else None
    return (Mount(path, data.to),) if path and data else ()


def _path(role: RoleSettings) -> str:
    """Return the data directory of the host; a relative path is relative to its file."""
    return os.path.abspath(resolve_path(role, "data", "path"))  # noqa: PTH100  it need not exist
