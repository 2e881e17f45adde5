"""Records a run as it happens: every event and sample of progress at once, logs twice a second."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfprov.engine.events import (
    ActionDone,
    ActionsPlanned,
    Event,
    Incident,
    LogLine,
    RunStarted,
    TaskChanged,
    TrainingProgress,
)
from tfprov.errors import mask_secrets
from tfprov.file_locks import open_lock, take_lock
from tfprov.history.event_json import progress_json, task_json, to_json
from tfprov.history.json_lines import Appender, read_lines
from tfprov.history.log_store import TaskLog, limit_for, read_log
from tfprov.history.run_dir import RunDir
from tfprov.history.totals import Totals

_FLUSH = 0.5
"""Seconds between two writes of the logs."""
_AT_ONCE = 5000
"""Lines of logs that are held back before they are written at once."""


class Recorder:
    """Records the events of one verb in `directory`; `handle` is called from several threads.

    Nothing is written before `open`: a verb that is refused leaves no run. A full disk ends the recording with one call of
    `warn`, and not the verb. `wall` returns seconds since 1970.
    """

    def __init__(
        self,
        directory: RunDir,
        verb: str,
        tasks: int = 1,
        *,
        warn: Callable[[str], None] = lambda _text: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.directory, self.totals = directory, Totals()
        self._verb, self._tasks, self._warn, self._wall = verb, tasks, warn, wall
        self._lock = threading.RLock()
        self._before: list[dict[str, Any]] = []
        self._open, self._failed, self._fresh = False, False, True
        self._acted = False
        self._logs: dict[str, TaskLog] = {}
        self._log_lock = -1
        self._stop = threading.Event()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened in a run that this recorder has made."""
        return self._fresh and self._open and not self.totals.tasks and not self._acted

    def discard(self) -> None:
        """Remove the directory."""
        with self._lock:
            with suppress(OSError):
                self.directory.erase()
            self._failed = True

    def fill_log(self, task: str, at: float, lines: Sequence[str]) -> None:
        """Add the lines of a log that was read as a whole, and of which fewer lines were recorded than it has."""
        with self._lock:
            self._guarded(lambda: self._fill_log(task, at, lines))

    def _fill_log(self, task: str, at: float, lines: Sequence[str]) -> None:
        if self._failed or not self._open or not self._may_log():
            return
        self.flush()
        known = list(read_log(self.directory.logs, task))
        if any(line.gap for line in known) or len(lines) <= len(known):
            return
        log = self._log_of(task)
        log.skip()
        for number in range(len(known), len(lines), _AT_ONCE):
            for line in lines[number : number + _AT_ONCE]:
                log.add(at, mask_secrets(line))
            log.flush()

    @property
    def is_open(self) -> bool:
        """Whether the run has a directory."""
        return self._open

    # -- opening ------------------------------------------------------------------------------------------------------

    def open(self, describe: Callable[[], Mapping[str, Any]], *, refresh: bool = True) -> None:
        """Create the directory, or go on in that of an earlier verb, and write what was held back.

        `describe` returns the description for run.json, which an existing one gives way to if `refresh`.
        """
        with self._lock:
            if not self._open and not self._failed:
                self._guarded(lambda: self._begin(describe, refresh=refresh))

    def _begin(self, describe: Callable[[], Mapping[str, Any]], *, refresh: bool) -> None:
        writer = None
        if not self.directory.path.exists():
            writer = self.directory.create({**self._beginning(), **describe()})
        self._fresh = writer is not None
        if writer is None:
            self.directory.reserve()
            self.totals.add_lines(read_lines(self.directory.events))
            writer = self.directory.hold()
        self._writer = writer
        self._events, self._progress = Appender(self.directory.events), Appender(self.directory.progress)
        self._open = True
        if not self._fresh and (refresh or not self.directory.run_file.exists()):
            self.describe(describe())
        session = {"event": "verb_started", "verb": self._verb, "pid": os.getpid()}
        for record in [{"at": self._wall(), **session}, *self._before]:
            self._events.append(record)
        self._before = []
        threading.Thread(target=self._flush_logs, name="tfprov-history", daemon=True).start()

    def describe(self, description: Mapping[str, Any]) -> None:
        """Replace run.json, but for the start of the run and the verb that began it; not after `discard` or an error."""
        if self._failed:
            return
        with suppress(OSError, ValueError, KeyError):
            before = self.directory.read(self.directory.run_file)
            description = {**description, "started": before["started"], "verb": before["verb"]}
        self._guarded(lambda: self.directory.write(self.directory.run_file, {**self._beginning(), **description}))

    def _beginning(self) -> dict[str, Any]:
        return {"run": self.directory.id, "verb": self._verb, "started": self._wall()}

    def moved(self, run: str) -> None:
        """Go on as the run `run`: its id is known once its tasks start, after this directory was made."""
        with self._lock:
            other = RunDir(self.directory.path.with_name(run))
            if run == self.directory.id:
                return
            if self._open:
                self._guarded(lambda: self._move(other))
            else:
                self.directory = other

    def _move(self, other: RunDir) -> None:
        """Rename a directory that this recorder has made; leave an earlier run, and go on in another directory."""
        self.flush()
        if self._fresh and not other.path.exists():
            self.directory.path.rename(other.path)
            self.directory, logged, self._logs = other, [*self._logs], {}
            for task in logged:  # its next lines follow those of before
                self._log_of(task).skip()
            other.write(other.run_file, {**other.read(other.run_file), "run": other.id})
            return
        before, description = self.directory, self.directory.read(self.directory.run_file)
        lines = [*read_lines(before.events)] if self._fresh else []
        if not self._fresh:  # it was left running, as after `up`, and nobody was killed
            self._append({"at": round(self._wall(), 3), "event": "verb_ended", "verb": self._verb})
        begun = {**description, "run": other.id, "started": self._wall(), "verb": self._verb}
        writer = None if other.path.exists() else other.create(begun)
        fresh = writer is not None
        if writer is None:
            other.reserve()
            writer = other.hold()
        # Before the others are closed, as it may fail: their descriptors would be closed twice.
        opened = writer, Appender(other.events), Appender(other.progress)
        self._close_files()
        self.directory, self._fresh = other, fresh
        self._writer, self._events, self._progress = opened
        self.totals.goes_on(read_lines(other.events))
        for line in lines:
            self._events.append(line)
        if lines:
            with suppress(OSError):
                before.erase()
        if other.run_file.exists():
            self.describe({**description, "run": other.id})
        else:
            other.write(other.run_file, begun)

    # -- events -------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Record an event; after an error it counts still, as the end of the run depends on it."""
        with self._lock:
            if isinstance(event, RunStarted) and not self._failed:
                self.moved(event.run)
                self._guarded(lambda: self.directory.end_file.unlink(missing_ok=True))  # it goes on: `run --resume`
            self._guarded(lambda: self._record(event))

    def _record(self, event: Event) -> None:
        at = self._wall()
        match event:
            case LogLine(task, line):
                self._log(at, task, line)
                return
            case TrainingProgress():
                if self.totals.progress(event, at) and self._open and not self._failed:
                    self._progress.append({"at": round(at, 3), **progress_json(event)})
                return
            case ActionsPlanned(actions):
                self._acted = self._acted or bool(actions)
            case ActionDone(action):
                self.totals.action_done(action)
            case TaskChanged(observed):
                self.totals.task(task_json(observed))
            case Incident():
                self.totals.incident(event, at)
        if (record := to_json(event)) is not None:
            self._append({"at": round(at, 3), **record})

    def _append(self, record: dict[str, Any]) -> None:
        if not self._failed:
            (self._events.append if self._open else self._before.append)(record)

    def record(self, **fields: Any) -> None:
        """Record an event that is no event of the engine."""
        with self._lock:
            self._guarded(lambda: self._append({"at": round(self._wall(), 3), **fields}))

    # -- logs ---------------------------------------------------------------------------------------------------------

    def _log(self, at: float, task: str, line: str) -> None:
        if self._failed or not self._open or not self._may_log():
            return
        log = self._log_of(task)
        log.add(at, mask_secrets(line))
        if log.pending >= _AT_ONCE:
            log.flush()

    def _log_of(self, task: str) -> TaskLog:
        if task not in self._logs:
            self._logs[task] = TaskLog(self.directory.logs, task, limit_for(self._tasks))
        return self._logs[task]

    def _may_log(self) -> bool:
        """Whether this recorder is the one that writes the logs: another one may follow the same training."""
        if self._log_lock == -1:
            self._log_lock = _lock_logs(self.directory.logs)
        return self._log_lock >= 0

    def _flush_logs(self) -> None:
        while not self._stop.wait(_FLUSH):
            self.flush()

    def flush(self) -> None:
        """Write the lines that are held back."""
        with self._lock:
            for log in self._logs.values() if not self._failed else ():
                self._guarded(log.flush)

    # -- the end ------------------------------------------------------------------------------------------------------

    def end(self, record: Mapping[str, Any]) -> None:
        """Write end.json, also after an error: a run that ends well must not count as interrupted for a full disk."""
        with self._lock:
            if self._open and self.directory.path.is_dir():  # not after `discard`
                self._guarded(lambda: self.directory.write_end(record))

    def close(self, **fields: Any) -> None:
        """Record the end of the verb, and let the directory go. `fields` are its outcome."""
        self._stop.set()
        self.flush()
        with self._lock:
            if self._open:
                self.record(event="verb_ended", verb=self._verb, **fields)
                self._close_files()
                self._open = False

    def _close_files(self) -> None:
        self._events.close()
        self._progress.close()
        for log in (self._writer, self._log_lock):
            if log >= 0:
                os.close(log)
        self._log_lock, self._logs = -1, {}

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            warned, self._failed = self._failed, True
            if not warned:
                self._warn(f"the run is not recorded any more: {self.directory.path}: {error.strerror}")


def _lock_logs(directory: Path) -> int:
    """Return a descriptor that holds the lock of the logs, or -2 if another process has it."""
    directory.mkdir(mode=0o700, exist_ok=True)
    descriptor = open_lock(directory / "lock")
    if not take_lock(descriptor):
        os.close(descriptor)
        return -2
    return descriptor
