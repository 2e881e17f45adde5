"""The session slots of a connection, and when it gets another connection."""

from types import SimpleNamespace
from typing import Any

import pytest

from tfprov.hosts.ssh import connection
from tfprov.hosts.ssh.channel_pool import SessionSlots


def test_slots_that_become_idle_later_are_reclaimed() -> None:
    reclaims: list[int] = []

    def release_idle() -> None:
        reclaims.append(len(reclaims))
        if len(reclaims) == 3:
            slots.release()

    slots = SessionSlots(1, [release_idle])
    assert slots.acquire(0)
    assert slots.acquire(30)
    assert len(reclaims) == 3
    assert not slots.acquire(0)


class Clock:
    """A time that passes in sleep, and while a slot is waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Busy(connection.Connection):
    """A connection with a slot after `wait` seconds, whose sshd refuses the first sessions until the time `until`."""

    def __init__(self, clock: Clock, wait: float, until: float) -> None:
        self.host, self.transport = "h1", SimpleNamespace(_channels={})
        self._clock, self._wait, self._until = clock, wait, until
        slots: Any = SimpleNamespace(acquire=self._acquire, release=lambda: None, reclaim_idle=lambda: None)
        self.session_slots = slots
        self.extra_at: list[float] = []
        extra: Any = SimpleNamespace(are_open=False, open_session=self._open_extra)
        self._extra = extra

    def _acquire(self, _timeout: float) -> bool:
        self._clock.now += self._wait
        self._wait = 0.0
        return True

    def _open_extra(self, *, may_connect: bool) -> None:
        del may_connect
        self.extra_at.append(self._clock.now)

    def try_session(self) -> Any:
        """Return a session once it is time."""
        return "session" if self._clock.now >= self._until else None


@pytest.mark.parametrize(
    ("wait", "until", "first"), [(20.0, 21.0, None), (0.0, 1.0, None), (20.0, 30.0, 23.0), (0.0, 10.0, 3.0)]
)
def test_only_refusals_lead_to_another_connection_and_not_the_wait_for_a_slot(
    monkeypatch: pytest.MonkeyPatch, wait: float, until: float, first: float | None
) -> None:
    clock = Clock()
    monkeypatch.setattr(connection, "time", clock)
    busy = Busy(clock, wait, until)
    assert busy.open_session(60.0) == (busy, "session")
    assert (busy.extra_at[0] if busy.extra_at else None) == (first and pytest.approx(first, abs=0.5))
