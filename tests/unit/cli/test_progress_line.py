"""What the live line says: how many of how many, how fast, how long it has taken and still takes."""

import pytest

from tfprov.cli.progress_line import UnderWay, progress_line
from tfprov.formats.event_file import EventProgress
from tfprov.model.plan import Action, ActionKind
from tfprov.planning.plan_text import format_duration, format_span


def action(kind: str, number: int) -> Action:
    return Action(ActionKind(kind), f"node{number}", f"worker/{number}", ())


def test_silence_is_named_after_a_second_unless_something_else_is_known() -> None:
    under_way = UnderWay(idle="asking the hosts", idle_since=10.0)
    assert [under_way.text(now) for now in (10.5, 11.0, 75.0)] == [
        "",
        "asking the hosts · 1s",
        "asking the hosts · 1m 5s",
    ]
    under_way.await_("waiting for ps/0", 75.0)
    assert under_way.text(75.5) == "waiting for ps/0"


def test_the_progress_of_a_training_has_its_time_and_the_lost_steps() -> None:
    under_way = UnderWay(lost=47)
    assert under_way.advance(EventProgress(10, 0, None, None), 100, 5.0)
    assert not under_way.advance(EventProgress(10, 0, None, None), 100, 6.0)
    assert under_way.text(70.0) == "step 10 of 100 · 10.0% · 1m 5s · 47 steps lost"


def test_a_delivery_has_its_share_rate_and_time_left() -> None:
    under_way = UnderWay()
    under_way.plan([action("deliver", i) for i in range(4)])
    assert under_way.text(0) == ""
    for i in range(3):
        under_way.begin(action("deliver", i), 0)
    assert under_way.text(0) == "delivering 0/4 to node0, node1, node2"
    for second in range(3):
        for i in range(3):
            under_way.moved(f"node{i}", 10_000_000 * second, 100_000_000, second)
    assert under_way.text(2) == "delivering 0/4 to node0, node1, node2 · 15% of 400.0 MB · 30.0 MB/s · ETA 11s · 2s"
    under_way.moved("node0", 100_000_000, 100_000_000, 3)
    assert under_way.end(action("deliver", 0)) == 100_000_000
    assert under_way.text(3).startswith("delivering 1/4 to node1, node2 · 35% of 400.0 MB · ")


def test_a_transfer_of_unknown_size_says_what_has_come() -> None:
    under_way = UnderWay()
    under_way.begin(action("fetch", 1), 0)
    under_way.moved("node1", 5_000_000, 0, 0.5)
    assert under_way.text(0.5) == "fetching to node1 · 5.0 MB"


def test_an_exported_image_and_what_a_start_brings_have_share_rate_and_time_left() -> None:
    rows = (
        (Action(ActionKind.BUILD, "(controller)", "tfprov/web:1", ()), "tfprov-base/build:1", "building tfprov/web:1"),
        (action("start", 0), "worker/0", "starting 0/3 worker/0"),
    )
    for one, name, doing in rows:
        under_way = UnderWay()
        under_way.plan([one] if one.kind == ActionKind.BUILD else [action("start", i) for i in range(3)])
        under_way.begin(one, 0)
        assert under_way.text(0) == doing
        for second in range(3):
            under_way.moved(name, 10_000_000 * second, 40_000_000, second)
        assert under_way.text(2) == f"{doing} · 50% of 40.0 MB · 10.0 MB/s · ETA 2s · 2s"
        assert under_way.end(one) == 0
        under_way.begin(action(one.kind, 1), 2)
        assert "MB" not in under_way.text(3)


def test_a_rate_is_of_the_last_seconds() -> None:
    under_way = UnderWay()
    under_way.begin(action("deliver", 1), 0)
    for second in range(100):
        under_way.moved("node1", second * 1_000_000, 1_000_000_000, second)
    for second in range(100, 111):
        under_way.moved("node1", 99_000_000, 1_000_000_000, second)
    assert "/s" not in under_way.text(110), "nothing has come for ten seconds"


def test_actions_of_one_kind_are_counted_and_a_few_are_named() -> None:
    under_way = UnderWay()
    under_way.plan([action("start", i) for i in range(40)])
    for i in range(10):
        under_way.begin(action("start", i), 0)
    under_way.end(action("start", 0))
    assert under_way.text(12) == "starting 1/40 worker/1, worker/2, worker/3 and 6 more · 12s"
    under_way.begin(Action(ActionKind.BUILD, "(controller)", "web", ()), 11.5)
    assert under_way.text(12).endswith("; building web")


def test_a_wait_is_shown_with_its_elapsed_time() -> None:
    under_way = UnderWay()
    under_way.training = EventProgress(1, 0, None, None), None
    under_way.await_("waiting for ps/0", 10)
    under_way.await_("waiting for ps/0", 12)
    assert under_way.text(10.5) == "waiting for ps/0"
    assert under_way.text(75) == "waiting for ps/0 · 1m 5s"
    under_way.await_("gathering from worker/0", 80)
    under_way.moved("worker/0", 1_000_000, 4_000_000, 80)
    under_way.moved("worker/0", 2_000_000, 4_000_000, 82)
    assert under_way.text(82) == "gathering from worker/0 · 50% of 4.0 MB · 500.0 kB/s · ETA 4s · 2s"
    under_way.await_("reading every tensor of model.ckpt-7", 82)
    assert under_way.text(85) == "reading every tensor of model.ckpt-7 · 3s", "these bytes are there"
    under_way.await_("", 85)
    assert under_way.text(83) == "step 1"


@pytest.mark.parametrize(
    ("progress", "steps", "expected"),
    [
        (
            EventProgress(50, 0, 0.5, 0.01234567),
            2_000,
            "step 50 of 2,000 · 2.5% · 0.5 steps/s · loss 0.0123457 · ETA 1h 5m",
        ),
        (EventProgress(2844, 0, None, None), 200_000, "step 2,844 of 200,000 · 1.4%"),
        (EventProgress(2001, 0, 10.0, None), 2000, "step 2,001 of 2,000 · 100.0% · 10.0 steps/s"),
        (EventProgress(12, 0, 0.0, 1.5), 100, "step 12 of 100 · 12.0% · 0.0 steps/s · loss 1.5"),
        (EventProgress(12, 0, 3.25, None), None, "step 12 · 3.2 steps/s"),
        (EventProgress(12, 0, None, None), 0, "step 12"),
    ],
)  # fmt: skip
def test_progress_is_one_line(progress: EventProgress, steps: int | None, expected: str) -> None:
    assert progress_line(progress, steps) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (59.9, "59s"), (60, "1m 0s"), (3600, "1h 0m"), (90061, "1d 1h")]
)
def test_a_time_span_has_two_units(seconds: float, expected: str) -> None:
    assert format_span(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *[(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_799, "47 h")],
        (172_800, "2 d"),
    ],
)
def test_a_duration_has_the_largest_unit_of_which_it_has_two(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected
