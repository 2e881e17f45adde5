"""Writing files so that nobody ever sees half of one. Standard library only."""

import os
from collections.abc import Mapping
from pathlib import Path


def replace(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` beside it, fsync, and rename over it."""
    beside = path.with_name(f"{path.name}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def sync(path: Path) -> None:
    """Make what a file holds, or the names in a directory, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def bring(files: Mapping[str, Path], directory: Path) -> None:
    """Copy each file beside the name it gets in `directory`, and rename it once it is on the disk."""
    import shutil  # noqa: PLC0415  a supervisor needs none

    for name, path in files.items():
        beside = directory / f"{name}.part"
        shutil.copyfile(path, beside)
        sync(beside)
        beside.replace(directory / name)
    if files:
        sync(directory)
