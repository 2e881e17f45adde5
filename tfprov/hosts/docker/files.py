"""A task's checkpoint directory through the engine's archive API: works for any user id, and for stopped containers.

Where the container runs, a program inside it answers what an archive could only answer with every byte there is.
"""

import io
import json
import math
import os
import posixpath
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Any, BinaryIO, cast

import docker

from tfprov.errors import HostError
from tfprov.formats.checkpoint import model_files
from tfprov.hosts import bounds
from tfprov.hosts.base import File, Tree, Written
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.archive import LARGE, sparse
from tfprov.hosts.docker.archive_stream import REST, Chunks, Long, Member, damage, members, sent_archive
from tfprov.hosts.docker.engine import Engine

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
_FIND = """[ -d "$1" ] || exit 66
command -v python3 >/dev/null && python3 -I -S -c "$2" "$1" 2>/dev/null && exit
LC_ALL=C find "$1" -type f -exec sh -c '
for name; do status=$(stat -c "%s %Y" "$name" 2>/dev/null) && printf "%s %s\\0" "$status" "$name"; done; :' sh {} +"""
"""The same with the shell's help, which an image without Python has as well: a process for each file there, but what an
archive brings of a directory that is written to meanwhile breaks off. One program, because each takes the engine as long
as a listing does."""
_VANISHED = b"No such file or directory"
"""What `find` says, and then ends with 1, of a file that was there when it read the directory."""
_ABSENT = (126, 127, None)
"""How a program ends that is not there: by the shell's word, or by the engine's."""
_NOT_NOW = -1
"""How a program ends that a container could not be asked to run: which says nothing of its image."""
_PYTHON = ("python3", "-I", "-S", "-c")
"""For an image without a shell; without the program's own directory and packages, in which anything may be `json`."""
_TAIL = '[ -f "$1" ] && [ ! -L "$1" ] || exit 66; exec tail -c "$2" "$1"'
"""Prints the end of a regular file; wherever there is a shell, there is `tail`."""
_SPECIAL = 0x8F280000
"""The bits of Go's os.FileMode of which a regular file has none."""
_MUCH = 32 * 1024 * 1024
"""Bytes of an archive from which on it takes longer to read than to start a container that lists the directory."""


def listing(engine: Engine, facts: Mapping[str, Any], directory: str, mute: set[str]) -> dict[str, File]:
    """Return the regular files below `directory` of a container, by their relative path.

    `mute` are containers that have neither shell nor Python: they are not asked a second time.
    """
    container: str = facts["Id"]
    if facts["State"]["Running"] and container not in mute:
        codes = []
        for argv in (["sh", "-c", _FIND, "sh", directory, _LIST], [*_PYTHON, _LIST, directory]):
            code, said, wrong = asked(engine.api, container, argv)
            if is_whole(code, wrong) and (told := _told(said, directory)) is not None:
                return told
            codes.append(code)
        if all(code in _ABSENT for code in codes):
            mute.add(container)
    if facts["State"]["Running"] or container in mute:
        return _listed(engine, container, directory)
    try:
        return _listed(engine, container, directory, _MUCH)
    except Long:
        if (told := _told_beside(engine, facts, directory)) is not None:
            return told
        mute.add(container)
        return _listed(engine, container, directory)


def _told_beside(engine: Engine, facts: Mapping[str, Any], directory: str) -> dict[str, File] | None:
    """Have the files of a container that has ended listed beside it; None where its image has no Python."""
    said = docker_exec.Printed()
    with engine.errors():
        for piece in docker_exec.pieces(engine, facts, [*_PYTHON, _LIST, directory]):
            said.take(1, piece)
    return _told(said[1], directory) if said[1] else None


def is_whole(code: int | None, wrong: bytes) -> bool:
    """Whether a listing that ended with `code`, and said `wrong` on its way, lacks nothing but what has vanished."""
    lines = wrong.splitlines()
    return code == 0 or (code == 1 and bool(lines) and all(line.endswith(_VANISHED) for line in lines))


def _told(said: bytes, directory: str) -> dict[str, File] | None:
    """Read what Python or `find` has listed; None for anything else, such as what a task that ended cut off."""
    try:
        if said.startswith(b"{"):
            found = json.loads(said)
            return {name: File(int(size), float(modified)) for name, (size, modified) in found.items()}
        entries = [entry.split(b" ", 2) for entry in said.split(b"\0")[:-1]]
        top = f"{directory.rstrip('/')}/"
        return {os.fsdecode(path).removeprefix(top): File(int(size), float(time)) for size, time, path in entries}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def asked(api: docker.APIClient, container: str, argv: list[str]) -> tuple[int | None, bytes, bytes]:
    """Return how a program inside a container ended, and what it printed and said.

    None when its image has no such program, _NOT_NOW when the container is gone, or between two lives.
    """
    said = docker_exec.Printed()
    try:
        code = docker_exec.run(api, container, argv, said.take, bounds.ACT)
    except docker.errors.APIError as error:
        return _NOT_NOW if error.status_code in (404, 409) else None, b"", b""
    return code, said[1], said[2]


def _listed(engine: Engine, container: str, directory: str, limit: float = math.inf) -> dict[str, File]:
    found: dict[str, File] = {}
    for name, file in _headers(engine, container, directory, limit):
        if len(found) == bounds.FILES:
            what = f"{directory} of container {container[:12]} has more than {bounds.FILES:,} files"
            raise bounds.TooMuch(engine.host, what, "remove those that nothing needs")
        found[name] = file
    return found


def _headers(engine: Engine, container: str, directory: str, limit: float = math.inf) -> Iterator[tuple[str, File]]:
    """List by reading the whole directory as an archive: for a container that does not run, or has no Python.

    An archive has the size and the content of a file with its first name alone: an evaluator's best checkpoint is a
    second name of the chief's. Raises Long where the archive has more than `limit` bytes.
    """
    top = directory.rstrip("/").rpartition("/")[2]
    with Chunks(engine, sent_archive(engine, container, directory), limit) as chunks:
        with damage(engine.host, directory), tarfile.open(fileobj=io.BufferedReader(chunks), mode="r|") as archive:
            sizes: dict[str, int] = {}
            for member in members(archive, chunks):
                size = member.size if member.isreg() else sizes.get(member.linkname) if member.islnk() else None
                if size is not None:
                    sizes[member.name] = size
                    yield member.name.removeprefix(f"{top}/"), File(size, float(member.mtime))
        if not chunks.ended(archive.offset):  # what was not listed would be taken for what is not there
            raise HostError(engine.host, f"the listing of {directory} broke off", "run this again")


def read(engine: Engine, facts: Mapping[str, Any], path: str) -> BinaryIO:
    """Open one file of a container. It must be a regular file: a link could lead anywhere.

    Of a sparse file only the data is asked for. An engine does nothing else with a container that it sends an archive of.
    """
    size, content = _archived(engine, facts["Id"], path)
    if size < LARGE:
        return content
    content.close()
    return cast("BinaryIO | None", sparse(engine, facts, path)) or _archived(engine, facts["Id"], path)[1]


def _archived(engine: Engine, container: str, path: str) -> tuple[int, BinaryIO]:
    """Return the size of a regular file and its content, as an archive."""
    with ExitStack() as stack:
        chunks = stack.enter_context(Chunks(engine, sent_archive(engine, container, path)))
        with damage(engine.host, path):
            archive = stack.enter_context(tarfile.open(fileobj=io.BufferedReader(chunks), mode="r|"))
            member = next(members(archive, chunks), None)
            if member is None and not _is_text(path):  # the engine sends it only with the whole directory
                raise HostError(engine.host, f"{path!a} cannot be read: its name is not UTF-8")
            content = archive.extractfile(member) if member is not None and member.isreg() else None
        if member is None or content is None:
            raise HostError(engine.host, f"{path} is not a regular file")
        stack.pop_all()
    return member.size, cast(BinaryIO, io.BufferedReader(Member(engine.host, path, chunks, content)))


