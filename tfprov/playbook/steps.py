"""What each module of a playbook does."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tfprov.engine.checkpoints import ungathered
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.checkpoints.model_files import NothingSaved, nothing_saved
from tfprov.engine.checkpoints.ungathered import (
    TaskOnHost,
    not_gathered,
    savers,
    ungathered_files,
    unsaved_among,
    with_ungathered_files,
)
from tfprov.engine.command_checks import refuse_start
from tfprov.engine.context import Context
from tfprov.engine.execute import current_run, execute
from tfprov.engine.monitoring.kept_logs import KeptLogs
from tfprov.engine.monitoring.kept_notebooks import keep_notebooks
from tfprov.engine.monitoring.readiness import wait_serving
from tfprov.engine.observe import observe, plan, refuse_taken
from tfprov.engine.rollback import clean
from tfprov.errors import GatherError, HostError, TfprovError, combine_errors
from tfprov.model.plan import ActionKind, Plan
from tfprov.model.playbook import Command, Step, Stop, WaitFor
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.plan_text import plan_lines
from tfprov.planning.reconcile import plan_teardown
from tfprov.playbook.gathering import gather_step, left_by_failed_gather, report_gathered

_KINDS = {
    "build": (ActionKind.BUILD,),
    "deliver": (ActionKind.DELIVER, ActionKind.FETCH),
    "start": (ActionKind.STOP, ActionKind.REMOVE, ActionKind.START),
}
_FIX = "run `tfprov gather`, or remove it for good with `tfprov down --discard`"
"""For a task that was kept for its files."""


def _plan_step(module: str) -> Callable[[Context, Any, bool], None]:
    """Return the function of `build`, `deliver` or `start`: it executes the current plan's actions of that module."""

    def run(context: Context, _arguments: Any, _discard: bool) -> None:
        observation = context.seen or observe(context)
        whole = plan(context, observation)
        _check_programs(context, whole, module)
        part = _of_module(whole, module)
        if module == "start":
            _check_chief(context, part, observation)
            if not context.partial:  # with `partial`, its start fails and the others start
                refuse_taken(context, part, observation)
        if module == "start" and _gather_before_removal(context, part, observation):
            observation = observe(context)
            part = _part(context, observation, module)
        if part and module != "build":
            context.remember()
        starts = any(action.kind == ActionKind.START for action in part.actions)
        run = current_run(context, observation) if starts else ""
        if run:
            context.report.run_started(run)
        execute(replace(context, before_remove=partial(keep_notebooks, context, observation)), part, run).check()
        if module == "start":
            context.forget_empty(_afterwards(context, part, observation))

    return run


def _check_programs(context: Context, whole: Plan, module: str) -> None:
    """Raise InvalidInput if a program cannot be started, before anything is built, delivered or stopped."""
    programs, starting = refuse_start(context, whole)
    if module == "start" and any(container.remote for container in starting):
        from tfprov.engine.checks.remote_dirs import refuse_without_client  # noqa: PLC0415  it brings the docker SDK

        refuse_without_client(context, starting)
    if module == "start" and context.machines:
        from tfprov.engine.checks.image_programs import refuse_images, refuse_mounts  # noqa: PLC0415  the docker SDK

        refuse_images(context, programs, starting)
        if not context.partial:
            refuse_mounts(context, starting)


def _check_chief(context: Context, part: Plan, observation: Observation) -> None:
    """Raise GatherError if an ended chief, with a model that was not copied, would be replaced."""
    chief = context.chief(observation)
    if chief is None or chief.state is State.RUNNING:
        return
    if any((action.subject, action.host) == (chief.task, chief.host) for action in part.actions):
        nothing = nothing_saved(context, observation, starts=True)
        if nothing is not None and nothing.holds_model:
            raise nothing.kept()


def _afterwards(context: Context, part: Plan, observation: Observation) -> Observation:
    """Return an observation of the hosts that may be empty after `part`, which is a new one only after a removal."""
    if any(action.kind == ActionKind.REMOVE for action in part.actions):
        return observe(context)
    started = {action.host for action in part.actions}
    return replace(observation, hosts={name: state for name, state in observation.hosts.items() if name not in started})


def _part(context: Context, observation: Observation, module: str) -> Plan:
    return _of_module(plan(context, observation), module)


def _of_module(whole: Plan, module: str) -> Plan:
    return whole.only(lambda action: action.kind in _KINDS[module])


def _gather_before_removal(context: Context, part: Plan, observation: Observation) -> bool:
    """Gather from containers that the plan removes, and from former chiefs that go on in another run.

    Return whether any was stopped for that.
    """
    gone = {(action.subject, action.host) for action in part.actions if action.kind == ActionKind.REMOVE}
    starting = {(action.subject, action.host) for action in part.actions if action.kind == ActionKind.START}
    gone |= starting & ungathered.former_chiefs(context, observation)
    if not gone:  # the next call lists every chief's directory
        return False
    held = unsaved_among(context, observation, lambda holder: (holder.task, holder.host) in gone)
    chiefs = savers(context, observation, held)
    chiefs += [one for one in with_ungathered_files(context, observation, gone) if one not in chiefs]
    if not chiefs:
        return False
    ends = {*held, *((chief.task, chief.host) for chief in chiefs)}  # a chief that is to end may save once more
    execute(
        context, part.only(lambda action: action.kind == ActionKind.STOP and (action.subject, action.host) in ends)
    ).check()
    ended = {(one.task, one.host): one for one in observe(context).containers()}
    for chief in chiefs:
        source = ended.get((chief.task, chief.host), chief)
        gathered = gather(context, context.verify, source=source)
        report_gathered(context, gathered)
        if not gathered.is_whole and (names := ungathered_files(context, source)):
            raise GatherError(f"{source.task} on {source.host} was kept: {not_gathered(names)}", _FIX)
    return True


