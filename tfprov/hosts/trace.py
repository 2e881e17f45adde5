"""Records what is done on hosts, for `-v`: connections, commands, and requests to engines, each with its time."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("tfprov.hosts")


@contextmanager
def traced(host: str, action: str, *, asks: bool = False) -> Iterator[None]:
    """Record `action` on `host` when the block ends, with its seconds; `asks` says that it changes nothing."""
    level = logging.DEBUG if asks else logging.INFO
    if not _LOGGER.isEnabledFor(level):
        yield
        return
    begin, failed = time.monotonic(), ""
    try:
        yield
    except BaseException as error:
        failed = f", failed: {type(error).__name__}"
        raise
    finally:
        _LOGGER.log(level, "%s: %s (%.2f s%s)", host, action, time.monotonic() - begin, failed)
