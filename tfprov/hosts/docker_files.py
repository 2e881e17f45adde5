"""A task's checkpoint directory through the engine's archive API: works for any user id, and for stopped containers."""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

import docker

from tfprov.errors import HostError
from tfprov.hosts import docker_exec
from tfprov.hosts.base import File

_LIST = (
    "import json, os, stat, sys\n"
    "found = {}\n"
    "for parent, _, names in os.walk(sys.argv[1]):\n"
    "    for name in names:\n"
    "        path = os.path.join(parent, name)\n"
    "        try: status = os.lstat(path)\n"
    "        except OSError: continue\n"
    "        if stat.S_ISREG(status.st_mode):\n"
    "            found[os.path.relpath(path, sys.argv[1])] = [status.st_size, int(status.st_mtime)]\n"
    "print(json.dumps(found))\n"
)
"""Lists regular files inside the container, with times to the second as an archive has them: a training image has
Python, and a listing by archive would bring every byte."""


def listing(api: docker.APIClient, host: str, facts: Mapping[str, Any], directory: str) -> dict[str, File]:
    """Return the regular files below `directory` of a container, by their relative path."""
    if facts["State"]["Running"] and (told := _told(api, facts["Id"], directory)) is not None:
        return {name: File(size, modified) for name, (size, modified) in told.items()}
    return dict(_headers(api, host, facts["Id"], directory))


def _told(api: docker.APIClient, container: str, directory: str) -> dict[str, tuple[int, float]] | None:
    """Ask the task's own Python; None where there is none, or where the task has ended meanwhile."""
    told: list[bytes] = []
    try:
        argv = ["python3", "-c", _LIST, directory]
        code = docker_exec.run(api, container, argv, lambda where, data: told.append(data) if where == 1 else None)
        found: dict[str, tuple[int, float]] | None = json.loads(b"".join(told)) if code == 0 else None
    except docker.errors.APIError:
        return None
    return found


def _headers(api: docker.APIClient, host: str, container: str, directory: str) -> Iterator[tuple[str, File]]:
    """List by reading the whole directory as an archive: for a container that does not run, or has no Python."""
    top = directory.rstrip("/").rpartition("/")[2]
    with _archive(api, host, container, directory) as archive:
        for member in archive:
            if member.isreg():
                yield member.name.removeprefix(f"{top}/"), File(member.size, float(member.mtime))


def read(api: docker.APIClient, host: str, container: str, path: str) -> BinaryIO:
    """Open one file of a container. It must be a regular file: a link could lead anywhere."""
    archive = _archive(api, host, container, path)
    member = archive.next()
    content = archive.extractfile(member) if member is not None and member.isreg() else None
    if content is None:
        raise HostError(host, f"{path} is not a regular file")
    return cast(BinaryIO, content)


def _archive(api: docker.APIClient, host: str, container: str, path: str) -> tarfile.TarFile:
    try:
        chunks, _ = api.get_archive(container, path)
    except docker.errors.NotFound:
        raise HostError(host, f"no such file: {path}") from None
    return tarfile.open(fileobj=io.BufferedReader(_Stream(chunks)), mode="r|")


class _Stream(io.RawIOBase):
    """An iterator of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next."""
        self._rest = self._rest or next(self._chunks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def directory_for_all(path: str) -> bytes:
    """Return an archive that makes `path` writable for whoever the image runs as; a fresh volume belongs to root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(info)
    return buffer.getvalue()
