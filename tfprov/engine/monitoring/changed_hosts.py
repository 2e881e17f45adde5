"""Which hosts a look must ask: with an event stream, only those where something has happened."""

from contextlib import suppress
from dataclasses import dataclass

from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.hosts.base import Changes

_FIRST_LOOKS = 5
"""Looks at a host before its events are followed: most waits for a start are over by then."""
_SETTLING_LOOKS = 2
"""Looks after an event, and after the stream has begun: the second sees what happened around the first."""
FULL_LOOK = 60.0
"""Seconds after which a host is asked without an event, and a stream that could not be opened is tried again."""


@dataclass
class _Host:
    """`looks` are still to be made without an event; `due` is when one is made in any case."""

    changes: Changes | None = None
    looks: int = _FIRST_LOOKS
    due: float = 0.0
    may_open: float = 0.0


class ChangedHosts:
    """Follows the events of the hosts of `context` that report them; the chief's host is always asked.

    Without a stream, or after the connection was lost, a host is asked at every look, so that no end of a task is missed.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._closed = context, False
        self._hosts = {host: _Host() for host in context.changes if host != context.cluster.chief.host}

    def is_due(self, host: str) -> bool:
        """Whether `host` is to be asked now. Never blocks; not while it is being asked."""
        if (known := self._hosts.get(host)) is None:
            return True
        if known.changes is not None and known.changes.happened():
            known.looks = _SETTLING_LOOKS
        return known.changes is None or known.looks > 0 or self._context.clock.now() >= known.due

    def before_look(self, host: str) -> None:
        """Begin to follow the events of a host that is about to be asked, or go on after its connection was lost."""
        if (known := self._hosts.get(host)) is None:
            return
        now = self._context.clock.now()
        known.looks, known.due = max(0, known.looks - 1), now + FULL_LOOK
        if known.changes is not None and not known.changes.is_open:
            known.changes.close()
            known.changes = None
        if known.changes is None and known.looks == 0 and now >= known.may_open:
            known.may_open = now + FULL_LOOK
            with suppress(HostError):  # the look that follows tells why
                known.changes = self._context.changes[host]()
                known.looks = _SETTLING_LOOKS
            if self._closed and known.changes is not None:
                known.changes.close()

    def failed(self, host: str) -> None:
        """Ask `host`, which did not answer, at the next look again."""
        if (known := self._hosts.get(host)) is not None:
            known.looks = _SETTLING_LOOKS

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for known in self._hosts.values():
            if known.changes is not None:
                known.changes.close()
