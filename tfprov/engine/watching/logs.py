"""The logs of several tasks at once, as they are printed."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import HostError
from tfprov.model.state import Observed

_DRAIN = 3.0
"""Seconds the last log lines get after the end of what they belong to."""
_AGAIN = 2.0
"""Seconds before another try to read on from a host that was lost."""
_AT_ONCE = 10_000
"""Lines that wait for whoever shows them, before their tasks' logs are read on."""


def log_lines(
    context: Context, found: Sequence[Observed], *, tail: int | None, stop: threading.Event | None = None
) -> Iterator[tuple[str, str]]:
    """Follow the logs of the tasks in `found` at once; ends when all of them have ended.

    A host that is lost on the way is tried until it is back; what its tasks printed meanwhile is left out. Once `stop`
    is set, a host that is lost has been left, and is nothing to tell.
    """
    lines: queue.Queue[tuple[str, str] | None] = queue.Queue(maxsize=_AT_ONCE)
    stop = stop or threading.Event()
    lost: set[str] = set()

    def read(observed: Observed) -> None:
        try:
            with suppress(BrokenPipeError):  # nobody reads what is shown any more: `tfprov logs -f | head`
                for line in _lines(context, observed, tail, lost, stop):
                    lines.put((observed.task, line))
        finally:
            lines.put(None)

    for observed in found:
        threading.Thread(target=read, args=(observed,), daemon=True).start()
    ended = 0
    try:
        while ended < len(found):
            item = lines.get()
            if item is None:
                ended += 1
            else:
                yield item
    finally:
        stop.set()


def _lines(
    context: Context, observed: Observed, tail: int | None, lost: set[str], stop: threading.Event
) -> Iterator[str]:
    """Yield what one task prints; `lost` are the hosts of which it was told that their logs are interrupted."""
    runtime, host = context.runtimes[observed.host], observed.host
    while not stop.is_set():
        try:
            for line in runtime.logs(observed.task, tail=tail, follow=True):
                lost.discard(host)
                yield line
        except HostError as error:
            if stop.is_set():
                return
            if host not in lost:
                lost.add(host)
                what = error.reason.partition(";")[0]
                context.report.note(f"{host}: {what}; what its tasks print meanwhile is in `tfprov logs`")
            tail = 0
            stop.wait(_AGAIN)
        else:
            return


@contextmanager
def logs(context: Context) -> Iterator[None]:
    """Pass on what every task prints from now on, and what it printed since it started, until the block ends."""
    stop = threading.Event()

    def pump() -> None:
        seen = observe(context, tolerant=True)
        found = [observed for c in context.wanted if (observed := context.observed(c.task.name, seen))]
        with suppress(OSError):  # nobody reads what is shown any more: `tfprov run | head`
            for task, line in log_lines(context, found, tail=None, stop=stop):
                if stop.is_set():
                    return
                context.report.log(task, line)

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    try:
        yield
        thread.join(_DRAIN)
    finally:
        stop.set()
