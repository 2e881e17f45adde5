"""Play playbooks: plays in order, their steps in order, and the `always` plays also after a failure or Ctrl-C."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfprov.engine.context import Context
from tfprov.engine.execute import SecondInterrupt
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.observe import missing, observe
from tfprov.engine.rollback import take_back
from tfprov.errors import InvalidInput, Problem, TaskFailed, TfprovError, Usage, combine_errors
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.playbook import Play, Step, WaitFor
from tfprov.model.state import Observation
from tfprov.paths import shipped_directory
from tfprov.planning.plan_text import join_names
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.scheduled_gather import scheduled_gather
from tfprov.playbook.steps import RUN, check

_NAMED = 5
"""Tasks that are named when many may still run."""


@dataclass(frozen=True)
class PlayOptions:
    """How to play. `verb` is shown to other runs by the lock; `discard` removes checkpoints that were not gathered.

    With `partial`, what did start is kept when something else did not.
    """

    verb: str = "play"
    tags: frozenset[str] = field(default_factory=frozenset)
    check: bool = False
    discard: bool = False
    partial: bool = False


def play(context: Context, plays: Iterable[Play], options: PlayOptions) -> None:
    """Play `plays`; raise the first error after the later `always` plays have run.

    A second Ctrl-C leaves at once.
    """
    plays = list(plays)
    for one in plays:
        _hosts(context, one)  # reports a pattern that matches nothing before anything is done
    errors: list[BaseException] = []
    player = _Player(context, options, ClusterLock(context, options.verb))
    try:
        for one in plays:
            if not errors or one.always:
                errors.extend(player.play(one))
    except KeyboardInterrupt:
        context.report.note(_left(context))
        raise
    finally:
        player.lock.free()
    if errors:
        raise _final_error(context, errors)


def play_shipped(context: Context, options: PlayOptions, *, starts: bool = True) -> None:
    """Play the playbook of `options.verb` that ships with tfprov; without `starts`, none of its plays that start tasks."""
    plays = read_playbook(shipped_directory("playbooks") / f"{options.verb}.yml")
    play(context, [one for one in plays if starts or not any(step.module == "start" for step in one.steps)], options)


def find_playbook(name: str) -> Path:
    """Return the path of a playbook: a file, or the name of one that ships with tfprov. Raises Usage for neither."""
    ours = shipped_directory("playbooks") / f"{name}.yml"
    if Path(name).is_file() or not ours.is_file():
        if not Path(name).exists():
            known = ", ".join(sorted(path.stem for path in shipped_directory("playbooks").glob("*.yml")))
            raise Usage(f"no playbook `{name}`", f"give a file, or one of {known}")
        return Path(name)
    return ours


def read_tagged(name: str, tags: Iterable[str]) -> tuple[Play, ...]:
    """Return the plays of playbook `name`. Raises Usage if none of `tags` occurs in it."""
    plays = read_playbook(find_playbook(name))
    wanted = frozenset(tags)
    known = frozenset(tag for one in plays for tag in one.tags.union(*(step.tags for step in one.steps)))
    if wanted and not wanted & known:
        what = f"nothing in {name} has the tag `{', '.join(sorted(wanted))}`"
        raise Usage(what, f"its tags are {', '.join(sorted(known))}" if known else "it has no tags at all")
    return plays


def _left(context: Context) -> str:
    """Return the note after a second Ctrl-C: the tasks that may still run, as no host is observed any more."""
    names = [container.task.name for container in context.wanted]
    what = f"left at once: {join_names(names, _NAMED)} may still run"
    return f"{what}; `tfprov status` shows them, `tfprov down` gathers and ends them"


def _final_error(context: Context, errors: Sequence[BaseException]) -> BaseException:
    """Return the error to raise: the first one if it is Ctrl-C or the training's failure, else all of them."""
    failures = [error for error in errors if isinstance(error, TfprovError)]
    if not isinstance(errors[0], KeyboardInterrupt | TaskFailed):
        return combine_errors(failures)
    for error in failures:
        if str(error) != str(errors[0]):
            context.report.note(str(error))
    return errors[0]


