"""The session slots of a connection."""

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
