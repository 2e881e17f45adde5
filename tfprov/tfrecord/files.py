"""Files to read and to write: plain paths by the standard library, paths with a scheme (`s3://…`) by fsspec.

A file that is written has its name only when it is whole: it is written beside, flushed, and renamed.
"""

import contextlib
import errno
import glob
import os
import re
import resource
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tfprov.atomic_write import sync
from tfprov.errors import TfprovError, one_line
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.extra import require

PathLike = str | os.PathLike[str]
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HIDDEN = (".", "_")
"""First characters of files that a directory of records has beside them, such as `_SUCCESS`."""


MOST_SHARDS = 99999
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
_OTHER_FILES = 512
"""Files that may be opened beside the outputs, such as those of a shuffle."""
_SHARD = re.compile(r"part-\d{5}-of-\d{5}\.")


class FileError(TfprovError):
    """A file that cannot be opened or written."""


def expand(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """Return the files that paths mean: of a directory its files, of a pattern those that match, in order of name."""
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return [file for path in several for file in _expand(named(path))]


def named(path: PathLike) -> str:
    """Return a path as a text. FileError for an empty one, as of an unset variable: it would be the working directory."""
    if not os.fspath(path):
        raise FileError("an empty text names no file", "name a file or a directory")
    return os.fspath(path)


def _expand(path: str) -> list[str]:
    if SCHEME.match(path):
        return _expand_url(path)
    if Path(path).is_dir():
        files = sorted(str(each) for each in Path(path).iterdir() if each.is_file() and each.name[0] not in _HIDDEN)
    elif not Path(path).exists() and glob.has_magic(path):
        names = glob.glob(path, recursive=True)  # noqa: PTH207  as typed
        files = sorted(name for name in names if Path(name).is_file() and not _is_beside(name, path))
    else:
        files = [path]
    return _some(path, files)


def _expand_url(path: str) -> list[str]:
    with as_file_error(path):
        files, root = require("fsspec").core.url_to_fs(path)
        if glob.has_magic(root):
            matches = files.glob(root, detail=True)
            names = [name for name, entry in matches.items() if entry["type"] != "directory"]
            names = [name for name in names if not _is_beside(name, path)]
        elif files.isdir(root):
            names = [each["name"] for each in files.ls(root, detail=True) if each["type"] == "file"]
            names = [name for name in names if name.rpartition("/")[2][:1] not in _HIDDEN]
        else:
            return [path]
        return _some(path, sorted(files.unstrip_protocol(name) for name in names))


def _is_beside(name: str, pattern: str) -> bool:
    """Whether a file that a pattern matches lies beside the data, such as an index, and the pattern does not ask for it."""
    first, asked = (path.rpartition("/")[2][:1] for path in (name, pattern))
    return first in _HIDDEN and asked != first


def _some(path: str, files: Sequence[str]) -> list[str]:
    if not files:
        raise FileError(f"{one_line(path)}: there are no files", "check the path")
    return list(files)


def refuse_pipes(paths: Iterable[str]) -> None:
    """Raise FileError for a path of this machine that cannot be read twice, as a pipe; a missing one is left to open."""
    for path in paths:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116  a URL is no file of this machine
        except (OSError, ValueError):
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)):
            what = "a pipe" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else "no regular file"
            raise FileError(f"{one_line(path)}: it is {what}, and it is read twice", "write it to a file first")


def existing(path: str) -> tuple[bool, bool]:
    """Return whether there is something at a path, and whether that is a directory; raises FileError."""
    if not SCHEME.match(path):
        return os.path.lexists(path), Path(path).is_dir()
    with as_file_error(path):
        files, root = require("fsspec").core.url_to_fs(path)
        try:
            files.info(root)  # fsspec's `exists` takes every error for a missing file
        except FileNotFoundError:
            return False, False
        return True, bool(files.isdir(root))


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file to read; raises FileError."""
    with contextlib.ExitStack() as stack:
        with as_file_error(path):
            if SCHEME.match(path):
                stream: Any = stack.enter_context(require("fsspec").open(path, "rb"))
            else:
                stream = stack.enter_context(Path(path).open("rb", buffering=0))
        yield stream


@contextmanager
def written(paths: Sequence[str], old: Iterable[str] = ()) -> Iterator[list[BinaryIO]]:
    """Open files to write; all get their names at the end, and none of them after an error. Then `old` are removed."""
    _allow_open_files(sum(1 for path in paths if not SCHEME.match(path)))
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(_part(path)) for path in paths]
        try:
            yield [output.stream for output in outputs]
        except OSError as error:
            if error.errno not in (*_DISK_FULL, *_TOO_MANY_OPEN):
                raise
            fix = "free some there, or name another destination"
            raise FileError(f"{one_line(paths[0])}: {_reason(error)}", _fix(error, fix)) from error
        for path, output in zip(paths, outputs, strict=True):
            with as_file_error(path):
                output.finish()
        for path, output in zip(paths, outputs, strict=True):
            with as_file_error(path):
                output.rename()
        for path in old:
            with as_file_error(path):
                _remove(path)


def _allow_open_files(count: int) -> None:
    """Raise this process's soft limit of open files, up to the hard one, where it is too low for `count` more."""
    with contextlib.suppress(OSError, ValueError):  # the kernel may have a lower limit of its own
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = len(os.listdir("/dev/fd")) + count + _OTHER_FILES  # noqa: PTH208  their number only
        if count > 1 and soft not in (resource.RLIM_INFINITY, hard) and soft < needed:
            limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _remove(path: str) -> None:
    if SCHEME.match(path):
        files, name = require("fsspec").core.url_to_fs(path)
        files.rm(name)
    else:
        Path(path).unlink(missing_ok=True)


