"""The settings of one role on one host, which inherited settings apply to it, and the paths in them."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfprov.errors import Position, Problem
from tfprov.inventory.vars_files import base_directory
from tfprov.model.inventory import NAMESPACE, Inventory, Layer
from tfprov.model.settings import Settings
from tfprov.model.state import DataFile, DataSet, Mount
from tfprov.model.storage import Data
from tfprov.model.yaml_node import Mapping, Node, Scalar, find
from tfprov.settings.connection import ConnectionSettings
from tfprov.templating.host_values import Variables
from tfprov.wiring import FEEDERS, STANDALONE, WEB

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RoleSettings:
    """The settings of one role on one host. `node` has their positions; `variables` render those of single tasks.

    Other tasks reach the host at `address`, tfprov by `connection`. `group` is the position of the role's group. `unread`
    are the problems of files whose variables `values` lack.
    """

    role: str
    host: str
    values: Settings
    node: Mapping
    variables: Variables
    address: str
    connection: ConnectionSettings
    group: Position
    unread: tuple[Problem, ...]

    @property
    def local(self) -> bool:
        """Whether the host is this machine."""
        return self.connection.local

    @property
    def where(self) -> Position:
        """The position of the host's address: of `ansible_host`, or of its name."""
        return self.connection.at

    @property
    def bind_address(self) -> str | None:
        """The address on which its ports are published, if that is not the cluster's; None otherwise.

        People reach a tensorboard, a model server and a notebook through the SSH connection to its host.
        """
        return self.values.bind or (_LOOPBACK if self.role in WEB else None)

    @property
    def reads_data(self) -> bool:
        """Whether its tasks read `data`; tasks of every role know its directory."""
        return self.values.data is not None and self.role not in ("ps", "tensorboard", "serving")

    def at(self, *path: str | int) -> Position:
        """Return the position of the value at `path`, or of the nearest mapping around it."""
        return find(self.node, path)[1]


DEFAULT_COMMANDS = (*WEB, *FEEDERS)
"""Roles with a default command."""


def has_default_command(role: str, rendered: Mapping) -> bool:
    """Whether a role with the settings `rendered` needs no command: a server of tfprov's, or a bare TensorFlow server."""
    strategy = find(rendered, ["strategy"])[0]
    return role in DEFAULT_COMMANDS or (isinstance(strategy, Scalar) and strategy.data == STANDALONE)


_PROGRAM = ("command", "flags")
_ALSO_FROM_HOST = ("gpus", "devices")
"""Settings that a role which does not compute takes from its own group and its host only: others of the host compute."""
_OWN_GROUP_ONLY = {
    "ps": _ALSO_FROM_HOST,
    # It does not run the training code, so an edit must not restart it; and people reach it through SSH.
    "tensorboard": (*_ALSO_FROM_HOST, "network", "bind", "code", "env", "env_file", *_PROGRAM),
    "serving": (*_ALSO_FROM_HOST, "network", "bind", *_PROGRAM),
    "notebook": (*_ALSO_FROM_HOST, "network", "bind", *_PROGRAM),
    "dispatcher": (*_ALSO_FROM_HOST, *_PROGRAM),
    "data_worker": (*_ALSO_FROM_HOST, *_PROGRAM),
}
"""Settings that a role takes only from its own group, and some from its host; of `flags` and `env`, each key by itself.

In a ps, which needs no GPU, TensorFlow would take all of its memory.
"""

SettingPath = tuple[str, ...]
"""The path of a setting below `tfprov`: ("gpus",), or ("flags", "train_steps")."""


def settings_for_role(inventory: Inventory, host: str, role: str, written: Mapping) -> Mapping:
    """Return the settings in `written` that apply to `role` on `host`."""
    others = set(settings_for_other_roles(inventory, host, role, written))
    return _without(written, others) if others else written


def settings_for_other_roles(inventory: Inventory, host: str, role: str, written: Mapping) -> Iterator[SettingPath]:
    """Yield the paths of settings in `written` that do not apply to `role` on `host`."""
    restricted = [name for name in _OWN_GROUP_ONLY.get(role, ()) if name in written.entries]
    if not restricted:
        return
    layers = list(inventory.layers(host, role=role))
    for name in restricted:
        own = list(_own_values(layers, role, name))
        if not own and not (name == "code" and any(_own_values(layers, role, "command"))):
            yield (name,)
        setting = written.entries[name]
        if own and isinstance(setting, Mapping):
            yield from ((name, key) for key in setting.entries if not any(_has(value, key) for value in own))


