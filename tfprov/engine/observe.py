"""Observes the hosts, and decides what unreachable hosts mean for a verb."""

from collections.abc import Collection, Iterator

from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.errors import HostError, Unreachable, combine_errors
from tfprov.hosts.base import Runtime
from tfprov.model.plan import CONTROLLER, ActionKind, Plan
from tfprov.model.state import Container, HostState, Observation, Observed, State
from tfprov.planning.reconcile import reconcile


def observe(context: Context, *, tolerant: bool = False, hosts: Collection[str] | None = None) -> Observation:
    """Observe every host, or only `hosts`; raise the errors of all hosts that do not answer, together.

    In a batch, hosts outside of it are not asked again: the result has their states of `context.known`.

    A silent host that is not needed (see `needs`) is noted and skipped. With `tolerant`, or in a tolerant context, so is
    every silent host, and `unreachable` of the result has its error. In a tolerant context, and if it is not needed, a host
    is not tried again: each try can take the whole connect timeout.
    """
    observation = _observe(context, tolerant=tolerant, hosts=hosts)
    context.report.observed(observation.containers())
    return observation


def observe_in_background(context: Context) -> Observation:
    """Observe every host, like a tolerant `observe`, in a thread beside one that observes them, too.

    The states are not reported: a slow host can make them older than those that were reported meanwhile.
    """
    return _observe(context, tolerant=True)


def _observe(context: Context, *, tolerant: bool, hosts: Collection[str] | None = None) -> Observation:
    chosen = [host for host in context.runtimes if (context.asks(host) if hosts is None else host in hosts)]
    skipped = {
        h: e
        for h, e in dict(context.unresponsive).items()
        if h in chosen and (context.tolerant or not needs(context, h))
    }
    states, failed = _observe_all([context.runtimes[host] for host in chosen if host not in skipped], context.forks)
    for host in states:  # one that was silent before a batch of other hosts, and answers now
        context.unresponsive.pop(host, None)
    vital = [error for host, error in failed.items() if needs(context, host)]
    if vital and not (tolerant or context.tolerant):
        raise combine_errors(vital)
    for host, error in failed.items():
        if context.tolerant or not needs(context, host):
            context.unresponsive[host] = error
            _note_skipped(context, error)
    observation = Observation(states, context.ready(), skipped | failed)
    if hosts is None:
        observation = context.completed(observation)
    return observation.without_aliases(context.left)


def _observe_all(runtimes: Collection[Runtime], forks: int) -> tuple[dict[str, HostState], dict[str, HostError]]:
    """Return the states of all hosts, and the errors of those that failed, in the order of `runtimes`."""
    with pool(min(forks, len(runtimes))) as executor:
        answers = dict(zip((runtime.host for runtime in runtimes), executor.map(_state, runtimes), strict=True))
    states = {host: answer for host, answer in answers.items() if isinstance(answer, HostState)}
    return states, {host: answer for host, answer in answers.items() if isinstance(answer, HostError)}


def _state(runtime: Runtime) -> HostState | HostError:
    try:
        return runtime.observe()
    except HostError as error:
        return error


def needs(context: Context, host: str) -> bool:
    """Whether a verb needs the state of `host`: a host within `--limit`, or that of the chief.

    Hosts that left the inventory, and those outside of `--limit`, are not changed.
    """
    return host not in context.left and (context.allows(host) or host == context.cluster.chief.host)


def _note_skipped(context: Context, error: HostError) -> None:
    """Note that the run continues without the host of `error`, unless the verb reports it at its end."""
    cannot = "cannot be reached" if isinstance(error, Unreachable) else "does not say what runs on it"
    if error.host in context.left:
        context.report.note(f"{error.host} left the inventory and {cannot}: what runs there stays ({error.reason})")
    elif not needs(context, error.host):
        context.report.note(f"{error.host} is left out and {cannot}: {error.reason}")


def note_paused(context: Context, observation: Observation) -> None:
    """Note each task that somebody has paused, once: it holds its port, and others wait for it without an error."""
    for one in (one for one in observation.containers() if one.paused and context.allows(one.host)):
        if (place := (f"paused {one.task}", one.host)) not in context.noted:
            context.noted.add(place)
            context.report.note(f"{one.task} on {one.host} is paused: `{one.unpause}` there lets it go on")


def missing(context: Context) -> list[HostError]:
    """Return the errors of the unreachable hosts that the run should have changed."""
    return [e for host, e in context.unresponsive.items() if host not in context.left and context.allows(host)]


def locate(context: Context, task: str) -> tuple[Runtime, Observed]:
    """Return the runtime and the container of `task`, like `Context.runtime_of`; observes as few hosts as possible."""
    wanted = context.container(task)
    if wanted is not None:
        observation = observe(context, hosts={wanted.task.host})
        if any(container.task == task for container in observation.containers()):
            return context.runtime_of(task, observation)
    return context.runtime_of(task, observe(context, tolerant=True))


def plan(context: Context, observation: Observation) -> Plan:
    """Return what `up` would do now on the hosts within `--limit`; raise the errors of those that did not answer.

    Raises HostError for a task that moves here from a host that is left out, where it still runs.
    """
    if unknown := [error for host, error in observation.unreachable.items() if needs(context, host)]:
        raise combine_errors(unknown)
    whole = reconcile(context.cluster.name, context.wanted, observation)
    part = whole.only(lambda action: action.host == CONTROLLER or context.allows(action.host))
    if doubles := list(_doubles(part, observation)):
        raise combine_errors(doubles)
    return part


def _doubles(part: Plan, observation: Observation) -> Iterator[HostError]:
    """Yield an error for each task that would run twice: two workers of one index train on the same shard."""
    starts = {action.subject: action.host for action in part.actions if action.kind == ActionKind.START}
    stops = {(action.subject, action.host) for action in part.actions if action.kind == ActionKind.STOP}
    for one in observation.containers():
        host = starts.get(one.task, one.host)
        if host != one.host and one.state is State.RUNNING and (one.task, one.host) not in stops:
            what = f"{one.task} still runs on {one.host}, which is left out here, and would run twice"
            yield HostError(host, what, f"let the command change {one.host}, too, or run it without --limit")


def refuse_taken(context: Context, part: Plan, observation: Observation) -> None:
    """Raise HostError for each foreign container, volume or taken port that the starts of `part` would run into."""
    if errors := taken(context, part, observation):
        raise combine_errors(errors)


def taken(context: Context, part: Plan, observation: Observation, *, tolerant: bool = False) -> list[HostError]:
    """Return an error for each of them, in the order of the starts.

    Raises the HostError of a host that does not answer, unless `tolerant`.
    """
    starting: dict[str, list[Container]] = {}
    for action in part.actions:
        if action.kind == ActionKind.START and (container := context.container(action.subject)) is not None:
            starting.setdefault(action.host, []).append(container)
    held = {
        str(container.spec.get("endpoint"))
        for container in observation.containers()
        if container.state is State.RUNNING
    }

    def ask(host: str) -> list[HostError]:
        try:
            return context.runtimes[host].conflicts(starting[host], held)
        except HostError:
            if not tolerant:
                raise
            return []

    if not starting:
        return []
    with pool(min(context.forks, len(starting))) as executor:
        return [error for errors in executor.map(ask, starting) for error in errors]
