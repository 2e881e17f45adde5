"""Identifies a task: its job and index, and its program, from its command line and environment."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfprov.errors import Position, Problem, printable
from tfprov.model.inventory import ROLES
from tfprov.vault.redaction import is_secret_name
from tfprov.wiring import FLAGS, FLAGS_VARIABLE, Wiring, WiringError, from_flags, from_names, from_tf_config


@dataclass(frozen=True)
class SourceText:
    """A text with its position in the foreign file."""

    text: str
    at: Position


@dataclass(frozen=True)
class Setting:
    """The value of an inventory's setting, with its position in the foreign file."""

    value: object
    at: Position


@dataclass(frozen=True)
class Volume:
    """A mount of a container: `source` is a directory of the host, None for a volume of the engine."""

    target: SourceText
    source: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class ForeignTask:
    """A service or object that may be a task, or `count` tasks.

    `job` is set where the file names it outside the command line. `settings` have the names of an inventory's settings;
    `host` is the node it is pinned to, `group` the name of the project or job.
    """

    name: str
    at: Position
    group: str
    count: int
    job: str | None = None
    index: int | None = None
    image: Setting | None = None
    argv: tuple[SourceText, ...] = ()
    env: Mapping[str, SourceText] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict)
    host: SourceText | None = None


@dataclass(frozen=True)
class DroppedKey:
    """A part of the file that is not carried over: its position, and the reason or the fix."""

    at: Position
    what: str

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


class Notes:
    """Collects the notes on what is not carried over, each once, and the problems that prevent the import."""

    def __init__(self) -> None:
        self._notes: dict[DroppedKey, None] = {}
        self.problems: list[Problem] = []

    def add(self, at: Position, what: str) -> None:
        """Add a note."""
        self._notes[DroppedKey(at, what)] = None

    def drop(self, key: str, at: Position, why: str = "an inventory has no such setting") -> None:
        """Note that `key` is not carried over."""
        self.add(at, f"`{printable(key)}` is not carried over: {why}")

    def refuse(self, at: Position, what: str, fix: str) -> None:
        """Add a problem that prevents the import."""
        self.problems.append(Problem(at, what, fix))

    def all(self) -> tuple[DroppedKey, ...]:
        """Return the notes in the order of the file."""
        return tuple(sorted(self._notes, key=lambda note: note.at))


@dataclass(frozen=True)
class TargetHost:
    """A host for the tasks: name, user and port for SSH."""

    name: str
    user: str | None = None
    port: int | None = None


CHECKPOINT_DIR = "TFPROV_CHECKPOINT_DIR"
_OWN_VARIABLE = re.compile(r"TFPROV_.*|TF_CONFIG")
_BY_NAME = re.compile(
    r"(?:.*[-_])??(ps|data[-_]worker|worker|chief|master|evaluator|tensorboard|serving|notebook|dispatcher)(?:[-_]?([0-9]{1,5}))?"
)
_FLAG = re.compile(r"--([A-Za-z][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_SECRET = re.compile(
    r"(?:^|.*[_.-])(?:pass(?:word|wd|phrase)?|secret|token|(?:api|access|private|secret)_?key)",
    re.IGNORECASE | re.DOTALL,
)
_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@", re.IGNORECASE)
_JOB_NAMES = {"master": "chief", "data-worker": "data_worker"}


@dataclass(frozen=True)
class IdentifiedTask:
    """A task with its `job`, its `index` if the file has it, and the cluster of its wiring.

    `command` and `flags` are its program without the wiring; `env` is its environment without TF_CONFIG and tfprov's own
    variables, which are in `own_env`. `uses_flags`: the wiring is on the command line, under the names `flag_names`.
    """

    source: ForeignTask
    job: str
    index: int | None
    cluster: Mapping[str, Sequence[str]]
    uses_flags: bool
    flag_names: Mapping[str, str]
    command: tuple[SourceText, ...]
    flags: Mapping[str, SourceText]
    env: Mapping[str, SourceText]
    own_env: Mapping[str, str]


