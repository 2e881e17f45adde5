"""Goes on with a run without a terminal: what the supervisor of a detached run does."""

from dataclasses import dataclass, replace

from tfprov.engine.checkpoints.gather import check_target
from tfprov.engine.context import Context
from tfprov.engine.monitoring.follow import PATIENCE, check_ends
from tfprov.engine.observe import observe
from tfprov.errors import TfprovError, Usage
from tfprov.history.run_dir import RunDir
from tfprov.history.session import recording
from tfprov.model.state import Observed, State
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play_shipped
from tfprov.playbook.verbs import run_result, with_deadline
from tfprov.results import RunResult

_AGAIN = 5.0
"""Seconds between two tries to ask the chief's host: each can take the whole connect timeout."""


@dataclass(frozen=True)
class SupervisedRun:
    """How a supervisor goes on: `passed` seconds of the `deadline` are over.

    `may_start` starts what is missing: the terminal was closed before the cluster was up. `drain` only takes the cluster
    down: the terminal was closed while `run` did so. `only_running` goes on with a training that has not ended, and with
    no other. `partial` and `resume` are those of `run`.
    """

    passed: float = 0.0
    discard: bool = False
    may_start: bool = False
    drain: bool = False
    only_running: bool = False
    partial: bool = False
    resume: bool = False


def supervise(context: Context, run: str, options: SupervisedRun) -> RunResult:
    """Go on with a run without a terminal: follow the training to its end, gather, and take the cluster down.

    Tasks that were lost, as with a restart of this machine, are started again; a chief that has ended is not. Raises Usage,
    and touches nothing, for a cluster that has no end, is of a later run, or is not to be taken down.
    """
    begun = context.clock.now()
    check_ends(context)
    check_target(context)
    context = replace(with_deadline(context, options.passed), new_run=run, resume=options.resume)
    chief, name = _chief(context, tolerant=options.drain), context.cluster.chief.name
    # A start or an end that was cut off may have left the chief of the run before it.
    cut_off = options.may_start or options.drain
    if chief is not None and (chief.run > run if cut_off else chief.run not in ("", run)):
        what = f"run {run} is over: the cluster has run {chief.run}"
        raise Usage(what, f"`tfprov attach {chief.run[-6:]}` follows that one")
    if options.drain and not _has_ended(context, run):
        return _drain(context, run, begun, discard=options.discard)
    if (chief is None and not options.may_start) or _has_ended(context, run):
        raise TfprovError(f"{name} is not there any more: run {run} was taken down", "`tfprov run` begins another one")
    if chief is not None and chief.state is State.EXITED and options.only_running:
        what = f"{name} has ended, and `up` began run {run}: nobody asked to take its cluster down"
        raise Usage(what, "`tfprov gather` brings its checkpoints, `tfprov down` takes it down, too")
    # While it just runs, nothing is started: `down` in another terminal may be taking it down.
    starts = options.may_start if chief is None else chief.state in (State.LOST, State.CREATED)
    starts = starts or (options.may_start and chief is not None and chief.state is State.RUNNING)
    with recording(context, "run", run) as session:
        played = PlayOptions("run", discard=options.discard, partial=options.partial)
        play_shipped(session.context, played, starts=starts)
    return run_result(session.context, session.run, begun)


def _chief(context: Context, *, tolerant: bool) -> Observed | None:
    """Return the chief's container; None once its host answers that it has none.

    It waits for the host: the network that closed a terminal may be the one to the hosts. Raises the error of a host that
    stays lost; None if `tolerant`, as `down` takes the others down.
    """
    host, begun = context.cluster.chief.host, context.clock.now()
    while True:
        observation = observe(context, tolerant=True)
        chief, error = context.chief(observation), observation.unreachable.get(host)
        lost = context.clock.now() - begun >= PATIENCE
        if chief is not None or error is None or (lost and tolerant):
            return chief
        if lost:
            raise error
        context.clock.sleep(_AGAIN)


def _drain(context: Context, run: str, begun: float, *, discard: bool) -> RunResult:
    """Take the cluster down, as `down` does: with what is left of it."""
    with recording(replace(context, tolerant=True), "down", run) as session:
        play_shipped(session.context, PlayOptions("down", discard=discard))
    return run_result(session.context, session.run, begun)


def _has_ended(context: Context, run: str) -> bool:
    """Whether the record of the run has its end: `down` came before this process."""
    return context.history is not None and RunDir(context.history / run).end_file.exists()
