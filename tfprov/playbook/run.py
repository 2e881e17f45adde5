"""Play playbooks: plays in order, their steps in order, and the `always` plays also after a failure or Ctrl-C."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tfprov.engine.context import Context
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.observe import observe
from tfprov.errors import HangUp, InvalidInput, Problem, TaskFailed, TfprovError, Usage, combine_errors
from tfprov.model.playbook import Play, Stop
from tfprov.paths import shipped_directory
from tfprov.planning.plan_text import join_names
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import Player, PlayOptions, hosts_of

_NAMED = 5
"""Tasks that are named of a cluster with more of them."""


class LeftRun(HangUp):
    """The terminal was closed; `run` is the id of the recorded run, empty without one.

    It `drains` if its cluster was being taken down, after a failure or Ctrl-C: nothing of it may start again.
    """

    def __init__(self, run: str = "", *, drains: bool = False) -> None:
        self.run, self.drains = run, drains
        super().__init__()


def play(context: Context, plays: Iterable[Play], options: PlayOptions, lock: ClusterLock | None = None) -> None:
    """Play `plays`; raise the first error after the later `always` plays have run.

    The cluster is held by `lock`, by default one for the verb of `options`. A second Ctrl-C leaves at once, and so does a
    closed terminal, with LeftRun.
    """
    plays = list(plays)
    for one in plays:
        if context.cluster.has_roles(one.when):
            hosts_of(context, one)  # reports a pattern that matches nothing before anything is done
            _check_stopped_tasks(context, one)
    errors: list[BaseException] = []
    player = Player(context, options, lock or ClusterLock(context, options.verb))
    try:
        for one in plays:
            while not errors or one.always:
                try:
                    errors.extend(player.play(one))
                except KeyboardInterrupt as interrupt:  # between two steps, where no step could report it
                    errors.append(player.report_interrupt(interrupt))
                else:
                    break
    except KeyboardInterrupt:
        context.report.note(_left(context))
        raise
    except HangUp as hang_up:
        raise LeftRun(drains=player.drains or _is_interrupted(hang_up)) from hang_up
    finally:
        player.lock.free()
    errors.extend(player.tolerated)
    if errors:
        raise _final_error(context, errors)


def _check_stopped_tasks(context: Context, one: Play) -> None:
    """Raise InvalidInput for a step that stops a task or a job that is neither in the cluster nor on a host."""
    known = _names(task.name for task in context.cluster.tasks) | {"", "all", "chief"}
    for step in one.steps:
        named = step.arguments.tasks if isinstance(step.arguments, Stop) else ""
        if named in known or not context.cluster.has_roles(step.when):
            continue
        observation = observe(context, tolerant=True)  # it may have left the inventory
        if observation.unreachable or named in _names(container.task for container in observation.containers()):
            continue
        what, fix = f"no task of `{named}`", f"`when: {named}` leaves the step out"
        if "/" in named:
            what = f"no task `{named}`"
            fix = f"its tasks are {join_names([task.name for task in context.cluster.tasks], _NAMED)}"
        raise InvalidInput([Problem(step.at, f"{what} in cluster {context.cluster.name}", fix)])


def _names(tasks: Iterable[str]) -> set[str]:
    """Return the names by which a step can stop `tasks`: their own, and those of their jobs."""
    return {name for task in tasks for name in (task, task.partition("/")[0])}


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


def _is_interrupted(error: BaseException) -> bool:
    """Whether `error` was raised while Ctrl-C was handled, such as by actions that finish what has begun."""
    before = error.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or _is_interrupted(before))


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
