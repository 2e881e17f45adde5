"""Uploads files of a checkpoint directory: held by hard links, hashed while they are read, in bounded memory."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tfprov.filesystems.generations import FOLDER, RemoteFile
from tfprov.filesystems.remote_dir import CHUNK, RemoteDir
from tfprov.formats.checkpoint import last_component
from tfprov.runtime.mirror.scan import HELD, LocalCheckpoint, Stamp


class Changed(Exception):
    """A file was removed or changed while it was read: the next scan shows what there is instead."""


@contextmanager
def held(directory: Path, checkpoint: LocalCheckpoint) -> Iterator[Mapping[str, Path]]:
    """Yield paths of the files of a checkpoint that its program cannot remove. Raises Changed if it already has."""
    folder = directory / HELD
    release(directory)
    folder.mkdir()
    try:
        yield {name: _hold(directory / name, folder, stamp) for name, stamp in checkpoint.files.items()}
    finally:
        release(directory)


def release(directory: Path) -> None:
    """Remove what was held, also by a mirror that was killed."""
    shutil.rmtree(directory / HELD, ignore_errors=True)


def _hold(path: Path, folder: Path, stamp: Stamp) -> Path:
    target = folder / path.name
    try:
        try:
            os.link(path, target, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without hard links: the program may remove it, which is then seen
            target = path
        if _stamp(target) != stamp:
            raise Changed(path.name)
    except FileNotFoundError:
        raise Changed(path.name) from None
    return target


def _stamp(path: Path) -> Stamp:
    return Stamp.of(os.lstat(path))


def upload(remote: RemoteDir, object_name: str, path: Path, stamp: Stamp) -> RemoteFile:
    """Upload a file as an object. Raises Changed if it is not the file of `stamp` any more, and RemoteError."""
    digest = hashlib.sha256()
    remote.write(object_name, _pieces(path, stamp, digest), stamp.size)
    return RemoteFile(object_name, stamp.size, digest.hexdigest(), stamp.modified / 1e9)


def _pieces(path: Path, stamp: Stamp, digest: hashlib._Hash) -> Iterator[bytes]:
    """Yield the first `stamp.size` bytes: event files grow meanwhile."""
    left = stamp.size
    try:
        with path.open("rb") as file:
            while left and (piece := file.read(min(CHUNK, left))):
                digest.update(piece)
                left -= len(piece)
                yield piece
            status = Stamp.of(os.fstat(file.fileno()))
    except FileNotFoundError:
        raise Changed(path.name) from None
    if left or status.inode != stamp.inode:
        raise Changed(path.name)


def sha256(path: Path) -> str:
    """Return the sum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def object_name(name: str, path: Path, taken: Mapping[str, RemoteFile]) -> tuple[str, bool]:
    """Return the object for a file of a checkpoint, and whether that has this content already.

    An object that a whole checkpoint refers to is never overwritten: the content of a name that is used again, as Keras
    does, gets an object of its own.
    """
    users = {file.object: file for file in taken.values()}
    if name not in users:
        return name, False
    digest = sha256(path)
    if users[name].sha256 == digest:
        return name, True
    own = f"{FOLDER}/objects/{digest[:32]}/{last_component(name)}"
    return own, own in users


def in_order(names: Iterator[str]) -> list[str]:
    """Return the files of a checkpoint in the order in which TensorFlow writes them: the index last."""
    return sorted(names, key=lambda name: (name.endswith(".index"), name.endswith(".meta"), name))


def remove_empty(directory: Path) -> None:
    """Remove a directory if it is empty."""
    with suppress(OSError):
        directory.rmdir()
