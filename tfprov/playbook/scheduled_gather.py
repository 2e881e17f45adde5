"""Gathers new checkpoints while a training is followed, every so often, in the background."""

from concurrent.futures import Future
from types import TracebackType

from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.context import Context, chief_of
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.observe import observe_in_background
from tfprov.errors import Locked, TfprovError
from tfprov.model.sections import span_seconds
from tfprov.playbook.gathering import report_gathered


class ScheduledGather:
    """Gathers every `seconds`; 0 for never. A failure is reported once, and tried again.

    The end of the block waits for a gather that runs, and holds the cluster's lock, unless the block was interrupted: the
    gather is then left to its thread, and the next one goes on with what it has copied.
    """

    def __init__(self, context: Context, seconds: float) -> None:
        self._context, self._seconds = context, seconds
        self._next = context.clock.now() + seconds
        self._running: Future[None] | None = None
        self._pool = context.clock.pool(1)
        self._failed = False

    def look(self) -> None:
        """Begin a gather if one is due and none runs."""
        now = self._context.clock.now()
        if not self._seconds or now < self._next or (self._running is not None and not self._running.done()):
            return
        self._next = now + self._seconds
        self._running = self._pool.submit(self._gather)

    def _gather(self) -> None:
        context = self._context
        try:
            with ClusterLock(context, "gather", tolerant=True):
                observation = observe_in_background(context)
                if context.chief(observation) is None:
                    return
                gathered = gather(context, context.verify, observation)
        except Locked:  # another verb changes the cluster; next time
            return
        except TfprovError as error:
            self._report_failure(str(error))
            return
        except Exception as error:  # nobody reads what this thread raises, and the training goes on without it
            self._report_failure(f"{type(error).__name__}: {error}")
            return
        self._failed = False
        if gathered.new:
            report_gathered(context, gathered)

    def _report_failure(self, what: str) -> None:
        if not self._failed:
            self._context.report.note(f"nothing was gathered this time: {what}; it is tried again")
        self._failed = True

    def __enter__(self) -> "ScheduledGather":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=kind is None or issubclass(kind, Exception), cancel_futures=True)


def scheduled_gather(context: Context) -> ScheduledGather:
    """Return what gathers as often as `checkpoints: {every: …}` of the chief says."""
    every = chief_of(context.cluster, context.roles).values.checkpoints.every if context.roles else None
    return ScheduledGather(context, span_seconds(every) if every else 0.0)
