"""The verbs `plan`, `up`, `run`, `down` and `gather` on a context: plan, announce, play the playbook, return the result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tfprov.engine.context import Context, chief_of
from tfprov.engine.observe import locate, missing, note_paused, observe, plan
from tfprov.errors import HangUp, TfprovError, Usage, combine_errors
from tfprov.model.plan import ActionKind, Plan
from tfprov.model.sections import span_seconds
from tfprov.model.state import Observation
from tfprov.planning.name_ranges import host_names
from tfprov.planning.plan_text import NOTHING, join_names, plan_lines, summary
from tfprov.planning.reconcile import incomparable_secrets
from tfprov.results import DownResult, GatherResult, PlanResult, RunResult, UpResult, checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfprov.engine.monitoring.overview import Overview
    from tfprov.engine.monitoring.status import Placement, Status
    from tfprov.model.playbook import Play
    from tfprov.playbook.player import PlayOptions

_PREPARING = (ActionKind.BUILD, ActionKind.DELIVER, ActionKind.FETCH)

# Modules that only a plan with something to do needs are imported by the functions that use them: 50 ms of a no-op `up`.


def plan_changes(context: Context) -> PlanResult:
    """Return what `up` would do, and what a start would be refused for."""
    result, observation = _plan(context)
    if not result:
        return result
    from tfprov.engine.observe import taken  # noqa: PLC0415

    return result.with_obstacles(taken(context, result.plan, observation, tolerant=True))


def up(context: Context, *, partial: bool, canary: int | None = None) -> UpResult:
    """Start what is missing and wait until every task serves; without `partial`, a failure takes everything back.

    With `canary`, so many hosts come first, and the others follow once their tasks serve; Usage if it is below 1.
    """
    if canary is not None and canary < 1:
        raise Usage(f"a canary of {canary} hosts", "it is 1 host at least")
    result, observation = _plan(context)
    if not result:
        _announce(context, result)
        return UpResult(result.plan)
    from tfprov.engine.checkpoints.gather import check_target, check_writable  # noqa: PLC0415
    from tfprov.history.session import chief_run, recording  # noqa: PLC0415
    from tfprov.playbook.player import PlayOptions  # noqa: PLC0415
    from tfprov.playbook.run import play_shipped  # noqa: PLC0415

    check_target(context)
    check_writable(context)
    _check_start(context, result, observation, partial=partial)
    with recording(context, "up", chief_run(context, observation)) as session:
        _announce(session.context, result)
        if canary is not None:
            _play_canary(session.context, result.plan, canary, PlayOptions("up", partial=partial))
        play_shipped(session.context, PlayOptions("up", partial=partial))
    return UpResult(result.plan)


def _play_canary(context: Context, plan: Plan, number: int, options: "PlayOptions") -> None:
    """Bring up the first hosts of a plan; an error of theirs comes before anything is done on the others."""
    from tfprov.playbook.batches import canary_hosts  # noqa: PLC0415
    from tfprov.playbook.run import play_shipped  # noqa: PLC0415

    hosts = canary_hosts(plan, number)
    if not hosts:
        context.report.note("no canary: nothing starts")
        return
    context.report.note(f"canary: {host_names(hosts)}")
    try:
        play_shipped(context.limited(hosts), options)
    except TfprovError:
        context.report.note("the canary failed: nothing was changed on the other hosts")
        raise
    context.report.note("the canary serves: the other hosts follow")


def run(context: Context, *, partial: bool, discard: bool) -> RunResult:
    """Start the cluster, follow the training to its end, gather, and take the cluster down. Raises LeftRun."""
    from tfprov.engine.checkpoints.gather import check_target, check_writable  # noqa: PLC0415
    from tfprov.engine.monitoring.follow import check_ends  # noqa: PLC0415
    from tfprov.history.session import chief_run, recording  # noqa: PLC0415
    from tfprov.playbook.player import PlayOptions  # noqa: PLC0415
    from tfprov.playbook.run import LeftRun, play_shipped  # noqa: PLC0415

    begun = context.clock.now()
    check_ends(context)
    check_target(context)
    check_writable(context)
    context = with_deadline(context)
    result, observation = _plan(context)
    _check_start(context, result, observation, partial=partial)
    with recording(context, "run", chief_run(context, observation)) as session:
        try:
            _announce(session.context, result)
            play_shipped(session.context, PlayOptions("run", partial=partial, discard=discard))
        except HangUp as hang_up:
            raise LeftRun(session.run, drains=isinstance(hang_up, LeftRun) and hang_up.drains) from hang_up
    return run_result(session.context, session.run, begun)


def with_deadline(context: Context, passed: float = 0.0) -> Context:
    """Return the context with the end of the run's time, of which `passed` seconds are over."""
    limit = chief_of(context.cluster, context.roles).values.deadline if context.roles else None
    return replace(context, deadline=context.clock.now() + span_seconds(limit) - passed) if limit else context