def shard_paths(directory: str, shards: int, extension: str) -> tuple[list[str], list[str]]:
    """Return the names of the files of a sharded output, and the `part-` files that the directory has already."""
    if not 1 <= shards <= MOST_SHARDS:
        raise SchemaError(f"shards must be between 1 and {MOST_SHARDS}, not {shards}")
    try:
        old = [file for file in expand(directory) if file.rpartition("/")[2].startswith("part-")]
    except FileError:  # a directory that is not there, or has no files
        old = []
    name = directory.rstrip("/")
    return [f"{name}/part-{number:05}-of-{shards:05}{extension}" for number in range(shards)], old


def is_shard(path: str) -> bool:
    """Whether a file has the name of a shard: that of others, such as Spark's, has no `-of-`."""
    return _SHARD.match(path.rpartition("/")[2]) is not None


class _LocalPart:
    """A file beside `path`, on its way to that name."""

    def __init__(self, path: str) -> None:
        self._target = Path(os.path.realpath(path))  # a link still leads to the file
        if self._target.exists() and not self._target.is_file():  # a rename would put a file in its place
            raise FileError(f"{one_line(path)}: it is no regular file", "name another destination")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, self._name = tempfile.mkstemp(
            prefix=f".{self._target.name[:200]}.", suffix=".part", dir=self._target.parent
        )
        self.stream: BinaryIO = os.fdopen(descriptor, "wb")
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(descriptor, self._target.stat().st_mode & 0o777 if self._target.exists() else 0o666 & ~umask)

    def finish(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()

    def rename(self) -> None:
        Path(self._name).replace(self._target)
        sync(self._target.parent)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.close()
        Path(self._name).unlink(missing_ok=True)


class _RemotePart:
    """A file under a name of its own in the directory of `path`, on fsspec's file system."""

    def __init__(self, path: str) -> None:
        self._files, self._target = require("fsspec").core.url_to_fs(path)
        directory, _, name = self._target.rpartition("/")
        self._name = f"{directory}/.{name}.{os.urandom(4).hex()}.part"
        self._files.makedirs(directory, exist_ok=True)
        self.stream: BinaryIO = self._files.open(self._name, "wb")

    def finish(self) -> None:
        self.stream.close()

    def rename(self) -> None:
        self._files.mv(self._name, self._target)

    def discard(self) -> None:
        with contextlib.suppress(Exception):
            self.stream.close()
        with contextlib.suppress(Exception):
            if self._files.exists(self._name):
                self._files.rm(self._name)


@contextmanager
def _part(path: str) -> Iterator[_LocalPart | _RemotePart]:
    with as_file_error(path):
        part = _RemotePart(path) if SCHEME.match(path) else _LocalPart(path)
    try:
        yield part
    finally:
        part.discard()


@contextmanager
def as_file_error(path: str) -> Iterator[None]:
    """Raise what a file system raises as FileError, with the path."""
    try:
        yield
    except TfprovError:
        raise
    except ImportError as error:  # fsspec's file system needs a package, which its message names
        raise FileError(f"{one_line(path)}: {one_line(str(error))}") from error
    except Exception as error:
        is_url = SCHEME.match(path) is not None  # clients of remote file systems raise exceptions of their own
        if not (is_url or isinstance(error, OSError | ValueError)):
            raise
        fix = "check the URL and the credentials" if is_url else "check the path"
        raise FileError(f"{one_line(path)}: {_reason(error)}", _fix(error, fix)) from error


def _fix(error: Exception, otherwise: str) -> str:
    too_many = isinstance(error, OSError) and error.errno in _TOO_MANY_OPEN
    return "use fewer shards, or raise `ulimit -n`" if too_many else otherwise


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):  # of fsspec, with no text but the name
        return error.strerror or os.strerror(errno.ENOENT)
    if isinstance(error, NotImplementedError):
        return "its file system cannot do this"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(reason or type(error).__name__)
