"""Find and read files that a task of the process runtime wrote outside of its checkpoint directory."""

import errno
import io
import os
import posixpath
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from tfprov.errors import HostError, one_line, printable
from tfprov.formats.checkpoint import CACHES
from tfprov.hosts.base import File, OutsideFile, Pick, Tree
from tfprov.hosts.process.task_dir import TaskDir, os_errors


class SparseFile(io.FileIO):
    """An unbuffered file for reading. See SparseReader."""

    def hole(self) -> int:
        """See SparseReader. 0 on file systems without holes."""
        position = self.tell()
        try:
            data = os.lseek(self.fileno(), position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return 0
            data = os.fstat(self.fileno()).st_size  # a hole up to the end
        self.seek(position)
        return max(0, data - position)


_MAX_ENTRIES = 20_000
"""Entries read of a directory outside of the task's own, such as the home directory: a tenth of a second."""
_GRACE_SECONDS = 5.0
"""Seconds after the task's end within which a file counts as the task's: others write to a home directory as well."""
_MAX_NAMED_ENTRIES = 8
"""Entries of a working directory listed in an error."""
_ORDER_FILE = "order.json"
"""Identifies the directory of a task, which is not searched from a parent directory."""


class ProcessOutsideFiles:
    """See OutsideFiles. `task_dir` returns the directory of a task on this machine, the inventory's `host`."""

    def __init__(self, host: str, task_dir: Callable[[str], TaskDir]) -> None:
        self.host = host
        self._task_dir = task_dir

    @os_errors
    def written(self, task: str, pick: Pick) -> Mapping[str, OutsideFile]:
        """See OutsideFiles. Searches the home directory and directories of the command line up to a limit."""
        directory = self._task_dir(task)
        order = directory.read(_ORDER_FILE)
        if order is None:
            return {}
        since = (directory.path / _ORDER_FILE).stat().st_mtime - 1.0  # file systems round times
        until = ((directory.read("state.json") or {}).get("finished_at") or float("inf")) + _GRACE_SECONDS
        in_work, base = dict(_tree(directory.work)), str(directory.work)
        in_work_files = {
            path[len(base) + 1 :]: OutsideFile(*_size_and_time(status), lasting=False)
            for path, status in in_work.items()
        }
        shared = {
            path: status
            for directory_outside in _candidate_directories(order, directory)
            for path, status in _search_directory(directory_outside)
        }
        lasting_files = {path: OutsideFile(*_size_and_time(status), lasting=True) for path, status in shared.items()}
        return {
            **{name: in_work_files[name] for name in pick(in_work_files) if in_work_files[name].modified >= since},
            **{
                name: lasting_files[name]
                for name in pick(lasting_files)
                if since <= lasting_files[name].modified <= until
            },
        }

    @os_errors
    def tree(self, task: str, path: str) -> Tree:
        """See OutsideFiles. Only the working directory: other files are on this machine already."""
        work = self._task_dir(task).work
        top = os.path.normpath(work / path)
        if not Path(os.path.realpath(top)).is_relative_to(os.path.realpath(work)):
            what = f"{printable(path)} is not in the working directory of {task}"
            raise HostError(self.host, what, f"copy {one_line(top)} yourself")
        if not os.path.lexists(top):
            names = sorted(entry.name for entry in work.iterdir()) if work.is_dir() else []
            fix = f"there is {', '.join(map(printable, names[:_MAX_NAMED_ENTRIES]))}" if names else "it is empty"
            what = f"no such file or directory in the working directory of {task}: {printable(path)}"
            raise HostError(self.host, what, fix)
        return Tree(posixpath.relpath(top, work), self._files(top))

    def _files(self, top: str) -> Iterator[tuple[str, File, BinaryIO]]:
        base = Path(top)
        for path, status in sorted(_tree(base) if base.is_dir() else [(top, base.lstat())]):
            if stat.S_ISREG(status.st_mode):
                with self._open(path) as file:
                    yield os.path.relpath(path, base) if path != top else "", File(*_size_and_time(status)), file

    @os_errors
    def _open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, SparseFile(path))


def _size_and_time(status: os.stat_result) -> tuple[int, float]:
    return status.st_size, status.st_mtime


def _tree(base: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every regular file below `base`, without following links."""
    for parent, _, names in os.walk(base):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118  pathlib is slow for many files
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status


def _candidate_directories(order: Mapping[str, Any], directory: TaskDir) -> Iterator[Path]:
    """Yield directories outside of the task's own to which its program may have written."""
    arguments = [argument.partition("=")[2] or argument for argument in order.get("argv", ())]
    home = order.get("env", {}).get("HOME", "")
    for directory_outside in dict.fromkeys([*arguments, home]):
        if (
            directory_outside.startswith("/")
            and Path(directory_outside).is_dir()
            and not Path(directory_outside).is_relative_to(directory.path)
        ):
            yield Path(directory_outside)


def _search_directory(base: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield regular files below `base`, breadth first, until `_MAX_ENTRIES` entries have been read."""
    waiting, remaining = deque([base]), _MAX_ENTRIES
    while waiting and remaining > 0:
        try:
            entries = list(os.scandir(waiting.popleft()))
        except OSError:  # not readable, or removed meanwhile
            continue
        remaining -= len(entries)
        if any(entry.name == _ORDER_FILE for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in CACHES:
                waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue
