"""Lists the files of a container: a program in it does, or an archive, which transfers every byte."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.base import File
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.archive_stream import (
    ArchiveStream,
    ArchiveTooLong,
    archive_errors,
    iter_members,
    open_archive,
    request_archive,
)
from tfprov.hosts.docker.engine import Engine

LIST_PROGRAM = (
    "import json, os, stat, sys\n"
    "top, first, limit = sys.argv[1:]\n"
    "def read(path):\n"
    "    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), 'rb') as file:\n"
    "        if stat.S_ISREG(os.fstat(file.fileno()).st_mode): return file.read(int(limit)).decode('latin-1')\n"
    "content, files, folders = None, {}, ['']\n"
    "try: content = read(os.path.join(top, first)) if first else None\n"
    "except OSError: pass\n"
    "while folders:\n"
    "    folder = folders.pop()\n"
    "    try: entries = list(os.scandir(os.path.join(top, folder)))\n"
    "    except (FileNotFoundError, NotADirectoryError): continue\n"
    "    for entry in entries:\n"
    "        try:\n"
    "            status = entry.stat(follow_symlinks=False)\n"
    "            if stat.S_ISDIR(status.st_mode): folders.append(folder + entry.name + '/')\n"
    "            elif stat.S_ISREG(status.st_mode): files[folder + entry.name] = [status.st_size, int(status.st_mtime)]\n"
    "        except FileNotFoundError: pass\n"
    "print(json.dumps([content, files]))\n"
)
"""Lists regular files inside the container, with times in whole seconds as in an archive, and reads one of them before:
training images have Python. It fails where a directory cannot be read: what is not listed counts as not there."""
_SCRIPT = """[ -d "$1" ] || exit 66
command -v python3 >/dev/null && python3 -I -S -c "$2" "$1" "$3" "$4" 2>/dev/null && exit
LC_ALL=C find "$1" -type f -exec sh -c '
for name; do status=$(stat -c "%s %Y" "$name" 2>/dev/null) && printf "%s %s\\0" "$status" "$name"; done; :' sh {} +"""
"""Lists for a shell, for images without Python: it runs a process per file, but an archive of a directory that is being
written to breaks off. One script, because starting a program takes the engine as long as a listing."""
_VANISHED = b"No such file or directory"
"""The error of `find`, with exit code 1, for a file removed after it had read the directory."""
_NO_PROGRAM = (126, 127, None)
"""Exit codes for a missing program: from the shell, or None if the engine refuses."""
_PYTHON = ("python3", "-I", "-S", "-c")
"""For an image without a shell. Ignores the current directory and site packages, which may contain a `json`."""
_SLOW_ARCHIVE = 4 * 1024 * 1024
"""Bytes from which reading an archive takes longer than starting a container that lists the directory, at 10 MB/s."""


@dataclass(frozen=True)
class Listing:
    """The regular files below a directory, by relative path; `content` is that of the file read before it, if it could be.

    `is_by_python` says whether such a file was read at all.
    """

    files: dict[str, File]
    content: bytes | None = None
    is_by_python: bool = False


def list_files(engine: Engine, facts: Mapping[str, Any], directory: str, without_programs: set[str]) -> dict[str, File]:
    """Return the regular files below `directory` of a container, by relative path.

    `without_programs` collects containers with neither shell nor Python, to try their programs only once.
    """
    if (listing := list_by_program(engine, facts, directory, without_programs)) is not None:
        return listing.files
    container: str = facts["Id"]
    if facts["State"]["Running"] or container in without_programs:
        return _list_archive(engine, container, directory)
    try:
        return _list_archive(engine, container, directory, _SLOW_ARCHIVE)
    except ArchiveTooLong:
        if (listed := _list_in_helper(engine, facts, directory)) is not None:
            return listed.files
        without_programs.add(container)
        return _list_archive(engine, container, directory)


def list_by_program(
    engine: Engine, facts: Mapping[str, Any], directory: str, without_programs: set[str], first: str = ""
) -> Listing | None:
    """List in a running container, where Python reads the file `first` before; None if no program can list there."""
    container: str = facts["Id"]
    if not facts["State"]["Running"] or container in without_programs:
        return None
    codes = []
    arguments = (directory, first, str(bounds.STATE_FILE))
    by_shell = ["sh", "-c", _SCRIPT, "sh", directory, LIST_PROGRAM, *arguments[1:]]
    for argv in (by_shell, [*_PYTHON, LIST_PROGRAM, *arguments]):
        code, output, errors = docker_exec.run_program(engine, container, argv)
        if is_complete_listing(code, errors) and (listing := _parse_listing(output, directory)) is not None:
            return listing
        codes.append(code)
    if all(code in _NO_PROGRAM for code in codes):
        without_programs.add(container)
    return None


def _list_in_helper(engine: Engine, facts: Mapping[str, Any], directory: str) -> Listing | None:
    """List the files of a stopped container in a helper container; None if the image has no Python."""
    output = docker_exec.CapturedOutput()
    with engine.errors():
        for piece in docker_exec.stream_output(engine, facts, [*_PYTHON, LIST_PROGRAM, directory, "", "0"]):
            output.append(1, piece)
    return _parse_listing(output[1], directory) if output[1] else None


def is_complete_listing(code: int | None, errors: bytes) -> bool:
    """Whether a listing that ended with `code` and printed `errors` lacks only files removed meanwhile."""
    lines = errors.splitlines()
    return code == 0 or (code == 1 and bool(lines) and all(line.endswith(_VANISHED) for line in lines))


def _parse_listing(output: bytes, directory: str) -> Listing | None:
    """Parse the output of either lister; None if it is malformed, such as truncated by the task's end."""
    try:
        if output.startswith(b"["):
            content, files = json.loads(output)
            listed = {name: File(int(size), float(modified)) for name, (size, modified) in files.items()}
            return Listing(listed, None if content is None else content.encode("latin-1"), is_by_python=True)
        entries = [entry.split(b" ", 2) for entry in output.split(b"\0")[:-1]]
        top = f"{directory.rstrip('/')}/"
        by_shell = {os.fsdecode(path).removeprefix(top): File(int(size), float(at)) for size, at, path in entries}
        return Listing(by_shell)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


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
