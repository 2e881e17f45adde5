"""Access files of containers through the engine's archive API, which works for any user and for stopped containers.

In a running container, programs list directories and read ends of files, which an archive could do only by sending
every byte.
"""

import io
import json
import math
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.formats.checkpoint import model_files
from tfprov.hosts import bounds
from tfprov.hosts.base import File, OutsideFile, Tree
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.archive import LARGE, open_sparse
from tfprov.hosts.docker.archive_stream import (
    ArchiveFile,
    ArchiveStream,
    ArchiveTooLong,
    archive_errors,
    is_plain,
    iter_members,
    last_bytes,
    open_archive,
    request_archive,
)
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import NOT_FOUND, Refused

_LIST_PROGRAM = (
    "import json, os, stat, sys\n"
    "files = {}\n"
    "for parent, _, names in os.walk(sys.argv[1]):\n"
    "    for name in names:\n"
    "        path = os.path.join(parent, name)\n"
    "        try: status = os.lstat(path)\n"
    "        except OSError: continue\n"
    "        if stat.S_ISREG(status.st_mode):\n"
    "            files[os.path.relpath(path, sys.argv[1])] = [status.st_size, int(status.st_mtime)]\n"
    "print(json.dumps(files))\n"
)
"""Lists regular files inside the container, with times in whole seconds as in an archive: training images have Python, and
listing by archive would transfer every byte."""
_LIST_SCRIPT = """[ -d "$1" ] || exit 66
command -v python3 >/dev/null && python3 -I -S -c "$2" "$1" 2>/dev/null && exit
LC_ALL=C find "$1" -type f -exec sh -c '
for name; do status=$(stat -c "%s %Y" "$name" 2>/dev/null) && printf "%s %s\\0" "$status" "$name"; done; :' sh {} +"""
"""The same for a shell, for images without Python: it runs a process per file, but an archive of a directory that is being
written to breaks off. One script, because starting a program takes the engine as long as a listing."""
_VANISHED = b"No such file or directory"
"""The error of `find`, with exit code 1, for a file removed after it had read the directory."""
_NO_PROGRAM = (126, 127, None)
"""Exit codes for a missing program: from the shell, or None if the engine refuses."""
_NOT_RUNNING = -1
"""Exit code if the container could not run anything, which says nothing about its image."""
_PYTHON = ("python3", "-I", "-S", "-c")
"""For an image without a shell. Ignores the current directory and site packages, which may contain a `json`."""
_TAIL_SCRIPT = '[ -f "$1" ] && [ ! -L "$1" ] || exit 66; exec tail -c "$2" "$1"'
"""Prints the end of a regular file; images with a shell have `tail`."""
_SPECIAL_FILE_BITS = 0x8F280000
"""The bits of Go's os.FileMode that no regular file has."""
_SLOW_ARCHIVE = 4 * 1024 * 1024
"""Bytes from which reading an archive takes longer than starting a container that lists the directory, at 10 MB/s."""


def list_files(engine: Engine, facts: Mapping[str, Any], directory: str, without_programs: set[str]) -> dict[str, File]:
    """Return the regular files below `directory` of a container, by relative path.

    `without_programs` collects containers with neither shell nor Python, to try their programs only once.
    """
    container: str = facts["Id"]
    if facts["State"]["Running"] and container not in without_programs:
        codes = []
        for argv in (["sh", "-c", _LIST_SCRIPT, "sh", directory, _LIST_PROGRAM], [*_PYTHON, _LIST_PROGRAM, directory]):
            code, output, errors = run_program(engine, container, argv)
            if is_complete_listing(code, errors) and (listed := _parse_listing(output, directory)) is not None:
                return listed
            codes.append(code)
        if all(code in _NO_PROGRAM for code in codes):
            without_programs.add(container)
    if facts["State"]["Running"] or container in without_programs:
        return _list_archive(engine, container, directory)
    try:
        return _list_archive(engine, container, directory, _SLOW_ARCHIVE)
    except ArchiveTooLong:
        if (listed := _list_in_helper(engine, facts, directory)) is not None:
            return listed
        without_programs.add(container)
        return _list_archive(engine, container, directory)


