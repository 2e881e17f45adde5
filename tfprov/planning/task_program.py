"""What a task's container is made from, and its program: command, flags and variables, rendered for the task."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.model.yaml_node import Node, Scalar, find, plain
from tfprov.planning import task_args
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import python_path
from tfprov.templating.host_values import TemplateProblems
from tfprov.templating.magic_vars import add_task_variables, render_task_settings
from tfprov.vault.redaction import is_secret_name

_MIN_SECRET = 8
"""Minimum characters of a secret to search for in command lines: shorter ones may be ordinary words."""


@dataclass(frozen=True)
class RoleImage:
    """The image of a role on a host: its name there (`reference`), and a `label` that says what it is made from.

    Ports are published on `address`; `code` is the digest of code that is not in the image.
    """

    reference: str
    label: str
    address: str
    code: str | None = None


@dataclass(frozen=True)
class TaskInputs:
    """All that a task's container is made from.

    `directory` is the task's checkpoint directory, `linked` the one that `checkpoints.link` leads to, and `data` the data
    directory. `image` is None for processes.
    """

    cluster: Cluster
    task: Task
    role: RoleSettings
    code: str | None
    image: RoleImage | None
    directory: str
    linked: str
    data: str | None

    @property
    def remote(self) -> str | None:
        """The remote checkpoint directory, which the chief alone writes."""
        return self.role.values.checkpoints.remote if self.task == self.cluster.chief else None

    @property
    def link(self) -> str | None:
        """The name in the working directory that is a link to the checkpoint directory."""
        link = self.role.values.checkpoints.link
        return posixpath.normpath(link.strip()) if link else None

    @property
    def python(self) -> str | None:
        """The Python of a process."""
        return None if self.image else python_path(self.role)


@dataclass(frozen=True)
class TaskProgram:
    """The program of a task, rendered: `secret` are names in `env`."""

    command: Sequence[str]
    flags: Mapping[str, str | None]
    env: Mapping[str, str]
    secret: frozenset[str]


def render_program(of: TaskInputs) -> TaskProgram:
    """Return the program of a task. Raises InvalidInput for templates that fail, and for secrets in the command line."""
    rendered = _render(of.cluster, of.task, of.role, of.directory, of.data)
    own_command = [str(word) for word in rendered["command"] or ()]
    listen_on = "0.0.0.0" if of.image else of.task.address  # noqa: S104  in a container; the host publishes on one address
    command = own_command or task_args.default_command(of.cluster, of.task, of.role, of.directory, listen_on)
    flags, env = _flags(of.role, rendered["flags"]), {name: _text(value) for name, value in rendered["env"].items()}
    public = of.role.values.public_env
    secret = rendered["secret"] | {name for name in env if is_secret_name(name) and name not in public}
    if problems := list(_exposed_secrets(of.role, own_command, flags, {name: env[name] for name in sorted(secret)})):
        raise InvalidInput(problems)
    return TaskProgram(command, flags, env, frozenset(secret))


def _render(cluster: Cluster, task: Task, role: RoleSettings, directory: str, data: str | None) -> dict[str, Any]:
    """Return `command`, `flags` and `env`, rendered for the task, and the `secret` names in `env`."""
    faults = TemplateProblems()
    cluster_values = task_args.cluster_variables(cluster, task)
    variables = add_task_variables(
        role.variables, cluster.name, task.name, directory, data, cluster_values=cluster_values
    )
    rendered = render_task_settings(role.node, variables, faults)
    if faults.problems:
        raise InvalidInput(faults.problems)
    values: dict[str, Any] = plain(rendered)
    settings = {"command": None, "flags": {}, "env": {}} | values
    return settings | {"secret": {name for name in settings["env"] if _is_secret(find(rendered, ["env", name])[0])}}


def _is_secret(node: Node) -> bool:
    return isinstance(node, Scalar) and node.secret


def _exposed_secrets(
    role: RoleSettings, command: Sequence[str], flags: Mapping[str, str | None], secrets: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a problem for each argument that contains the value of a secret variable."""
    words: list[tuple[str, str | int, str]] = [("command", number, word) for number, word in enumerate(command)]
    words += [("flags", name, value or "") for name, value in flags.items()]
    for setting, key, word in words:
        for name, value in secrets.items():
            if len(value) >= _MIN_SECRET and value in word:
                path = f"{setting}.{key}" if setting == "flags" else setting
                what = (
                    f"`{path}` has the value of the secret `env.{name}`, and others on the host can read command lines"
                )
                yield Problem(find(role.node, [setting, key])[1], what, "have the program read the variable")


def _flags(role: RoleSettings, flags: Mapping[str, Any]) -> dict[str, str | None]:
    """Return flags as text. An unquoted number keeps its spelling: `0.10` stays `0.10`."""
    texts: dict[str, str | None] = {}
    for name, value in flags.items():
        node, _ = find(role.node, ["flags", name])
        is_number = isinstance(node, Scalar) and not node.quoted and isinstance(value, int | float)
        spelling = node.text if is_number and not isinstance(value, bool) else ""  # type: ignore[union-attr]
        texts[name] = None if value is None else spelling or _text(value)
    return texts


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
