"""What each module of a playbook does."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tfprov.engine.checkpoints.gather import Gathered, gather
from tfprov.engine.checkpoints.model_files import NothingSaved, nothing_saved
from tfprov.engine.checkpoints.ungathered import Place, gathered_of, holders, savers, unsaved_among
from tfprov.engine.context import Context
from tfprov.engine.execute import current_run, execute
from tfprov.engine.monitoring.chief_progress import read_progress
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.kept_logs import KeptLogs
from tfprov.engine.monitoring.wait import wait_serving
from tfprov.engine.observe import observe, plan, refuse_taken
from tfprov.engine.programs import refuse_start
from tfprov.errors import GatherError, HostError, TfprovError, together
from tfprov.model.plan import Plan
from tfprov.model.playbook import Command, Step, Stop, WaitFor
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.plan_text import counted, lines, readable
from tfprov.planning.reconcile import teardown

_KINDS = {"build": ("build",), "deliver": ("deliver", "fetch"), "start": ("stop", "remove", "start")}

_BY_STEP = "model.ckpt-"
"""Begins the names of TensorFlow 1's checkpoints; TensorFlow 2 counts how often it saved, as in `ckpt-3`."""


def _bring_about(module: str) -> Callable[[Context, Any, bool], None]:
    """Build, deliver and start are the same: what the plan says now, as far as it is this module's."""

    def run(context: Context, _arguments: Any, _discard: bool) -> None:
        seen = context.seen or observe(context)
        whole = plan(context, seen)
        _check_programs(context, whole, module)
        part = _of_module(whole, module)
        if module == "start":
            _check_chief(context, part, seen)
            if not context.partial:  # else whoever starts it says so, and the others start
                refuse_taken(context, part, seen)
        if module == "start" and _save_what_goes(context, part, seen):
            seen = observe(context)
            part = _part(context, seen, module)
        if part and module != "build":
            context.remember()
        starts = any(action.kind == "start" for action in part.actions)
        execute(context, part, current_run(context, seen) if starts else "").check()
        if module == "start":
            context.forget_empty(_afterwards(context, part, seen))

    return run


def _check_programs(context: Context, whole: Plan, module: str) -> None:
    """InvalidInput when a task that is to be started cannot be, before anything of it is built, brought or stopped."""
    programs, starting = refuse_start(context, whole)
    if module == "start" and context.machines:
        from tfprov.engine.checks.image_programs import refuse_images  # noqa: PLC0415  it brings the docker SDK

        refuse_images(context, programs, starting)


def _check_chief(context: Context, part: Plan, seen: Observation) -> None:
    """GatherError when a chief that has ended would be replaced, and a model that was not brought with it."""
    chief = context.chief(seen)
    if chief is None or chief.state is State.RUNNING:
        return
    if any((action.subject, action.host) == (chief.task, chief.host) for action in part.actions):
        nothing = nothing_saved(context, seen)
        if nothing is not None and nothing.holds_model:
            raise nothing.kept()


def _afterwards(context: Context, part: Plan, seen: Observation) -> Observation:
    """Return the hosts as far as they can be empty after `part`: they are asked again only where something was removed."""
    if any(action.kind == "remove" for action in part.actions):
        return observe(context)
    started = {action.host for action in part.actions}
    return replace(seen, hosts={name: state for name, state in seen.hosts.items() if name not in started})


def _part(context: Context, seen: Observation, module: str) -> Plan:
    return _of_module(plan(context, seen), module)


def _of_module(whole: Plan, module: str) -> Plan:
    return whole.only(lambda action: action.kind in _KINDS[module])


def _save_what_goes(context: Context, part: Plan, seen: Observation) -> bool:
    """Gather what the plan would remove with a former chief, or with a ps; return whether anything was stopped for that."""
    gone = {(action.subject, action.host) for action in part.actions if action.kind == "remove"}
    if not gone:  # to ask who holds what takes a look into every chief's directory
        return False
    held = unsaved_among(context, seen, lambda holder: (holder.task, holder.host) in gone)
    if not held:
        return False
    chiefs = savers(context, seen, held)
    ends = {*held, *((chief.task, chief.host) for chief in chiefs)}  # a chief that is to end may save once more
    execute(
        context, part.only(lambda action: action.kind == "stop" and (action.subject, action.host) in ends), ""
    ).check()
    for chief in chiefs:
        tell(context, gather(context, context.verify, source=chief))
    return True


def _wait(context: Context, arguments: WaitFor, _discard: bool) -> None:
    if arguments.condition == "done":
        follow(context, arguments.timeout)
    else:
        wait_serving(context, arguments.timeout)


def _gather(context: Context, _arguments: Any, discard: bool) -> None:
    if discard:
        return
    seen = observe(context)
    sources = [holder for holder in holders(context, seen) if context.allows(holder.host)]
    for source in sources:
        tell(context, gather(context, context.verify, source=source))
        tell_lost(context, source, seen)
    chief = context.cluster.chief
    if not sources:
        lost = chief.host in seen.unreachable
        what = f"{chief.host} with {chief.name} cannot be reached" if lost else f"{chief.name} is not there"
        context.report.note(f"nothing to gather: {what}")


def tell(context: Context, gathered: Gathered) -> None:
    """Say what a gather brought."""
    if gathered.files:
        what = f"{counted(gathered.files, 'file')}, {readable(gathered.size)}"
        if gathered.new:
            newest = gathered.new[-1]
            read = "TensorFlow is not installed here, so its tensors were not read"
            tensors = f"{counted(newest.tensors, 'tensor')} read" if newest.tensors is not None else read
            what = f"{newest.prefix} ({tensors}); {what}"
        context.report.note(f"gathered into {gathered.directory}: {what}")
    elif gathered.newest:
        context.report.note(f"nothing new to gather: {gathered.directory} has {gathered.newest.prefix}")