def _wait(context: Context, arguments: WaitFor, _discard: bool) -> None:
    assert arguments.condition == "serving", "a play follows the training itself"
    wait_serving(context, arguments.timeout)


def _stop(context: Context, arguments: Stop, discard: bool) -> None:
    errors, nothing = _stop_all(context, arguments, discard)
    if context.tolerant and any(isinstance(error, HostError) for error in errors):
        # Try once more without a host that was lost meanwhile, so that the others are taken down.
        errors, again = _stop_all(context, arguments, discard)
        nothing = again or nothing
    if nothing is not None:
        errors = [*errors, *_without_checkpoint(context, nothing)]
    if errors:
        raise combine_errors(errors)


def _stop_all(context: Context, arguments: Stop, discard: bool) -> tuple[list[TfprovError], NothingSaved | None]:
    """Stop and remove the chosen containers; return the errors, and the models of a chief without a checkpoint."""
    observation, chosen = observe(context), _chosen(context, arguments)
    errors: list[TfprovError] = []
    checks = arguments.remove and not discard
    if checks and any(one.state is State.RUNNING for one in filter(chosen, observation.containers())):
        errors, _ = _stop_all(context, arguments.model_copy(update={"remove": False}), discard)
        observation, chosen = observe(context), _chosen(context, arguments, stopped=True)  # with what the chief saved
    held, left, nothing = dict[TaskOnHost, tuple[Observed, str]](), dict[TaskOnHost, list[str]](), None
    try:
        if checks:
            held = unsaved_among(context, observation, chosen)
            nothing = nothing_saved(context, observation, chosen)
            left = left_by_failed_gather(context, observation, chosen)
    except HostError as error:
        return [*errors, error], None
    reported = {*held, *((nothing.place,) if nothing is not None and nothing.holds_model else ())}
    kept = {*reported, *left}
    whole = plan_teardown(context.cluster.name, observation, chosen, remove=arguments.remove)
    part = whole.only(lambda action: action.kind != ActionKind.REMOVE or (action.subject, action.host) not in kept)
    logs = KeptLogs(context, observation, notebooks=not discard)
    errors += execute(replace(context, before_remove=logs.keep), part).failed.values()
    if arguments.remove:
        for place in kept:
            logs.keep(*place)
        logs.report()
        errors += clean(context, observation, discard=discard)
    errors += [
        GatherError(f"{holder.task} on {holder.host} was kept: its checkpoint {prefix} is not gathered", _FIX)
        for holder, prefix in held.values()
    ]
    errors += [
        GatherError(f"{task} on {host} was kept: {not_gathered(names)}", _FIX)
        for (task, host), names in left.items()
        if (task, host) not in reported
    ]
    return errors, nothing


def _without_checkpoint(context: Context, nothing: NothingSaved) -> list[GatherError]:
    """Return the error for a chief that ended without a checkpoint, or report it if it is none."""
    if nothing.holds_model:
        return [nothing.kept()]
    if nothing.chief.finished and context.followed:
        return [nothing.ended()]
    if nothing.has_trained:
        context.report.note(str(nothing.ended()))
    return []


def _chosen(context: Context, arguments: Stop, *, stopped: bool = False) -> Callable[[Observed], bool]:
    wanted = context.cluster.chief.name if arguments.tasks == "chief" else arguments.tasks

    def is_chosen(observed: Observed) -> bool:
        named = wanted in ("all", observed.task, observed.task.partition("/")[0])
        return named and context.allows(observed.host) and not (stopped and observed.state is State.RUNNING)

    return is_chosen


def _command(context: Context, arguments: Command, _discard: bool) -> None:
    lost = (context.seen or observe(context)).unreachable
    for host, runtime in context.runtimes.items():
        if not context.allows(host) or host in lost:
            continue
        code, output = runtime.command(arguments.argv)
        for line in output.splitlines():
            context.report.log(host, line)
        if code:
            raise HostError(host, f"`{arguments.argv[0]}` ended with exit code {code}")


RUN: Mapping[str, Callable[[Context, Any, bool], None]] = {
    "build": _plan_step("build"),
    "deliver": _plan_step("deliver"),
    "start": _plan_step("start"),
    "wait": _wait,
    "gather": gather_step,
    "stop": _stop,
    "command": _command,
}


def check(context: Context, step: Step, built: set[str]) -> None:
    """Report what a step would do, without doing it. What it would build is left out if in `built`, and added to it."""
    if step.module in _KINDS:
        part = _part(context, observe(context), step.module).only(lambda action: action.id not in built)
        built.update(action.id for action in part.actions if action.kind == ActionKind.BUILD)
        for line in plan_lines(part, context.wanted, fold=context.fold):
            context.report.note(f"{step.module}: would {line}" if part else f"{step.module}: {line}")
    elif isinstance(step.arguments, Stop):
        part = plan_teardown(
            context.cluster.name, observe(context), _chosen(context, step.arguments), remove=step.arguments.remove
        )
        for line in plan_lines(part, fold=context.fold):
            context.report.note(f"stop: would {line}" if part else f"stop: {line}")
    elif isinstance(step.arguments, Command):
        context.report.note(f"command: would run {' '.join(step.arguments.argv)}")
    else:
        wait = step.arguments if isinstance(step.arguments, WaitFor) else None
        what = f"until {wait.condition}" if wait else "the chief's new checkpoints"
        context.report.note(f"{step.module}: would {step.module} {what}")
