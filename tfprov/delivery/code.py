"""The training program as one deterministic archive: the same files give the same digest on any machine."""

import errno
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfprov.delivery.ignore import Ignore
from tfprov.errors import InvalidInput, Position, Problem

MAX_BYTES = 512 * 1024 * 1024
"""More than this is data rather than code, and would be read on every run."""

_ALWAYS_LEFT_OUT = ("**/__pycache__", "**/*.pyc", ".git", "**/.DS_Store")


@dataclass(frozen=True)
class Code:
    """A packed `code:` directory; `archive` is an uncompressed tar of its files, and `digest` its sha256."""

    source: str
    digest: str
    archive: bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.archive)


class _LeadsOutError(OSError):
    """A symbolic link to something that is not delivered."""


def pack(directory: Path, at: Position) -> Code:
    """Read `directory` into an archive; InvalidInput, at `at`, when it is not a directory of reasonable size."""
    check_directory(directory, at, "code", "the training program")
    data = archived(directory, at, "code")
    return Code(str(directory), f"sha256:{hashlib.sha256(data).hexdigest()}", data)


def check_directory(directory: Path, at: Position, key: str, content: str) -> None:
    """Raise InvalidInput when `directory`, which the setting `key` names, cannot hold the `content` it should."""
    if not directory.is_dir():
        reason = "is not a directory" if directory.exists() else "does not exist"
        raise InvalidInput([Problem(at, f"`{key}`: {directory} {reason}", f"give the directory that holds {content}")])


def archived(
    directory: Path, at: Position, key: str, *, left_out: Collection[str] = (), kept: Collection[str] = ()
) -> bytes:
    """Return the files of `directory` that its .dockerignore lets pass, and those `kept` in any case, as a tar.

    Names are sorted, owners, times and the umask's share of the modes are dropped: what is left is the content. Patterns
    `left_out` are added to the .dockerignore. InvalidInput, at `at` and in the name of the setting `key`, when it is too
    much or cannot be read.
    """
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in _files(directory, left_out, kept):
                status = path.lstat()
                if buffer.tell() + status.st_size > MAX_BYTES:
                    what = f"`{key}`: {directory} is larger than {MAX_BYTES // 1024**2} MiB"
                    raise InvalidInput([Problem(at, what, "leave data out with a .dockerignore file")])
                _add(archive, name, path, status)
    except OSError as error:
        fix = "remove it, or name it in .dockerignore" if isinstance(error, _LeadsOutError) else "make it readable"
        raise InvalidInput([Problem(at, f"`{key}`: {error.strerror}: {error.filename}", fix)]) from None
    return buffer.getvalue()


def _files(directory: Path, left_out: Collection[str], kept: Collection[str]) -> Iterator[tuple[str, Path]]:
    ignore_file = directory / ".dockerignore"
    patterns = ignore_file.read_text(errors="replace").splitlines() if ignore_file.is_file() else []
    ignore = Ignore([*_ALWAYS_LEFT_OUT, *patterns, *left_out])
    found: list[tuple[str, Path]] = []
    for parent, folders, files in os.walk(directory):
        base = Path(parent)
        folders[:] = [name for name in folders if not _prunes(ignore, _relative(base / name, directory), kept)]
        found.extend((_relative(base / name, directory), base / name) for name in files)
        found.extend((_relative(base / name, directory), base / name) for name in folders if (base / name).is_symlink())
    yield from sorted((name, path) for name, path in found if name in kept or not ignore.matches(name))


def _prunes(ignore: Ignore, folder: str, kept: Collection[str]) -> bool:
    return ignore.prunes(folder) and not any(name.startswith(f"{folder}/") for name in kept)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _add(archive: tarfile.TarFile, name: str, path: Path, status: os.stat_result) -> None:
    info = tarfile.TarInfo(name)
    if stat.S_ISLNK(status.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        inside = os.path.normpath(os.path.join(os.path.dirname(name), info.linkname))  # noqa: PTH118,PTH120  not on disk
        if inside == ".." or inside.startswith(("/", "../")):
            raise _LeadsOutError(errno.EXDEV, "a link that leads out of the directory", str(path))
        archive.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        data = path.read_bytes()
        info.size, info.mode = len(data), 0o755 if status.st_mode & 0o100 else 0o644
        archive.addfile(info, io.BytesIO(data))