def tell_lost(context: Context, source: Observed, seen: Observation) -> None:
    """Say how many steps of a chief are in none of its checkpoints, where their numbers are steps: `model.ckpt-16`."""
    kept = gathered_of(context, source.run)
    newest = kept.newest if kept is not None else None
    if newest is None or not newest.prefix.rpartition("/")[2].startswith(_BY_STEP) or source != context.chief(seen):
        return
    reached = read_progress(context, seen)
    lost = reached.step - newest.step if reached is not None else 0
    if reached is None or lost <= 0:
        return
    if source.state is State.RUNNING:
        context.report.note(f"{source.task} is at step {reached.step:,} and has saved nothing since {newest.prefix}")
        return
    did = "did not save when it was stopped" if source.stopped else "did not save at its end"
    what = f"{source.task} was at step {reached.step:,} and {did}"
    context.report.note(f"{what}: {counted(lost, 'step')} since {newest.prefix} are lost")


def _stop(context: Context, arguments: Stop, discard: bool) -> None:
    errors, nothing = _stop_all(context, arguments, discard)
    if context.tolerant and any(isinstance(error, HostError) for error in errors):
        # A host that is lost meanwhile must not keep the others up: once more, without it.
        errors, again = _stop_all(context, arguments, discard)
        nothing = again or nothing
    if nothing is not None:
        errors = [*errors, *_without_checkpoint(context, nothing)]
    if errors:
        raise together(errors)


def _stop_all(context: Context, arguments: Stop, discard: bool) -> tuple[list[TfprovError], NothingSaved | None]:
    """Stop, and remove, what can be; return what went wrong, and what there is of a chief that saved nothing."""
    seen, chosen = observe(context), _chosen(context, arguments)
    held: dict[Place, tuple[Observed, str]] = {}
    nothing: NothingSaved | None = None
    try:
        if arguments.remove and not discard:
            held = unsaved_among(context, seen, chosen)
            nothing = nothing_saved(context, seen, chosen)
    except HostError as error:
        return [error], None
    kept = {*held, *((nothing.place,) if nothing is not None and nothing.holds_model else ())}
    whole = teardown(context.cluster.name, seen, chosen, remove=arguments.remove)
    part = whole.only(lambda action: action.kind != "remove" or (action.subject, action.host) not in kept)
    logs = KeptLogs(context, seen)
    errors = [*execute(replace(context, before_remove=logs.keep), part, "").failed.values()]
    if arguments.remove:
        for place in kept:
            logs.keep(*place)
        logs.tell()
        errors += clean(context, seen)
    fix = "run `tfprov gather`, or remove it for good with `tfprov down --discard`"
    errors += [
        GatherError(f"{holder.task} on {holder.host} was kept: its checkpoint {prefix} is not gathered", fix)
        for holder, prefix in held.values()
    ]
    return errors, nothing


def _without_checkpoint(context: Context, nothing: NothingSaved) -> list[GatherError]:
    """Return the error that the chief's end without a checkpoint is, or say what there is to say about it."""
    if nothing.holds_model:
        return [nothing.kept()]
    if nothing.chief.finished and context.followed:
        return [nothing.ended()]
    if nothing.has_trained:
        context.report.note(str(nothing.ended()))
    return []


def clean(context: Context, seen: Observation) -> list[HostError]:
    """Clean the hosts on which nothing is left; return what went wrong."""
    errors = []
    for host, runtime in context.runtimes.items():
        if context.allows(host) and host not in seen.unreachable:
            try:
                runtime.clean(context.wants(host))
            except HostError as error:
                errors.append(error)
    context.forget_empty(observe(context))
    return errors


def _chosen(context: Context, arguments: Stop) -> Callable[[Observed], bool]:
    wanted = context.cluster.chief.name if arguments.tasks == "chief" else arguments.tasks

    def is_chosen(observed: Observed) -> bool:
        named = wanted in ("all", observed.task, observed.task.partition("/")[0])
        return named and context.allows(observed.host)

    return is_chosen


def _command(context: Context, arguments: Command, _discard: bool) -> None:
    lost = observe(context).unreachable
    for host, runtime in context.runtimes.items():
        if not context.allows(host) or host in lost:
            continue
        code, output = runtime.command(arguments.argv)
        for line in output.splitlines():
            context.report.log(host, line)
        if code:
            raise HostError(host, f"`{arguments.argv[0]}` ended with exit code {code}")


RUN: Mapping[str, Callable[[Context, Any, bool], None]] = {
    "build": _bring_about("build"),
    "deliver": _bring_about("deliver"),
    "start": _bring_about("start"),
    "wait": _wait,
    "gather": _gather,
    "stop": _stop,
    "command": _command,
}


def check(context: Context, step: Step) -> None:
    """Say what a step would do, without doing it."""
    if step.module in _KINDS:
        part = _part(context, observe(context), step.module)
        for line in lines(part, context.wanted):
            context.report.note(f"{step.module}: would {line}" if part else f"{step.module}: {line}")
    elif isinstance(step.arguments, Stop):
        part = teardown(
            context.cluster.name, observe(context), _chosen(context, step.arguments), remove=step.arguments.remove
        )
        for line in lines(part):
            context.report.note(f"stop: would {line}" if part else f"stop: {line}")
    elif isinstance(step.arguments, Command):
        context.report.note(f"command: would run {' '.join(step.arguments.argv)}")
    else:
        what = (
            f"until {step.arguments.condition}"
            if isinstance(step.arguments, WaitFor)
            else "the chief's new checkpoints"
        )
        context.report.note(f"{step.module}: would {step.module} {what}")
