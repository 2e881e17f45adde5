"""Streams: new files of a directory to rows, and micro-batches to files.

A reader's offset is the list of the files that were read, so that a file which appears late, or under an old time, is read
and no file is read twice. Files older than `maxFileAge` behind the newest are left out of it and no longer looked at.

A micro-batch is written once, also where Spark writes it again after a crash: its commit first writes the list of its files
under the query's id and the batch's number, and then renames them. A second commit finishes that list.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tfprov.errors import TfprovError
from tfprov.spark.listing import listed
from tfprov.spark.options import Options
from tfprov.spark.part_files import PartFiles, Written
from tfprov.spark.reader import FileReader, FilesPartition, planned
from tfprov.spark.storage import Storage
from tfprov.spark.writer import layout_of, rename

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # Spark 4.1 asks for no limit, and reads all in one batch with the trigger `availableNow`
    limits = None

_BATCHES = "_batches"
"""Where the lists of committed files are, by query and batch."""
_KEPT = 2
"""Batches of a query whose lists are kept: after a crash, Spark runs the last one again."""
Offset = dict[str, Any]


class StreamReader(DataSourceStreamReader):
    """Reads the files that appear."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._reader = FileReader(options, schema)
        self._seen: dict[str, float] = {}
        self._until: frozenset[str] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset before the first file."""
        return {"files": "{}"}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  Spark's name; Spark 4.1 does not ask
        """Return how much a micro-batch reads."""
        limit = self._reader.options.max_files
        return limits.ReadMaxFiles(limit) if limit else limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Read the files of now, and then no more."""
        self._until = frozenset(file.path for file in listed(self._reader.options))

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Return the offset after the next files: all that there are, or as many as the limit says, oldest first.

        Spark 4.1 passes nothing, and gets all files behind the last offset.
        """
        seen = self._seen if start is None else json.loads(start["files"])
        most = getattr(limit, "max_files", None)
        files = {file.path: file.modified for file in listed(self._reader.options)}
        oldest = max([*files.values(), *seen.values()], default=0) - self._reader.options.max_file_age
        new = [path for path, changed in sorted(files.items(), key=lambda item: (item[1], item[0]))
               if path not in seen and changed >= oldest and (self._until is None or path in self._until)]  # fmt: skip
        if not new:
            return start or {"files": json.dumps(seen, sort_keys=True)}
        kept = {path: changed for path, changed in seen.items() if changed >= oldest}
        self._seen = kept | {path: files[path] for path in new[:most]}
        return {"files": json.dumps(self._seen, sort_keys=True)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks that read the files between two offsets."""
        before, after = json.loads(start["files"]), json.loads(end["files"])
        self._seen = self._seen | after  # after a restart, Spark begins here
        files = [file for file in listed(self._reader.options) if file.path in after and file.path not in before]
        missing = (after.keys() - before.keys()) - {file.path for file in files}
        if missing:
            raise TfprovError(f"{min(missing)}: the file was removed before it was read", "restore it")
        return planned(files)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, FilesPartition)
        return self._reader.batches(partition.files)


@dataclass
class StreamFiles(WriterCommitMessage):
    """What a task of a micro-batch has written, and for which query."""

    query: str
    scratch: str
    files: tuple[Written, ...]


class AvailableNowReader(StreamReader, getattr(limits, "SupportsTriggerAvailableNow", object)):  # type: ignore[misc]
    """The same, with the class by which Spark knows that it supports the trigger `availableNow`."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch as files of its own."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._path = options.path
        self._layout = layout_of(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, and return its files."""
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId") or "stream"
        batch = context.getLocalProperty("streaming.sql.batchId") or "0"
        storage = Storage(self._path)
        scratch = f"{storage.root}/_temporary/{query}-{batch}"
        storage.make_directories(scratch)
        attempt = f"{scratch}/{context.stageId()}-{context.taskAttemptId()}"
        name = f"part-{context.partitionId():05}-{query}-{batch}-{context.taskAttemptId()}"
        files = PartFiles(storage, self._layout, name, attempt).write(iterator)
        return StreamFiles(query, scratch, tuple(files))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Give the files of a micro-batch their names, once."""
        parts = [message for message in messages if isinstance(message, StreamFiles)]
        if not parts:
            return
        storage = Storage(self._path)
        record = f"{storage.root}/{_BATCHES}/{parts[0].query}/{batchId}.json"
        committed = storage.read(record)
        if committed is None:
            files = [file for part in parts for file in part.files]
            storage.write(record, json.dumps([[file.part, file.target] for file in files]).encode())
        else:  # by an earlier run of the same batch, which may have ended in the middle
            files = [Written(*pair) for pair in json.loads(committed)]
            files = [file for file in files if storage.info(file.part) is not None]
        rename(storage, files)
        _clean(storage, parts[0], batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks have written, as far as Spark knows of it."""
        storage = Storage(self._path)
        for message in messages:
            if isinstance(message, StreamFiles):
                storage.remove([file.part for file in message.files])


def _clean(storage: Storage, part: StreamFiles, batch: int) -> None:
    """Remove the lists of batches that are not run again, and what attempts of this query have left."""
    records = storage.entries(f"{storage.root}/{_BATCHES}/{part.query}")
    storage.remove([entry.name for entry in records if _number(entry.name) <= batch - _KEPT])
    temporary, _, scratch = part.scratch.rpartition("/")
    query = scratch.rpartition("-")[0]
    for entry in storage.entries(temporary):
        if entry.name.startswith(f"{temporary}/{query}-"):
            storage.remove_tree(entry.name)


def _number(record: str) -> int:
    return int(record.rpartition("/")[2].removesuffix(".json"))
