"""Takes over a remote directory: restores its newest whole checkpoint before the program starts, and becomes its writer."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.atomic_write import replace as write_file
from tfprov.filesystems.generations import (
    FOLDER,
    MIRROR_STATUS,
    Manifest,
    RemoteCheckpoint,
    RemoteFile,
    rank,
    read_last,
)
from tfprov.filesystems.remote_dir import RemoteDir, RemoteError
from tfprov.formats.checkpoint import STATE, checkpoint_state, checkpoints, last_component, parse_state
from tfprov.runtime.mirror.scan import Listing, scan

_STAGING = ".tfprov-restore"


class Refused(RemoteError):
    """The remote directory must not be used by this task."""


@dataclass(frozen=True)
class Owner:
    """Whose training it is: the names of the cluster and of the run, which the task's environment has."""

    cluster: str
    run: str


def take_over(
    remote: RemoteDir, directory: Path, owner: Owner, noted: Callable[[str], None]
) -> tuple[Manifest, Listing]:
    """Restore what is newer than the local checkpoints, and write the first generation of this task.

    Return it, and the listing of the directory. Raises Refused if the directory belongs to something else, and RemoteError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    manifest = inspect(remote, owner)
    local = scan(directory)
    _check_origin(remote, manifest, directory, local)
    restored = _restore(remote, manifest, directory, local, noted)
    after = replace(
        restored, number=manifest.number + 1, writer=secrets.token_hex(6), run=manifest.run or owner.run, uploading=()
    )
    remote.write(after.name, [after.encode()])
    remote.remove(sorted({*manifest.uploading, *(manifest.objects - after.objects)} - after.objects))
    return after, scan(directory)


def inspect(remote: RemoteDir, owner: Owner) -> Manifest:
    """Return what a remote directory holds. Raises Refused if it belongs to something else, and RemoteError.

    Its number is that of the last manifest, also of one that was cut: the next must come after what is there. Files are
    listed after the manifest is read: those that it names are there by then, whatever its writer does meanwhile.
    """
    newest, last = read_last(remote)
    return replace(_own(remote, newest, remote.files(), owner), number=last)


def _own(remote: RemoteDir, newest: Manifest | None, sizes: Mapping[str, int], owner: Owner) -> Manifest:
    """Return the manifest without checkpoints that are not whole. Raises Refused for a directory of something else."""
    if newest is None:
        names = {name for name in sizes if not name.startswith(f"{FOLDER}/")}
        if STATE in names or checkpoints(names):
            what = f"{remote.url} holds checkpoints that tfprov did not put there"
            raise Refused(what, "choose an empty directory; `checkpoints.dir` of another training is its own")
        return Manifest(0, "", owner.cluster, owner.run)
    if newest.cluster != owner.cluster:
        what = f"{remote.url} holds checkpoints of cluster {newest.cluster}, not {owner.cluster}"
        raise Refused(what, "choose another directory")
    return newest.whole(sizes)


def _check_origin(remote: RemoteDir, manifest: Manifest, directory: Path, local: Listing) -> None:
    """Raise Refused if both sides have checkpoints and these are not of the same directory."""
    if manifest.newest() is None or local.newest() is None:
        return
    if read_origin(directory) != remote.url:
        newest = local.newest()
        mine = newest.prefix if newest else ""
        what = f"{remote.url} holds a training, and this task has the checkpoint {mine} of another one"
        raise Refused(what, "run `tfprov down` first, or choose an empty directory")


def read_origin(directory: Path) -> str:
    """Return the URL of the remote directory that `directory` was mirrored to; empty for none."""
    try:
        facts = json.loads((directory / MIRROR_STATUS).read_text("utf-8"))
        return str(facts["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _restore(
    remote: RemoteDir, manifest: Manifest, directory: Path, local: Listing, noted: Callable[[str], None]
) -> Manifest:
    """Restore the newest checkpoint of each folder; return the manifest without those that turned out to be damaged."""
    for folder in sorted({one.folder for one in manifest.checkpoints}):
        here = local.newest(folder)
        for one in reversed(manifest.in_folder(folder)):
            if here is not None and rank(here.prefix) >= rank(one.prefix):
                if here.prefix == one.prefix:
                    _complete(directory, one)
                break
            if damage := _fetch(remote, one, directory):
                noted(f"{one.prefix} in {remote.url} is damaged and not restored: {damage}")
                manifest = replace(manifest, checkpoints=tuple(it for it in manifest.checkpoints if it != one))
                continue
            noted(f"restored {one.prefix} from {remote.url}")
            break
    return manifest


def _fetch(remote: RemoteDir, one: RemoteCheckpoint, directory: Path) -> str:
    """Download a checkpoint and move it into place, its `checkpoint` file last; return why it cannot be trusted, or ""."""
    staging = directory / _STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        for name, file in one.files.items():
            if damage := _download(remote, file, staging / last_component(name)):
                return f"{name} {damage}"
        target = directory / one.folder
        target.mkdir(parents=True, exist_ok=True)
        for name in sorted(one.files, key=lambda name: (name.endswith(".index"), name)):
            (staging / last_component(name)).replace(directory / name)
        _write_state(target, one)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return ""


def _write_state(folder: Path, one: RemoteCheckpoint) -> None:
    prefix = last_component(one.prefix)
    write_file(folder / STATE, checkpoint_state(prefix, [prefix]).encode())


def _complete(directory: Path, one: RemoteCheckpoint) -> None:
    """Write the `checkpoint` file of a restored checkpoint that none names: a task was killed before it did."""
    folder = directory / one.folder
    try:
        text = (folder / STATE).read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        text = ""
    if last_component(one.prefix) not in map(last_component, parse_state(text)):
        _write_state(folder, one)


def _download(remote: RemoteDir, file: RemoteFile, path: Path) -> str:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("wb") as out:
            for piece in remote.chunks(file.object):
                digest.update(piece)
                size += len(piece)
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
    except RemoteError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return "is gone"
        raise
    os.utime(path, (file.modified, file.modified))
    if size != file.size:
        return f"has {size} bytes instead of {file.size}"
    return "" if digest.hexdigest() == file.sha256 else "has another SHA-256"
