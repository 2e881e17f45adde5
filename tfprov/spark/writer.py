"""The commit protocol of a batch write: tasks write under names of their attempts, the driver gives the files their own.

What a reader sees: nothing of a write that failed, and all files of one that ended. A task that is run twice (again after
a failure, or speculatively) leaves two sets of files, of which Spark names one in its messages; the other one is removed.
An overwrite removes what was there after the new files have their names: nothing is lost where it is interrupted.
"""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tfprov.errors import one_line
from tfprov.spark.options import Options
from tfprov.spark.part_files import Layout, PartFiles, Written
from tfprov.spark.schemas import arrow_schema, data_columns
from tfprov.spark.storage import Storage, is_hidden
from tfprov.tfrecord.compression import codec_of
from tfprov.tfrecord.files import FileError

SUCCESS = "_SUCCESS"
_TEMPORARY = "_temporary"
_RUNS = "_runs"
"""A file beside the directories of attempts, on file systems of a network: without it, the job has ended."""
_THREADS = 16
"""Renames at a time on a file system of a network, where each copies the file."""


@dataclass
class Files(WriterCommitMessage):
    """What a task has written."""

    files: tuple[Written, ...]


def layout_of(options: Options, schema: StructType) -> Layout:
    """Return how a table with this schema is written; raises SchemaError for what records cannot have."""
    columns = arrow_schema(schema)
    data_columns(columns, options.partition_by, options.record_type)
    return Layout(columns, options.partition_by, options.record_type, codec_of("", options.compression))


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        self._options, self._overwrite = options, overwrite
        self._layout = layout_of(options, schema)
        self._job = uuid.uuid4().hex
        self._path = options.path
        storage = Storage(self._path)
        if storage.is_file():
            raise FileError(f"{one_line(self._path)}: there is a file of this name", "name a directory")
        if not options.local:
            storage.make_directories(self._scratch(storage))
            if not storage.is_local:
                storage.close(storage.create(self._mark(storage)))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, and return its files."""
        context = TaskContext.get()
        assert context is not None
        return self.write_partition(iterator, context.partitionId(), context.taskAttemptId())

    def write_partition(self, iterator: Iterator[pa.RecordBatch], partition: int, task_attempt: int) -> Files:
        """Write the rows of a partition by an attempt at its task, and return its files."""
        storage = Storage(self._path)
        name = f"part-{partition:05}-{self._job}"
        if self._options.local:
            return self._write_here(storage, name, f"{storage.root}/.{self._job}-{task_attempt}", iterator)
        attempt = f"{self._scratch(storage)}/{task_attempt}"
        if not storage.is_local:
            return self._write_there(storage, name, attempt, iterator)
        return Files(tuple(PartFiles(storage, self._layout, name, attempt).write(iterator)))

    def _write_there(self, storage: Storage, name: str, attempt: str, batches: Iterator[pa.RecordBatch]) -> Files:
        """Write files on a file system that makes their directories, also those that the driver has removed.

        An attempt that goes on after its job has ended removes what it has written: nobody else would.
        """
        written: list[Written] = []
        if runs := self._runs():
            try:
                written = PartFiles(storage, self._layout, name, attempt).write(batches)
            finally:
                if not (runs := self._runs()):
                    storage.remove_tree(self._scratch(storage))
        if not runs:
            raise FileError(f"{one_line(self._path)}: the job of this task has ended")
        return Files(tuple(written))

    def _write_here(self, storage: Storage, name: str, attempt: str, batches: Iterator[pa.RecordBatch]) -> Files:
        """Write files of this host, and name them: the driver does not see its disk."""
        storage.make_directories(storage.root)
        try:
            rename(storage, PartFiles(storage, self._layout, name, attempt).write(batches))
        finally:
            storage.remove_tree(attempt)
        return Files(())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give all files their names, and remove what they replace."""
        if self._options.local:
            return
        storage = Storage(self._path)
        files = [file for message in messages if isinstance(message, Files) for file in message.files]
        replaced = self._replaced(storage, files) if self._overwrite else []
        success = f"{storage.root}/{SUCCESS}"
        complete = storage.info(success) is not None
        storage.remove([success])
        try:
            rename(storage, files)
        except BaseException:
            self._roll_back(storage, files, complete=complete)
            raise
        storage.remove(replaced)
        self._end(storage)
        storage.write(success, b"")

    def _roll_back(self, storage: Storage, files: Sequence[Written], *, complete: bool) -> None:
        """Remove the files that have their names already; no other job has these."""
        for file in files:
            with contextlib.suppress(FileError):  # one that could not be named cannot be removed either
                storage.remove([file.target])
        if complete:
            storage.write(f"{storage.root}/{SUCCESS}", b"")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks have written."""
        if not self._options.local:
            self._end(Storage(self._path))

    def _end(self, storage: Storage) -> None:
        """Remove what attempts have left, once no file of theirs is needed any more; those that go on learn it first."""
        if not storage.is_local:
            storage.remove([self._mark(storage)])
        storage.remove_tree(self._scratch(storage))

    def _runs(self) -> bool:
        storage = Storage(self._path)  # with no listing of before
        return storage.info(self._mark(storage)) is not None

    def _mark(self, storage: Storage) -> str:
        return f"{self._scratch(storage)}/{_RUNS}"

    def _scratch(self, storage: Storage) -> str:
        return f"{storage.root}/{_TEMPORARY}/{self._job}"

    def _replaced(self, storage: Storage, files: Sequence[Written]) -> list[str]:
        if not self._options.dynamic_overwrite:
            return list(storage.files(storage.root))
        folders = sorted({file.target.rpartition("/")[0] for file in files})
        entries = [entry for folder in folders for entry in storage.entries(folder)]
        return [entry.name for entry in entries if not entry.is_directory and not is_hidden(entry.name)]


def rename(storage: Storage, files: Sequence[Written]) -> None:
    """Give files the names that they are to have."""
    with ThreadPoolExecutor(1 if storage.is_local else _THREADS) as pool:
        list(pool.map(lambda file: storage.rename(file.part, file.target), files))
