"""What a plan means for the training that is under way: the step it goes on from."""

from tfprov.checkpoint import checkpoints
from tfprov.engine.context import Context
from tfprov.engine.progress import read_progress
from tfprov.model.plan import Plan
from tfprov.model.state import Observation, State


def forecast(context: Context, plan: Plan, seen: Observation) -> str | None:
    """Return in one line what happens to the steps trained so far; None when the plan does not touch them.

    A chief that restarts, and a ps that does, both send the training back to the newest checkpoint; a chief that is
    stopped while it runs saves once more before it ends, if its program does so on SIGTERM.
    """
    chief = context.chief(seen)
    starts = {action.subject for action in plan.actions if action.kind == "start"}
    if chief is None or not any(task == chief.task or task.startswith("ps/") for task in starts):
        return None
    found = [c.step for c in checkpoints(context.runtimes[chief.host].files(chief.task)) if c.whole]
    progress = read_progress(context, seen)
    if progress is None and not found:
        return None
    was = f" (it is at {progress.step})" if progress else ""
    if not found:
        return f"the training starts anew: {chief.task} has no checkpoint{was}"
    saves = chief.state is State.RUNNING and any(a.kind == "stop" and a.subject == chief.task for a in plan.actions)
    return f"the training goes on from step {found[-1]}{', or later if it saves when stopped' if saves else ''}{was}"
