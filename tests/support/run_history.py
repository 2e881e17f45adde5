"""Recorded runs: made by the recorder from scripted events, as the verbs of a training would send them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

from tfprov.engine.events import ActionDone, Event, Incident, LogLine, Note, RunStarted, TaskChanged, TrainingProgress
from tfprov.formats.event_file import EventProgress
from tfprov.history.recorder import Recorder
from tfprov.history.run_dir import RunDir
from tfprov.history.totals import Totals
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import Observed, State


def run_id(number: int) -> str:
    """Return the id of the run that began `number` minutes after midnight."""
    hours, minutes = divmod(number, 60)
    return f"20260101T{hours:02}{minutes:02}00Z-{number:06x}"


def description(tasks: int = 2, **settings: Any) -> dict[str, Any]:
    """Return a description as `describe` makes it."""
    values = {"cluster": "lab", "flags": {"train_steps": 2000, **settings}}
    return {
        "cluster": "lab",
        "chief": "worker/0",
        "steps": 2000,
        "versions": {"tfprov": "0.1.0", "python": "3.11.2", "tensorflow": "2.18.0"},
        "code": [{"digest": "sha256:" + "ab" * 32, "directory": "/code", "git": None}],
        "images": [],
        "hosts": ["h1"],
        "tasks": [{"task": f"worker/{n}", "host": "h1", "role": "worker", "address": None} for n in range(tasks)],
        "settings": {"worker": {"h1": values}},
    }


def task(name: str, state: State = State.RUNNING, code: int | None = None, **fields: Any) -> TaskChanged:
    """Return the change of a task to `state`."""
    return TaskChanged(Observed(name, "h1", state, {}, run="r", exit_code=code, started_at=1.0, **fields))


def progress(step: int, loss: float | None = None) -> TrainingProgress:
    """Return progress at `step`; by default the loss falls with it."""
    return TrainingProgress(EventProgress(step, float(step), 50.0, 100 / (step + 1) if loss is None else loss), 2000)


def scripted(steps: int = 40, tasks: int = 2) -> Iterator[Event]:
    """Yield the events of a training: its start, its steps with a log line of each task, a restart, its end."""
    for number in range(tasks):
        name = f"worker/{number}"
        yield ActionDone(Action(ActionKind.START, "h1", name, ("not there",)))
        yield task(name)
    for step in range(0, 50 * steps, 50):
        yield progress(step)
        yield from (LogLine(f"worker/{number}", f"step {step} of worker/{number}") for number in range(tasks))
    yield Incident(
        "the training went back 90 -> 50", IncidentKind.WENT_BACK, "worker/0", "h1", {"lost": 90, "resumed": 50}
    )
    yield task("worker/1", restarts=1, last_exit=137)
    for number in range(tasks):
        yield task(f"worker/{number}", State.EXITED, 0, finished_at=9.0, restarts=int(number == 1))


def record_run(
    runs: Path, number: int, events: Iterator[Event], *, end: Mapping[str, Any] | None = None, **settings: Any
) -> RunDir:
    """Record a run of the cluster of `runs` that begins `number` minutes after midnight; `end` ends it."""
    directory = RunDir(runs / run_id(number))
    times = count(60.0 * number + 1767225600 + (1800 if directory.path.exists() else 0))
    recorder = Recorder(directory, "run", wall=lambda: float(next(times)))
    recorder.open(lambda: description(**settings))
    for event in events:
        recorder.handle(event)
    if end is not None:
        recorder.end({**ending(recorder.totals), **end})
    recorder.close(exit_code=0, error="")
    return directory


def ending(totals: Totals) -> dict[str, Any]:
    """Return end.json of a training that succeeded."""
    return {
        "run": "r",
        "verb": "run",
        "ended": 1767229200.0,
        "outcome": "succeeded",
        "exit_code": 0,
        "error": "",
        "tasks": totals.tasks,
        "restarts": totals.restarts,
        "went_back": totals.went_back,
        "last": totals.last,
        "quality": {"eval/accuracy": 0.93, "train/mse": 0.1},
        "checkpoint": None,
    }


class Flushed(Recorder):
    """Has the number of the last log line that it received, and of the last one that is in the file for certain."""

    received = written = -1

    def flush(self) -> None:
        """Write the lines that are held back."""
        received = self.received
        super().flush()
        self.written = received


def stream(directory: Path, output: IO[str]) -> None:
    """Record an endless training, and report what was recorded: for a process that is killed in the middle."""
    recorder = Flushed(RunDir(directory), "run")
    recorder.open(description)
    recorder.handle(RunStarted(directory.name))
    for step in count():
        recorder.handle(progress(step))
        recorder.handle(LogLine("worker/0", f"line {step}"))
        recorder.received = step
        recorder.handle(Note(f"note {step}"))
        report = {"step": step, "written": recorder.written, "pid": os.getpid()}
        print(json.dumps(report), file=output, flush=True)
        time.sleep(0.001)


@contextmanager
def streams(directories: Sequence[Path]) -> Iterator[list[IO[bytes]]]:
    """Yield what a process for each directory writes in `stream`. All are forks of one, which imports tfprov once."""
    pipes = [os.pipe() for _ in directories]
    words = [word for (_, writer), directory in zip(pipes, directories, strict=True) for word in (writer, directory)]
    command = [sys.executable, "-m", "tests.support.run_history", *map(str, words)]
    parent = subprocess.Popen(command, pass_fds=[writer for _, writer in pipes])
    with ExitStack() as stack:
        stack.callback(parent.wait)  # each ends when it is killed, or when nobody reads its pipe any more
        for _, writer in pipes:
            os.close(writer)
        yield [stack.enter_context(os.fdopen(reader, "rb")) for reader, _ in pipes]


def main(words: Sequence[str]) -> None:
    """Fork a process that records in each directory; the descriptor that it writes to comes before the directory."""
    descriptors = [int(word) for word in words[::2]]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # one whose reader has gone ends quietly
    for descriptor, directory in zip(descriptors, words[1::2], strict=True):
        if not os.fork():
            for other in {*descriptors} - {descriptor}:
                os.close(other)
            with os.fdopen(descriptor, "w") as output:
                stream(Path(directory), output)
    for descriptor in descriptors:
        os.close(descriptor)
    for _ in descriptors:
        os.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
