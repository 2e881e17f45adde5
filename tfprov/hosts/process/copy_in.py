"""Copies files of this machine into the working directory of a task of this machine."""

import os
import shutil
from pathlib import Path

from tfprov.errors import HostError


def put_beside(host: str, task: str, work: Path, path: str, source: Path) -> str:
    """Copy `source` to `path` in `work`, under another name until it is whole; see Runtime.put. Raises OSError, too."""
    if not work.is_dir():
        raise HostError(host, f"{task} is not there", "start it with `tfprov up`")
    target = Path(os.path.normpath(work / path))
    if target.is_dir():
        target /= source.name
    elif path.endswith("/") and source.is_file():
        raise HostError(host, f"no such directory in {task}: {path}", "make it first, or choose another")
    if not Path(os.path.realpath(target.parent)).is_relative_to(os.path.realpath(work)):
        raise HostError(host, f"{path} is not in the working directory of {task}", f"copy to {target} yourself")
    if target.is_dir():
        there = os.path.relpath(target, work)  # with the name of `source`, where `path` is the directory above it
        raise HostError(host, f"{task} has a directory at {there} already", "remove it first, or choose another name")
    if not target.parent.is_dir():
        raise HostError(host, f"no such directory in {task}: {target.parent}", "make it first, or choose another")
    if source.is_dir() and target.is_file():
        raise HostError(host, f"{task} has a file at {path} already", "remove it first, or choose another name")
    part = target.with_name(f".{target.name}.part")
    _remove(part)
    try:
        if source.is_dir():
            shutil.copytree(source, part, ignore=_links)
        else:
            shutil.copy2(source, part)
        part.rename(target)
    finally:
        _remove(part)
    return str(target)


def _links(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.islink(f"{directory}/{name}")]  # noqa: PTH114


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
