"""The cost of a plan for a running training: the step it resumes from."""

from collections.abc import Mapping

from tfprov.engine.checkpoints.remote import read_remote, remote_url
from tfprov.engine.checkpoints.resume import Resume, check_orphan, decide, newest, no_checkpoint_error, orphan
from tfprov.engine.checkpoints.shards import Survey, survey
from tfprov.engine.checkpoints.ungathered import holders, unsaved
from tfprov.engine.context import Context
from tfprov.engine.monitoring.chief_progress import read_reached
from tfprov.errors import GatherError, HostError
from tfprov.formats.checkpoint import NO_STEP, step_of
from tfprov.hosts.base import File
from tfprov.model.plan import ActionKind, Plan
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.plan_text import format_duration


def forecast(context: Context, plan: Plan, observation: Observation) -> str | None:
    """Return in one line what happens to the steps trained so far; None when the plan does not touch them.

    A chief that restarts, and a ps that does, both send the training back to the newest checkpoint; a chief that is
    stopped while it runs saves once more before it ends, if its program does so on SIGTERM. Where the context resumes, it
    raises as `resuming` does.
    """
    task = context.cluster.chief
    starts = {action.subject for action in plan.actions if action.kind == ActionKind.START}
    chief = context.chief(observation)
    if context.resume and not plan and chief is not None and chief.state is State.RUNNING:
        return f"nothing to resume: {chief.task} runs"
    if not any(name == task.name or name.startswith("ps/") for name in starts):
        return None
    if chief is not None and chief.host == task.host:
        return _of_chief(context, plan, observation, chief)
    return _of_new_chief(context, observation, chief) if task.name in starts else None


def _of_new_chief(context: Context, observation: Observation, former: Observed | None) -> str | None:
    """The forecast for a chief that is not on its host yet; the files of a former chief are gathered before its removal."""
    task = context.cluster.chief
    resume = _newest(context)
    if mirrored := _mirrored(context, resume):
        return mirrored
    if context.resume:
        check_orphan(context)
    elif volume := orphan(context):
        what = f"the files of {task.name} in the volume {volume}, whose step is not known"
        return f"the training goes on from {what}: somebody removed its container on {task.host}"
    left = [
        (one.run, step_of(newest_unsaved.prefix))
        for one in holders(context, observation)
        if (newest_unsaved := unsaved(context, one, observation))
    ]
    if resume and any(run != resume.run for run, _ in left):
        resume = None  # to gather those sets aside what was gathered of another run
    steps = [resume.saved.step] if resume else []
    steps += [step for _, step in left]
    if context.resume:
        if not steps:
            raise no_checkpoint_error(context)
        if resume and resume.saved.step == max(steps):
            resume.check()
        return f"the training goes on from {_step(max(steps))} (gathered)"
    was = _was(context, observation) if former else ""
    if steps:
        return f"the training starts anew: {task.name} is new on {task.host}{was}; {_hint(max(steps))}"
    return f"the training starts anew: {task.name} is new on {task.host}{was}" if was else None


def _mirrored(context: Context, resume: Resume | None) -> str | None:
    """The forecast for a chief that restores from its remote directory; None if it restores nothing from there."""
    if (url := remote_url(context)) is None:
        return None
    try:
        training = read_remote(context)
    except HostError as error:
        return f"the training goes on from the newest checkpoint in {url}, if there is one ({error.reason})"
    newest = training.newest if training else None
    saved = resume.saved.step if resume else NO_STEP
    if newest is None or (context.resume and saved > newest.step):
        return None
    hint = f"; {_hint(saved)}" if saved > newest.step else ""
    return f"the training goes on from {_step(newest.step)} ({url}){hint}"


def _of_chief(context: Context, plan: Plan, observation: Observation, chief: Observed) -> str | None:
    look = survey(context, chief, lambda: observation)
    own = [one.checkpoint.step for one in look.whole if not one.from_ps]
    if not own and chief.state is not State.RUNNING and (mirrored := _mirrored(context, _newest(context))):
        return mirrored
    resume, was = _newest(context), _was(context, observation, look.chief.files)
    if context.resume and resume is not None and decide(resume, chief, look) is None:
        resume.check()
        return f"the training goes on from {_step(resume.saved.step)} (gathered){was}"
    if apart := _apart(look, resume):
        return f"{chief.task} cannot go on by itself{was}: {apart}"
    if own:
        return f"the training goes on from {_step(own[-1])}{_or_later(context, plan, observation, chief)}{was}"
    hint = f"; {_hint(resume.saved.step)}" if resume and not context.resume and chief.state is not State.RUNNING else ""
    trains = chief.state is State.RUNNING and context.saves
    unless = ", unless it saves when stopped" if trains and _stops(plan, chief) else ""
    anew = f"the training starts anew: {chief.task} has no checkpoint"
    return f"{anew}{unless}{was}{hint}" if was or hint or trains else None


_OLD = 120.0
"""Age in seconds from which an event file's step is out of date: TensorFlow writes one every two minutes."""
_KEEPING = ("between_graph", "in_graph")
"""Strategies in which a restarted chief continues with the variables on its ps."""


def _or_later(context: Context, plan: Plan, observation: Observation, chief: Observed) -> str:
    """Return which progress may be newer than the newest checkpoint."""
    if chief.state is State.RUNNING:
        return ", or later if it saves when stopped" if _stops(plan, chief) else ""
    wanted, touched = context.container(chief.task), {action.subject for action in plan.actions}
    ps = [container for container in observation.containers() if container.task.startswith("ps/")]
    kept = ps and all(container.state is State.RUNNING and container.task not in touched for container in ps)
    keeps = wanted is not None and wanted.strategy in _KEEPING
    return ", or later with the model that its ps kept" if kept and keeps else ""


def _stops(plan: Plan, chief: Observed) -> bool:
    return any(action.kind == ActionKind.STOP and action.subject == chief.task for action in plan.actions)


def _apart(look: Survey, resume: Resume | None) -> str | None:
    """Return the warning for a newest checkpoint in a directory where the chief's TensorFlow does not look."""
    checkpoint = look.find(look.named[0]) if look.named else None
    if checkpoint is None or not checkpoint.from_ps:
        return None
    prefix, ps = checkpoint.checkpoint.prefix, checkpoint.place.task
    gathered = resume is not None and resume.saved.step >= checkpoint.checkpoint.step
    return (
        f"its checkpoint {prefix} lies with {ps}; {'' if gathered else 'gathered, '}{_hint(checkpoint.checkpoint.step)}"
    )


def _newest(context: Context) -> Resume | None:
    try:
        return newest(context)
    except GatherError:
        if context.resume:
            raise
        return None


def _was(context: Context, observation: Observation, files: Mapping[str, File] | None = None) -> str:
    reached, chief = read_reached(context, observation, files), context.chief(observation)
    if reached is None or reached.progress is None or chief is None:
        return ""
    step, at = reached.progress.step, reached.progress.wall_time
    if reached.saved is not None and reached.saved[0] > step:  # it saves more often than it writes events
        step, at = reached.saved
    age = context.clock.wall() - at
    if chief.state is State.RUNNING and age > _OLD:
        return f" (it was at {step} {format_duration(age)} ago, and has written no event since)"
    return f" (it is at {step})"


def _hint(step: int) -> str:
    return f"`--resume` would go on from {_step(step)}"


def _step(step: int) -> str:
    return f"step {step}" if step > NO_STEP else "its checkpoint"