@dataclass
class _Player:
    """Plays one play after the other, and holds the cluster's lock while something may change.

    It lets the lock go while the training just runs, so that `tfprov down` and `tfprov gather` work in another terminal
    while `tfprov run` follows the training.
    """

    context: Context
    options: PlayOptions
    lock: ClusterLock
    interrupted: bool = False
    followed: bool = False

    def play(self, one: Play) -> Iterator[BaseException]:
        """Run the steps of a play and yield its first error, or all errors of an `always` play."""
        if not _applies(self.context, one.when):
            return
        context = replace(_hosts(self.context, one), tolerant=one.always, partial=self.options.partial)
        before: Observation | None = None
        for step in one.steps:
            try:  # a signal may come at any moment, and an `always` play is played after it all the same
                if not _applies(context, step.when) or not _tagged(self.options.tags, one.tags | step.tags):
                    continue
                self.update_lock(context, step)
                if before is None and step.module == "start" and not (self.options.partial or self.options.check):
                    before = observe(context)
                    self.run(replace(context, seen=before), step)
                else:
                    self.run(replace(context, followed=self.followed), step)
                self.followed = self.followed or _follows(step)
            except (TfprovError, KeyboardInterrupt) as error:
                yield self.report_interrupt(error)
                if before is not None and isinstance(error, TfprovError) and _starts(step):
                    yield from self.take_back(context, before)
                if not one.always:
                    return
        if one.always and (lost := missing(context)):
            yield combine_errors(lost)

    def report_interrupt(self, error: TfprovError | KeyboardInterrupt) -> BaseException:
        """Return the error, unless it is the second Ctrl-C, which leaves at once."""
        if isinstance(error, KeyboardInterrupt):
            if self.interrupted or isinstance(error, SecondInterrupt):
                raise error
            self.interrupted = True
            self.context.report.note("interrupted: Ctrl-C again leaves at once")
        return error

    def update_lock(self, context: Context, step: Step) -> None:
        """Hold the lock before a step that changes something, and let it go before one that just follows."""
        if self.options.check:
            return
        if not isinstance(step.arguments, WaitFor) or (step.arguments.condition == "serving" and self.lock.is_held):
            self.lock.take(tolerant=context.tolerant)
        elif step.arguments.condition == "done":
            self.lock.free()

    def run(self, context: Context, step: Step) -> None:
        """Run a step, or with `check` report what it would do."""
        if self.options.check:
            check(context, step)
        elif _follows(step) and isinstance(step.arguments, WaitFor):
            follow(context, step.arguments.timeout, periodic=scheduled_gather(context))
        else:
            RUN[step.module](context, step.arguments, self.options.discard)

    def take_back(self, context: Context, before: Observation) -> Iterator[BaseException]:
        """Take back what the play has started; yield the errors of that."""
        try:
            self.lock.take(tolerant=True)
            take_back(context, before)
        except (TfprovError, KeyboardInterrupt) as error:
            yield self.report_interrupt(error)


def _starts(step: Step) -> bool:
    return step.module == "start" or (isinstance(step.arguments, WaitFor) and step.arguments.condition == "serving")


def _follows(step: Step) -> bool:
    return isinstance(step.arguments, WaitFor) and step.arguments.condition == "done"


def _hosts(context: Context, one: Play) -> Context:
    """Return the context for the hosts of a play; `all` is every host there is, also one that left the inventory."""
    if one.hosts == "all":
        return context
    try:
        return context.limited(match_hosts(context.inventory, one.hosts))
    except Usage as error:
        raise InvalidInput([Problem(one.at, str(error))]) from None


def _applies(context: Context, roles: Iterable[str]) -> bool:
    return all(any(task.role == role for task in context.cluster.tasks) for role in roles)


def _tagged(wanted: frozenset[str], tags: frozenset[str]) -> bool:
    return not wanted or bool(wanted & tags) or "always" in tags
