"""The verb `cp`: files between a task and this machine, whole or not at all."""

import contextlib
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tfprov.errors import HostError, Usage, printable
from tfprov.hosts.base import Runtime

_BLOCK = 1024 * 1024


def copy_from(runtime: Runtime, task: str, path: str, to: str | Path) -> Path:
    """Copy `path` of a task to `to`, or into it if that is a directory; return where it is. A file needs one for `to/`.

    The files belong to this user and have the mode of new files; links are left out. Raises HostError, and Usage for a
    target that cannot be written.
    """
    tree = runtime.outside.tree(task, path)
    name = PurePosixPath(tree.path).name or task.replace("/", "-")
    target = Path(to, name) if Path(to).is_dir() else Path(to)
    if target.is_symlink():  # a link still leads to the copy
        target = Path(os.path.realpath(target))
    _check_target(target)
    part = target.with_name(f".{target.name}.tfprov-part")
    _remove(part)
    try:
        files = 0
        for below, file, content in tree.files:
            _write(_inside(runtime.host, part, below), content, file.modified)
            files += 1
        if not files:
            raise HostError(
                runtime.host, f"there is no file at {path} of {task}", "links are not followed: name a file"
            )
        if target.is_dir():
            raise Usage(f"{target} is a directory already", "remove it first, or choose another name")
        if part.is_file() and target == Path(to) and str(to).endswith("/"):
            raise Usage(f"no such directory: {to}", "make it first, or choose another")
        part.replace(target)
    except OSError as error:
        raise Usage(f"cannot write {target}: {error.strerror}", "choose another place") from None
    finally:
        _remove(part)
    return target


def copy_to(runtime: Runtime, source: Path, task: str, path: str) -> str:
    """Copy a local file or directory to `path` of a task; see Runtime.put."""
    if source.is_symlink() and not source.exists():
        raise Usage(f"{source} is a link to nothing", "correct it, or name the file itself")
    if not source.exists():
        raise Usage(f"no such file or directory: {source}", "check the path")
    if not (source.is_file() or source.is_dir()):
        raise Usage(f"{source} is neither a file nor a directory", "copy what it gives to a file first")
    try:
        return runtime.put(task, path, source.resolve())
    except OSError as error:
        raise Usage(f"{error.filename or source}: {error.strerror}", "check the path and its permissions") from None


def _check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise Usage(f"no such directory: {target.parent}", "make it first, or choose another")
    if target.is_dir():
        raise Usage(f"{target} is a directory already", "remove it first, or choose another name")
    if target.exists() and not target.is_file():  # the copy would take the place of /dev/null
        raise Usage(f"{target} is neither a file nor a directory", "choose another name")


def _inside(host: str, top: Path, below: str) -> Path:
    """Return the place of a file; HostError if its name leads out of the copy, which an engine decides."""
    parts = PurePosixPath(below).parts
    if below.startswith("/") or ".." in parts or "\0" in below:
        raise HostError(host, f"the copy has a file outside of it: `{printable(below)}`", "look at the host's engine")
    return top.joinpath(*parts)


def _write(path: Path, content: BinaryIO, modified: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
        file.flush()
        os.fsync(file.fileno())
    os.utime(path, (modified, modified))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
