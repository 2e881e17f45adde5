"""Removes recorded runs: some, or all but the newest."""

from collections.abc import Iterable, Sequence

from tfprov.errors import Usage
from tfprov.history.run_dir import RunDir, held_alone
from tfprov.history.summary import DAMAGED, INTERRUPTED, NEWER, RUNNING, UP, RunSummary, newest_runs

_MAY_RUN = (RUNNING, UP)
_MAY_RUN_IF_NEWEST = (INTERRUPTED, DAMAGED, NEWER)
"""Outcomes that do not say whether the tasks still run; they do not if a later run of the cluster has them."""


def refuse_followed(directory: RunDir) -> None:
    """Raise Usage while a run is recorded or supervised."""
    if directory.is_supervised:
        raise Usage(f"{directory.id} is followed by its supervisor", "end it with `tfprov down` first")
    if directory.is_live:
        raise _recorded(directory)


def remove(directory: RunDir) -> None:
    """Remove a run. Raises Usage while it is recorded or supervised."""
    refuse_followed(directory)
    with held_alone(directory.lock) as alone:
        if not alone:
            raise _recorded(directory)
        directory.erase()


def _recorded(directory: RunDir) -> Usage:
    return Usage(f"{directory.id} is recorded at the moment", "end it with `tfprov down` first")


def to_prune(
    summaries: Sequence[RunSummary], *, keep: int | None, older_than: float | None, now: float
) -> Iterable[RunSummary]:
    """Return the runs to remove: all but the `keep` newest of each cluster that began over `older_than` seconds ago.

    A run that may still run is kept. Pure.
    """
    rank: dict[str, int] = {}
    newest = newest_runs(summaries)
    for summary in sorted(summaries, key=lambda one: one.run, reverse=True):
        rank[summary.cluster] = rank.get(summary.cluster, 0) + 1
        is_replaced = summary.run < newest.get(summary.cluster, "")
        may_run = summary.outcome in _MAY_RUN or (summary.outcome in _MAY_RUN_IF_NEWEST and not is_replaced)
        old = older_than is None or now - (summary.ended or summary.started) > older_than
        if rank[summary.cluster] > (keep or 0) and old and not may_run:
            yield summary
