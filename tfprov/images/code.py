"""Packs the training program into a deterministic archive: the same files give the same digest on any machine."""

import errno
import fcntl
import hashlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfprov.atomic_write import private_directory, replace
from tfprov.errors import InvalidInput, Position, Problem, TfprovError, one_line, printable


class Ignore:
    """The patterns of a .dockerignore file. Names are relative to its directory, with `/` between the parts."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line))]
        self._has_exceptions = any(not leaves_out for _, leaves_out in self._rules)

    def matches(self, name: str) -> bool:
        """Whether the file `name` is ignored: it, or a directory above it, matches."""
        left_out = False
        for pattern, leaves_out in self._rules:
            if leaves_out != left_out and any(pattern.fullmatch(part) for part in _with_parents(name)):
                left_out = leaves_out
        return left_out

    def prunes(self, name: str) -> bool:
        """Whether the directory `name` can be skipped: it is ignored and no `!` pattern can bring back a file in it."""
        return not self._has_exceptions and self.matches(name)


def _with_parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _rule(line: str) -> tuple[re.Pattern[str], bool] | None:
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    leaves_out = not text.startswith("!")
    parts = [part for part in text.lstrip("!").strip().split("/") if part not in ("", ".")]
    return (re.compile(_translate("/".join(parts)), re.DOTALL), leaves_out) if parts else None


def _translate(glob: str) -> str:
    pieces = re.findall(r"\*\*/?|\*|\?|\[(?:\\.|[^\]\\])*\]|\\.|.", glob)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(special.get(piece) or _expression(piece) for piece in pieces)


def _expression(piece: str) -> str:
    """Return a character, or a class such as `[^a-z]`, in which only the dash has a meaning of its own."""
    if len(piece) == 1 or piece[0] != "[":
        return re.escape(piece.removeprefix("\\") or "\\")
    negation, text = ("^", piece[2:-1]) if piece[1] == "^" else ("", piece[1:-1])
    escaped = re.sub(r"\\(.)|([^-])", lambda match: re.escape(match[1] or match[2]), text)
    return f"[{negation}{escaped}]"


MAX_DIRECTORY = 512 * 1024 * 1024
"""The largest `code:` directory. It is read on every run; more than this is data."""

_ALWAYS_IGNORED = ("**/__pycache__", "**/*.pyc", ".git", "**/.DS_Store")


@dataclass(frozen=True)
class Code:
    """A packed `code:` directory; `archive` is an uncompressed tar of its files, and `digest` its sha256."""

    source: str
    digest: str
    archive: bytes

    @property
    def size(self) -> int:
        """The archive's size in bytes."""
        return len(self.archive)

    def names(self) -> list[str]:
        """Return the names of its files, relative to the directory."""
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            return archive.getnames()


class _LeadsOutError(OSError):
    """A symbolic link that leads out of the directory."""


def pack(directory: Path, at: Position, never: Collection[Path] = ()) -> Code:
    """Pack `directory`, without the files and directories in `never`, whatever .dockerignore says.

    InvalidInput, at `at`, when it is not a directory or is too large.
    """
    check_directory(directory, at, "code", "the training program")
    data = archive_directory(directory, at, "code", never=never)
    return Code(str(directory), f"sha256:{hashlib.sha256(data).hexdigest()}", data)


def check_directory(directory: Path, at: Position, key: str, content: str) -> None:
    """Raise InvalidInput, naming the setting `key` and its `content`, when `directory` is not a directory."""
    if not directory.is_dir():
        reason = "is not a directory" if directory.exists() else "does not exist"
        raise InvalidInput([Problem(at, f"`{key}`: {directory} {reason}", f"give the directory that holds {content}")])


