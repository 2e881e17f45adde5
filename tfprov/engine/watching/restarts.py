"""Tasks that their restart policy starts again: each restart is told once. Pure."""

from collections.abc import Callable, Iterable

from tfprov.model.state import Observed, State


class Restarts:
    """Compares what is seen with what was seen before; `limit` returns how often a task may be started again."""

    def __init__(self, limit: Callable[[str], int | None]) -> None:
        self._limit = limit
        self._seen: dict[tuple[str, str], int] = {}

    def update(self, found: Iterable[Observed]) -> list[str]:
        """Return what there is to tell of restarts since the first look; those of before are in `status`."""
        notes = []
        for observed in found:
            place = observed.task, observed.host
            before, self._seen[place] = self._seen.get(place, observed.restarts), observed.restarts
            if observed.restarts > before and observed.state is State.RUNNING:
                notes.append(self._told(observed))
        return notes

    def _told(self, observed: Observed) -> str:
        code = "" if observed.last_exit is None else f" with exit code {observed.last_exit}"
        limit = self._limit(observed.task)
        of = "" if limit is None else f" of {limit}"
        return f"{observed.task} ended{code} and was started again ({observed.restarts}{of})"