def run_result(context: Context, run: str, begun: float) -> RunResult:
    """Return the result of `run`, which ended well: its newest gathered checkpoint; the verb began at `begun`.

    A run that saves nothing leaves the checkpoints of an earlier one in the gather directory.
    """
    from tfprov.engine.checkpoints.manifest import read  # noqa: PLC0415

    manifest = read(context.target)
    saved = manifest.newest if manifest is not None and run in ("", manifest.run) else None
    newest = checkpoint(context.target, saved) if saved is not None else None
    return RunResult(context.cluster.name, context.target, newest, run, context.clock.now() - begun)


def down(context: Context, *, discard: bool) -> DownResult:
    """Gather, stop and remove everything; with nothing there, remove what hosts still keep of the cluster."""
    from tfprov.history.session import close_interrupted, recording, run_to_end  # noqa: PLC0415
    from tfprov.playbook.player import PlayOptions  # noqa: PLC0415
    from tfprov.playbook.run import play_shipped  # noqa: PLC0415

    name, observation = context.cluster.name, observe(context)
    tasks = tuple(container.task for container in observation.containers())
    if tasks:
        with recording(context, "down", run_to_end(context, observation)) as session:
            session.context.report.observed(observation.containers())
            play_shipped(session.context, PlayOptions("down", discard=discard))
        return DownResult(name, tasks)
    _clean_all(context, observation, discard=discard)
    if errors := missing(context):
        raise combine_errors(errors)
    close_interrupted(context)
    context.report.note(f"{NOTHING}: {name} is not there")
    return DownResult(name, ())


def gather(context: Context, path: str | None) -> GatherResult:
    """Copy new checkpoints, from a remote directory or from the chief; or the file or directory `path`, as it is."""
    from tfprov.engine.checkpoints.model_files import check_path  # noqa: PLC0415
    from tfprov.playbook.gathering import gather_mirrored, gather_newest, gather_path  # noqa: PLC0415

    if path is not None:
        check_path(path)
        copied = gather_path(context, path)
        return GatherResult(copied.at, copied.files, copied.size)
    gathered = gather_mirrored(context) or gather_newest(context)
    new = tuple(checkpoint(context.target, saved) for saved in gathered.new)
    newest = checkpoint(context.target, gathered.newest) if gathered.newest is not None else None
    return GatherResult(gathered.directory, gathered.files, gathered.size, newest, new)


def play(context: Context, plays: "Sequence[Play]", options: "PlayOptions") -> None:
    """Play `plays`, and record the run that they start or change."""
    from tfprov.history.session import chief_run, recording  # noqa: PLC0415
    from tfprov.playbook.run import play as play_all  # noqa: PLC0415

    if options.check:
        play_all(context, plays, options)
        return
    with recording(context, "play", chief_run(context, observe(context, tolerant=True))) as session:
        play_all(session.context, plays, options)


def wait(context: Context, condition: str, timeout: float | None) -> str:
    """Wait until the chief is done, or until every task is `serving`; return the chief's name."""
    from tfprov.engine.monitoring.follow import follow  # noqa: PLC0415
    from tfprov.engine.monitoring.readiness import wait_serving  # noqa: PLC0415
    from tfprov.history.session import recording  # noqa: PLC0415

    if condition not in ("done", "serving"):
        raise Usage(f"no condition `{condition}`", "wait for `done` or `serving`")
    chief = context.cluster.chief.name
    run = locate(context, chief)[1].run
    if condition == "serving":
        wait_serving(context, timeout)
    else:
        with recording(context, "wait", run) as session:
            follow(session.context, timeout, with_logs=False)
    return chief


