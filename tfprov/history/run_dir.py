"""The directory of a run: its files, and the lock that its writers hold.

run.json         settings without secrets, versions, hosts and tasks; replaced as a whole
events.jsonl     what happened, a line each
progress.jsonl   step and loss over time
logs/            what tasks printed, see `log_store`
end.json         how the run ended; missing while it goes on, and after its writer was killed
lock             shared by all writers while they live
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprov.atomic_write import private_directory, replace_shared
from tfprov.engine.run_ids import RUN_ID
from tfprov.file_locks import is_locked, open_lock, take_lock

SCHEMA = 1
"""The version of the files; readers refuse newer ones."""
_SPARE = 16 * 1024
"""Bytes that a run takes from its start for end.json, which has a line for each task and a few more."""


class NewerSchema(ValueError):
    """A file of a later version of tfprov."""


@dataclass(frozen=True)
class RunDir:
    """The directory at `path`, which is named after the run and lies in `runs/` of its cluster."""

    path: Path

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.path.name

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.path.parent.parent.name

    @property
    def run_file(self) -> Path:
        """The path of run.json."""
        return self.path / "run.json"

    @property
    def end_file(self) -> Path:
        """The path of end.json."""
        return self.path / "end.json"

    @property
    def spare(self) -> Path:
        """The path of a file that only takes room, which end.json gets when the disk is full."""
        return self.path / ".spare"

    @property
    def events(self) -> Path:
        """The path of events.jsonl."""
        return self.path / "events.jsonl"

    @property
    def progress(self) -> Path:
        """The path of progress.jsonl."""
        return self.path / "progress.jsonl"

    @property
    def logs(self) -> Path:
        """The directory of the logs."""
        return self.path / "logs"

    @property
    def lock(self) -> Path:
        """The path of the lock of the writers."""
        return self.path / "lock"

    @property
    def supervisor_file(self) -> Path:
        """The path of the options that a new supervisor of the run needs."""
        return self.path / "supervisor.json"

    @property
    def supervisor_lock(self) -> Path:
        """The path of the lock that the run's supervisor holds."""
        return self.path / "supervisor.lock"

    @property
    def is_live(self) -> bool:
        """Whether a process records the run now."""
        return is_locked(self.lock)

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor of the run lives."""
        return is_locked(self.supervisor_lock)

    @property
    def is_followed(self) -> bool:
        """Whether a verb or a supervisor follows the run; a supervisor has its lock before it records."""
        return self.is_supervised or self.is_live

    def create(self, description: Mapping[str, Any]) -> int | None:
        """Make the directory, private to its owner, with its run.json; return the descriptor of its lock, as `hold` does.

        Return None if another process has made it meanwhile. One that is killed leaves nothing that looks like a run.
        """
        runs = private_directory(self.path.parent)
        beside, descriptor = RunDir(runs / ".new"), None
        with _held(runs.with_name(f"{runs.name}.lock")):
            shutil.rmtree(beside.path, ignore_errors=True)  # of one that was killed
            private_directory(beside.path)
            try:
                beside.reserve()
                beside.write(beside.run_file, description)
                descriptor = beside.hold()
                beside.path.rename(self.path)
            except OSError as error:
                if descriptor is not None:
                    os.close(descriptor)
                shutil.rmtree(beside.path, ignore_errors=True)
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                return None
        return descriptor

    def erase(self) -> None:
        """Remove the directory; a removal that is killed leaves nothing that looks like a run."""
        aside = self.path.with_name(f".removed-{self.id}")
        shutil.rmtree(aside, ignore_errors=True)
        self.path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def reserve(self) -> None:
        """Take spare room for the end of a run that has not ended."""
        if not self.spare.exists() and not self.end_file.exists():
            self.spare.write_bytes(bytes(_SPARE))

    def write_end(self, data: Mapping[str, Any]) -> None:
        """Write end.json, in the spare room if there is no other."""
        self.spare.unlink(missing_ok=True)
        self.write(self.end_file, data)

    def hold(self) -> int:
        """Take the lock of a writer; return its descriptor, which frees the lock when it is closed.

        Raises BlockingIOError while the run is removed.
        """
        descriptor = open_lock(self.lock)
        if not take_lock(descriptor, shared=True):
            os.close(descriptor)
            raise BlockingIOError(errno.EAGAIN, "the run is being removed", str(self.lock))
        return descriptor

    def write(self, path: Path, data: Mapping[str, Any]) -> None:
        """Replace one of the JSON files; several processes may do so at the same time."""
        replace_shared(path, json.dumps({"schema": SCHEMA, **data}, indent=1).encode("utf-8", "replace"))

    def read(self, path: Path) -> dict[str, Any]:
        """Return one of the JSON files.

        Raises FileNotFoundError, NewerSchema, and ValueError for a damaged file.
        """
        try:
            data = json.loads(path.read_bytes())
        except RecursionError as error:
            raise ValueError(f"{path.name} is nested too deeply") from error
        except ValueError as error:
            raise ValueError(f"{path.name} is no JSON: {error}") from error
        if not isinstance(data, dict):
            raise ValueError(f"{path.name} is no JSON object")  # noqa: TRY004  a damaged file like any other
        if not isinstance(schema := data.get("schema"), int):
            raise ValueError(f"{path.name} has no schema version")  # noqa: TRY004
        if schema > SCHEMA:
            raise NewerSchema(f"{path.name} has schema version {schema}")
        return data


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Hold the lock of a file for the block, once no other process holds it."""
    descriptor = open_lock(lock)
    try:
        take_lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held_alone(lock: Path) -> Iterator[bool]:
    """Hold the lock of a file for the block, or yield False if another process holds it."""
    descriptor = open_lock(lock)
    try:
        yield take_lock(descriptor)
    finally:
        os.close(descriptor)


def run_dirs(runs: Path) -> list[RunDir]:
    """Return the runs in the directory `runs` of a cluster, the oldest first; none if it does not exist.

    Raises PermissionError.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(runs) if RUN_ID.fullmatch(entry.name) and entry.is_dir())
    except PermissionError:
        raise
    except OSError:
        return []
    return [RunDir(runs / name) for name in names]
