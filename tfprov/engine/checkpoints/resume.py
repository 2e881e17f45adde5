"""`--resume`: restores the newest gathered checkpoint to the tasks that start, on any hosts.

The training keeps its run's id, so that its later checkpoints are gathered beside the earlier ones.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.gather import check_target
from tfprov.engine.checkpoints.manifest import GatheredCheckpoint, GatheredFile, Manifest
from tfprov.engine.checkpoints.remote import newest_step, read_remote, remote_run, remote_url
from tfprov.engine.checkpoints.shards import Survey, survey
from tfprov.engine.context import Context
from tfprov.engine.observe import observe, plan
from tfprov.errors import GatherError, Usage
from tfprov.filesystems.generations import MIRROR_STATUS
from tfprov.formats.checkpoint import (
    MODEL_SERIES,
    NO_STEP,
    STATE,
    CheckpointFiles,
    checkpoint_state,
    checkpoints,
    series_of,
    step_of,
)
from tfprov.hosts.base import NO_FILES
from tfprov.model.cluster import Task
from tfprov.model.plan import ActionKind
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.plan_text import join_names

_NAMED = 3
"""Folders with checkpoints that are named; the rest is counted."""
_SAVED_MODEL = "variables.index"
"""The index of a SavedModel, which is no checkpoint to go on from."""


@dataclass(frozen=True)
class Resume:
    """The newest gathered checkpoint, and the run that saved it; `files` are its shards, its index and its `.meta`.

    `beside` has those of the newest that the runtime saved, if that is another.
    """

    directory: Path
    run: str
    saved: GatheredCheckpoint
    files: Mapping[str, GatheredFile]
    beside: Mapping[str, GatheredFile] = field(default_factory=dict)

    def check(self) -> None:
        """Raise GatherError if a file differs from the gathered one; reads all of them."""
        for name, entry in {**self.beside, **self.files}.items():
            if (wrong := entry.fault(self.directory / name)) is not None:
                fix = "put a copy of it back, or start without `--resume`"
                raise GatherError(f"{self.directory / name} {wrong}", fix)

    def of_chief(self, state: Path) -> dict[str, Path]:
        """Return the chief's files: the checkpoint and, last, the `checkpoint` file at `state` that names it."""
        return {**{name: self.directory / name for name in (*self.beside, *self.files)}, STATE: state}

    def of_ps(self) -> dict[str, Path]:
        """Return the files of a ps, whose TensorFlow reads the index and shards on its own disk."""
        return {name: self.directory / name for name in self.files if not name.endswith(".meta")}


def newest(context: Context) -> Resume | None:
    """Return the newest gathered checkpoint, or None if none was gathered."""
    manifest = check_target(context)
    saved = manifest.newest if manifest else None
    if manifest is None or saved is None:
        return None
    checkpoint = next((one for one in checkpoints(manifest.files) if one.prefix == saved.prefix), None)
    if checkpoint is None or not checkpoint.whole:
        raise GatherError(f"{context.target}: its manifest does not have all files of {saved.prefix}")
    own = [one for one in checkpoints(manifest.files) if one.whole and series_of(one.prefix) == MODEL_SERIES][-1:]
    beside = _files(manifest, [one for one in own if one != checkpoint])
    return Resume(context.target, manifest.run, saved, _files(manifest, [checkpoint]), beside)


def _files(manifest: Manifest, of: list[CheckpointFiles]) -> Mapping[str, GatheredFile]:
    names = (name for one in of for name in one.files)
    order = sorted(names, key=lambda name: (name.endswith(".meta"), name.endswith(".index"), name))
    return {name: manifest.files[name] for name in order}


def decide(resume: Resume, chief: Observed | None, look: Survey | None) -> str | None:
    """Return why `resume` is not restored to the chief, in one line, or None if it is. `look` are the chief's own files.

    A restore never replaces a newer checkpoint, nor one of another training that was not gathered.
    """
    if chief is None or look is None:
        return None
    if chief.state is State.RUNNING:
        return f"nothing to resume: {chief.task} runs"
    own = [one.checkpoint for one in look.whole if not one.from_ps]
    last = own[-1] if own else None
    if last is not None and chief.run != resume.run:
        return f"{chief.task} goes on from {last.prefix}, which it has from another training than {resume.directory}"
    _check_elsewhere(chief, look, max(resume.saved.step, last.step if last else resume.saved.step))
    if last is None or last.step < resume.saved.step:
        return None
    # A checkpoint that the `checkpoint` file does not name may be left from an interrupted restore.
    named = last.step > resume.saved.step or last.prefix in look.named
    return f"{chief.task} goes on from {last.prefix}, which it has already" if named else None


