"""The manifest of a gather directory: written last, so that every file in it exists and is complete."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from functools import cached_property
from pathlib import Path
from typing import Any

from tfprov.atomic_write import replace
from tfprov.errors import GatherError
from tfprov.formats.checkpoint import NO_STEP, checkpoints, model_files, series_of, step_of
from tfprov.hosts.base import File

NAME = "manifest.json"
_CHUNK = 1024 * 1024
"""Bytes that are read at a time."""
LOGS = "logs"
"""The directory of kept logs; a program may have a directory of that name, too."""


@dataclass(frozen=True)
class GatheredCheckpoint:
    """A gathered checkpoint. `tensors` is how many were read back, None if none was.

    With `from_ps`, its index and shards were on a ps, where the program's TensorFlow restores them from.
    """

    prefix: str
    step: int
    tensors: int | None = None
    from_ps: bool = False


@dataclass(frozen=True)
class GatheredFile:
    """A gathered file; `size` and `modified` are those on the host, to recognize changed files."""

    sha256: str
    size: int
    modified: float

    def is_at(self, path: Path) -> bool:
        """Whether there is a file of its size at `path`."""
        try:
            return path.stat().st_size == self.size
        except OSError:
            return False

    def fault(self, path: Path) -> str | None:
        """Return what is wrong with the file at `path`, all of which is read, or None."""
        digest = hashlib.sha256()
        try:
            if path.stat().st_size != self.size:
                return f"is damaged: it has {path.stat().st_size} bytes, and had {self.size} when it was gathered"
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return (
            None if digest.hexdigest() == self.sha256 else "is damaged: it has another sha256 than when it was gathered"
        )


@dataclass(frozen=True)
class Manifest:
    """The gathered checkpoints of one run of one cluster, by ascending step, and all files beside them.

    `paths` are the files and directories of `gather --path`: the source of each, by its name in the gather directory.
    """

    cluster: str
    run: str
    checkpoints: tuple[GatheredCheckpoint, ...] = ()
    files: Mapping[str, GatheredFile] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> GatheredCheckpoint | None:
        """The checkpoint with the highest step, or None; of several, such as those without a step, the one saved last."""
        return max(self.checkpoints, key=self._age, default=None)

    @property
    def has_model(self) -> bool:
        """Whether there is a checkpoint among its files, or another model."""
        return bool(self.checkpoints or model_files(self.files))

    def _age(self, saved: GatheredCheckpoint) -> tuple[int, float, str]:
        index = self.files.get(f"{saved.prefix}.index")
        return saved.step, index.modified if index else 0.0, saved.prefix

    @property
    def step(self) -> int:
        """The highest step; less than any step if nothing was gathered yet."""
        return self.newest.step if self.newest else NO_STEP - 1

    @cached_property
    def _steps(self) -> Mapping[str, int]:
        """The highest step of each series."""
        return {series_of(one.prefix): one.step for one in sorted(self.checkpoints, key=lambda saved: saved.step)}

    def is_newer(self, prefix: str) -> bool:
        """Whether a checkpoint has a higher step than the gathered ones of its series."""
        return step_of(prefix) > self._steps.get(series_of(prefix), NO_STEP - 1)

    def is_older(self, prefix: str) -> bool:
        """Whether a gathered checkpoint of its series has a higher step."""
        return step_of(prefix) < self._steps.get(series_of(prefix), NO_STEP)

    def has_changed(self, name: str, file: File) -> bool:
        """Whether a file on a host differs from the gathered one."""
        entry = self.files.get(name)
        return entry is None or (entry.size, entry.modified) != (file.size, file.modified)

    def without_missing(self, directory: Path) -> "Manifest":
        """Return it without the newest checkpoint of each series of which a file is not in `directory` any more.

        Earlier ones are not looked for: a user may have removed them to make room.
        """
        newest = {series_of(one.prefix): one.prefix for one in sorted(self.checkpoints, key=lambda saved: saved.step)}
        prefixes = {*newest.values()}
        parts = checkpoints(name for name in self.files if name.rpartition(".")[0] in prefixes)
        lacking = [one for one in parts if not all(self.files[name].is_at(directory / name) for name in one.files)]
        gone = {one.prefix for one in lacking} | {name for one in lacking for name in one.files}
        return with_fields(
            self,
            checkpoints=tuple(one for one in self.checkpoints if one.prefix not in gone),
            files={name: entry for name, entry in self.files.items() if name not in gone},
        )

    def write(self, directory: Path) -> None:
        """Replace the manifest in `directory`."""
        data = {
            "cluster": self.cluster,
            "run": self.run,
            "checkpoints": [vars(saved) for saved in self.checkpoints],
            **({"paths": dict(sorted(self.paths.items()))} if self.paths else {}),
        }
        # One line per file, joined here: the encoder takes a second to indent 10,000 of them.
        files = ",\n".join(f"  {json.dumps(name)}: {json.dumps(vars(one))}" for name, one in sorted(self.files.items()))
        text = json.dumps(data, indent=1).removesuffix("\n}")
        replace(directory / NAME, f'{text},\n "files": {{\n{files}\n }}\n}}\n'.encode())


def read(directory: Path) -> Manifest | None:
    """Return the manifest in `directory`; None if the directory is missing or empty.

    Raises GatherError for files without a manifest: no gather wrote them, and none may replace them.
    """
    try:
        data = json.loads((directory / NAME).read_text())
        return _decoded(data)
    except FileNotFoundError:
        if directory.is_dir() and any(map(_is_foreign, directory.iterdir())):
            fix = "move it away, or set `checkpoints.to`"
            raise GatherError(f"{directory} holds files that no gather put there", fix) from None
        return None
    except NotADirectoryError:
        raise GatherError(f"{directory} is a file, or below one", "set another `checkpoints.to`") from None
    except PermissionError as error:
        raise GatherError(f"{error.filename}: {error.strerror}", "give this user access to it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GatherError(f"{directory / NAME} cannot be read: {error}", "move the directory away") from None


def disk_error(target: Path, error: OSError) -> GatherError:
    """Return the error for a gather directory that could not be written."""
    where = f": {error.filename}" if error.filename else ""
    fix = "make room there and gather again; " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return GatherError(f"{target}: {error.strerror}{where}", f"{fix}what was gathered before is untouched")


def _is_foreign(path: Path) -> bool:
    """Whether a file was there before any gather: neither kept logs nor an unfinished copy."""
    return path.name != LOGS and not path.name.endswith(".part")


def aside(directory: Path, number: int) -> Path:
    """Return the name under which `directory` is set aside for another run, for the `number`-th time."""
    return directory.with_name(f"{directory.name}.{number}")


def _decoded(data: Mapping[str, Any]) -> Manifest:
    return Manifest(
        cluster=data["cluster"],
        run=data["run"],
        checkpoints=tuple(GatheredCheckpoint(**saved) for saved in data["checkpoints"]),
        files={name: GatheredFile(**entry) for name, entry in data["files"].items()},
        paths=dict(data.get("paths", {})),
    )


def set_aside(target: Path, before: Manifest, staged: Path) -> str:
    """Rename the gather directory `target` of an earlier run: its steps are not comparable with those of this run.

    `staged` is the staging directory below it, which is moved back into the new gather directory. A link to a directory,
    such as one on a larger disk, stays, and gets another one beside it for the earlier run. Returns a line for the user.
    Raises GatherError if the directory cannot be renamed, as that of a mounted disk.
    """
    try:
        return _set_aside(target, before, staged)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EBUSY, errno.EACCES, errno.EPERM):
            raise
        what = f"{target} holds an earlier run, and cannot be renamed: {error.strerror}"
        raise GatherError(what, "set `checkpoints.to` to a directory below it, and gather again") from None


def _set_aside(target: Path, before: Manifest, staged: Path) -> str:
    earlier, real = _free_name(target), target.resolve()
    staged, beside = real / staged.relative_to(target), real.with_name(f".{real.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    if staged.exists():
        staged.rename(beside)
    moved = _free_name(real) if target.is_symlink() else earlier
    real.rename(moved)
    try:
        real.mkdir()
    except BaseException:  # a disk that has become full, or Ctrl-C: nothing would be in its place
        moved.rename(real)
        raise
    if target.is_symlink():
        earlier.symlink_to(moved)
    if beside.exists():
        beside.rename(staged)
    step = f" (step {before.newest.step})" if before.newest else ""
    return f"{target} held an earlier run{step}: it is now {earlier}"


def of_run(target: Path, run: str) -> Iterator[tuple[Path, Manifest]]:
    """Yield where files of `run` were gathered, with the manifests: the gather directory `target`, then those beside it.

    Of these, the one that was set aside last comes first.
    """
    beside: list[Path] = []
    while os.path.lexists(following := aside(target, len(beside) + 1)):
        beside.append(following)
    for directory in (target, *reversed(beside)):
        with suppress(GatherError):  # somebody else's, or unreadable: count nothing as gathered
            if (manifest := read(directory)) is not None and manifest.run == run:
                yield directory, manifest


def directory_of(target: Path, run: str) -> Path:
    """Return where files of `run` were gathered last; the gather directory `target` if none were."""
    return next((directory for directory, _ in of_run(target, run)), target)


def beside(target: Path, run: str) -> Path:
    """Return the directory for files of `run` beside the gather directory `target`, which an earlier run keeps.

    It is the one where some were gathered already, or else the next under whose name `target` would be set aside, which the
    caller makes; beside a link to a directory it is a link, too, and is made here.
    """
    if (there := directory_of(target, run)) != target:
        return there
    there = _free_name(target)
    if target.is_symlink():
        real = _free_name(target.resolve())
        real.mkdir()
        there.symlink_to(real)
    return there


def _free_name(directory: Path) -> Path:
    """Return the next name under which a gather directory is set aside."""
    number = 1
    while os.path.lexists(aside(directory, number)):
        number += 1
    return aside(directory, number)
