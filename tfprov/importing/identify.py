"""Identifies a task: its job and index, and its program, from its command line and environment."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfprov.errors import Position, Problem, printable
from tfprov.model.inventory import ROLES
from tfprov.wiring import FLAGS, FLAGS_VARIABLE, Wiring, WiringError, from_flags, from_names, from_tf_config


@dataclass(frozen=True)
class SourceText:
    """A text with its position."""

    text: str
    at: Position


@dataclass(frozen=True)
class Setting:
    """The value of an inventory's setting, with its position in the foreign file."""

    value: object
    at: Position


@dataclass(frozen=True)
class Volume:
    """A place in a container: `source` is the directory of the machine that is there, None for storage of the engine's."""

    target: SourceText
    source: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class ForeignTask:
    """What may be a task, or `count` of them, as one service or one object says it.

    `job` is its job where something besides its command line says so; `settings` are by the name they have in an
    inventory, `host` is the machine it is kept on, and `group` what all of them together are called.
    """

    name: str
    at: Position
    group: str = ""
    job: str | None = None
    index: int | None = None
    count: int = 1
    image: Setting | None = None
    words: tuple[SourceText, ...] = ()
    env: Mapping[str, SourceText] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    host: SourceText | None = None


@dataclass(frozen=True)
class Note:
    """Something that is not carried over: where it stands, and why, or what to do."""

    at: Position
    what: str

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


class Notes:
    """What is not carried over, each thing once, in the order of the file."""

    def __init__(self) -> None:
        self._found: dict[Note, None] = {}
        self.problems: list[Problem] = []

    def add(self, at: Position, what: str) -> None:
        """Note something."""
        self._found[Note(at, what)] = None

    def left(self, key: str, at: Position, why: str = "an inventory has no word for it") -> None:
        """Note that what is called `key` is not carried over."""
        self.add(at, f"`{printable(key)}` is not carried over: {why}")

    def refuse(self, at: Position, what: str, fix: str) -> None:
        """Note what keeps the file from being imported at all."""
        self.problems.append(Problem(at, what, fix))

    def all(self) -> tuple[Note, ...]:
        """Return what was noted."""
        return tuple(sorted(self._found, key=lambda note: note.at))


@dataclass(frozen=True)
class Machine:
    """A machine as SSH names it, for the tasks to run on."""

    name: str
    user: str | None = None
    port: int | None = None


CHECKPOINT_DIR = "TFPROV_CHECKPOINT_DIR"
_OURS = re.compile(r"TFPROV_.*|TF_CONFIG")
_BY_NAME = re.compile(
    r"(?:.*[-_])??(ps|data[-_]worker|worker|chief|master|evaluator|tensorboard|dispatcher)(?:[-_]?([0-9]{1,5}))?"
)
_FLAG = re.compile(r"--([A-Za-z][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_SECRET = re.compile(
    r"(?:^|.*[_.-])(?:pass(?:word|wd|phrase)?|secret|token|(?:api|access|private|secret)_?key)",
    re.IGNORECASE | re.DOTALL,
)
_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@", re.IGNORECASE)
_WORDS = {"master": "chief", "data-worker": "data_worker"}


@dataclass(frozen=True)
class IdentifiedTask:
    """A task that is known for one: `job`, `index` if it is said, and the cluster as it was told.

    `command` and `flags` are its program without the wiring, `env` its environment without tfprov's own variables,
    which are `ours`. `by_flags` says that its command line has the wiring, and `names` what those flags are called.
    """

    source: ForeignTask
    job: str
    index: int | None
    cluster: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_flags: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    command: tuple[SourceText, ...] = ()
    flags: Mapping[str, SourceText] = field(default_factory=dict)
    env: Mapping[str, SourceText] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str) -> Setting | None:
        """Return what was said of a setting."""
        return self.source.settings.get(name)