def _list_in_helper(engine: Engine, facts: Mapping[str, Any], directory: str) -> dict[str, File] | None:
    """List the files of a stopped container in a helper container; None if the image has no Python."""
    output = docker_exec.CapturedOutput()
    with engine.errors():
        for piece in docker_exec.stream_output(engine, facts, [*_PYTHON, _LIST_PROGRAM, directory]):
            output.append(1, piece)
    return _parse_listing(output[1], directory) if output[1] else None


def is_complete_listing(code: int | None, errors: bytes) -> bool:
    """Whether a listing that ended with `code` and printed `errors` lacks only files removed meanwhile."""
    lines = errors.splitlines()
    return code == 0 or (code == 1 and bool(lines) and all(line.endswith(_VANISHED) for line in lines))


def _parse_listing(output: bytes, directory: str) -> dict[str, File] | None:
    """Parse the output of either lister; None if it is malformed, such as truncated by the task's end."""
    try:
        if output.startswith(b"{"):
            files = json.loads(output)
            return {name: File(int(size), float(modified)) for name, (size, modified) in files.items()}
        entries = [entry.split(b" ", 2) for entry in output.split(b"\0")[:-1]]
        top = f"{directory.rstrip('/')}/"
        return {os.fsdecode(path).removeprefix(top): File(int(size), float(time)) for size, time, path in entries}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def run_program(engine: Engine, container: str, argv: list[str]) -> tuple[int | None, bytes, bytes]:
    """Run a program inside a container; return its exit code, standard output and standard error.

    The exit code is None if the image has no such program, _NOT_RUNNING if the container is gone or restarting.
    """
    output = docker_exec.CapturedOutput()
    try:
        code = docker_exec.run(engine, container, argv, output.append, bounds.ACTION_TIMEOUT)
    except Refused as error:
        return _NOT_RUNNING if error.status in (404, 409) else None, b"", b""
    return code, output[1], output[2]


def _list_archive(engine: Engine, container: str, directory: str, limit: float = math.inf) -> dict[str, File]:
    files: dict[str, File] = {}
    for name, file in _read_headers(engine, container, directory, limit):
        if len(files) == bounds.FILES:
            problem = f"{directory} of container {container[:12]} has more than {bounds.FILES:,} files"
            raise bounds.OutputTooLong(engine.host, problem, "remove those that are not needed")
        files[name] = file
    return files


def _read_headers(engine: Engine, container: str, directory: str, limit: float) -> Iterator[tuple[str, File]]:
    """List the directory by reading it as an archive: for a stopped container, or one without Python.

    In an archive only the first name of a file has its size and content: an evaluator's best checkpoint is a hard link
    to the chief's. Raises ArchiveTooLong beyond `limit` bytes.
    """
    top = directory.rstrip("/").rpartition("/")[2]
    with ArchiveStream(engine, request_archive(engine, container, directory), limit) as chunks:
        with archive_errors(engine.host, directory), open_archive(chunks) as archive:
            sizes: dict[str, int] = {}
            for member in iter_members(archive, chunks):
                size = member.size if member.isreg() else sizes.get(member.linkname) if member.islnk() else None
                if size is not None:
                    sizes[member.name] = size
                    yield member.name.removeprefix(f"{top}/"), File(size, float(member.mtime))
        if not chunks.is_complete(archive.offset):  # unlisted files would count as missing
            raise HostError(engine.host, f"the listing of {directory} broke off", "run this again")


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
        code, output, _ = run_program(engine, facts["Id"], ["sh", "-c", _TAIL_SCRIPT, "sh", path, str(size)])
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

    def models(self, task: str) -> Mapping[str, OutsideFile]:
        """See OutsideFiles. Volumes and mounts are not part of a container: they stay."""
        facts = self._find(task)
        if facts is None:
            return {}
        with self._engine.errors():
            changes = self._engine.api.diff(facts["Id"]) or ()
        created = int(datetime.fromisoformat(facts["Created"]).timestamp())
        written = {}
        for path in model_files(change["Path"] for change in changes if change["Kind"] != _CHANGE_DELETED):
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
