"""Copies the files of a directory on S3, HDFS or Google Cloud Storage into a directory of the host.

    python -m tfprov.runtime.fetch_remote DIRECTORY

The protocol is that of `tfprov.runtime.fetch`, with another request:

    {"url": "s3://bucket/train", "env": {"AWS_ACCESS_KEY_ID": "…"}, "pause": 1.0}

Each file must have the size that the server lists. A file SHA256SUMS beside them, as `sha256sum` prints it, is verified.
The next copy goes on with the files that are missing; those whose SHA-256 is known are compared with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfprov.filesystems.remote_dir import ClientMissing, OpenRemote, RemoteDir, RemoteError, open_remote
from tfprov.runtime.fetch import (
    MAX_FRUITLESS_TRIES,
    DownloadProgress,
    FetchError,
    disk_error,
    hash_file,
    leave_with_input,
    lock_directory,
    read_request,
    write_line,
)

SUMS = "SHA256SUMS"
_LIMIT = 16 << 20


def main(directory: Path) -> int:
    """Copy what the standard input requests; return the exit code."""
    try:
        request = json.loads(read_request())
        threading.Thread(target=leave_with_input, daemon=True).start()
        os.fchdir(lock := lock_directory(directory))  # it may be renamed during the wait
        received = copy_all(request["url"], request["env"], Path(), request.get("pause", 1.0))
        os.fsync(lock)
        write_line(done=received)
    except (FetchError, OSError) as error:
        wrong = error if isinstance(error, FetchError) else disk_error(error)
        write_line(wrong=wrong.message, fix=wrong.fix)
        return 1
    return 0


def copy_all(url: str, env: Mapping[str, str], directory: Path, pause: float, opened: OpenRemote = open_remote) -> int:
    """Copy all files of a remote directory, and return the bytes received. Raises FetchError and OSError."""
    progress = DownloadProgress()
    try:
        remote = opened(url, {**os.environ, **env})
        sizes = _tried(lambda: data_files(remote), pause)
        sums = _sums(remote, sizes)
        for name, size in sorted(sizes.items()):
            _copy_with_retries(remote, name, size, sums.get(name), directory, progress, pause)
        _remove_others(directory, sizes)
    except RemoteError as error:
        raise _failure(error) from None
    return progress.received


def _failure(error: RemoteError) -> FetchError:
    if isinstance(error, ClientMissing):
        extra, package = error.scheme.extra, error.scheme.package
        return FetchError(error.message, f"add {package} to the image, or for processes: pip install 'tfprov[{extra}]'")
    return FetchError(error.message, error.fix or "look at the server, and at the way to it")


def data_files(remote: RemoteDir) -> dict[str, int]:
    """Return the sizes of the files of a directory with data. Raises FetchError without any, and RemoteError."""
    # The manifests of a mirror say nothing to a program that reads its files.
    sizes = {name: size for name, size in remote.files().items() if not name.startswith(".tfprov/")}
    if not sizes:
        raise FetchError(f"{remote.url} has no files", "correct `data.path`: it names a directory")
    bad = [name for name in sizes if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name]
    if bad:
        raise FetchError(f"{remote.url} has a file whose name cannot be used: {bad[0]!r}", "rename it there")
    return sizes


def _tried(call: Any, pause: float) -> Any:
    """Return what a call returns, which is repeated after an error that may pass."""
    for attempt in range(MAX_FRUITLESS_TRIES):
        try:
            return call()
        except RemoteError as error:
            if error.fix or attempt == MAX_FRUITLESS_TRIES - 1 or isinstance(error.__cause__, FileNotFoundError):
                raise
            write_line(note=f"{error.message}; trying again")
            time.sleep(pause * 2**attempt)
    return None


def _sums(remote: RemoteDir, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the sums of the files that SHA256SUMS names; none without such a file."""
    if SUMS not in sizes:
        return {}
    sums = {}
    for line in remote.read(SUMS, _LIMIT).decode("utf-8", "replace").splitlines():
        digest, _, name = line.strip().partition(" ")
        if len(digest) == hashlib.sha256().digest_size * 2:
            sums[re.sub(r"\A\*?(?:\./)?", "", name.strip())] = digest.lower()
    if missing := [name for name in sums if name not in sizes]:
        raise FetchError(f"{remote.url} has no {missing[0]}, which its {SUMS} names", f"correct {SUMS}")
    return sums


def _copy_with_retries(  # noqa: PLR0913, PLR0917  all of a file
    remote: RemoteDir, name: str, size: int, sha256: str | None, to: Path, progress: DownloadProgress, pause: float
) -> None:
    final = to / name
    if not _is_there(final, size, sha256, progress):  # complete files have their names, parts have others
        final.parent.mkdir(parents=True, exist_ok=True)
        part = final.with_name(f".{final.name}.part")
        digest = _tried(lambda: _copy(remote, name, size, part, progress), pause)
        if sha256 is not None and digest != sha256:
            raise FetchError(
                f"{remote.url}/{name} has the SHA-256 {digest}, and not {sha256}", f"correct it, or {SUMS}"
            )
        part.chmod(0o444)  # tasks may run as another user
        part.replace(final)
    progress.done += size


def _is_there(path: Path, size: int, sha256: str | None, progress: DownloadProgress) -> bool:
    """Whether an earlier copy has left a file as it is now: the data may have been written anew since."""
    if path.name == SUMS or not path.is_file() or path.stat().st_size != size:
        return False
    return sha256 is None or bool(hash_file(path, progress).hexdigest() == sha256)


def _remove_others(directory: Path, sizes: Mapping[str, int]) -> None:
    """Remove what an earlier copy left of files that are not there any more: a program would read them, too."""
    for parent, _, names in os.walk(directory):
        for path in (Path(parent, name) for name in names):
            if path.relative_to(directory).as_posix() not in sizes:
                path.unlink()


def _copy(remote: RemoteDir, name: str, size: int, part: Path, progress: DownloadProgress) -> str:
    digest, position = hashlib.sha256(), 0
    with part.open("wb") as out:
        for piece in remote.chunks(name):
            out.write(piece)
            digest.update(piece)
            position += len(piece)
            progress.received += len(piece)
            progress.at(position, size)
        out.flush()
        os.fsync(out.fileno())
    if position != size:
        raise RemoteError(f"{remote.url}/{name} has {position} bytes, and {size} in the listing")
    return digest.hexdigest()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    os._exit(code)  # without waiting for threads of clients
