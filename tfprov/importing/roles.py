"""Tasks to the roles of an inventory: what all tasks of a role share, and what all roles do."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfprov.errors import Position, printable
from tfprov.importing.identify import CHECKPOINT_DIR, IdentifiedTask, Notes, Setting, SourceText
from tfprov.model.inventory import ROLES
from tfprov.model.sections import Checkpoints
from tfprov.model.settings import BY_TF_CONFIG, Settings
from tfprov.wiring import STRATEGY_VARIABLE

CODE, RUNTIME = "/code", "/tfprov"
_OWN_COMMAND = ("tensorboard", "dispatcher", "data_worker")
_CHECKPOINT_FLAGS = ("train_dir", "checkpoint_dir", "ckpt_dir", "model_dir", "log_dir", "logdir")
TEMPLATE = "{{ checkpoint_dir }}"


@dataclass(frozen=True)
class Template:
    """A text in which braces are meant for the inventory."""

    text: str


@dataclass
class Role:
    """A role: how many tasks, the hosts they are kept on, by their index, and settings by name.

    `flags`, `env` and `mounts` are settings that are written an entry a line; their values are lists of entries.
    """

    name: str
    count: int
    settings: dict[str, Setting] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)


def roles_of(tasks: Sequence[IdentifiedTask], notes: Notes) -> list[Role]:
    """Return the roles, in the order of tfprov's own."""
    roles = []
    for name in ROLES:
        members = sorted((task for task in tasks if task.job == name), key=lambda task: task.index or 0)
        if members:
            roles.append(_role(name, members, notes))
    return roles


def _role(name: str, members: Sequence[IdentifiedTask], notes: Notes) -> Role:
    count = _count(name, members, notes)
    settings = dict(_settings(members[0], notes))
    for other in members[1:]:
        _compare(settings, dict(_settings(other, Notes())), other, notes)
    hosts = [task.source.host.text for task in members if task.source.host]
    return Role(name, count, settings, hosts if len(hosts) == count else [])


def _count(name: str, members: Sequence[IdentifiedTask], notes: Notes) -> int:
    there = sum(task.source.count for task in members)
    highest = max((len(task.cluster.get(name, ())) for task in members), default=0)
    if highest > there:
        what = f"the tasks are told of {highest} {name} tasks, and the file has {there}: all {highest} are in the inventory"
        notes.add(members[0].source.at, what)
    by_index: dict[int, IdentifiedTask] = {}
    for task in members:
        if task.index is not None and task.index in by_index and task.source.count == 1:
            first = by_index[task.index].source.at.line
            notes.refuse(
                task.source.at, f"{name}/{task.index} a second time (first on line {first})", "keep one of them"
            )
        elif task.index is not None:
            by_index[task.index] = task
    return max(there, highest)


def _settings(task: IdentifiedTask, notes: Notes) -> Iterator[tuple[str, Setting]]:
    """Yield the settings of one task."""
    at = task.source.at
    directory = _directory(task)
    if not _is_own(task, directory):
        own = task.job in _OWN_COMMAND
        flags = {} if own else task.flags
        words = [
            *task.command,
            *(SourceText(f"--{name}={text.text}", text.at) for name, text in task.flags.items() if own),
        ]
        if words:
            yield "command", Setting([word.text for word in words], words[0].at)
        elif task.job not in _OWN_COMMAND:
            notes.refuse(
                at, f"`{printable(task.source.name)}` has no command, and runs its image's own", "write it there"
            )
        if flags:
            yield "flags", Setting([(name, _flag(name, text, directory), text.at) for name, text in flags.items()], at)
    if task.env:
        env = [(name, text.text, text.at) for name, text in task.env.items() if not _is_runtime(name, text, task)]
        if env:
            yield "env", Setting(env, at)
    yield from _places(task, directory, notes)
    for name, setting in task.source.settings.items():
        if setting.value != Settings.model_fields[name].default:
            yield name, setting
    ports = [address.rpartition(":")[2] for address in task.cluster.get(task.job, ())]
    numbers = [int(port) for port in ports if port.isdecimal() and len(port) < 6]
    if numbers:
        yield "port", Setting(min(numbers), at)


def _is_runtime(name: str, text: SourceText, task: IdentifiedTask) -> bool:
    """Whether a variable is one with which tfprov's own Compose files lead to the runtime."""
    return name == "PYTHONPATH" and "TFPROV_TASK" in task.ours and text.text == RUNTIME


