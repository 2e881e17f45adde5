"""Groups tasks into the roles of an inventory, with the settings that the tasks of a role share."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprov.errors import Position, printable
from tfprov.importing.identify import CHECKPOINT_DIR, IdentifiedTask, Notes, Setting, SourceText
from tfprov.model.inventory import ROLES
from tfprov.model.setting_types import BY_TF_CONFIG
from tfprov.model.settings import Settings
from tfprov.model.storage import Checkpoints
from tfprov.settings.role_settings import DEFAULT_COMMANDS
from tfprov.wiring import FEEDERS, STRATEGY_VARIABLE

CODE, RUNTIME = "/code", "/tfprov"
_OWN_MODULES = {
    "serving": "tfprov.runtime.serving",
    "notebook": "tfprov.runtime.notebook",
    **dict.fromkeys(FEEDERS, "tfprov.runtime.data_service"),
}
"""The modules that tfprov runs for roles, by role."""
_CHECKPOINT_FLAGS = ("train_dir", "checkpoint_dir", "ckpt_dir", "model_dir", "log_dir", "logdir")
_CHECKPOINT_WORD = re.compile(rf"(--?(?:{'|'.join(_CHECKPOINT_FLAGS)}))(?:=(.+))?")
TEMPLATE = "{{ checkpoint_dir }}"


@dataclass(frozen=True)
class Template:
    """A text with a template, which the emitter leaves unquoted by `!unsafe`."""

    text: str


@dataclass
class Role:
    """A role: the number of tasks, the hosts that the file pins them to, by index, and the settings by name.

    The values of `flags`, `env` and `mounts` are lists of entries, written one per line.
    """

    name: str
    count: int
    settings: dict[str, Setting]
    hosts: list[SourceText]


def group_by_role(tasks: Sequence[IdentifiedTask], notes: Notes) -> list[Role]:
    """Return the roles that have tasks, in the order of ROLES."""
    roles = []
    for name in ROLES:
        members = sorted((task for task in tasks if task.job == name), key=lambda task: task.index or 0)
        if any(task.source.count or task.cluster.get(name) for task in members):
            roles.append(_role(name, members, notes))
        elif members:
            notes.add(members[0].source.at, f"`{name}` is not carried over: it has 0 replicas")
    return roles


def _role(name: str, members: Sequence[IdentifiedTask], notes: Notes) -> Role:
    count = _count(name, members, notes)
    settings = dict(_settings(members[0], notes))
    for other in members[1:]:
        _note_differences(settings, dict(_settings(other, Notes())), other, notes)
    hosts = [task.source.host for task in members if task.source.host and task.source.count]
    return Role(name, count, settings, hosts)


def _count(name: str, members: Sequence[IdentifiedTask], notes: Notes) -> int:
    count = sum(task.source.count for task in members)
    highest = max(len(task.cluster.get(name, ())) for task in members)
    if highest > count:
        what = f"the tasks have addresses of {highest} {name} tasks, the file has {count}: the inventory has {highest}"
        notes.add(members[0].source.at, what)
    by_index: dict[int, IdentifiedTask] = {}
    for task in members:
        if task.index is not None and task.index in by_index and task.source.count == 1:
            first = by_index[task.index].source.at.line
            notes.refuse(task.source.at, f"duplicate {name}/{task.index} (first on line {first})", "keep one of them")
        elif task.index is not None:
            by_index[task.index] = task
    return max(count, highest)


def _settings(task: IdentifiedTask, notes: Notes) -> Iterator[tuple[str, Setting]]:
    """Yield the settings of one task."""
    at = task.source.at
    directory = _directory(task)
    if not _runs_own_program(task, directory):
        is_own = task.job in DEFAULT_COMMANDS
        flags = {} if is_own else task.flags
        words = [
            *task.command,
            *(SourceText(f"--{name}={text.text}", text.at) for name, text in task.flags.items() if is_own),
        ]
        if words:
            yield "command", Setting(_command([word.text for word in words], directory), words[0].at)
        elif task.job not in DEFAULT_COMMANDS:
            notes.refuse(at, f"`{printable(task.source.name)}` has no command", "add its command to the file")
        if flags:
            yield "flags", Setting([(name, _flag(name, text, directory), text.at) for name, text in flags.items()], at)
    if task.env:
        env = [(name, text.text, text.at) for name, text in task.env.items() if not _is_runtime(name, text, task)]
        if env:
            yield "env", Setting(env, at)
    yield from _directories(task, directory, notes)
    for name, setting in task.source.settings.items():
        if setting.value != Settings.model_fields[name].default:
            yield name, setting
    ports = [address.rpartition(":")[2] for address in task.cluster.get(task.job, ())]
    numbers = [int(port) for port in ports if port.isdecimal() and len(port) < 6]
    if numbers:
        yield "port", Setting(min(numbers), at)


def _is_runtime(name: str, text: SourceText, task: IdentifiedTask) -> bool:
    """Whether a variable is one of those that tfprov sets in its own files: for the runtime, and for logs."""
    return "TFPROV_TASK" in task.own_env and (name, text.text) in (("PYTHONPATH", RUNTIME), ("PYTHONUNBUFFERED", "1"))


def _directory(task: IdentifiedTask) -> str | None:
    """Return the checkpoint directory: from TFPROV_CHECKPOINT_DIR, or from a flag of the program."""
    if directory := task.own_env.get(CHECKPOINT_DIR):
        return directory
    storage = {volume.target.text.rstrip("/") for volume in task.source.volumes if volume.source is None}
    directories = [flag.text.rstrip("/") for name, flag in task.flags.items() if name in _CHECKPOINT_FLAGS]
    directories += [text.rstrip("/") for _, _, text in _checkpoint_words([word.text for word in task.command])]
    local = [text for text in directories if text.startswith("/")]
    return next((text for text in local if text in storage), local[0] if local else None)


def _runs_own_program(task: IdentifiedTask, directory: str | None) -> bool:
    """Whether a task runs the program that tfprov provides for its role."""
    if task.job in _OWN_MODULES:
        return any(word.text == _OWN_MODULES[task.job] for word in task.command)
    if task.job != "tensorboard":
        return False
    words = [word.text for word in task.command]
    pairs = {name.removeprefix("--"): value for name, value in zip(words[1::2], words[2::2], strict=False)}
    flags = pairs | {name: text.text for name, text in task.flags.items()}
    logs = flags.get("logdir", "")
    runs_tensorboard = len(words) % 2 == 1 and posixpath.basename(words[0]) == "tensorboard"
    others = set(flags) - {"logdir", "host", "port", "bind_all"}
    return runs_tensorboard and not others and (logs.startswith("/") or logs == directory)


def _flag(name: str, text: SourceText, directory: str | None) -> str | Template:
    is_directory = directory and name in _CHECKPOINT_FLAGS and text.text.rstrip("/") == directory
    return Template(TEMPLATE) if is_directory else text.text


def _command(words: Sequence[str], directory: str | None) -> list[str | Template]:
    named = {number: before for number, before, text in _checkpoint_words(words) if text.rstrip("/") == directory}
    return [Template(f"{named[number]}{TEMPLATE}") if number in named else word for number, word in enumerate(words)]


def _checkpoint_words(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the words that name a checkpoint directory: the number, what precedes the directory in it, the directory."""
    for number, word in enumerate(words):
        match = _CHECKPOINT_WORD.fullmatch(word)
        if match and match[2]:
            yield number, f"{match[1]}=", match[2]
        elif match and number + 1 < len(words):
            yield number + 1, "", words[number + 1]


