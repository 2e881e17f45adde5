"""Reports why tasks failed: the first failure with its traceback, and each of the others in one line."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprov.engine.checkpoints.shards import explain_torn
from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.errors import HostError, TaskFailed
from tfprov.hosts.crash import LINES as SEARCHED_LINES
from tfprov.hosts.crash import QUICK, exception_at, is_ended_externally, is_transient, last_words, shorten_tensors
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.plan_text import format_count, join_names

_WIRING = (
    "tfprov appends these flags: `wiring: tf_config` leaves them out, and `wiring: {flags: {…}}` calls them otherwise"
)
_FLAGS = "the program knows no such flag: see `flags:`, `command:` and `wiring:` in the inventory"
_LEGACY_KERAS = 'the program needs Keras 2: install tf-keras where it runs and set `env: {TF_USE_LEGACY_KERAS: "1"}`'
_ESTIMATOR = "estimators left TensorFlow with 2.16: run it with TensorFlow 2.15 or older"
_TF1 = (
    "the program is written for TensorFlow 1: `import tensorflow.compat.v1 as tf` instead, or run it with TensorFlow 1"
)
_TENSORFLOW = (
    "install it where the task runs: `pip install 'tfprov[tensorflow]'`, "
    "or `RUN pip install tensorflow` in the Dockerfile"
)
_RUNTIME = "the image has tfprov's runtime only with `code`: set `code`, or add `pip install tfprov` to the image"
_MODULE = "install the module where the task runs: with pip, or with a line in the Dockerfile"
_SCRIPT = "`command:` names a script that `code:` does not have"
_COMMAND_MODULE = "`command:` names a module that neither `code:` nor the Python of the task has"
_READY = (
    "a program that serves on no port needs `ready: start`, and one that takes longer to serve a larger `start_timeout`"
)
_PORT = "another program has the port: end it, or choose another `port`"
_LINK = (
    "a relative directory is another one for each task: `checkpoints: {link: DIRECTORY}` leads it to the checkpoint "
    "directory"
)
_SHM = "raise `shm_size` of its container, whose /dev/shm is full; without a container, make room there"
_ROOM = "make room on the disk of its host"

_NAMES = r"(?:job_name|task_index|ps_hosts|worker_hosts)"
KNOWN_CAUSES: tuple[tuple[str, str], ...] = (
    (rf"unrecognized arguments: .*--{_NAMES}", _WIRING),
    (rf"Unknown command line flag '{_NAMES}'", _WIRING),
    (rf"[Nn]o such option:? '?--{_NAMES}", _WIRING),
    (r"unrecognized arguments: ", _FLAGS),
    (r"Unknown command line flag ", _FLAGS),
    (r"[Nn]o such option:? '?--", _FLAGS),
    (r"PerReplica", _LEGACY_KERAS),
    (r"\breset_states\b", _LEGACY_KERAS),
    (r"Keras 3", _LEGACY_KERAS),
    (r"module 'tensorflow[\w.]*' has no attribute 'estimator'", _ESTIMATOR),
    (r"No module named 'tensorflow_estimator'", _ESTIMATOR),
    (r"module 'tensorflow' has no attribute '(?:contrib|app|placeholder|Session|train|flags|get_variable)'", _TF1),
    (r"No module named 'tensorflow\.contrib", _TF1),
    (r"No module named 'tensorflow'", _TENSORFLOW),
    (r"No module named '?tfprov\b", _RUNTIME),
    (r"No module named '", _MODULE),
    (r"can't open file '", _SCRIPT),
    (r"\bpython[\d.]*: No module named ", _COMMAND_MODULE),
    (r"does not serve on ", _READY),
    (r"[Aa]ddress already in use", _PORT),
    (r"/dev/shm\b|\bBus error\b|out of shared memory", _SHM),  # noqa: S108  a pattern
    (r"No space left on device", _ROOM),
    (r"NotFoundError.*[ :](?!/)[\w.-]+/[^\s;]*model\.ckpt\S*; No such file or directory", _LINK),
)
"""Regular expressions for the line that names a failure, each with its remedy; the first match counts."""


def same_cause(words: str) -> str:
    """Return the failure without the values of flags, which differ between tasks that failed for the same reason."""
    return words.partition("=")[0] if "arguments: --" in words else words


def remedy(lines: Iterable[str]) -> str:
    """Return the remedy for the failure that `lines` name; empty for an unknown cause."""
    text = tuple(lines)
    return next((cure for pattern, cure in KNOWN_CAUSES if any(re.search(pattern, line) for line in text)), "")


LINES = 20
"""Lines that are shown of a log without a traceback, and of what follows the exception's line in one with."""
_WHOLE = 120
"""How many lines of a traceback are shown; a longer one loses its middle."""
_HEAD = 20
"""Lines before what is left out."""
_LONGEST = 300
"""Characters of a line that are shown; TensorFlow prints whole tensors in one."""
_VALUES = 3
"""Lines of nothing but values that are shown as they are; of more only the first."""
_NUMERIC = re.compile(r"[\d\s\[\](){},.:+\-]|e[+-]\d|nan|inf")
_BEGINS = re.compile(r"[\d\[({.+\-]|nan|inf")
_MOSTLY = 0.8


