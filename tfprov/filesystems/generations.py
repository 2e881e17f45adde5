"""What a remote directory holds, as its manifests say: one file for each generation, written again only after an error.

    URL/.tfprov/manifest-0000000012-WRITER.json

Object stores have no rename, and a cut upload to HDFS leaves a part of a file. So a manifest has the checksum of its own
content, names every file with its size and SHA-256, and is written after them: the newest one that can be read is the
state of the directory, whatever was under way when a writer ended. A writer that sees a generation of another writer stops.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tfprov.filesystems.remote_dir import RemoteDir, RemoteError
from tfprov.formats.checkpoint import MODEL_SERIES, last_component, series_of, stays_below, step_of

FOLDER = ".tfprov"
MIRROR_STATUS = "mirror.json"
"""In the local directory: what was last mirrored, for `tfprov status`, and where to, for the next start."""
_NAME = re.compile(r"\.tfprov/manifest-([0-9]{10})-([0-9a-z]{1,32})\.json", re.ASCII)
_LIMIT = 64 << 20
"""Bytes of a manifest that are read: some 200 for each file."""
_LISTINGS = 5
"""How often a directory is listed whose manifests are all gone when they are read."""


def rank(prefix: str) -> tuple[bool, int]:
    """Return by what the checkpoints of a folder are ordered; a training goes on from the highest.

    Those that the runtime saves come after all others, whose numbers may count something else.
    """
    return series_of(last_component(prefix)) == MODEL_SERIES, step_of(prefix)


@dataclass(frozen=True)
class RemoteFile:
    """A mirrored file: the `object` that has its content, and what that must be. `modified` is its time at the task."""

    object: str
    size: int
    sha256: str
    modified: float = 0.0


@dataclass(frozen=True)
class RemoteCheckpoint:
    """A mirrored checkpoint; `prefix` and the names of its `files` are relative to the directory: `best/ckpt-3`."""

    prefix: str
    files: Mapping[str, RemoteFile]

    @property
    def folder(self) -> str:
        """The folder it lies in; empty for the directory itself."""
        return self.prefix.rpartition("/")[0]

    @property
    def step(self) -> int:
        """The step in its name."""
        return step_of(self.prefix)


@dataclass(frozen=True)
class Manifest:
    """One generation of a directory. `uploading` are objects that its writer was about to write: remains, if it ended."""

    number: int
    writer: str
    cluster: str
    run: str
    checkpoints: tuple[RemoteCheckpoint, ...] = ()
    others: Mapping[str, RemoteFile] = field(default_factory=dict)
    uploading: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{FOLDER}/manifest-{self.number:010d}-{self.writer}.json"

    @property
    def files(self) -> dict[str, RemoteFile]:
        """All mirrored files by name."""
        return {**self.others, **{name: file for one in self.checkpoints for name, file in one.files.items()}}

    @property
    def objects(self) -> frozenset[str]:
        """The objects that it refers to."""
        return frozenset(file.object for file in self.files.values())

    def newest(self, folder: str = "") -> RemoteCheckpoint | None:
        """Return the checkpoint of a folder from which a training goes on; see `rank`."""
        return next(reversed(self.in_folder(folder)), None)

    def by_folder(self) -> dict[str, list[RemoteCheckpoint]]:
        """Return the checkpoints of each folder by ascending rank."""
        folders: dict[str, list[RemoteCheckpoint]] = {}
        for one in sorted(self.checkpoints, key=lambda one: (*rank(one.prefix), one.prefix)):
            folders.setdefault(one.folder, []).append(one)
        return folders

    def in_folder(self, folder: str = "") -> list[RemoteCheckpoint]:
        """Return the checkpoints of a folder by ascending rank."""
        return self.by_folder().get(folder, [])

    def encode(self) -> bytes:
        """Return the content of its file."""
        content = _canonical(asdict(self))
        return f'{{"sha256": "{hashlib.sha256(content.encode()).hexdigest()}", "manifest": {content}}}\n'.encode()

    def whole(self, sizes: Mapping[str, int]) -> Manifest:
        """Return it with those checkpoints and files of which every object is there, and has its size."""

        def is_there(files: Iterable[RemoteFile]) -> bool:
            return all(sizes.get(file.object) == file.size for file in files)

        kept = tuple(one for one in self.checkpoints if is_there(one.files.values()))
        others = {name: file for name, file in self.others.items() if is_there([file])}
        return Manifest(self.number, self.writer, self.cluster, self.run, kept, others, self.uploading)


def _canonical(data: object) -> str:
    return json.dumps(data, sort_keys=True)


def decode(data: bytes) -> Manifest:
    """Return the manifest in a file. Raises ValueError for one that is cut, changed, of a later tfprov or of no mirror."""
    try:
        outer = json.loads(data)
        fields: dict[str, Any] = outer["manifest"]
        if hashlib.sha256(_canonical(fields).encode()).hexdigest() != outer["sha256"]:
            raise ValueError("its checksum is wrong")
        checkpoints = tuple(_checkpoint(one["prefix"], _files(one["files"])) for one in fields.pop("checkpoints"))
        others = _files(fields.pop("others"))
        uploading = tuple(map(_checked, fields.pop("uploading")))
        return Manifest(**fields, checkpoints=checkpoints, others=others, uploading=uploading)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not a manifest: {type(error).__name__}") from None


def _checkpoint(prefix: str, files: dict[str, RemoteFile]) -> RemoteCheckpoint:
    one = RemoteCheckpoint(prefix, files)
    for name in (f"{prefix}.index", *files):  # the last component of a prefix is no name: `..index` has the prefix `.`
        if _checked(name).rpartition("/")[0] != one.folder or not last_component(prefix):
            raise ValueError(f"a file of {prefix!r} is not in its folder: {name!r}")
    return one


def _files(entries: Mapping[str, Any]) -> dict[str, RemoteFile]:
    files = {_checked(name): RemoteFile(**entry) for name, entry in entries.items()}
    for file in files.values():
        _checked(file.object)
    return files


def _checked(name: str) -> str:
    """Return the name of a file or an object; tasks write there. Raises ValueError for one outside of the directory."""
    if not stays_below(name):
        raise ValueError(f"it has a name that cannot be used: {name!r}")
    return name


@dataclass(frozen=True)
class Generation:
    """The number and writer in the name of a manifest."""

    number: int
    writer: str
    name: str


def generations(names: Iterable[str]) -> list[Generation]:
    """Return the generations among the files of a directory, the newest first."""
    matches = filter(None, map(_NAME.fullmatch, names))
    listed = (Generation(int(match[1]), match[2], match[0]) for match in matches)
    return sorted(listed, key=lambda one: (one.number, one.writer), reverse=True)


def read_newest(remote: RemoteDir) -> Manifest | None:
    """Return the newest manifest that can be read; None for a directory without one. Raises RemoteError."""
    return read_last(remote)[0]


def read_last(remote: RemoteDir) -> tuple[Manifest | None, int]:
    """Return the newest manifest that can be read, and the highest number of all, also of those that were cut.

    The number is 0 for a directory without any. Raises RemoteError.
    """
    unreadable, gone, last = "", False, 0
    for _ in range(_LISTINGS):
        gone = False
        for generation in generations(remote.files(FOLDER)):
            last = max(last, generation.number)
            data = _read(remote, generation.name)
            if data is None:  # its writer has removed it for a newer one, which the next listing has
                gone = True
                continue
            try:
                return decode(data), last
            except ValueError as error:  # it was cut: the one before it holds, and before the first there was nothing
                unreadable = f"{generation.name}: {error}" if generation.number > 1 else unreadable
        if unreadable or not gone:
            break
    if unreadable:
        raise RemoteError(f"{remote.url} has no manifest that can be read: {unreadable}", "use another directory")
    if gone:
        raise RemoteError(f"{remote.url}: its manifests are replaced faster than they can be read")
    return None, last


def _read(remote: RemoteDir, name: str) -> bytes | None:
    try:
        return remote.read(name, _LIMIT)
    except RemoteError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
