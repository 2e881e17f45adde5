"""Who sends a layer to whom."""

import pytest

from tfprov.images.relays.sources import FAN_OUT, MAX_FAILURES, MIN_MISSING, Peer, Sources, worth_it

LAYER, OTHER = "sha256:layer", "sha256:other"


def peer(number: int) -> Peer:
    return Peer(number, f"host{number}", f"10.0.0.{number}", 5000)


def sources(*numbers: int) -> Sources:
    made = Sources()
    for number in numbers:
        made.add(peer(number))
    return made


def numbers(made: Sources, asking: range, digest: str = LAYER) -> list[int | None]:
    assigned = (made.assign(number, digest) for number in asking)
    return [source.number if source else None for source in assigned]


def test_a_layer_leaves_the_controller_once_and_goes_on_in_a_tree() -> None:
    made = sources(*range(1, 16))
    assert numbers(made, range(1, 16)) == [None, 1, 1, 2, 3, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7]


def test_a_thousand_hosts_wait_for_nine_others_at_most() -> None:
    made = sources(*range(1, 1001))
    depths: dict[int | None, int] = {None: -1}
    for number in range(1, 1001):
        [source] = numbers(made, range(number, number + 1))
        depths[number] = depths[source] + 1
    assert max(depths.values()) == 9
    assert list(depths.values()).count(0) == 1


def test_each_layer_has_a_tree_of_its_own_and_idle_relays_send_first() -> None:
    made = sources(1, 2, 3)
    assert numbers(made, range(1, 4)) == [None, 1, 1]
    assert made.assign(2, OTHER) is None
    assert made.assign(3, OTHER) == peer(2)
    assert made.assign(1, OTHER) == peer(2)


def test_after_a_failure_another_source_is_assigned_and_then_the_controller() -> None:
    made = sources(1, 2, 3, 4)
    assert numbers(made, range(1, 5)) == [None, 1, 1, 2]
    made.failed(4, 2)
    assert made.assign(4, LAYER) == peer(3)
    made.failed(4, 3)
    assert MAX_FAILURES == 2
    assert made.assign(4, LAYER) is None, "a firewall is likely"
    assert made.assign(4, OTHER) is None
    assert made.assign(3, OTHER) == peer(4), "which lets its own connections out"


def test_no_relay_waits_for_itself() -> None:
    made = sources(*range(1, 9))
    assert numbers(made, range(1, 9)) == [None, 1, 1, 2, 3, 2, 3, 4]
    made.remove(7)
    made.failed(2, 1)
    assert made.assign(2, LAYER) == peer(5), "4, 6 and 8 get the layer through 2, and 3 sends it to two others"
    assert made.assign(4, LAYER) == peer(1), "which sends it to one other now"


def test_a_relay_that_has_ended_or_does_not_listen_sends_nothing() -> None:
    made = sources(1)
    assert numbers(made, range(1, 3)) == [None, 1]
    made.remove(1)
    assert made.assign(2, LAYER) is None
    assert made.assign(3, LAYER) is None, "2 has it, and does not listen"


def test_who_asks_again_is_not_counted_twice() -> None:
    made = sources(1, 2, 3)
    assert numbers(made, range(1, 4)) == [None, 1, 1]
    assert FAN_OUT == 2
    assert made.assign(3, LAYER) == peer(1)


@pytest.mark.parametrize(
    ("missing", "hosts", "pays"),
    [(1, 2, True), (1, 1, False), (0, 100, True), (-1, 100, False), (-(24 << 20), 5, False)],
)
def test_a_relay_must_pay(missing: int, hosts: int, pays: bool) -> None:
    assert worth_it((24 << 20) + missing, hosts, MIN_MISSING) is pays


@pytest.mark.parametrize(("asking", "source"), [(22, 23), (23, 8)])
def test_the_first_sixteen_that_may_send_are_compared(asking: int, source: int) -> None:
    made = sources(*range(1, asking + 3))
    numbers(made, range(1, asking + 1))  # of these, 15 or 16 send the layer to fewer than two others
    near = asking + 1
    made.failed(near, 1)
    made.failed(near, 2)
    assert made.assign(near, LAYER) is None, "the controller sends it the layer"
    assert made.assign(near + 1, LAYER) == peer(source)
