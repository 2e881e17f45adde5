"""The remote directory of a training, as the controller reads it: with the credentials of its chief, and no host."""

import hashlib
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from tfprov.engine.context import Context
from tfprov.errors import HostError, one_line
from tfprov.filesystems.generations import Manifest, RemoteCheckpoint, RemoteFile, read_newest
from tfprov.filesystems.remote_dir import ClientMissing, RemoteDir, RemoteError
from tfprov.formats.checkpoint import STATE, checkpoint_state
from tfprov.hosts.base import File, Prefix, read_then_list
from tfprov.model.state import Observed, State


@dataclass(frozen=True)
class RemoteTraining:
    """What a remote directory holds: its newest `manifest`, without checkpoints of which files are missing."""

    remote: RemoteDir
    manifest: Manifest

    @property
    def newest(self) -> RemoteCheckpoint | None:
        """The checkpoint from which a chief goes on; None without one."""
        return self.manifest.newest()


def remote_url(context: Context) -> str | None:
    """Return the remote directory of the chief; None without one."""
    chief = context.container(context.cluster.chief.name)
    return chief.remote if chief else None


def read_remote(context: Context) -> RemoteTraining | None:
    """Return what the chief's remote directory holds; None without such a directory, and for an empty one.

    Raises HostError, with the URL as the host, if it cannot be read from here.
    """
    chief = context.container(context.cluster.chief.name)
    if chief is None or chief.remote is None:
        return None
    try:
        remote = context.open_remote(chief.remote, chief.env)
        manifest = _read_whole(remote)
    except RemoteError as error:
        raise _host_error(chief.remote, error) from None
    return RemoteTraining(remote, manifest) if manifest and manifest.cluster == context.cluster.name else None


def _read_whole(remote: RemoteDir) -> Manifest | None:
    """Return the newest manifest without checkpoints of which files are missing. Raises RemoteError."""
    manifest = read_newest(remote)
    return manifest.whole(remote.files()) if manifest else None


def _host_error(url: str, error: RemoteError) -> HostError:
    fix = error.fix
    if isinstance(error, ClientMissing):
        fix = f"install it here: pip install 'tfprov[{error.scheme.extra}]'"
    return HostError(url, one_line(error.message.removeprefix(f"{url}: ")), fix)


def newest_step(context: Context) -> int | None:
    """Return the step of the newest mirrored checkpoint; None without one, or if the directory cannot be read from here."""
    try:
        training = read_remote(context)
    except HostError:
        return None
    newest = training.newest if training else None
    return newest.step if newest else None


def remote_run(context: Context) -> str:
    """Return the run of the mirrored checkpoints; empty without any, or if the directory cannot be read from here."""
    try:
        training = read_remote(context)
    except HostError:
        return ""
    return training.manifest.run if training and training.newest else ""


def _states(manifest: Manifest) -> dict[str, tuple[File, bytes]]:
    """Return the `checkpoint` files of the folders with checkpoints, which are not mirrored, by name."""
    states = {}
    for folder, group in manifest.by_folder().items():
        content = checkpoint_state(group[-1].prefix, [one.prefix for one in group]).encode()
        modified = max((file.modified for one in group for file in one.files.values()), default=0.0)
        states[f"{folder}/{STATE}" if folder else STATE] = File(len(content), modified), content
    return states


class RemoteFiles:
    """A remote directory in place of the runtime of the chief's host: what `gather` needs of one."""

    def __init__(self, training: RemoteTraining) -> None:
        self.host, self._remote = training.remote.url, training.remote
        self._take(training.manifest)
        self._is_listed = False

    def _take(self, manifest: Manifest) -> None:
        """Collect what a manifest has once: it does so from its checkpoints each time."""
        self._manifest, self._files, self._states = manifest, manifest.files, _states(manifest)

    def files(self, _task: str) -> Mapping[str, File]:
        """See Runtime."""
        files = {name: File(file.size, file.modified) for name, file in self._files.items()}
        return files | {name: file for name, (file, _) in self._states.items() if name != STATE}

    def read_and_list(self, task: str, name: str) -> tuple[bytes | None, Mapping[str, File]]:
        """See Runtime. Each time but the first, the manifest is read again: a training has gone on meanwhile."""
        if self._is_listed:
            self._read_again()
        self._is_listed = True
        return read_then_list(self, task, name)

    def _read_again(self) -> None:
        try:
            manifest = _read_whole(self._remote)
        except RemoteError as error:
            raise _host_error(self.host, error) from None
        if manifest is None or (manifest.cluster, manifest.run) != (self._manifest.cluster, self._manifest.run):
            raise HostError(self.host, "another training has replaced the one that is gathered", "gather again")
        self._take(manifest)

    def hold(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        return self.files(task)

    def release(self, _task: str) -> None:
        """See Runtime."""

    def open(self, _task: str, name: str) -> BinaryIO:
        """See Runtime. The stream ends with HostError if the content is not what was mirrored."""
        if name in self._states:
            return io.BytesIO(self._states[name][1])
        file = self._files.get(name)
        if file is None:
            raise HostError(self.host, f"{name} is not there")
        return cast(BinaryIO, io.BufferedReader(_Checked(self, self._remote, name, file)))

    def open_rest(self, _task: str, _name: str, _before: Prefix) -> None:
        """See Runtime. Only a whole file can be compared with what was mirrored."""

    def open_each(self, task: str, names: Collection[str], _files: Any) -> Iterator[tuple[str, BinaryIO]]:
        """See Runtime."""
        for name in names:
            yield name, self.open(task, name)


class _Checked(io.RawIOBase):
    """The content of a mirrored file, whose sum is compared at its end."""

    def __init__(self, files: RemoteFiles, remote: RemoteDir, name: str, file: RemoteFile) -> None:
        self._host, self._name, self._file = files.host, name, file
        self._chunks, self._rest = remote.chunks(file.object), b""
        self._digest, self._size = hashlib.sha256(), 0

    def readable(self) -> bool:
        """See io."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io. Raises HostError."""
        try:
            self._rest = self._rest or next(self._chunks, b"")
        except RemoteError as error:
            raise _host_error(self._host, error) from None
        piece, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(piece)] = piece
        self._digest.update(piece)
        self._size += len(piece)
        if self._size == self._file.size and self._digest.hexdigest() != self._file.sha256:
            raise HostError(self._host, f"{self._name} is damaged: it has another SHA-256 than when it was mirrored")
        return len(piece)


def as_host(context: Context, training: RemoteTraining) -> Observed:
    """Return a stand-in for the chief's container, whose files are the mirrored ones."""
    return Observed(context.cluster.chief.name, training.remote.url, State.EXITED, {}, run=training.manifest.run)