def excerpt(lines: Sequence[str]) -> list[str]:
    """Return the last traceback in `lines`, with the exceptions that led to it, or else the last lines; shortened."""
    where = exception_at(lines)
    if where is None:
        return _once(shortened(lines))[-LINES:]
    begin, at = where
    shown = [*shortened(lines[begin : at + 1]), *shortened(lines[at + 1 :])[:LINES]]
    if len(shown) <= _WHOLE:
        return shown
    left_out = len(shown) - _WHOLE
    return [*shown[:_HEAD], f"… ({left_out} lines left out)", *shown[_HEAD + left_out :]]


def shortened(lines: Sequence[str]) -> list[str]:
    """Return `lines` without the values of tensors: a block of them keeps its first line, a long line its begin."""
    return [_cut(shorten_tensors(line)) for line in _without_values(lines)]


def _once(lines: list[str]) -> list[str]:
    """Return `lines` without the repetition at their end: a restarted task prints the same again."""
    for size in range(1, min(LINES, len(lines) // 2) + 1):
        while lines[-size:] == lines[-2 * size : -size]:
            lines = lines[:-size]
    return lines


def _cut(line: str) -> str:
    more = len(line) - _LONGEST
    return line if more <= 0 else f"{line[:_LONGEST]}… ({format_count(more, 'more character')})"


def _without_values(lines: Sequence[str]) -> Iterator[str]:
    block: list[str] = []
    for line in lines:
        if _is_values(line):
            block.append(line)
            continue
        yield from _condensed(block)
        block = []
        yield line
    yield from _condensed(block)


def _condensed(block: list[str]) -> list[str]:
    return block if len(block) <= _VALUES else [block[0], f"… ({len(block) - 1} lines of values)"]


def _is_values(line: str) -> bool:
    text = line.strip()
    numeric = sum(len(match[0]) for match in _NUMERIC.finditer(text))
    return bool(_BEGINS.match(text)) and any(c.isdigit() for c in text) and numeric >= _MOSTLY * len(text)


def in_own_paths(task: str, directory: str, *, in_container: bool) -> Callable[[str], str]:
    """Return what puts the user's `directory` into a line, in place of the copy of it that `task` runs."""
    work = rf"[^\s\"'(]*/tasks/{re.escape(task.replace('/', '-'))}/work"
    copy = re.compile(r"(?<![\w./-])/code(?=/)" if in_container else rf"{work}(?=/)")
    return lambda line: copy.sub(lambda _: directory, line)


_NAMED = 3
"""How many tasks are named if many failed with the same message."""
_READ = 16
"""How many logs are read if many tasks failed: those of the first failures."""


@dataclass(frozen=True)
class Failure:
    """A task that ended badly: its log's end in the user's paths, and the line in it that names the failure."""

    observed: Observed
    log: Sequence[str]
    words: str

    @property
    def is_consequence(self) -> bool:
        """Whether the failure may be a consequence of another task's failure."""
        return is_transient(self.words)


def has_failed(observed: Observed) -> bool:
    """Whether a task failed and will not be restarted."""
    return observed.state is not State.RUNNING and not observed.finished


def failed_tasks(context: Context, observation: Observation) -> list[Observed]:
    """Return the tasks that failed on their assigned hosts, also outside of the limit, and will not be restarted."""
    wanted = {(container.task.name, container.task.host) for container in context.wanted}
    return [one for one in observation.containers() if has_failed(one) and (one.task, one.host) in wanted]


def failure(context: Context, tasks: Sequence[Observed], observation: Observation) -> TaskFailed:
    """Return the error for the failure of `tasks`: the first one with its cause, and one line for each other message."""
    chief = next((one for one in tasks if one.task == context.cluster.chief.name), None)
    tasks = sorted(tasks, key=lambda one: (one.stopped, one.finished_at or float("inf")))[:_READ]
    with pool(min(context.forks, len(tasks))) as asking:
        failures = list(asking.map(lambda one: read_failure(context, one), tasks))
    first = min(failures, key=lambda one: (one.observed.stopped, one.is_consequence))
    others = [one for one in failures if one is not first]
    code = chief.exit_code if chief is not None and chief.exit_code else 1
    return TaskFailed(
        first.observed.task, _what(context, first, observation), excerpt(first.log), code, _lines(first, others)
    )


def read_failure(context: Context, observed: Observed) -> Failure:
    """Return why a task failed, from the end of its log; with an empty log if its host is lost."""
    try:
        log: Sequence[str] = list(context.runtimes[observed.host].logs(observed.task, tail=SEARCHED_LINES))
    except HostError:
        log = ()
    log = [*map(own_paths(context, observed.task), log)]
    return Failure(observed, log, "" if observed.error or is_ended_externally(observed.exit_code) else last_words(log))


def _what(context: Context, failed: Failure, observation: Observation) -> str:
    """Return how a task failed, and the remedy; for a chief also failures that no restart can repair."""
    observed = failed.observed
    torn = explain_torn(context, observation) if observed.task == context.cluster.chief.name else None
    if torn:
        return f"{ended(observed)}: {torn.removeprefix(f'{observed.task}: ')}"
    cure = remedy([failed.words])
    return f"{ended(observed)}; {cure}" if cure else ended(observed)


def _lines(first: Failure, others: Iterable[Failure]) -> list[str]:
    """Return one line for all tasks that failed with the same message."""
    by_words: dict[tuple[str, str], list[Failure]] = {}
    for one in others:
        by_words.setdefault((one.observed.ending, same_cause(one.words)), []).append(one)
    return [
        f"{join_names([one.observed.task for one in group], _NAMED)}: {_as_well(group[0], first)}"
        for group in by_words.values()
    ]


def _as_well(one: Failure, first: Failure) -> str:
    ending, words = one.observed.ending, one.words
    if (ending, same_cause(words)) == (first.observed.ending, same_cause(first.words)):
        return "the same error" if words or one.observed.error else f"{ending}, too"
    because = f" after {first.observed.task} had failed" if is_transient(words) else " as well"
    return f"{ending}{because}{f': {words}' if words else ''}"


def own_paths(context: Context, task: str) -> Callable[[str], str]:
    """Return a function that replaces the paths of the task's code copy in a line by those of the user's `code:`."""
    container = context.container(task)
    directory = context.code.get((container.task.role, container.task.host)) if container is not None else None
    if container is None or directory is None:
        return lambda line: line
    return in_own_paths(task, _from_here(directory), in_container=container.docker is not None)


def _from_here(directory: str) -> str:
    """Return the path as the user would write it: relative, where it lies below the working directory."""
    path, here = Path(os.path.abspath(directory)), Path.cwd()  # noqa: PTH100  links stay as the user wrote them
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def ended(observed: Observed) -> str:
    """Return how a task ended, and after how many restarts."""
    after = f" after {format_count(observed.restarts, 'restart')}" if observed.restarts else ""
    enough = " (the same error twice: not started again)" if observed.gave_up else ""
    ending = observed.ending.replace("could not start", f"could not start on {observed.host}", 1)
    return f"{ending}{after}{enough}"


def last_log(context: Context, task: str, host: str) -> Sequence[str]:
    """Return the last traceback, or the last lines, that a task printed; nothing when its host is lost."""
    try:
        return excerpt([*map(own_paths(context, task), context.runtimes[host].logs(task, tail=SEARCHED_LINES))])
    except HostError:
        return ()


_TRAINS = ("chief", "worker")


def idle_end(context: Context, observed: Observed) -> str:
    """Return a note for a task that ended with 0 within seconds and without files; empty if not, or if noted before."""
    place, job = (observed.task, observed.host), observed.task.partition("/")[0]
    if place in context.noted or not observed.finished or observed.restarts or job not in (*_TRAINS, "ps"):
        return ""
    began, ended = observed.started_at, observed.finished_at
    if began is None or ended is None or ended - began > QUICK or _has_left_files(context, observed):
        return ""
    context.noted.add(place)
    ask = "a ps has to serve until the training ends" if job == "ps" else "does its `command:` start the training?"
    return f"{observed.task} on {observed.host} ended with exit code 0, {ended - began:.1f} s after its start: {ask}"


def _has_left_files(context: Context, observed: Observed) -> bool:
    try:
        return bool(context.runtimes[observed.host].files(observed.task))
    except HostError:
        return True
