"""How a run reads the time, lets it pass, and asks in the background while it does."""

import threading
import time
from concurrent.futures import Executor, ThreadPoolExecutor


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
