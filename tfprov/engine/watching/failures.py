"""Why tasks have failed, told once: the one that failed first with its traceback, and each of the others in a line."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprov.engine.checkpoints.shards import explain_torn
from tfprov.engine.context import Context
from tfprov.engine.pools import pool
from tfprov.engine.watching.excerpt import excerpt, in_own_paths
from tfprov.engine.watching.known_causes import remedy, same_cause
from tfprov.errors import HostError, TaskFailed
from tfprov.hosts.crash import LINES, QUICK, from_outside, is_passing, last_words
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.text import counted, listed

_NAMED = 3
"""Tasks that are named when many failed with the same words."""
_READ = 16
"""Tasks whose logs are read: where more have failed, those that failed first."""


@dataclass(frozen=True)
class Failure:
    """A task that ended badly: its log's end in the user's paths, and the line in it that names the failure."""

    observed: Observed
    log: Sequence[str]
    words: str

    @property
    def is_consequence(self) -> bool:
        """Whether it may have failed only because another task did."""
        return is_passing(self.words)


def has_failed(observed: Observed) -> bool:
    """Whether a task has ended for good and badly."""
    return observed.state is not State.RUNNING and not observed.finished


def fallen(context: Context, seen: Observation) -> list[Observed]:
    """Return the tasks that have ended for good and badly, where they should run."""
    wanted = {(container.task.name, container.task.host) for container in context.wanted}
    return [
        one
        for one in seen.containers()
        if has_failed(one) and (one.task, one.host) in wanted and context.allows(one.host)
    ]


def failure(context: Context, tasks: Sequence[Observed], seen: Observation) -> TaskFailed:
    """Return the error for the failure of `tasks`: it names the one that failed first, and why.

    Those that failed as well, because of it or of the same thing, have a line each.
    """
    tasks = sorted(tasks, key=lambda one: (one.stopped, one.finished_at or float("inf")))[:_READ]
    with pool(min(context.forks, len(tasks))) as asking:
        failures = list(asking.map(lambda one: read_failure(context, one), tasks))
    first = min(failures, key=lambda one: (one.observed.stopped, one.is_consequence))
    others = [one for one in failures if one is not first]
    chief = next((one.observed for one in failures if one.observed.task == context.cluster.chief.name), None)
    code = chief.exit_code if chief is not None and chief.exit_code else 1
    return TaskFailed(first.observed.task, _what(context, first, seen), excerpt(first.log), code, _lines(first, others))


def read_failure(context: Context, observed: Observed) -> Failure:
    """Return why a task failed, as its log says it; without the log where its host is lost: the failure matters more."""
    try:
        log: Sequence[str] = list(context.runtimes[observed.host].logs(observed.task, tail=LINES))
    except HostError:
        log = ()
    log = [*map(own_paths(context, observed.task), log)]
    return Failure(observed, log, "" if observed.error or from_outside(observed.exit_code) else last_words(log))


def _what(context: Context, failed: Failure, seen: Observation) -> str:
    """Return how a task failed and what helps; of a chief also what no restart can mend."""
    observed = failed.observed
    torn = explain_torn(context, seen) if observed.task == context.cluster.chief.name else None
    if torn:
        return f"{ended(observed)}: {torn.removeprefix(f'{observed.task}: ')}"
    cure = remedy([failed.words])
    return f"{ended(observed)}; {cure}" if cure else ended(observed)


def _lines(first: Failure, others: Iterable[Failure]) -> list[str]:
    """Return a line for all that failed with the same words."""
    by_words: dict[tuple[str, str], list[Failure]] = {}
    for one in others:
        by_words.setdefault((one.observed.ending, same_cause(one.words)), []).append(one)
    return [
        f"{listed([one.observed.task for one in fallen], _NAMED)}: {_as_well(fallen[0], first)}"
        for fallen in by_words.values()
    ]


def _as_well(one: Failure, first: Failure) -> str:
    ending, words = one.observed.ending, one.words
    if (ending, same_cause(words)) == (first.observed.ending, same_cause(first.words)):
        return "the same error" if words or one.observed.error else f"{ending}, too"
    because = f" after {first.observed.task} had failed" if is_passing(words) else " as well"
    return f"{ending}{because}{f': {words}' if words else ''}"


def own_paths(context: Context, task: str) -> Callable[[str], str]:
    """Return what puts the paths of the user's `code:` into a line that `task` printed: it runs a copy."""
    container = context.container(task)
    directory = context.code.get((container.task.role, container.task.host)) if container is not None else None
    if container is None or directory is None:
        return lambda line: line
    return in_own_paths(task, _from_here(directory), in_container=container.box is not None)


def _from_here(directory: str) -> str:
    """Return the path as the user would write it: relative, where it lies below the working directory."""
    path, here = Path(os.path.abspath(directory)), Path.cwd()  # noqa: PTH100  links stay as the user wrote them
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def ended(observed: Observed) -> str:
    """Return how a task ended, and after how many restarts: one that fails again and again is at its limit."""
    after = f" after {counted(observed.restarts, 'restart')}" if observed.restarts else ""
    enough = " (the same error twice: not started again)" if observed.gave_up else ""
    ending = observed.ending.replace("could not start", f"could not start on {observed.host}", 1)
    return f"{ending}{after}{enough}"


def last_log(context: Context, task: str, host: str) -> Sequence[str]:
    """Return the last traceback, or the last lines, that a task printed; nothing when its host is lost."""
    try:
        return excerpt([*map(own_paths(context, task), context.runtimes[host].logs(task, tail=LINES))])
    except HostError:
        return ()


_TRAINS = ("chief", "worker")


def idle_end(context: Context, observed: Observed) -> str:
    """Return the line for a task that ended with 0 within seconds of its start and left nothing; told once, empty then."""
    place, job = (observed.task, observed.host), observed.task.partition("/")[0]
    if place in context.noted or not observed.finished or observed.restarts or job not in (*_TRAINS, "ps"):
        return ""
    seconds = (observed.finished_at or 0.0) - (observed.started_at or 0.0)
    if observed.started_at is None or seconds > QUICK or _has_left_files(context, observed):
        return ""
    context.noted.add(place)
    ask = "a ps has to serve until the training ends" if job == "ps" else "does its `command:` start the training?"
    return f"{observed.task} on {observed.host} ended with exit code 0, {seconds:.1f} s after its start: {ask}"


def _has_left_files(context: Context, observed: Observed) -> bool:
    try:
        return bool(context.runtimes[observed.host].files(observed.task))
    except HostError:
        return True
