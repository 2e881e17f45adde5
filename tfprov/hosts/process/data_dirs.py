"""Data sets under the process runtime: directories of this machine, filled beside and named once they are whole."""

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
from tfprov.hosts.data_download import PROGRAM, Answers, Telling, order
from tfprov.hosts.process.task_dir import complete
from tfprov.model.state import DATA_PREFIX, DataSet, dataset_key


class DataDirs:
    """The data sets in the directory `root`, which the inventory calls a part of `host`."""

    def __init__(self, host: str, root: Path) -> None:
        self.host, self.root = host, root

    def path(self, key: str) -> Path:
        """Return where the data set with `key` is, once it is whole."""
        return self.root / key

    def whole(self) -> frozenset[str]:
        """Return the data sets that are there, as artifacts."""
        return frozenset(DATA_PREFIX + path.name for path in complete(self.root))

    def fetch(self, data: DataSet, telling: Telling) -> None:
        """Have `data` there; raises HostError. What an earlier fetch has left is gone on with."""
        final = self.path(data.key)
        beside = final.with_name(f".{final.name}")
        if final.is_dir():
            return
        private_directory(beside)
        try:
            self._fill(beside, data, telling)
            beside.rename(final)
        except (HostError, OSError):
            if not final.is_dir():  # nobody else has done it in the same moment
                raise
            shutil.rmtree(beside, ignore_errors=True)
        sync(self.root)

    def _fill(self, directory: Path, data: DataSet, telling: Telling) -> None:
        answers = Answers(self.host, telling)
        with tempfile.TemporaryFile() as complaints:
            # In a session of its own, so that Ctrl-C is not for it: it ends when its input does.
            child = subprocess.Popen(
                [sys.executable, "-I", str(PROGRAM), str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
            )
            try:
                for line in _asked(child, order(data, telling.pause), telling):
                    answers.take(1, line)
            finally:
                _end(child)
            complaints.seek(0)
            answers.take(2, complaints.read(100_000))
        answers.end()

    def tidy(self, keep: Collection[str], used: Collection[str]) -> int:
        """Remove the data sets, whole or not, that are neither in `keep` nor `used`; return how many were whole."""
        wanted = {dataset_key(artifact) for artifact in (*keep, *used)}
        whole = [path for path in complete(self.root) if path.name not in wanted]
        for path in whole:  # under its name, nothing is ever half
            shutil.rmtree(path.with_name(f".{path.name}"), ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):  # another fetch makes room as well
                path.rename(path.with_name(f".{path.name}"))
        for path in self._all():
            if path.name.lstrip(".") not in wanted:
                shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty, or not there
            self.root.rmdir()
        return len(whole)

    def _all(self) -> list[Path]:
        return sorted(self.root.iterdir()) if self.root.is_dir() else []


def _asked(child: "subprocess.Popen[bytes]", line: bytes, telling: Telling) -> Iterator[bytes]:
    assert child.stdin is not None
    assert child.stdout is not None
    stdin = child.stdin.fileno()
    with contextlib.suppress(BrokenPipeError):  # it has ended, and its complaint says why
        child.stdin.write(line)
        child.stdin.flush()
    with telling.sending(lambda data: os.write(stdin, data)):
        yield from child.stdout


def _end(child: "subprocess.Popen[bytes]") -> None:
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    child.wait()
