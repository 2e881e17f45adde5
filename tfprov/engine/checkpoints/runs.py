"""Which training the hosts are in the middle of: its run's id tells its checkpoints from another training's."""

from tfprov.checkpoint import checkpoints
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.context import Context
from tfprov.engine.observe import plan
from tfprov.errors import GatherError
from tfprov.model.state import Observation, Observed, State


def known_run(context: Context, seen: Observation) -> str:
    """Return the id of the run that a chief which starts now belongs to; nothing when it begins a new one.

    That of the chief itself, where its checkpoints are. A chief that never came up, though its ps did, belongs to theirs:
    they go on running, and a saver may leave its shards with them. But a chief with nothing of its own never joins a run
    that was gathered: its step 50 would be taken for one before the gathered step 400, and never be brought back.
    """
    task = context.cluster.chief
    chief = next((one for one in seen.containers() if (one.task, one.host) == (task.name, task.host)), None)
    if chief is None:
        run = _run_of_ps(context, seen)
        return "" if run == _gathered(context) else run
    return "" if _has_nothing(context, chief) and chief.run == _gathered(context) else chief.run


def _run_of_ps(context: Context, seen: Observation) -> str:
    """Return the one run of all ps that go on running, if nobody else saves in it."""
    starting = {(action.subject, action.host) for action in plan(context, seen).actions if action.kind == "start"}
    wanted = {(task.name, task.host) for task in context.cluster.tasks if task.job == "ps"} - starting
    staying = [one for one in seen.containers() if (one.task, one.host) in wanted and one.state is State.RUNNING]
    runs = {one.run for one in staying}
    saving = {one.run for one in seen.containers() if one.task in ("chief/0", "worker/0")}
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