def _own_values(layers: list[Layer], role: str, name: str) -> Iterator[Node]:
    """Yield the values of the setting `name` from the origins that `role` takes it from."""
    origins = [
        f"group `{role}`",
        f"group_vars of `{role}`",
        *(("host", "host_vars") if name in _ALSO_FROM_HOST else ()),
    ]
    for layer in layers:
        settings = layer.vars.get(NAMESPACE)
        if layer.origin in origins and isinstance(settings, Mapping) and name in settings.entries:
            yield settings.entries[name]


def _has(node: Node, key: str) -> bool:
    """Whether `node` may have `key`: a template may render to any mapping."""
    return not isinstance(node, Mapping) or key in node.entries


def _without(node: Mapping, paths: set[SettingPath]) -> Mapping:
    kept: dict[str, Node] = {}
    for name, value in node.entries.items():
        below = {path[1:] for path in paths if path[0] == name}
        if () not in below:
            kept[name] = _without(value, below) if below and isinstance(value, Mapping) else value
    return Mapping(kept, node.at, node.keys)


def resolve_path(role: RoleSettings, *path: str) -> Path:
    """Return a path setting as a path; a relative one is relative to its file, and `~` is the home directory.

    In a file of `group_vars/` or `host_vars/`, it is relative to the parent of that directory.
    """
    value: object = role.values
    for name in path:
        value = getattr(value, name)
    file = role.at(*path).file
    base = Path() if file.startswith("-e") else base_directory(file)
    return Path(os.path.normpath(base / Path(str(value)).expanduser()))


INTERPRETER = "ansible_python_interpreter"
"""Ansible's variable for the Python of a host; only an absolute path in it counts."""


def python_path(role: RoleSettings) -> str | None:
    """Return the path of the Python that runs tasks as processes: `python`, else Ansible's variable.

    None for the Python that runs tfprov.
    """
    if role.values.python is not None:
        return os.path.abspath(resolve_path(role, "python"))  # noqa: PTH100  links are kept: a venv is one
    raw = role.variables.raw_value(INTERPRETER)
    if not isinstance(raw, Scalar) or "ansible_playbook_python" in str(raw.data):  # the Python of tfprov
        return None
    interpreter = str(role.variables[INTERPRETER])
    return interpreter if interpreter.startswith("/") else None


def python_position(role: RoleSettings) -> Position:
    """Return the position of `python_path`."""
    raw = role.variables.raw_value(INTERPRETER)
    return raw.at if role.values.python is None and isinstance(raw, Scalar) else role.at("python")


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
    if data is not None and data.remote is not None:
        return DataSet((), data.remote)
    sources = data.fetch if data else None
    return DataSet(tuple(DataFile(source.file, source.url, source.sha256) for source in sources)) if sources else None


def data_dir(role: RoleSettings, fetched: DatasetPath | None = None) -> str | None:
    """Return the data directory of a task; `fetched` only for tasks that are processes of the host."""
    data = role.values.data
    if data is None or fetched is None:
        return data.to if data else None
    if data.directory is not None:
        return _path(role)
    files = _files(data)  # also for a ps, which reads none, but may have the same flags as the others
    return fetched(role.host, files.key) if files else None


def data_path(role: RoleSettings) -> str | None:
    """Return the data directory on its host; None without data, or if the host fetches it."""
    data = role.values.data
    return _path(role) if data is not None and data.directory is not None else None


def data_spec(role: RoleSettings, *, in_container: bool) -> dict[str, str | None]:
    """Return the data's part of a task's spec: a change of it restarts the task."""
    dataset = dataset_of(role)
    spec: dict[str, str | None] = {"fetch": dataset.key} if dataset else {"path": _path(role)}
    return {**spec, "to": data_dir(role)} if in_container else spec


def data_mounts(role: RoleSettings) -> tuple[Mount, ...]:
    """Return the mount of a data directory that is on the host already."""
    data = role.values.data
    return (Mount(_path(role), data.to),) if data is not None and data.directory is not None and role.reads_data else ()


def setting_mounts(role: RoleSettings) -> tuple[Mount, ...]:
    """Return the mounts in the setting `mounts`."""
    return tuple(
        Mount(
            mount.source or "",
            mount.target,
            mount.read_only,
            mount.nfs.volume_options(read_only=mount.read_only) if mount.nfs else (),
        )
        for mount in role.values.mounts
    )


def _path(role: RoleSettings) -> str:
    """Return the data directory of the host; a relative path is relative to its file."""
    return os.path.abspath(resolve_path(role, "data", "path"))  # noqa: PTH100  it need not exist
