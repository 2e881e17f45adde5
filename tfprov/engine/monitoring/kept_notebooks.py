"""The notebooks of Jupyter tasks that are removed, beside their logs: they are nowhere else.

    logs/RUN/notebook-INDEX/      the notebooks, Python files and Markdown files that were written there, by their paths
    logs/RUN/notebook-INDEX.TIME/ those of an earlier container of the task, which were kept at TIME

A task whose notebooks cannot be copied is not removed.
"""

import errno
import os
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tfprov.atomic_write import private_directory
from tfprov.engine.context import Context
from tfprov.engine.task_files import copy_from
from tfprov.errors import GatherError, HostError, TfprovError
from tfprov.formats.checkpoint import is_within
from tfprov.hosts.base import Runtime
from tfprov.model.state import Observation
from tfprov.planning.plan_text import format_count

JOB = "notebook"
_NOTEBOOK = ".ipynb"
_SUFFIXES = (_NOTEBOOK, ".py", ".md")
"""What people write in Jupyter; data and models, which a notebook can compute, are left out."""
_INSTALLED = ("site-packages", "dist-packages", "__pycache__")


def written_by_people(paths: Iterable[str]) -> list[str]:
    """Return the paths that people may have written in Jupyter: none in hidden directories or of installed packages."""
    return sorted(path for path in paths if path.endswith(_SUFFIXES) and not any(map(_is_left_out, path.split("/"))))


def _is_left_out(part: str) -> bool:
    return part.startswith(".") or part in _INSTALLED


def keep_notebooks(context: Context, observation: Observation, task: str, host: str) -> None:
    """Copy what was written in the notebook `task` on `host`, and report it; nothing for other tasks.

    Raises GatherError if that fails: then the task must not be removed.
    """
    run = next((one.run for one in observation.containers() if (one.task, one.host) == (task, host)), "")
    if context.logs is None or not run or task.partition("/")[0] != JOB:
        return
    runtime, to = context.runtimes[host], context.logs / run / task.replace("/", "-")
    try:
        kept = _notebooks(runtime, task)
        if kept and to.is_dir():  # a new notebook may well have an earlier one's name, such as Untitled.ipynb
            to.rename(f"{to}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(to.stat().st_mtime))}")
        for path, below in kept.items():
            _make_directories(context.logs, (to / below).parent)
            copy_from(runtime, task, path, to / below)
    except (TfprovError, OSError) as error:
        reason = f"{to}: {error.strerror}" if isinstance(error, OSError) else str(error)
        fix = "run this again, or remove it for good with `tfprov down --discard`"
        raise GatherError(f"{task} on {host} is kept, as its notebooks cannot be copied: {reason}", fix) from None
    if kept:
        context.report.note(
            f"{format_count(len(kept), 'file')} of {task} {'is' if len(kept) == 1 else 'are'} kept in {to}"
        )


def _notebooks(runtime: Runtime, task: str) -> dict[str, str]:
    """Return the paths to keep, and for each the path of its copy: below the working directory, which Jupyter shows."""
    files = runtime.outside.written(task, written_by_people)
    if not (written := [path for path, file in files.items() if not file.lasting]):
        return {}
    try:
        work = runtime.outside.tree(task, ".").path
    except HostError:  # the whole file system of a container
        work = "/nowhere"
    below = {path: str(PurePosixPath(path).relative_to(work)) for path in written if is_within(path, work)}
    # A Python file elsewhere belongs to a program that was installed.
    return below | {path: path[1:] for path in written if path not in below and path.endswith(_NOTEBOOK)}


def _make_directories(logs: Path, directory: Path) -> None:
    """Make a directory below that of the logs, for nobody but this user, as the logs are."""
    logs.parent.mkdir(parents=True, exist_ok=True)
    for path in reversed([directory, *directory.parents]):
        if path.is_relative_to(logs):
            private_directory(path)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
