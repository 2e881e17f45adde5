"""Goes on with a run without a terminal: what the supervisor of a detached run does."""

from dataclasses import dataclass, replace

from tfprov.engine.checkpoints.gather import check_target
from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import TfprovError
from tfprov.history.run_dir import RunDir
from tfprov.history.session import recording
from tfprov.model.state import State
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play_shipped
from tfprov.playbook.verbs import run_result, with_deadline
from tfprov.results import RunResult


@dataclass(frozen=True)
class SupervisedRun:
    """How a supervisor goes on: `passed` seconds of the `deadline` are over.

    `may_start` starts what is missing: the terminal was closed before the cluster was up.
    """

    passed: float = 0.0
    discard: bool = False
    may_start: bool = False


def supervise(context: Context, run: str, options: SupervisedRun) -> RunResult:
    """Go on with a run without a terminal: follow the training to its end, gather, and take the cluster down.

    Tasks that were lost, as with a restart of this machine, are started again; a chief that has ended is not.
    """
    begun = context.clock.now()
    check_target(context)
    context = replace(with_deadline(context, options.passed), new_run=run)
    chief = context.chief(observe(context, tolerant=True))
    if (chief is None and not options.may_start) or _has_ended(context, run):
        name = context.cluster.chief.name
        raise TfprovError(f"{name} is not there any more: run {run} was taken down", "`tfprov run` begins another one")
    # While it just runs, nothing is started: `down` in another terminal may be taking it down.
    starts = options.may_start if chief is None else chief.state in (State.LOST, State.CREATED)
    starts = starts or (options.may_start and chief is not None and chief.state is State.RUNNING)
    with recording(context, "run", run) as session:
        play_shipped(session.context, PlayOptions("run", discard=options.discard), starts=starts)
    return run_result(session.context, session.run, begun)


def _has_ended(context: Context, run: str) -> bool:
    """Whether the record of the run has its end: `down` came before this process."""
    return context.history is not None and RunDir(context.history / run).end_file.exists()