def status(context: Context) -> "Status":
    """Return the state of the cluster, and add the chief's progress to the history of its run."""
    from tfprov.engine.monitoring.status import status as read_status  # noqa: PLC0415

    result = read_status(context, context.clock.wall())
    _record(context, result)
    return result


def placement(context: Context) -> "Placement":
    """Return which task holds which variable. Raises TaskFailed until the chief's model is ready."""
    from tfprov.engine.monitoring.status import placement as read_placement  # noqa: PLC0415

    return read_placement(context)


def overview(context: Context, title: str) -> "Overview":
    """Return the overview, with the logs of failed tasks."""
    from tfprov.engine.monitoring.status import with_logs  # noqa: PLC0415

    with overviews(context, title) as read:
        result = read()
    return replace(result, status=with_logs(context, result.status))


@contextmanager
def overviews(context: Context, title: str) -> Iterator[Callable[[], "Overview"]]:
    """Yield a function that returns the overview at each call, and adds the chief's progress to the history of its run.

    After the first calls, hosts whose engines report events are asked what runs there when something has happened. The logs
    of failed tasks are left out.
    """
    from tfprov.engine.monitoring.overview import LiveOverview  # noqa: PLC0415

    live = LiveOverview(context, title)

    def read() -> "Overview":
        result = live.read(context.clock.wall())
        _record(context, result.status)
        return result

    try:
        yield read
    finally:
        live.close()


def _record(context: Context, result: "Status") -> None:
    if result.progress is not None and context.history is not None and context.history.is_dir():
        from tfprov.history.session import add_progress  # noqa: PLC0415

        add_progress(context, result.run, result.progress, result.steps)


def _clean_all(context: Context, observation: Observation, *, discard: bool) -> None:
    """Remove, under the cluster's lock, what hosts without tasks still keep: data of an inventory that was edited since."""
    from tfprov.engine.lock.cluster_lock import ClusterLock  # noqa: PLC0415
    from tfprov.engine.rollback import clean  # noqa: PLC0415

    if not observation.hosts:
        return
    with ClusterLock(context, "down", tolerant=True):
        errors = clean(context, observation, discard=discard)
    if errors:
        raise combine_errors(errors)


def _plan(context: Context) -> tuple[PlanResult, Observation]:
    """Return what is to be done, and the observation it was made from."""
    observation = observe(context)
    note_paused(context, observation)
    actions, title = plan(context, observation), summary(context.cluster)
    uncomparable = _uncomparable(context, observation)
    if not actions and not context.resume:
        return PlanResult(actions, title, (NOTHING,), uncomparable=uncomparable), observation
    from tfprov.engine.checkpoints.forecast import forecast  # noqa: PLC0415

    text = tuple(plan_lines(actions, context.wanted, fold=context.fold)) or (NOTHING,)
    consequence = forecast(context, actions, observation)
    return PlanResult(actions, title, text, consequence, uncomparable=uncomparable), observation


def _uncomparable(context: Context, observation: Observation) -> str | None:
    unknown = incomparable_secrets(context.wanted, observation)
    if not unknown:
        return None
    names = join_names(unknown, 1)
    what = f"{names} cannot be compared: another controller started these tasks, or this one lost its key"
    return f"{what}; after a secret has changed, `down` and `up` bring it to them"


def _announce(context: Context, result: PlanResult) -> None:
    for line in result.text():
        context.report.note(line)


def _check_start(context: Context, result: PlanResult, observation: Observation, *, partial: bool) -> None:
    """Raise what would refuse the start, before anything is built or delivered for it, which can take long."""
    from tfprov.engine.command_checks import refuse_start  # noqa: PLC0415
    from tfprov.engine.observe import refuse_taken  # noqa: PLC0415

    refuse_start(context, result.plan)
    prepares = any(action.kind in _PREPARING for action in result.plan.actions)
    if prepares and not partial:  # with `partial`, its start fails and the others start
        refuse_taken(context, result.plan, observation)