def identify(task: ForeignTask, notes: Notes) -> IdentifiedTask | None:
    """Identify the task of a service or an object; None, with a note, when it is no task."""
    own_env = {name: text.text for name, text in task.env.items() if _OWN_VARIABLE.fullmatch(name)}
    flag_names = _flag_names(own_env)
    flags_wiring = _wiring_from_flags(task, flag_names, notes)
    wiring = flags_wiring or _wiring_from_tf_config(task, notes)
    job, index = (wiring.job, wiring.index) if wiring else _identify_by_name(task, own_env)
    if job not in ROLES:
        why = (
            f"tfprov has no role `{printable(job)}`"
            if job
            else "neither its command line nor TF_CONFIG says that it is a task"
        )
        notes.add(task.at, f"`{printable(task.name)}` is not carried over: {why}")
        return None
    argv = _without_wiring(task.argv, flag_names)
    command, flags = _split(argv)
    return IdentifiedTask(
        source=task,
        job=job,
        index=index,
        cluster=wiring.cluster if wiring else {},
        uses_flags=flags_wiring is not None,
        flag_names=flag_names,
        command=command,
        flags=dict(_without_secrets("flags", flags, notes)),
        env=dict(
            _without_secrets("env", {name: text for name, text in task.env.items() if name not in own_env}, notes)
        ),
        own_env=own_env,
    )


def _flag_names(own_env: Mapping[str, str]) -> dict[str, str]:
    try:
        return from_names(own_env[FLAGS_VARIABLE])
    except (KeyError, WiringError):
        return {}


def _wiring_from_flags(task: ForeignTask, flag_names: Mapping[str, str], notes: Notes) -> Wiring | None:
    index = f"--{flag_names.get('task_index', 'task_index')}=$("
    try:  # an index from a variable stands for all tasks
        words = [f"{index.rstrip('$(')}0" if word.text.startswith(index) else word.text for word in task.argv]
        return from_flags(words, flag_names)
    except WiringError as error:
        notes.refuse(task.at, f"`{printable(task.name)}`: {error}", "correct its flags")
        return None


def _wiring_from_tf_config(task: ForeignTask, notes: Notes) -> Wiring | None:
    text = task.env.get("TF_CONFIG")
    if text is None:
        return None
    try:
        return from_tf_config(_with_numeric_index(text.text))
    except WiringError as error:
        notes.refuse(text.at, str(error), "correct it")
        return None


def _with_numeric_index(text: str) -> str:
    """Return TF_CONFIG with the index as a number: some launchers write it as text, which TensorFlow misreads."""
    try:
        config = json.loads(text)
        index = config["task"]["index"]
        if isinstance(index, str) and index.isdecimal():
            config["task"]["index"] = int(index)
            return json.dumps(config)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return text


def _identify_by_name(foreign: ForeignTask, own_env: Mapping[str, str]) -> tuple[str, int | None]:
    """Return job and index from TFPROV_TASK, labels or the name, for a task without wiring."""
    if "TFPROV_TASK" in own_env:
        job, _, number = own_env["TFPROV_TASK"].partition("/")
        if job in ROLES and number.isdecimal():
            return job, int(number)
    if foreign.job:
        return _JOB_NAMES.get(foreign.job, foreign.job), foreign.index
    match = _BY_NAME.fullmatch(foreign.name)
    if match is None:
        return "", None
    return _JOB_NAMES.get(match[1], match[1]), int(match[2]) if match[2] else None


def _without_wiring(words: Sequence[SourceText], flag_names: Mapping[str, str]) -> list[SourceText]:
    wiring_flags = {flag_names.get(flag, flag) for flag in FLAGS}
    kept: list[SourceText] = []
    skip = False
    for word in words:
        name, equals, _ = word.text.lstrip("-").partition("=")
        if skip:
            skip = False
        elif word.text.startswith("-") and name in wiring_flags:
            skip = not equals
        else:
            kept.append(word)
    return kept


def _split(words: Sequence[SourceText]) -> tuple[tuple[SourceText, ...], dict[str, SourceText]]:
    """Split off the flags at the end of the command line that have a value and occur once."""
    end = len(words)
    flags: dict[str, SourceText] = {}
    while end > 1 and (match := _FLAG.fullmatch(words[end - 1].text)) and match[1] not in flags:
        flags[match[1]] = SourceText(match[2], words[end - 1].at)
        end -= 1
    return tuple(words[:end]), dict(reversed(flags.items()))


def _without_secrets(where: str, texts: Mapping[str, SourceText], notes: Notes) -> Iterator[tuple[str, SourceText]]:
    """Yield the texts that do not look like secrets; add a note for each other one."""
    for name, text in texts.items():
        has_secret_name = _SECRET.fullmatch(name) or (where == "env" and is_secret_name(name))
        is_secret = has_secret_name and text.text and not text.text.startswith("/")
        if is_secret or _WITH_PASSWORD.search(text.text):
            fix = "add it to `env` as `ansible-vault encrypt_string` prints it"
            notes.add(text.at, f"`{where}.{printable(name)}` looks like a secret and is not copied: {fix}")
        else:
            yield name, text
