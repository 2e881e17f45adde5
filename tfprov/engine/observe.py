"""Observes the hosts, and decides what unreachable hosts mean for a verb."""

from collections.abc import Collection

from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.errors import HostError, Unreachable, combine_errors
from tfprov.hosts.base import Runtime
from tfprov.model.plan import CONTROLLER, ActionKind, Plan
from tfprov.model.state import Container, HostState, Observation, Observed, State
from tfprov.planning.reconcile import reconcile


def observe(context: Context, *, tolerant: bool = False, hosts: Collection[str] | None = None) -> Observation:
    """Ask every host, or only `hosts`, for its state; raises the errors of all hosts that do not tell it, together.

    A host that is not needed (see `needs`) is passed over with a note. So is every host with `tolerant`, or in a tolerant
    context: then `unreachable` says which they are. One that was passed over is not asked again, because each try can
    cost the whole time limit of a connection; with `tolerant` alone, it is.
    """
    chosen = [host for host in context.runtimes if hosts is None or host in hosts]
    known = {
        h: e for h, e in context.unresponsive.items() if h in chosen and (context.tolerant or not needs(context, h))
    }
    states, failed = _ask([context.runtimes[host] for host in chosen if host not in known], context.forks)
    vital = [error for host, error in failed.items() if needs(context, host)]
    if vital and not (tolerant or context.tolerant):
        raise combine_errors(vital)
    for host, error in failed.items():
        if context.tolerant or not needs(context, host):
            context.unresponsive[host] = error
            _tell_unneeded(context, error)
    return Observation(states, context.ready(), known | failed)


def _ask(runtimes: Collection[Runtime], forks: int) -> tuple[dict[str, HostState], dict[str, HostError]]:
    """Return what every host says, and the errors of those that do not, in the order of `runtimes`."""
    with pool(min(forks, len(runtimes))) as asking:
        answers = dict(zip((runtime.host for runtime in runtimes), asking.map(_state, runtimes), strict=True))
    states = {host: answer for host, answer in answers.items() if isinstance(answer, HostState)}
    return states, {host: answer for host, answer in answers.items() if isinstance(answer, HostError)}


def _state(runtime: Runtime) -> HostState | HostError:
    try:
        return runtime.observe()
    except HostError as error:
        return error


def needs(context: Context, host: str) -> bool:
    """Whether a verb cannot do its work without knowing what is on `host`.

    What left the inventory, and what `--limit` leaves out, can stay as it is; but the chief decides what is to be done.
    """
    return host not in context.left and (context.allows(host) or host == context.cluster.chief.host)


def _tell_unneeded(context: Context, error: HostError) -> None:
    """Say that it goes on without the host of `error`, where nobody else will say so."""
    cannot = "cannot be reached" if isinstance(error, Unreachable) else "does not say what runs on it"
    if error.host in context.left:
        context.report.note(f"{error.host} left the inventory and {cannot}: what runs there stays ({error.reason})")
    elif not needs(context, error.host):
        context.report.note(f"{error.host} is left out and {cannot}: {error.reason}")


def missing(context: Context) -> list[HostError]:
    """Return the errors of the hosts that something should have been done on, and could not be reached for it."""
    return [e for host, e in context.unresponsive.items() if host not in context.left and context.allows(host)]


def locate(context: Context, task: str) -> tuple[Runtime, Observed]:
    """Return where `task` is, and its container; as `Context.runtime_of`, but only the hosts that are needed are asked."""
    wanted = context.container(task)
    if wanted is not None:
        observation = observe(context, hosts={wanted.task.host})
        if any(container.task == task for container in observation.containers()):
            return context.runtime_of(task, observation)
    return context.runtime_of(task, observe(context, tolerant=True))


def plan(context: Context, observation: Observation) -> Plan:
    """Return what `up` would do now, on the hosts that may be changed; raises when one of them did not tell its state."""
    if unknown := [error for host, error in observation.unreachable.items() if needs(context, host)]:
        raise combine_errors(unknown)
    whole = reconcile(context.cluster.name, context.wanted, observation)
    return whole.only(lambda action: action.host == CONTROLLER or context.allows(action.host))


def refuse_taken(context: Context, part: Plan, observation: Observation) -> None:
    """Raise HostError for each foreign container, volume or taken port that the starts of `part` would run into."""
    if errors := taken(context, part, observation):
        raise combine_errors(errors)


def taken(context: Context, part: Plan, observation: Observation, *, tolerant: bool = False) -> list[HostError]:
    """Return an error for each of them, in the order of the starts.

    A host that cannot be asked now raises its own HostError; `tolerant` passes it over.
    """
    starting: dict[str, list[Container]] = {}
    for action in part.actions:
        if action.kind == ActionKind.START and (container := context.container(action.subject)) is not None:
            starting.setdefault(action.host, []).append(container)
    held = {str(one.spec.get("endpoint")) for one in observation.containers() if one.state is State.RUNNING}

    def ask(host: str) -> list[HostError]:
        try:
            return context.runtimes[host].conflicts(starting[host], held)
        except HostError:
            if not tolerant:
                raise
            return []

    if not starting:
        return []
    with pool(min(context.forks, len(starting))) as asking:
        return [error for errors in asking.map(ask, starting) for error in errors]
