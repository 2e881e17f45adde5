"""Remote directories for tests of the mirror: on the local disk, through fsspec, with a connection that can be cut."""

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from tfprov.filesystems.remote_dir import RemoteDir, open_remote
from tfprov.runtime.mirror.mirror import Mirror
from tfprov.runtime.mirror.restore import Owner, take_over
from tfprov.runtime.mirror.scan import scan

URL = "s3://bucket/run"


class Cut(OSError):
    """The connection was cut."""


class _File:
    """A file whose content arrives piece by piece, and of which a part stays when the connection is cut."""

    def __init__(self, file: Any, step: Callable[[], None], path: Path, *, atomic: bool) -> None:
        self._file, self._step, self._path, self._atomic = file, step, path, atomic

    def write(self, data: bytes) -> None:
        middle = len(data) // 2
        for piece in (data[:middle], data[middle:]):
            self._step()
            self._file.write(piece)
            self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._step()
        if self._atomic:
            self._path.with_name(f"{self._path.name}.upload").replace(self._path)

    def discard(self) -> None:
        self._file.close()


class FaultyFileSystem(LocalFileSystem):  # type: ignore[misc]
    """A file system below a local directory whose connection is cut at the step `cut_at`, and stays cut.

    With `atomic`, a file appears when it is closed, as in S3; without, half of it can stay, as in HDFS. `steps` counts what
    was done: pieces written, files closed, listings, removals. `cut_at` None never cuts.
    """

    cachable = False

    def __init__(self, *, cut_at: int | None = None, atomic: bool = True) -> None:
        super().__init__()
        self.cut_at, self.atomic, self.steps = cut_at, atomic, 0
        self.seen: Callable[[], None] = lambda: None

    def step(self) -> None:
        if self.cut_at is not None and self.steps >= self.cut_at:
            raise Cut("the connection was cut")
        self.steps += 1
        self.seen()

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        self.step()
        if mode == "rb":
            return super()._open(path, mode, block_size, **options)
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.upload") if self.atomic else target
        return _File(part.open("wb"), self.step, target, atomic=self.atomic)

    def find(self, path: str, **options: Any) -> Any:
        self.step()
        paths = (Path(parent) / name for parent, _, names in os.walk(path) for name in names)
        return {str(it): {"size": it.stat().st_size, "type": "file"} for it in paths if it.suffix != ".upload"}

    def rm_file(self, path: str) -> None:
        self.step()
        Path(path).unlink()


def remote_dir(directory: Path, fs: Any = None) -> RemoteDir:
    """Return `directory` as a remote directory."""
    return RemoteDir(URL, fs or FaultyFileSystem(), str(directory))


def save(directory: Path, step: int, content: str = "weights", prefix: str = "model.ckpt-{}", keep: int = 5) -> str:
    """Save a checkpoint as TensorFlow does: shards, index, `checkpoint`, then the oldest beyond `keep` go."""
    directory.mkdir(parents=True, exist_ok=True)
    name = prefix.format(step)
    for suffix in ("data-00000-of-00001", "index"):
        part = directory / f"{name}.{suffix}.tempstate1"
        part.write_text(f"{content} {step} {suffix}" * 50)
        part.replace(directory / f"{name}.{suffix}")
    (directory / "checkpoint").write_text(f'model_checkpoint_path: "{directory}/{name}"\n')
    (directory / f"{name}.meta").write_text("graph")
    indexes = sorted(directory.glob("*.index"), key=lambda path: path.stat().st_mtime_ns)
    for index in indexes[:-keep]:
        for path in directory.glob(f"{index.stem}.*"):
            path.unlink()
    return name


def newest_manifest_file(directory: Path) -> dict[str, Any]:
    """Return the content of the newest manifest of a remote directory."""
    newest = max((directory / ".tfprov").glob("manifest-*.json"))
    content: dict[str, Any] = json.loads(newest.read_text())["manifest"]
    return content


class DyingDir(RemoteDir):
    """A remote directory whose user dies at the step `left`: pieces that are written, files that are complete, removals."""

    left = 0

    def step(self) -> None:
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, name: str, chunks: Iterable[bytes], size: int = 0) -> None:
        super().write(name, self._counted(chunks), size)
        self.step()

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for piece in chunks:
            self.step()
            yield piece[: len(piece) // 2]
            self.step()
            yield piece[len(piece) // 2 :]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.step()
            super().remove([name])


def mirror_until_death(local: Path, url: str, env: Mapping[str, str], steps: int) -> None:
    """Go on with the training at `url`: save and upload, and be killed at a step of an upload."""
    opened = open_remote(url, env)
    remote = DyingDir(url, opened.fs, opened.path)
    remote.left = steps
    manifest, listing = take_over(remote, local, Owner("cut", "run-1"), lambda _line: None)
    mirror = Mirror(local, remote, manifest, lambda _line: None)
    mirror.adopt(listing)
    while True:
        newest = scan(local).newest()
        save(local, (newest.step if newest else 0) + 1, keep=2)
        mirror.sync()
