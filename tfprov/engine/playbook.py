"""Play playbooks: plays in order, their steps in order, and the `always` plays also after a failure or Ctrl-C."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from tfprov.config.patterns import match
from tfprov.engine import lock
from tfprov.engine.context import Context
from tfprov.engine.steps import RUN, check
from tfprov.errors import InvalidInput, Problem, TfprovError, Usage
from tfprov.model.playbook import Play, Step, WaitFor


@dataclass(frozen=True)
class Options:
    """How to play. `verb` is what the lock tells others; `discard` removes checkpoints that were not gathered."""

    verb: str = "play"
    tags: frozenset[str] = field(default_factory=frozenset)
    check: bool = False
    discard: bool = False


class _Holder:
    """Holds the cluster's lock while something may change, and lets it go while the training just runs.

    So that `tfprov down` and `tfprov gather` work in another terminal while `tfprov run` follows the training.
    """

    def __init__(self, context: Context, verb: str) -> None:
        self.context, self.verb, self.stack = context, verb, ExitStack()
        self.is_held = False
        self.interrupted = False

    def take(self) -> None:
        if not self.is_held:
            self.stack.enter_context(lock.held(self.context.home / "lock", self.context.cluster.name, self.verb))
            self.is_held = True

    def free(self) -> None:
        self.stack.close()
        self.is_held = False


def play(context: Context, plays: Iterable[Play], options: Options) -> None:
    """Play `plays`; raises the first error (or Ctrl-C) once the `always` plays behind it have run.

    A second Ctrl-C leaves at once.
    """
    plays = list(plays)
    for one in plays:
        _hosts(context, one)  # so that a pattern that matches nothing is told before anything is done
    first: BaseException | None = None
    holder = _Holder(context, options.verb)
    try:
        for one in plays:
            if first is not None and not one.always:
                continue
            for error in _play(context, one, options, holder):
                first = first or error
    finally:
        holder.free()
    if first is not None:
        raise first


def _play(context: Context, one: Play, options: Options, holder: _Holder) -> Iterator[BaseException]:
    """Run the steps of a play and yield what went wrong: at most one error, or all of them in an `always` play."""
    if not _applies(context, one.when):
        return
    context = _hosts(context, one)
    for step in one.steps:
        if not _applies(context, step.when) or not _tagged(options.tags, one.tags | step.tags):
            continue
        try:
            _step(context, step, options, holder)
        except (TfprovError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                if holder.interrupted:
                    raise
                holder.interrupted = True
            yield error
            if not one.always:
                return


def _hosts(context: Context, one: Play) -> Context:
    """Return the context for the hosts of a play; `all` is every host there is, also one that left the inventory."""
    if one.hosts == "all":
        return context
    try:
        return context.limited(match(context.inventory, one.hosts))
    except Usage as error:
        raise InvalidInput([Problem(one.at, str(error))]) from None


def _step(context: Context, step: Step, options: Options, holder: _Holder) -> None:
    if options.check:
        check(context, step)
        return
    if isinstance(step.arguments, WaitFor):
        if step.arguments.condition == "done":
            holder.free()
    else:
        holder.take()
    RUN[step.module](context, step.arguments, options.discard)


def _applies(context: Context, roles: Iterable[str]) -> bool:
    return all(any(task.role == role for task in context.cluster.tasks) for role in roles)


def _tagged(wanted: frozenset[str], tags: frozenset[str]) -> bool:
    return not wanted or bool(wanted & tags) or "always" in tags
