"""How a run reads the time, lets it pass, and asks in the background while it does."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager


class Clock:
    """The machine's own clock and threads; tests replace all of it, so that no limit depends on how fast they run."""

    def now(self) -> float:
        """Return the seconds since some moment; they only ever grow."""
        return time.monotonic()

    def wall(self) -> float:
        """Return the seconds since 1970, to compare with what hosts and files say."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Let `seconds` pass, or fewer when `event` is set; return whether it is."""
        return event.wait(seconds)

    def pool(self, workers: int) -> Executor:
        """Return what runs up to `workers` calls at a time in the background."""
        return ThreadPoolExecutor(max_workers=max(1, workers))


@contextmanager
def pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of up to so many threads, and wait for them at the end; not after Ctrl-C, or a terminal that was closed.

    A host that is lost answers after seconds, or minutes: who gives up on it must not be held up by it.
    """
    made = ThreadPoolExecutor(max_workers=max(1, threads))
    try:
        yield made
    except Exception:
        made.shutdown()
        raise
    except BaseException:
        made.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        made.shutdown()
