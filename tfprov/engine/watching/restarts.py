"""Tasks that their restart policy starts again: each restart is told once, and whose restarts are of no use. Pure."""

from collections.abc import Callable, Iterable

from tfprov.engine.watching.known_causes import remedy, same_cause
from tfprov.hosts.crash import Life, from_outside, is_hopeless
from tfprov.model.state import Observed, State

Place = tuple[str, str]
"""A task's name and its host."""


class Restarts:
    """Compares what is seen with what was seen before; `limit` returns how often a task may be started again.

    `give_up` is called with a task that failed twice at once with the same words, and is to be started no more: a
    supervisor sees to that itself, and an engine has to be asked. `own_paths` puts the user's paths into a task's line.
    """

    def __init__(
        self,
        limit: Callable[[str], int | None],
        give_up: Callable[[Observed], None] = lambda _observed: None,
        own_paths: Callable[[str, str], str] = lambda _task, words: words,
    ) -> None:
        self._limit, self._give_up, self._own_paths = limit, give_up, own_paths
        self._words: set[str] = set()
        self._seen: dict[Place, int] = {}
        self._runs: dict[Place, Observed] = {}
        self._failed: dict[Place, Life] = {}

    def update(self, found: Iterable[Observed]) -> list[str]:
        """Return what there is to tell of restarts since the first look; those of before are in `status`."""
        notes = []
        for observed in found:
            place = observed.task, observed.host
            before, self._seen[place] = self._seen.get(place, observed.restarts), observed.restarts
            if observed.restarts > before and observed.state is State.RUNNING:
                notes.append(self._told(observed))
            if observed.state is State.RUNNING and not observed.restarting and self._failed_twice(place, observed):
                self._give_up(observed)
                notes.append(f"{observed.task} failed twice with the same error: it is not started again after this")
        return notes

    def _failed_twice(self, place: Place, observed: Observed) -> bool:
        """Take in a run that may be a new one; return whether the two before it ended the same way, at once."""
        run, self._runs[place] = self._runs.get(place), observed
        if run is None or observed.restarts <= run.restarts:
            if run is not None and observed.restarts < run.restarts:  # started anew by `up`
                self._failed.pop(place, None)
            return False
        # No run between the two looks was longer than the time from the start of the one to the start of the other.
        seconds = (observed.started_at or 0.0) - (run.started_at or 0.0)
        life = Life(observed.last_exit or 0, seconds, observed.last_words)
        before, self._failed[place] = self._failed.get(place), life
        return before is not None and is_hopeless(before, life)

    def _told(self, observed: Observed) -> str:
        code = "" if observed.last_exit is None else f" with exit code {observed.last_exit}"
        limit = self._limit(observed.task)
        of = "" if limit is None else f" of {limit}"
        return f"{observed.task} ended{code} and was started again ({observed.restarts}{of}){self._why(observed)}"

    def _why(self, observed: Observed) -> str:
        """Return why it ended, where that is known; in full for the first of all that ended for one reason."""
        words = "" if from_outside(observed.last_exit) else self._own_paths(observed.task, observed.last_words)
        if not words or same_cause(words) in self._words:
            return ": the same error" if words else ""
        self._words.add(same_cause(words))
        cure = remedy([words])
        return f": {words}; {cure}" if cure else f": {words}"
