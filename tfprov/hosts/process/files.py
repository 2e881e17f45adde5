"""What a task of the process runtime has written outside of its checkpoint directory."""

import errno
import io
import os
import posixpath
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.formats.checkpoint import CACHES, model_files
from tfprov.hosts.base import File, Tree, Written
from tfprov.hosts.process.task_dir import TaskDir, mapped


class SparseFile(io.FileIO):
    """A file that is open for reading, without a buffer: its place is that of the kernel. See Sparse."""

    def hole(self) -> int:
        """See Sparse. A file system that keeps no holes has none."""
        here = self.tell()
        try:
            data = os.lseek(self.fileno(), here, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return 0
            data = os.fstat(self.fileno()).st_size  # nothing but a hole up to the end
        self.seek(here)
        return max(0, data - here)


_ENTRIES = 20_000
"""Entries that are read of a directory which is not the task's own, such as the home directory: a tenth of a second."""
_LATE = 5.0
"""Seconds after its task's end in which a file still counts as the task's: others write into a home directory as well."""
_NAMED = 8
"""Entries of a working directory that an error names."""
_TASK = "order.json"
"""Marks the directory of a task, which is never searched from above."""


class ProcessOutside:
    """See Outside; `task_dir` returns the directory of a task on this machine, which the inventory calls `host`."""

    def __init__(self, host: str, task_dir: Callable[[str], TaskDir]) -> None:
        self.host = host
        self._task_dir = task_dir

    @mapped
    def models(self, task: str) -> Mapping[str, Written]:
        """See Outside. The home directory, and directories that the command line names, are searched in part."""
        directory = self._task_dir(task)
        ordered = directory.read(_TASK)
        if ordered is None:
            return {}
        since = (directory.path / _TASK).stat().st_mtime - 1.0  # file systems round
        until = ((directory.read("state.json") or {}).get("finished_at") or float("inf")) + _LATE
        own, base = dict(_tree(directory.work)), str(directory.work)
        kept = {path[len(base) + 1 :]: Written(*_file(status), lasting=False) for path, status in own.items()}
        shared = {path: status for place in _places(ordered, directory) for path, status in _nearby(place)}
        stays = {path: Written(*_file(status), lasting=True) for path, status in shared.items()}
        return {
            **{name: kept[name] for name in model_files(kept) if kept[name].modified >= since},
            **{name: stays[name] for name in model_files(stays) if since <= stays[name].modified <= until},
        }

    @mapped
    def tree(self, task: str, path: str) -> Tree:
        """See Outside. Only what lies in the working directory: all else stays on this machine without being brought."""
        work = self._task_dir(task).work
        top = os.path.normpath(work / path)
        if not Path(os.path.realpath(top)).is_relative_to(os.path.realpath(work)):
            raise HostError(self.host, f"{path} is not in the working directory of {task}", f"copy {top} yourself")
        if not os.path.lexists(top):
            there = ", ".join(sorted(entry.name for entry in work.iterdir())[:_NAMED]) if work.is_dir() else ""
            fix = f"there is {there}" if there else "it is empty"
            raise HostError(self.host, f"no such file or directory in the working directory of {task}: {path}", fix)
        return Tree(posixpath.relpath(top, work), self._files(top))

    def _files(self, top: str) -> Iterator[tuple[str, File, BinaryIO]]:
        base = Path(top)
        for path, status in sorted(_tree(base) if base.is_dir() else [(top, base.lstat())]):
            if stat.S_ISREG(status.st_mode):
                with self._opened(path) as file:
                    yield os.path.relpath(path, base) if path != top else "", File(*_file(status)), file

    @mapped
    def _opened(self, path: str) -> BinaryIO:
        return cast(BinaryIO, SparseFile(path))


def _file(status: os.stat_result) -> tuple[int, float]:
    return status.st_size, status.st_mtime


def _tree(base: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every regular file below `base`; links are not followed."""
    for parent, _, names in os.walk(base):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118  a working directory may have many files
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status


def _places(ordered: Mapping[str, Any], directory: TaskDir) -> Iterator[Path]:
    """Yield the directories outside of the task's own where its program may have saved."""
    words = [word.partition("=")[2] or word for word in ordered.get("argv", ())]
    home = ordered.get("env", {}).get("HOME", "")
    for place in dict.fromkeys([*words, home]):
        if place.startswith("/") and Path(place).is_dir() and not Path(place).is_relative_to(directory.path):
            yield Path(place)


def _nearby(base: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield regular files below `base`, those with the shortest paths first, until `_ENTRIES` have been read."""
    waiting, left = deque([base]), _ENTRIES
    while waiting and left > 0:
        try:
            entries = list(os.scandir(waiting.popleft()))
        except OSError:  # another user's, or removed meanwhile
            continue
        left -= len(entries)
        if any(entry.name == _TASK for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in CACHES:
                waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue
