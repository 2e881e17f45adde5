"""Access files of containers through the engine's archive API, which works for any user and for stopped containers.

In a running container, a program reads ends of files, which an archive could do only by sending every byte.
"""

import io
import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.hosts.base import File, OutsideFile, Pick, Tree
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.archive import LARGE, open_sparse
from tfprov.hosts.docker.archive_stream import (
    ArchiveFile,
    ArchiveStream,
    archive_errors,
    is_plain,
    iter_members,
    last_bytes,
    open_archive,
    request_archive,
)
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import NOT_FOUND, Refused

_TAIL_SCRIPT = '[ -f "$1" ] && [ ! -L "$1" ] || exit 66; exec tail -c "$2" "$1"'
"""Prints the end of a regular file; images with a shell have `tail`."""
_SPECIAL_FILE_BITS = 0x8F280000
"""The bits of Go's os.FileMode that no regular file has."""


def open_file(engine: Engine, facts: Mapping[str, Any], path: str) -> BinaryIO:
    """Open a regular file of a container; links are refused, as they could lead anywhere.

    Of a sparse file only the data is transferred. While an engine sends an archive of a container, the container is
    locked for other requests.
    """
    size, content = _open_archived(engine, facts["Id"], path)
    if size < LARGE:
        return content
    content.close()
    return cast("BinaryIO | None", open_sparse(engine, facts, path)) or _open_archived(engine, facts["Id"], path)[1]


def _open_archived(engine: Engine, container: str, path: str) -> tuple[int, BinaryIO]:
    """Return the size and the content of a regular file, read as an archive."""
    with ExitStack() as stack:
        chunks = stack.enter_context(ArchiveStream(engine, request_archive(engine, container, path)))
        with archive_errors(engine.host, path):
            archive = stack.enter_context(open_archive(chunks))
            member = next(iter_members(archive, chunks), None)
            if member is None and not _is_utf8(path):  # the engine sends such a file only with its whole directory
                raise HostError(engine.host, f"{path!a} cannot be read: its name is not UTF-8")
        if member is None or not is_plain(member):
            raise HostError(engine.host, f"{path} is not a regular file")
        stack.pop_all()
    return member.size, cast(BinaryIO, io.BufferedReader(ArchiveFile(engine.host, path, chunks, member)))


def open_tree(
    engine: Engine, container: str, path: str, *, skip_links: bool = False
) -> Iterator[tuple[str, File, BinaryIO]]:
    """Yield the regular files of a directory, or the file at `path`, like `Tree.files`, from one archive.

    A hard link has no content in an archive: it raises HostError, or is left out with `skip_links`.
    """
    top = path.rpartition("/")[2]
    with ArchiveStream(engine, request_archive(engine, container, path)) as chunks, archive_errors(engine.host, path):
        with open_archive(chunks) as archive:
            for member in iter_members(archive, chunks):
                if member.islnk() and not skip_links:  # its content came with an earlier name
                    problem = f"{member.name} is a hard link to another file"
                    raise HostError(engine.host, problem, "replace it by a copy")
                if is_plain(member):
                    name = member.name.removeprefix(top).lstrip("/")
                    file = File(member.size, float(int(member.mtime)))
                    archived = ArchiveFile(engine.host, path, chunks, member, owns_stream=False)
                    yield name, file, io.BufferedReader(archived)
        if not chunks.is_complete(archive.offset):
            raise HostError(engine.host, f"{path} was not sent completely", "run this again")


def exists(engine: Engine, container: str, path: str) -> bool:
    """Whether `path` exists in a container, as a file, a directory or a link."""
    try:
        engine.archive(container, path).close()
    except Refused as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


def stat_file(engine: Engine, container: str, path: str) -> File | None:
    """Return size and time of a regular file of a container; None if there is none at `path`."""
    try:
        with engine.errors(), closing(engine.archive(container, path)) as answer:
            status = answer.status
    except Refused as error:
        if error.status != NOT_FOUND:
            raise
        return None
    if status["mode"] & _SPECIAL_FILE_BITS:
        return None
    return File(status["size"], float(int(datetime.fromisoformat(status["mtime"]).timestamp())))


def _is_utf8(path: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in path)


def read_tail(engine: Engine, facts: Mapping[str, Any], path: str, size: int) -> bytes:
    """Return the last `size` bytes of a file; only these are transferred if the container runs and has a shell."""
    if facts["State"]["Running"]:
        code, output, _ = docker_exec.run_program(
            engine, facts["Id"], ["sh", "-c", _TAIL_SCRIPT, "sh", path, str(size)]
        )
        if code == 0:
            return output
    with open_file(engine, facts, path) as file:
        return last_bytes(file, size)


_CHANGE_DELETED = 2
"""The engine's kind of change for a removed file."""


class DockerOutsideFiles:
    """See OutsideFiles. `find` returns the inspected container of a task, None if there is none."""

    def __init__(self, engine: Engine, find: Callable[[str], dict[str, Any] | None]) -> None:
        self._engine, self._find = engine, find

    def written(self, task: str, pick: Pick) -> Mapping[str, OutsideFile]:
        """See OutsideFiles. Volumes and mounts are not part of a container: they stay."""
        facts = self._find(task)
        if facts is None:
            return {}
        with self._engine.errors():
            changes = self._engine.api.diff(facts["Id"]) or ()
        created = int(datetime.fromisoformat(facts["Created"]).timestamp())
        written = {}
        for path in pick(change["Path"] for change in changes if change["Kind"] != _CHANGE_DELETED):
            file = stat_file(self._engine, facts["Id"], path)
            if file is not None and file.modified >= created:  # files put there before the start are older
                written[path] = OutsideFile(file.size, file.modified, lasting=False)
        return written

    def tree(self, task: str, path: str) -> Tree:
        """See OutsideFiles."""
        host, facts = self._engine.host, self._find(task)
        if facts is None:
            raise HostError(host, f"{task} is not there", "start it with `tfprov up`")
        top = posixpath.normpath(posixpath.join(facts["Config"].get("WorkingDir") or "/", path))
        if top.strip("/") == "":
            raise HostError(host, f"{path} is the whole file system of {task}", "name a directory in it")
        return Tree(top, open_tree(self._engine, facts["Id"], top))
