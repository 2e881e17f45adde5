"""What each module of a playbook does."""

from collections.abc import Callable, Mapping
from typing import Any

from tfprov.engine.context import Context
from tfprov.engine.execute import current_run, execute
from tfprov.engine.follow import follow
from tfprov.engine.gather import Gathered, gather, unsaved
from tfprov.engine.observe import observe, plan
from tfprov.engine.verify import verify
from tfprov.engine.waiting import wait_serving
from tfprov.errors import GatherError, HostError
from tfprov.model.playbook import Command, Step, Stop, WaitFor
from tfprov.model.state import Observation, Observed
from tfprov.planning.reconcile import teardown
from tfprov.planning.text import lines

_KINDS = {"build": ("build",), "deliver": ("deliver",), "start": ("stop", "remove", "start")}


def _bring_about(module: str) -> Callable[[Context, Any, bool], None]:
    """Build, deliver and start are the same: what the plan says now, as far as it is this module's."""

    def run(context: Context, _arguments: Any, _discard: bool) -> None:
        seen = observe(context)
        part = plan(context, seen).only(lambda action: action.kind in _KINDS[module])
        execute(context, part, current_run(seen)).check()

    return run


def _wait(context: Context, arguments: WaitFor, _discard: bool) -> None:
    if arguments.condition == "done":
        follow(context, arguments.timeout)
    else:
        wait_serving(context, arguments.timeout)


def _gather(context: Context, _arguments: Any, discard: bool) -> None:
    if not discard:
        tell(context, gather(context, verify))


def tell(context: Context, gathered: Gathered) -> None:
    """Say what a gather brought."""
    if gathered.files:
        what = f"{gathered.files} files, {readable(gathered.size)}"
        if gathered.new:
            newest = gathered.new[-1]
            read = "TensorFlow is not installed here, so its tensors were not read"
            tensors = f"{newest.tensors} tensors read" if newest.tensors is not None else read
            what = f"{newest.prefix} ({tensors}); {what}"
        context.report.note(f"gathered into {gathered.directory}: {what}")
    elif gathered.newest:
        context.report.note(f"nothing new to gather: {gathered.directory} has {gathered.newest.prefix}")


def readable(size: float) -> str:
    """Return a number of bytes in the unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _stop(context: Context, arguments: Stop, discard: bool) -> None:
    seen = observe(context)
    kept = None if discard or not arguments.remove else _unsaved(context, seen)
    whole = teardown(context.cluster.name, seen, _chosen(context, arguments), remove=arguments.remove)
    chief = context.cluster.chief.name
    part = whole.only(lambda action: not (kept and action.kind == "remove" and action.subject == chief))
    execute(context, part, current_run(seen)).check()
    if kept:
        fix = "run `tfprov gather`, or remove it for good with `tfprov down --discard`"
        raise GatherError(f"{chief} was kept: its checkpoint {kept} is not gathered", fix)


def _unsaved(context: Context, seen: Observation) -> str | None:
    try:
        return unsaved(context, seen)
    except GatherError:  # the manifest cannot be read, so nothing says that the checkpoint is safe
        return "on the host"


def _chosen(context: Context, arguments: Stop) -> Callable[[Observed], bool]:
    wanted = context.cluster.chief.name if arguments.tasks == "chief" else arguments.tasks

    def is_chosen(observed: Observed) -> bool:
        named = wanted in ("all", observed.task, observed.task.partition("/")[0])
        return named and context.allows(observed.host)

    return is_chosen


def _command(context: Context, arguments: Command, _discard: bool) -> None:
    for host, runtime in context.runtimes.items():
        if not context.allows(host):
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
        part = plan(context, observe(context)).only(lambda action: action.kind in _KINDS[step.module])
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