def _check_elsewhere(chief: Observed, look: Survey, step: int) -> None:
    """Raise GatherError if the chief saved a newer checkpoint than `step` on a ps, where no task restores it."""
    prefixes = [*look.doubtful, *(one.checkpoint.prefix for one in look.whole if one.from_ps)]
    for prefix in prefixes:
        if step_of(prefix) > step:
            what = f"{chief.task}'s checkpoint {prefix}, which lies with a ps, is not gathered"
            raise GatherError(what, "run `tfprov gather` first")


def no_checkpoint_error(context: Context) -> Usage:
    """Return the error for `--resume` without a gathered checkpoint."""
    manifest = check_target(context)
    names = [name.rpartition("/") for name in manifest.files if name.endswith(".index")] if manifest else []
    if folders := sorted({folder for folder, _, name in names if folder and name != _SAVED_MODEL}):
        what = f"nothing to resume from: {context.target} has checkpoints in {join_names(folders, _NAMED)} only, and"
        fix = "let the program save there, or start without `--resume`"
        return Usage(f"{what} `--resume` restores those of the checkpoint directory itself", fix)
    what = f"nothing to resume from: {context.target} has no checkpoint"
    return Usage(what, "start without `--resume`, or set `checkpoints.to` to where one was gathered")


def orphan(context: Context) -> str:
    """Return the volume with files of a chief that is not on its host; empty if there is none."""
    chief = context.cluster.chief
    runtime = context.runtimes.get(chief.host)
    return runtime.orphaned_volume(chief.name) if runtime else ""


def check_orphan(context: Context) -> None:
    """Raise Usage if a chief that is not there has left files, which may be newer than what was gathered."""
    if volume := orphan(context):
        chief = context.cluster.chief
        what = f"{chief.host}: the volume {volume} has files of {chief.name}, whose container somebody removed"
        fix = "start without `--resume`, which goes on from them; or remove them: `tfprov down --discard`"
        raise Usage(what, fix)


def resuming(context: Context, observation: Observation) -> str | None:
    """Return the run that a start resumes; None, after a note, if the chief continues from its own files.

    Called before any task starts. Raises Usage without a gathered checkpoint, and GatherError if it is damaged or would
    replace a newer one.
    """
    chief = _chief(context, observation)
    look = survey(context, chief, lambda: observation) if chief else None
    resume = newest(context)
    mirrored = _mirrored(context, chief, resume)
    if mirrored is not None:
        return mirrored
    if chief is None:
        check_orphan(context)
    if resume is None:
        if chief is None or look is None:
            raise no_checkpoint_error(context)
        if chief.state is not State.RUNNING and not any(one.place is look.chief for one in look.whole):
            _check_elsewhere(chief, look, NO_STEP - 1)
            raise no_checkpoint_error(context)
        return None
    if (reason := decide(resume, chief, look)) is not None:
        context.report.note(reason)
        return None
    resume.check()
    if resume.saved.from_ps:
        _check_ps(context, resume, observation)
    return resume.run


def _mirrored(context: Context, chief: Observed | None, resume: Resume | None) -> str | None:
    """Return the run in the remote directory if a chief without files goes on from there; None if it does not.

    What was gathered may be newer: the connection from the hosts to the remote directory may have been lost.
    """
    training = read_remote(context) if remote_url(context) else None
    if chief is not None or training is None or training.newest is None:
        return None
    run = training.manifest.run
    if resume is not None and resume.run != run:
        if resume.saved.step > training.newest.step:
            what = f"{context.target} and {training.remote.url} hold checkpoints of two trainings"
            raise Usage(what, "start without `--resume`, which goes on from the latter, or choose an empty directory")
        return run
    return None if resume is not None and resume.saved.step > training.newest.step else run


