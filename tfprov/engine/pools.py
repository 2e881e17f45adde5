"""Asking several hosts at once, such that Ctrl-C waits for none of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


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