def tree(engine: Engine, container: str, path: str, *, links: bool = False) -> Iterator[tuple[str, File, BinaryIO]]:
    """Yield the regular files of a directory, or the one file at `path`, as `Tree.files` does; all come as one archive.

    A second name of a file has no content in an archive: HostError, or with `links` it is left out.
    """
    top = path.rpartition("/")[2]
    with Chunks(engine, sent_archive(engine, container, path)) as chunks, damage(engine.host, path):
        with tarfile.open(fileobj=io.BufferedReader(chunks), mode="r|") as archive:
            for member in members(archive, chunks):
                if member.islnk() and not links:  # its content came with another name, which is gone by now
                    raise HostError(engine.host, f"{member.name} is a second name of a file", "copy it to a file alone")
                if (content := archive.extractfile(member) if member.isreg() else None) is not None:
                    name = member.name.removeprefix(top).lstrip("/")
                    file = File(member.size, float(int(member.mtime)))
                    yield name, file, io.BufferedReader(Member(engine.host, path, chunks, content, whole=False))
        if not chunks.ended(archive.offset):
            raise HostError(engine.host, f"{path} was not sent to its end", "run this again")


def exists(engine: Engine, container: str, path: str) -> bool:
    """Return whether anything lies at `path` in a container, be it a file, a directory or a link."""
    with engine.errors():
        try:
            chunks, _ = engine.api.get_archive(container, path)
        except docker.errors.NotFound:
            return False
        _close(chunks)
    return True


def stat(engine: Engine, container: str, path: str) -> File | None:
    """Return the size and time of a file of a container; None where no regular file lies at `path`."""
    with engine.errors():
        try:
            chunks, status = engine.api.get_archive(container, cast(str, os.fsencode(path)))
        except docker.errors.NotFound:
            return None
        _close(chunks)
    if status["mode"] & _SPECIAL:
        return None
    return File(status["size"], float(int(datetime.fromisoformat(status["mtime"]).timestamp())))


def _close(chunks: object) -> None:
    close: Callable[[], None] = getattr(chunks, "close", lambda: None)
    close()


def _is_text(path: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in path)


def tail(engine: Engine, facts: Mapping[str, Any], path: str, size: int) -> bytes:
    """Return the last `size` bytes of a file: only they are moved where the container runs and has a shell."""
    if facts["State"]["Running"]:
        code, said, _ = asked(engine.api, facts["Id"], ["sh", "-c", _TAIL, "sh", path, str(size)])
        if code == 0:
            return said
    with read(engine, facts, path) as file:
        return last(file, size)


def last(file: BinaryIO, size: int) -> bytes:
    """Return the last `size` bytes of what can only be read from its beginning; holds little more in memory."""
    chunks: deque[bytes] = deque()
    held = 0
    while chunk := file.read(REST):
        chunks.append(chunk)
        held += len(chunk)
        while chunks and held - len(chunks[0]) >= size:
            held -= len(chunks.popleft())
    return b"".join(chunks)[max(0, held - size) :]


_DELETED = 2
"""The engine's word for a file of the image that is not in the container any more."""


class DockerOutside:
    """See Outside; `find` returns what the engine knows of a task's container, None where there is none."""

    def __init__(self, engine: Engine, find: Callable[[str], dict[str, Any] | None]) -> None:
        self._engine, self._find = engine, find

    def models(self, task: str) -> Mapping[str, Written]:
        """See Outside. Volumes and mounted directories are no part of a container: they stay."""
        facts = self._find(task)
        if facts is None:
            return {}
        with self._engine.errors():
            changes = self._engine.api.diff(facts["Id"]) or ()
        made = int(datetime.fromisoformat(facts["Created"]).timestamp())
        written = {}
        for path in model_files(change["Path"] for change in changes if change["Kind"] != _DELETED):
            file = stat(self._engine, facts["Id"], path)
            if file is not None and file.modified >= made:  # what was put there before the start is older
                written[path] = Written(file.size, file.modified, lasting=False)
        return written

    def tree(self, task: str, path: str) -> Tree:
        """See Outside."""
        host, facts = self._engine.host, self._find(task)
        if facts is None:
            raise HostError(host, f"{task} is not there", "start it with `tfprov up`")
        top = posixpath.normpath(posixpath.join(facts["Config"].get("WorkingDir") or "/", path))
        if top.strip("/") == "":
            raise HostError(host, f"{path} is the whole file system of {task}", "name a directory in it")
        return Tree(top, tree(self._engine, facts["Id"], top))
