"""How long a replica may be silent before TensorFlow's coordination service gives it up, and with it the training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

TIMEOUT = 60.0
"""Seconds without a heartbeat after which a replica is lost. TensorFlow's own 10 can pass on a core that has other work.

It is longer than `PeerWatch` needs: a task that has ended is noticed there, after 2 s, and a host that is cut off after 22.
"""


@contextlib.contextmanager
def heartbeat_timeout(context: Any, seconds: float = TIMEOUT) -> Iterator[None]:
    """Let a coordination service that is configured in this block wait `seconds` for each heartbeat.

    `context` is TensorFlow's context of eager execution. A strategy configures the service in its constructor, which takes
    no timeout, so the call is completed here. A TensorFlow without the service is left as it is.
    """
    configure = getattr(context, "configure_coordination_service", None)
    if configure is None:
        yield
        return

    def with_timeout(*args: Any, **options: Any) -> None:
        configure(*args, **{"heartbeat_timeout_in_ms": round(seconds * 1000), **options})

    context.configure_coordination_service = with_timeout
    try:
        yield
    finally:
        del context.configure_coordination_service