def told(task: ForeignTask, notes: Notes) -> IdentifiedTask | None:
    """Return what a service or an object says of its task; None, and a note, where it is no task."""
    ours = {name: text.text for name, text in task.env.items() if _OURS.fullmatch(name)}
    names = _names(ours.get(FLAGS_VARIABLE, ""))
    by_flags = _by_flags(task, names, notes)
    wiring = by_flags or _by_config(task, notes)
    job, index = (wiring.job, wiring.index) if wiring else _by_name(task, ours.get("TFPROV_TASK", ""))
    if job not in ROLES:
        why = (
            f"no role is like `{printable(job)}`"
            if job
            else "neither its command line nor TF_CONFIG says that it is a task"
        )
        notes.add(task.at, f"`{printable(task.name)}` is not carried over: {why}")
        return None
    words = _without_wiring(task.words, names)
    command, flags = _split(words)
    return IdentifiedTask(
        source=task,
        job=job,
        index=index,
        cluster=wiring.cluster if wiring else {},
        by_flags=by_flags is not None,
        names=names,
        command=command,
        flags=dict(_open("flags", flags, notes)),
        env=dict(_open("env", {name: text for name, text in task.env.items() if name not in ours}, notes)),
        ours=ours,
    )


def _names(text: str) -> dict[str, str]:
    try:
        return from_names(text)
    except WiringError:
        return {}


def _by_flags(task: ForeignTask, names: Mapping[str, str], notes: Notes) -> Wiring | None:
    index = f"--{names.get('task_index', 'task_index')}=$("
    try:  # an index that is known only when the task runs stands for all of them
        words = [f"{index.rstrip('$(')}0" if word.text.startswith(index) else word.text for word in task.words]
        return from_flags(words, names)
    except WiringError as error:
        notes.refuse(task.at, f"`{printable(task.name)}`: {error}", "correct its flags")
        return None


def _by_config(task: ForeignTask, notes: Notes) -> Wiring | None:
    text = task.env.get("TF_CONFIG")
    if text is None:
        return None
    try:
        return from_tf_config(_with_number(text.text))
    except WiringError as error:
        notes.refuse(text.at, str(error), "correct it")
        return None


def _with_number(text: str) -> str:
    """Return a TF_CONFIG whose index is a number: launchers have written it as text, which TensorFlow takes for another."""
    try:
        config = json.loads(text)
        index = config["task"]["index"]
        if isinstance(index, str) and index.isdecimal():
            config["task"]["index"] = int(index)
            return json.dumps(config)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return text


def _by_name(found: ForeignTask, task: str) -> tuple[str, int | None]:
    """Return who a task is by what it is called, where nothing tells it."""
    job, _, number = task.partition("/")
    if job in ROLES and number.isdecimal():
        return job, int(number)
    if found.job:
        return _WORDS.get(found.job, found.job), found.index
    named = _BY_NAME.fullmatch(found.name)
    if named is None:
        return "", None
    return _WORDS.get(named[1], named[1]), int(named[2]) if named[2] else None


def _without_wiring(words: Sequence[SourceText], names: Mapping[str, str]) -> list[SourceText]:
    told_by = {names.get(flag, flag) for flag in FLAGS}
    kept: list[SourceText] = []
    skip = False
    for word in words:
        name, equals, _ = word.text.lstrip("-").partition("=")
        if skip:
            skip = False
        elif word.text.startswith("-") and name in told_by:
            skip = not equals
        else:
            kept.append(word)
    return kept


def _split(words: Sequence[SourceText]) -> tuple[tuple[SourceText, ...], dict[str, SourceText]]:
    """Return the command, and the flags behind it: those at its end that have a value, each once."""
    end = len(words)
    flags: dict[str, SourceText] = {}
    while end > 1 and (match := _FLAG.fullmatch(words[end - 1].text)) and match[1] not in flags:
        flags[match[1]] = SourceText(match[2], words[end - 1].at)
        end -= 1
    return tuple(words[:end]), dict(reversed(flags.items()))


def _open(where: str, texts: Mapping[str, SourceText], notes: Notes) -> Iterator[tuple[str, SourceText]]:
    """Yield what is no secret; what looks like one is told, and not copied."""
    for name, one in texts.items():
        is_secret = _SECRET.fullmatch(name) and one.text and not one.text.startswith("/")
        if is_secret or _WITH_PASSWORD.search(one.text):
            fix = "add it to `env` as `ansible-vault encrypt_string` prints it"
            notes.add(one.at, f"`{where}.{printable(name)}` looks like a secret and is not copied: {fix}")
        else:
            yield name, one
