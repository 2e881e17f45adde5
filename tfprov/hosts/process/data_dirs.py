"""Data sets of the process runtime: directories, filled under a temporary name and renamed once complete."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from tfprov.atomic_write import private_directory, sync
from tfprov.errors import HostError
from tfprov.hosts.data_download import PROGRAM, FetchOutput, FetchProgress, fetch_command, fetch_request
from tfprov.hosts.process.spec import SAFE_PATH
from tfprov.hosts.process.task_dir import complete_entries
from tfprov.model.state import DATA_PREFIX, DataSet, dataset_key


class DataDirs:
    """The data sets in the directory `root`, which belongs to the inventory's `host`."""

    def __init__(self, host: str, root: Path) -> None:
        self.host, self.root = host, root

    def path(self, key: str) -> Path:
        """Return the directory of the complete data set `key`."""
        return self.root / key

    def complete(self) -> frozenset[str]:
        """Return the artifacts of the complete data sets."""
        return frozenset(DATA_PREFIX + path.name for path in complete_entries(self.root))

    def fetch(self, data: DataSet, progress: FetchProgress) -> None:
        """Fetch `data` unless it is complete, continuing an interrupted fetch. Raises HostError."""
        final = self.path(data.key)
        partial = final.with_name(f".{final.name}")
        if final.is_dir():
            return
        private_directory(partial)
        try:
            self._fill(partial, data, progress)
            partial.rename(final)
        except (HostError, OSError):
            if not final.is_dir():  # no concurrent fetch has completed it
                raise
            shutil.rmtree(partial, ignore_errors=True)
        sync(self.root)

    def _fill(self, directory: Path, data: DataSet, progress: FetchProgress) -> None:
        output = FetchOutput(self.host, progress)
        with tempfile.TemporaryFile() as stderr:
            # In its own session, so that Ctrl-C does not reach it; it ends with its input.
            child = subprocess.Popen(
                fetch_command(data, [sys.executable, "-I"], str(PROGRAM), str(directory)),
                env={**os.environ, **SAFE_PATH},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                for line in _run_fetch(child, fetch_request(data, progress.retry_pause), progress):
                    output.append(1, line)
            finally:
                _end(child)
            stderr.seek(0)
            output.append(2, stderr.read(100_000))
        output.finish()

    def remove_unused_data(self, keep: Collection[str], used: Collection[str]) -> int:
        """Remove data sets, complete or not, that are neither in `keep` nor `used`; return the number of complete ones."""
        kept = {dataset_key(artifact) for artifact in (*keep, *used)}
        complete = [path for path in complete_entries(self.root) if path.name not in kept]
        for path in complete:  # a final name must never stand for an incomplete set
            shutil.rmtree(path.with_name(f".{path.name}"), ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):  # removed by a concurrent call
                path.rename(path.with_name(f".{path.name}"))
        for path in self._all():
            if path.name.lstrip(".") not in kept:
                shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or missing
            self.root.rmdir()
        return len(complete)

    def _all(self) -> list[Path]:
        return sorted(self.root.iterdir()) if self.root.is_dir() else []


def _run_fetch(child: "subprocess.Popen[bytes]", line: bytes, progress: FetchProgress) -> Iterator[bytes]:
    assert child.stdin is not None
    assert child.stdout is not None
    stdin = child.stdin.fileno()
    with contextlib.suppress(BrokenPipeError):  # it has ended, and its standard error says why
        child.stdin.write(line)
        child.stdin.flush()
    with progress.sending(lambda data: os.write(stdin, data)):
        yield from child.stdout


def _end(child: "subprocess.Popen[bytes]") -> None:
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    child.wait()
