"""Records a verb in the history of the cluster: a context manager around what the verb does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from tfprov.engine.context import Context
from tfprov.engine.events import Callback, Event, TrainingProgress
from tfprov.engine.run_ids import new_run
from tfprov.errors import (
    HUNG_UP,
    INTERRUPTED,
    OWN_CODES,
    TERMINATED,
    CombinedError,
    DeadlineExceeded,
    HangUp,
    Locked,
    TakenDown,
    TaskFailed,
    Terminated,
    TfprovError,
    mask_secrets,
)
from tfprov.formats.event_file import EventProgress
from tfprov.history.describe import describe, with_image_ids
from tfprov.history.ending import end_before, end_record, fill_logs, keep_beside_checkpoints
from tfprov.history.event_json import progress_json
from tfprov.history.json_lines import Appender, last_line
from tfprov.history.recorder import Recorder
from tfprov.history.run_dir import RunDir, run_dirs
from tfprov.history.summary import INTERRUPTED as INTERRUPTED_RUN
from tfprov.history.summary import summarize
from tfprov.model.state import Observation
from tfprov.notify.message import ending_of
from tfprov.notify.notifier import Notifier

_ENDING = ("run", "down", "play")
"""Verbs after which a run has ended, if none of its tasks runs."""
_NOTIFYING = ("up", "run", "down", "play")
"""Verbs that send notifications; others only look."""
_STARTING = ("up", "run", "play")
"""Verbs that start tasks, with the settings of now."""


@dataclass(frozen=True)
class Session:
    """A verb that is recorded: its context, and the recorder, None if nothing is recorded."""

    context: Context
    recorder: Recorder | None = None
    notifier: Notifier | None = None

    @property
    def run(self) -> str:
        """The id of the recorded run; empty if none is."""
        return self.recorder.directory.id if self.recorder is not None else ""


@contextmanager
def recording(context: Context, verb: str, run: str = "") -> Iterator[Session]:
    """Yield a session whose context reports to the history, too. `run` is the run that goes on; empty for a new one.

    The end of the block is the end of the verb; of the run, too, if the verb ends runs and no task runs any more.
    """
    if context.history is None:
        yield Session(context)
        return
    known = run
    run = run or context.new_run or new_run()
    recorder = Recorder(
        RunDir(context.history / run),
        verb,
        len(context.wanted),
        warn=context.report.note,
        wall=context.clock.wall,
    )
    begun = _written(recorder.directory)
    notifier = _notifier(context, recorder, verb)

    def pass_on(event: Event) -> None:
        recorder.handle(event)  # first: printing can fail, and be interrupted
        notifier.handle(event)
        event.send(context.report)

    # A chief that moved does not go on with its run, whose checkpoints have higher steps than it will save.
    anew = context.new_run or (new_run() if known else run)
    session = Session(replace(context, report=Callback(pass_on), new_run=anew), recorder, notifier)
    if run == known:  # a new one is announced when its tasks start
        context.report.run_started(run)
    recorder.open(lambda: describe(context), refresh=verb in _STARTING)
    try:
        yield session
    except BaseException as error:
        _close(session, verb, begun, error)
        raise
    _close(session, verb, begun, None)


def _notifier(context: Context, recorder: Recorder, verb: str) -> Notifier:
    targets = context.roles[0].values.notify if context.roles and verb in _NOTIFYING else []
    name, note = context.cluster.name, context.report.note
    return Notifier(targets, name, lambda: recorder.directory.id, note, wall=context.clock.wall)


def _close(session: Session, verb: str, begun: int, error: BaseException | None) -> None:
    recorder, context, notifier = session.recorder, session.context, session.notifier
    assert recorder is not None
    assert notifier is not None
    outcome = {"exit_code": exit_code(error), "error": mask_secrets(str(error)) if error is not None else ""}
    outcome |= {"deadline": True} if _is(error, DeadlineExceeded) else {}
    if recorder.is_empty and (verb != "up" or _is(error, Locked)):
        recorder.discard()
    interrupt: BaseException | None = None
    try:
        if not isinstance(error, HangUp) and _has_ended(context, recorder, verb, begun, error):
            before = end_before(recorder.directory)
            try:
                _complete(context, recorder)
                record = _end(context, recorder, verb, outcome)
            except (KeyboardInterrupt, HangUp) as one:  # the next one ends this at once
                interrupt, record = one, _end(context, recorder, verb, outcome)
            if record["outcome"] != before.get("outcome"):
                notifier.send(ending_of(context.cluster.name, recorder.directory.id, record))
    finally:
        recorder.close(**outcome)
        keep_beside_checkpoints(context, recorder.directory)
        notifier.close()
    if interrupt is not None and error is None:  # an error goes on by itself, with its exit code
        raise interrupt


def _complete(context: Context, recorder: Recorder) -> None:
    """Complete the record of a run by what is known at its end. The run has its end without that, too."""
    if context.machines:  # the inventory and the code may be others by now
        with suppress(OSError, ValueError, LookupError, TypeError):
            began = recorder.directory.read(recorder.directory.run_file)
            recorder.describe(with_image_ids(context, began))
    fill_logs(context, recorder)


def _end(context: Context, recorder: Recorder, verb: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Record the end of the run, and return it; can be called again after it was interrupted."""
    record = end_record(context, recorder.directory, recorder.totals, verb, outcome)
    recorder.end(record)
    return record


