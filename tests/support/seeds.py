"""Images for the engines of new test hosts, as after a delivery: unpacked once, and shared by means of hard links."""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

DRIVERS = ("overlay2", "fuse-overlayfs", "vfs")
"""Storage drivers of engines whose layers are directories, each named as its directory below the data root."""


def seed(store: Path, parts: tuple[str, ...], fill: Callable[[Path], None]) -> Path:
    """Return the directory in `store` that is made of `parts`; `fill` makes it where there is none, and others go.

    A session that needs it meanwhile waits.
    """
    store.mkdir(parents=True, exist_ok=True)
    directory = store / hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            for other in filter(Path.is_dir, store.iterdir()):
                shutil.rmtree(other)
            unfinished = store / "unfinished"
            unfinished.mkdir()
            fill(unfinished)
            unfinished.rename(directory)
    return directory


def link_images(source: Path, target: Path) -> None:
    """Give the images below one data root to another one; no engine runs on either.

    An engine never writes into the files of a layer, so that two can have the same. What it knows of its images is its own.
    """
    subprocess.run(["cp", "-a", str(source / "image"), str(target)], check=True)
    for driver in DRIVERS:
        if (source / driver).is_dir():
            subprocess.run(["cp", "-al", str(source / driver), str(target)], check=True)