def _chief(context: Context, observation: Observation) -> Observed | None:
    """Return the chief's container on the host that the plan assigns it to."""
    task = context.cluster.chief
    return next((one for one in observation.containers() if (one.task, one.host) == (task.name, task.host)), None)


def _check_ps(context: Context, resume: Resume, observation: Observation) -> None:
    """Raise if a ps that keeps running lacks files of the checkpoint: only a started task gets files."""
    starting = {action.subject for action in plan(context, observation).actions if action.kind == ActionKind.START}
    for task in context.cluster.tasks:
        if task.job == "ps" and task.name not in starting:
            has = context.runtimes[task.host].files(task.name)
            if any(name not in has or has[name].size != resume.files[name].size for name in resume.of_ps()):
                what = f"{task.name} runs, and does not have the {resume.saved.prefix} of {resume.directory}"
                raise Usage(what, "run `tfprov down` first")


@contextmanager
def restoring(context: Context, task: Task, run: str) -> Iterator[Mapping[str, Path]]:
    """Yield the files to restore to `task` before it starts in `run`; none unless the context resumes."""
    resume = _for_task(context, task, run) if context.resume else None
    if resume is None:
        yield NO_FILES
    elif task.job == "ps":
        yield resume.of_ps()
    else:
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / STATE
            state.write_text(checkpoint_state(resume.saved.prefix, [resume.saved.prefix]))
            origin = Path(folder) / MIRROR_STATUS
            origin.write_text(json.dumps({"url": remote_url(context)}))
            yield resume.of_chief(state) | ({MIRROR_STATUS: origin} if remote_url(context) else {})


def _for_task(context: Context, task: Task, run: str) -> Resume | None:
    is_chief = task.name == context.cluster.chief.name
    if not is_chief and task.job != "ps":
        return None
    resume = newest(context)
    if resume is None or resume.run != run or not (is_chief or resume.saved.from_ps):
        return None
    mirrored = newest_step(context) if is_chief else None
    if mirrored is not None and mirrored >= resume.saved.step:  # the task restores it by itself
        return None
    chief = _chief(context, observe(context, hosts={context.cluster.chief.host}))
    look = survey(context, chief, lambda: observe(context)) if chief else None
    return resume if decide(resume, chief, look) is None else None


def known_run(context: Context, observation: Observation) -> str:
    """Return the id of the run that a chief started now belongs to; empty for a new run.

    It is the run of the chief's container, which has its checkpoints. A chief that never ran belongs to the run of its
    running ps, on which a saver may leave its shards. But a chief without checkpoints never joins a gathered run: its step
    50 would count as older than the gathered step 400, and would never be gathered.
    """
    task = context.cluster.chief
    chief = next((one for one in observation.containers() if (one.task, one.host) == (task.name, task.host)), None)
    if chief is None:
        run = _run_of_ps(context, observation)
        return remote_run(context) or ("" if run == _gathered(context) else run)
    if _has_nothing(context, chief):
        return remote_run(context) or ("" if chief.run == _gathered(context) else chief.run)
    return chief.run


def _run_of_ps(context: Context, observation: Observation) -> str:
    """Return the run that all running ps belong to, if no other task saves in it."""
    starting = {
        (action.subject, action.host) for action in plan(context, observation).actions if action.kind == "start"
    }
    wanted = {(task.name, task.host) for task in context.cluster.tasks if task.job == "ps"} - starting
    staying = [one for one in observation.containers() if (one.task, one.host) in wanted and one.state is State.RUNNING]
    runs = {one.run for one in staying}
    saving = {one.run for one in observation.containers() if one.task in ("chief/0", "worker/0")}
    return runs.pop() if len(runs) == 1 and not runs & saving else ""


def _has_nothing(context: Context, chief: Observed) -> bool:
    """Whether a chief never ran, and has no checkpoint from one before it."""
    never = chief.state is not State.RUNNING and chief.started_at is None
    return never and not any(one.whole for one in checkpoints(context.runtimes[chief.host].files(chief.task)))


def _gathered(context: Context) -> str | None:
    try:
        manifest = manifests.read(context.target)
    except GatherError:
        return None
    return manifest.run if manifest else None
