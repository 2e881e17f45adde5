"""The rows that a task returns to the driver: how it ended, the value of the function, and its newest checkpoint."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCHEMA = "task string, kind string, name string, data binary"
CHUNK = 4 * 1024 * 1024
"""Bytes of a file in one row."""

Row = tuple[str, str, str, bytes]


@dataclass(frozen=True)
class End:
    """How a task ended: its exit code, negative for a signal; why it had to stop; its last lines."""

    task: str
    code: int
    stop: str = ""
    cause: str = ""
    lines: tuple[str, ...] = ()

    def row(self) -> Row:
        """Return it as a row."""
        return self.task, "end", "", json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Saved:
    """The newest whole checkpoint of the chief: the SHA-256 of each of its files, and how many tensors were read."""

    directory: str
    prefix: str
    step: int
    tensors: int
    files: Mapping[str, str]


def checkpoint_rows(task: str, saved: Saved, *, contents: bool) -> Iterator[Row]:
    """Yield a checkpoint; with `contents`, also its files, in pieces."""
    yield task, "checkpoint", saved.prefix, json.dumps(asdict(saved)).encode()
    if not contents:
        return
    for name in saved.files:
        with Path(saved.directory, name).open("rb") as file:
            for piece in iter(lambda: file.read(CHUNK), b""):
                yield task, "file", name, piece


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What all tasks returned."""

    ends: Mapping[str, End]
    value: bytes | None
    saved: Saved | None
    files: Mapping[str, Sequence[bytes]]


def outcome(rows: Iterable[Mapping[str, Any]]) -> Outcome:
    """Return the rows of all tasks as one value."""
    ends: dict[str, End] = {}
    value: bytes | None = None
    saved: Saved | None = None
    files: dict[str, list[bytes]] = {}
    for row in rows:
        if row["kind"] == "end":
            fields = json.loads(row["data"])
            ends[row["task"]] = End(**{**fields, "lines": tuple(fields["lines"])})
        elif row["kind"] == "value":
            value = row["data"]
        elif row["kind"] == "checkpoint":
            saved = Saved(**json.loads(row["data"]))
        else:
            files.setdefault(row["name"], []).append(row["data"])
    return Outcome(ends, value, saved, files)