def _has_ended(context: Context, recorder: Recorder, verb: str, begun: int, error: BaseException | None) -> bool:
    taken_down = error is None and verb in ("run", "down") and context.hosts is None
    if taken_down or _is(error, TakenDown):
        recorder.totals.all_gone()  # nothing is left, whoever has removed it
    if recorder.totals.running or _is(error, Locked):  # the verb that has the lock ends the run, or goes on with it
        return False
    # The end of an earlier verb goes when the tasks start again. A new one is that of `down`, which came meanwhile.
    if verb == "run" and _written(recorder.directory) not in (0, begun):
        return False
    return verb in _ENDING or (verb == "up" and error is not None)


def _written(directory: RunDir) -> int:
    """Return when end.json was written, in nanoseconds of its file system; 0 if it is missing."""
    try:
        return directory.end_file.stat().st_mtime_ns
    except OSError:
        return 0


def _is(error: BaseException | None, kind: type[TfprovError]) -> bool:
    errors = error.errors if isinstance(error, CombinedError) else (error,)
    return any(isinstance(one, kind) for one in errors)


def exit_code(error: BaseException | None) -> int:
    """Return the exit code with which the command line ends after `error`."""
    match error:
        case None:
            return 0
        case TaskFailed():
            return TaskFailed.exit_code if error.code in OWN_CODES else error.code
        case TfprovError():
            return error.exit_code
        case HangUp():
            return HUNG_UP
        case Terminated():
            return TERMINATED
        case KeyboardInterrupt():
            return INTERRUPTED
    return 1


def chief_run(context: Context, observation: Observation) -> str:
    """Return the run of the chief's container in an observation; empty without one."""
    chief = context.chief(observation)
    return chief.run if chief is not None else ""


def run_to_end(context: Context, observation: Observation) -> str:
    """Return the run that a `down` ends: the chief's or another task's; else one whose controller was killed, or empty."""
    runs = (chief_run(context, observation), *(one.run for one in observation.containers()), _interrupted(context))
    return next(filter(None, runs), "")


def close_interrupted(context: Context) -> None:
    """Record the end of a run whose controller was killed, and of which a `down` has seen nothing on any host."""
    if context.hosts is None and (run := _interrupted(context)):
        with recording(context, "down", run):
            pass


def _interrupted(context: Context) -> str:
    """Return the newest run of the cluster if its controller was killed; else empty."""
    with suppress(PermissionError):
        runs = run_dirs(context.history) if context.history is not None else []
        return runs[-1].id if runs and summarize(runs[-1]).outcome == INTERRUPTED_RUN else ""
    return ""


def add_progress(context: Context, run: str, progress: EventProgress, steps: int | None) -> None:
    """Add a sample that a verb saw in passing to the curve of a recorded run."""
    if context.history is None or not run or not (context.history / run).is_dir():
        return
    with suppress(OSError):
        path, sample = RunDir(context.history / run).progress, progress_json(TrainingProgress(progress, steps))
        last = last_line(path)
        if last is None or any(last.get(name) != value for name, value in sample.items()):
            appender = Appender(path)
            appender.append({"at": round(context.clock.wall(), 3), **sample})
            appender.close()
