"""Whether a job of a Spark Connect server starts: a client cannot ask for the number of slots, but sees the progress."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tfprov.errors import Usage


@contextmanager
def start_limit(spark: Any, tag: str, seconds: float, tasks: int) -> Iterator[None]:
    """End the job of the block, which has `tag`, if none of its tasks has started after some seconds.

    A barrier stage starts all of its tasks at once, or none. Raises Usage in place of Spark's error.
    """
    begun, is_late = threading.Event(), threading.Event()

    def on_progress(stages: Iterable[Any] | None, inflight_tasks: int, **_others: Any) -> None:
        if inflight_tasks or any(stage.num_completed_tasks for stage in stages or ()):
            begun.set()

    def end() -> None:
        if not begun.is_set():
            is_late.set()
            spark.interruptTag(tag)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    spark.registerProgressHandler(on_progress)
    timer.start()
    try:
        yield
    except Exception as error:
        if not is_late.is_set():
            raise
        what = f"Spark has started none of the {tasks} tasks of the training in {seconds:g} s: it may have fewer slots"
        raise Usage(what, "start more executors, lower num_slots, or raise start_timeout") from error
    finally:
        timer.cancel()
        spark.removeProgressHandler(on_progress)
