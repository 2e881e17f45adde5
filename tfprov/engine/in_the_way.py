"""What is in the way of a start, on all hosts, before anything is stopped, removed or started on any of them."""

from tfprov.engine.context import Context
from tfprov.engine.pools import pool
from tfprov.errors import HostError, together
from tfprov.model.plan import Plan
from tfprov.model.state import Container, Observation, State


def refuse_taken(context: Context, part: Plan, seen: Observation) -> None:
    """Raise HostError for each foreign container, volume or taken port that the starts of `part` would run into."""
    if errors := taken(context, part, seen):
        raise together(errors)


def taken(context: Context, part: Plan, seen: Observation, *, tolerant: bool = False) -> list[HostError]:
    """Return an error for each of them, in the order of the starts.

    A host that cannot be asked now raises its own HostError; `tolerant` passes it over.
    """
    starting: dict[str, list[Container]] = {}
    for action in part.actions:
        if action.kind == "start" and (container := context.container(action.subject)) is not None:
            starting.setdefault(action.host, []).append(container)
    held = {str(one.spec.get("endpoint")) for one in seen.containers() if one.state is State.RUNNING}

    def ask(host: str) -> list[HostError]:
        try:
            return context.runtimes[host].in_the_way(starting[host], held)
        except HostError:
            if not tolerant:
                raise
            return []

    if not starting:
        return []
    with pool(min(context.forks, len(starting))) as asking:
        return [error for found in asking.map(ask, starting) for error in found]
