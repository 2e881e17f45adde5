"""Places that few share: SSH sessions of one connection."""

from tfprov.hosts.ssh.channel_pool import Slots


def test_places_that_become_idle_later_are_asked_for_again() -> None:
    asked: list[int] = []

    def let_go() -> None:
        asked.append(len(asked))
        if len(asked) == 3:
            slots.give()

    slots = Slots(1, [let_go])
    assert slots.take(0)
    assert slots.take(30)
    assert len(asked) == 3
    assert not slots.take(0)