def _directories(task: IdentifiedTask, directory: str | None, notes: Notes) -> Iterator[tuple[str, Setting]]:
    """Yield the directories: checkpoints, data, code and mounts."""
    at = task.source.at
    data = task.own_env.get("TFPROV_DATA_DIR")
    mounts = []
    for volume in task.source.volumes:
        target, where = volume.target.text.rstrip("/") or "/", volume.target.at
        source = f"{volume.nfs['server']}:{volume.nfs['path']}" if volume.nfs else volume.source
        if target == directory and source:
            what = "checkpoints are in storage of the task, and are gathered; those in there stay where they are"
            notes.drop(f"{source} at {target}", where, what)
        if target == directory or f"{target}/".startswith(f"{RUNTIME}/"):
            continue
        if volume.nfs:
            mounts.append((target, {"nfs": volume.nfs, "target": target, "read_only": volume.read_only}, where))
        elif volume.source is None:
            what = (
                f"the storage at {printable(target)} is not carried over: mount a directory of the host, with `mounts`"
            )
            notes.add(where, what)
        elif target == CODE and "TFPROV_TASK" in task.own_env:
            yield "code", Setting(volume.source, where)
        elif target == data:
            yield "data", Setting({"path": volume.source, "to": target}, where)
        else:
            mounts.append((target, {"source": volume.source, "target": target, "read_only": volume.read_only}, where))
    if mounts:
        yield "mounts", Setting(mounts, at)
    if directory and directory != Checkpoints().dir and task.job not in FEEDERS:
        yield "checkpoints", Setting({"dir": directory}, at)


def _note_differences(
    settings: dict[str, Setting], other: Mapping[str, Setting], task: IdentifiedTask, notes: Notes
) -> None:
    """Note the settings of a task that differ from the role's first task, which are used for all."""
    for name in dict.fromkeys([*settings, *other]):
        if name == "port" or without_positions(settings.get(name)) == without_positions(other.get(name)):
            continue
        at: Position = other[name].at if name in other else task.source.at
        what = f"{task.job}/{task.index or 0} has another `{name}` than the first {task.job}, which is used for all"
        notes.add(at, what)


def without_positions(setting: Setting | None) -> object:
    """Return a setting's value without positions, for comparison."""
    value = setting and setting.value
    return [entry[:2] if isinstance(entry, tuple) else entry for entry in value] if isinstance(value, list) else value


def wiring_of(tasks: Sequence[IdentifiedTask]) -> object:
    """Return the `wiring` setting: flags, with their names if they differ, or TF_CONFIG."""
    first = next((task for task in tasks if task.uses_flags), None)
    if first is None:
        return "tf_config"
    return {"flags": {flag: f"--{name}" for flag, name in first.flag_names.items()}} if first.flag_names else "flags"


def strategy_of(tasks: Sequence[IdentifiedTask]) -> str | None:
    """Return the strategy from the tasks' environment; None when it is not set or is the default."""
    strategies = {task.own_env[STRATEGY_VARIABLE] for task in tasks if STRATEGY_VARIABLE in task.own_env}
    return next(iter(strategies)) if len(strategies) == 1 and strategies <= {*BY_TF_CONFIG, "single"} else None