def archive_directory(  # noqa: PLR0913
    directory: Path,
    at: Position,
    key: str,
    *,
    left_out: Collection[str] = (),
    kept: Collection[str] = (),
    never: Collection[Path] = (),
) -> bytes:
    """Return a tar of the files of `directory` that its .dockerignore does not exclude, and of those in `kept`.

    Names are sorted; owners, times and the umask's share of the modes are dropped. The patterns `left_out` are added to
    the .dockerignore; `never` is left out even where a pattern brings it back. InvalidInput, at `at` and naming the
    setting `key`, when the directory is too large or cannot be read.
    """
    buffer = io.BytesIO()
    try:
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in _files(directory, left_out, kept, _below(directory, never)):
                status = path.lstat()
                if buffer.tell() + status.st_size > MAX_DIRECTORY:
                    what = f"`{key}`: {directory} is larger than {MAX_DIRECTORY // 1024**2} MiB"
                    raise InvalidInput([Problem(at, what, "leave data out with a .dockerignore file")])
                _add(archive, name, path, status)
    except OSError as error:
        fix = "remove it, or name it in .dockerignore" if isinstance(error, _LeadsOutError) else "make it readable"
        raise InvalidInput([Problem(at, f"`{key}`: {error.strerror}: {error.filename}", fix)]) from None
    return buffer.getvalue()


def _below(directory: Path, paths: Collection[Path]) -> frozenset[str]:
    """Return the names, relative to `directory`, of the `paths` inside it; of a link, its own name and its target's."""
    top = os.path.realpath(directory)
    real = {os.path.realpath(path) for path in paths}
    real |= {os.path.join(os.path.realpath(path.parent), path.name) for path in paths}  # noqa: PTH118  names, not files
    return frozenset(path[len(top) + 1 :] for path in real if path.startswith(f"{top}/"))


def _files(
    directory: Path, left_out: Collection[str], kept: Collection[str], never: Collection[str]
) -> Iterator[tuple[str, Path]]:
    ignore_file = directory / ".dockerignore"
    ignore = Ignore([*_ALWAYS_IGNORED, *_read_patterns(ignore_file), *left_out])
    entries: list[tuple[str, Path]] = []

    def refuse(error: OSError) -> None:
        """Raise the error of a directory that cannot be read: os.walk leaves it out without a word."""
        if not ignore.matches(_relative_name(Path(error.filename), directory)):
            raise error

    for parent, folders, files in os.walk(directory, onerror=refuse):
        base = Path(parent)
        below = {name: _relative_name(base / name, directory) for name in (*folders, *files)}
        folders[:] = [name for name in folders if below[name] not in never and not _prunes(ignore, below[name], kept)]
        links = [name for name in folders if (base / name).is_symlink()]
        entries.extend((below[name], base / name) for name in (*files, *links) if below[name] not in never)
    yield from sorted((name, path) for name, path in entries if name in kept or not ignore.matches(name))


def _read_patterns(ignore_file: Path) -> list[str]:
    """Return the lines of a .dockerignore. InvalidInput, at its line, for one that is no pattern."""
    lines = ignore_file.read_text("utf-8-sig", errors="replace").splitlines() if ignore_file.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            _rule(line)
        except re.error as error:
            what = f"`{printable(line)}` is no pattern: {one_line(error.msg)}"
            raise InvalidInput([Problem(Position(str(ignore_file), number), what, "correct it")]) from None
    return lines


def _prunes(ignore: Ignore, folder: str, kept: Collection[str]) -> bool:
    return ignore.prunes(folder) and not any(name.startswith(f"{folder}/") for name in kept)


def _relative_name(path: Path, root: Path) -> str:
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


MAX_ARCHIVES = 20
"""Archives kept; the least recently used are removed. They can be made again from the `code:` directory."""


class CodeStore:
    """The archives under `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _path(self, digest: str) -> Path:
        return self.directory / f"{digest.removeprefix('sha256:')}.tar"

    def digests(self) -> frozenset[str]:
        """Return the digests of everything stored."""
        return frozenset(f"sha256:{path.stem}" for path in self.directory.glob("*.tar"))

    def put(self, code: Code) -> None:
        """Store `code`, and remove the least recently used archives. Raises TfprovError."""
        try:
            private_directory(self.directory)
            with self._lock():
                replace(self._path(code.digest), code.archive, mode=0o600)
                by_age = sorted(self.directory.glob("*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
                for path in by_age[MAX_ARCHIVES:]:
                    path.unlink()
        except OSError as error:
            what = f"the packed code cannot be stored: {error.filename or self.directory}: {error.strerror}"
            raise TfprovError(what, "check its permissions, and the room on its disk") from None

    def get(self, digest: str) -> bytes:
        """Return the archive of `digest`."""
        path = self._path(digest)
        with self._lock():
            archive = path.read_bytes()
            path.touch()
        return archive

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the store against other runs: all clusters share it."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