def _directory(task: IdentifiedTask) -> str | None:
    """Return where checkpoints are: what says so, or the storage that a flag of the program leads to."""
    if directory := task.ours.get(CHECKPOINT_DIR):
        return directory
    storage = {volume.target.text.rstrip("/") for volume in task.source.volumes if volume.source is None}
    named = [said.text.rstrip("/") for name, said in task.flags.items() if name in _CHECKPOINT_FLAGS]
    local = [text for text in named if text.startswith("/")]
    return next((text for text in local if text in storage), local[0] if local else None)


def _is_own(task: IdentifiedTask, directory: str | None) -> bool:
    """Whether the program of a task is one that tfprov brings."""
    if task.job not in _OWN_COMMAND:
        return False
    if task.job != "tensorboard":
        return any(word.text == "tfprov.runtime.data_service" for word in task.command)
    words = [word.text for word in task.command]
    logs = task.flags["logdir"].text if "logdir" in task.flags else ""
    plain = len(words) == 1 and posixpath.basename(words[0]) == "tensorboard"
    others = set(task.flags) - {"logdir", "host", "port", "bind_all"}
    return plain and not others and (logs.startswith("/") or logs == directory)


def _flag(name: str, text: SourceText, directory: str | None) -> str | Template:
    is_directory = directory and name in _CHECKPOINT_FLAGS and text.text.rstrip("/") == directory
    return Template(TEMPLATE) if is_directory else text.text


def _places(task: IdentifiedTask, directory: str | None, notes: Notes) -> Iterator[tuple[str, Setting]]:
    """Yield the directories: checkpoints, data, code and mounts."""
    at = task.source.at
    data = task.ours.get("TFPROV_DATA_DIR")
    mounts = []
    for volume in task.source.volumes:
        target, where = volume.target.text.rstrip("/") or "/", volume.target.at
        if target == directory or f"{target}/".startswith(f"{RUNTIME}/"):
            continue
        if volume.source is None:
            what = (
                f"the storage at {printable(target)} is not carried over: mount a directory of the host, with `mounts`"
            )
            notes.add(where, what)
        elif target == CODE and "TFPROV_TASK" in task.ours:
            yield "code", Setting(volume.source, where)
        elif target == data:
            yield "data", Setting({"path": volume.source, "to": target}, where)
        else:
            mounts.append((target, {"source": volume.source, "target": target, "read_only": volume.read_only}, where))
    if mounts:
        yield "mounts", Setting(mounts, at)
    if directory and directory != Checkpoints().dir and task.job not in ("dispatcher", "data_worker"):
        yield "checkpoints", Setting({"dir": directory}, at)


def _compare(settings: dict[str, Setting], other: Mapping[str, Setting], task: IdentifiedTask, notes: Notes) -> None:
    """Tell where a task of a role differs from the first one, whose settings count for all of them."""
    for name in dict.fromkeys([*settings, *other]):
        if name == "port" or plain(settings.get(name)) == plain(other.get(name)):
            continue
        at: Position = other[name].at if name in other else task.source.at
        what = f"{task.job}/{task.index or 0} has another `{name}` than the first {task.job}, whose own counts for all"
        notes.add(at, what)


def plain(setting: Setting | None) -> object:
    """Return a value without the places in it, to be compared."""
    if setting is None or not isinstance(setting.value, list):
        return setting.value if setting else None
    return [one[:2] if isinstance(one, tuple) else one for one in setting.value]


def wiring_of(tasks: Sequence[IdentifiedTask]) -> object:
    """Return the `wiring` setting: flags, under other names perhaps, or TF_CONFIG."""
    first = next((task for task in tasks if task.by_flags), None)
    if first is None:
        return "tf_config"
    return {"flags": {flag: f"--{name}" for flag, name in first.names.items()}} if first.names else "flags"


def strategy_of(tasks: Sequence[IdentifiedTask]) -> str | None:
    """Return the strategy that the tasks are told, where it is not the usual one."""
    strategies = {task.ours[STRATEGY_VARIABLE] for task in tasks if STRATEGY_VARIABLE in task.ours}
    return next(iter(strategies)) if len(strategies) == 1 and strategies <= {*BY_TF_CONFIG, "single"} else None
