"""An index of ended runs in SQLite, so that a table of hundreds of runs does not read all their files.

The directories of the runs are the truth: the file can be removed at any time, and is rebuilt when it is missing, damaged
or of another version.
"""

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tfprov.history.run_dir import RunDir
from tfprov.history.summary import RunSummary, summarize

VERSION = 1
"""`PRAGMA user_version` of the file; another one is thrown away."""
_SECONDS = 2.0
"""Seconds to wait for another process that writes."""
_CREATE = """
CREATE TABLE IF NOT EXISTS runs (
    cluster TEXT NOT NULL, run TEXT NOT NULL, stamp TEXT NOT NULL, summary TEXT NOT NULL, PRIMARY KEY (cluster, run)
) WITHOUT ROWID
"""


class RunIndex:
    """The index at `path`; a context manager. Without write access it works as if it were empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._clusters: set[str] = set()
        self._new: dict[tuple[str, str], tuple[str, str]] = {}

    def __enter__(self) -> "RunIndex":
        with suppress(sqlite3.Error, OSError):
            self._load()
        return self

    def __exit__(self, *_: object) -> None:
        gone = {key for key in self._known if key[0] in self._clusters and key not in self._seen}
        if self._new or gone:
            with suppress(sqlite3.Error, OSError):
                self._save(gone)

    def summary(self, directory: RunDir) -> RunSummary:
        """Return the summary of a run: the stored one, if the run has ended and its files are unchanged."""
        key = directory.cluster, directory.id
        self._clusters.add(directory.cluster)
        self._seen.add(key)
        stamp = _stamp(directory)
        if stamp is None:
            return summarize(directory)
        if (known := self._known.get(key)) is not None and known[0] == stamp:
            with suppress(ValueError, TypeError):
                return RunSummary(**json.loads(known[1]))
        summary = summarize(directory)
        if summary.ended is not None:
            values: dict[str, Any] = {name: getattr(summary, name) for name in RunSummary.__dataclass_fields__}
            self._new[key] = stamp, json.dumps(values)
        return summary

    def _load(self) -> None:
        if not self._path.exists():
            return
        try:
            with closing(sqlite3.connect(self._path, timeout=_SECONDS)) as file:
                if file.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                    rows = file.execute("SELECT cluster, run, stamp, summary FROM runs")
                    self._known = {(cluster, run): (stamp, summary) for cluster, run, stamp, summary in rows}
                    return
        except sqlite3.OperationalError:  # locked, or not to be read
            return
        except sqlite3.DatabaseError:  # damaged
            pass
        self._path.unlink(missing_ok=True)

    def _save(self, gone: set[tuple[str, str]]) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        with closing(sqlite3.connect(self._path, timeout=_SECONDS)) as file, file:
            file.execute(_CREATE)
            file.execute(f"PRAGMA user_version = {VERSION}")
            file.executemany("DELETE FROM runs WHERE cluster = ? AND run = ?", sorted(gone))
            rows = [(*key, *value) for key, value in self._new.items()]
            file.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", rows)


def _stamp(directory: RunDir) -> str | None:
    """Return what changes with the files of an ended run; None if it has not ended."""
    try:
        end, run = directory.end_file.stat(), directory.run_file.stat()
    except OSError:
        return None
    return f"{end.st_mtime_ns}:{end.st_size}:{run.st_mtime_ns}:{run.st_size}"
