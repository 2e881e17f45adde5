"""A plan for many tasks has one line for those that are alike; each task of a small plan has its own."""

from collections.abc import Iterable, Sequence

import pytest

from tfprov.model.plan import CONTROLLER, Action, ActionKind, Plan
from tfprov.planning.plan_text import format_count, format_duration, format_size, format_span, plan_lines

NEW = ("not there",)


def workers(numbers: Iterable[int], causes: Sequence[str] = NEW, kind: ActionKind = ActionKind.START) -> list[Action]:
    """An action for each worker, on a host with its number."""
    return [Action(kind, f"node{n + 1}", f"worker/{n}", tuple(causes)) for n in numbers]


def folded(*actions: Action) -> list[str]:
    return plan_lines(Plan("lab", actions), fold=True)


def test_a_thousand_tasks_are_a_few_lines_and_all_of_them_unfolded() -> None:
    ps = [Action(ActionKind.START, f"ps{n}", f"ps/{n}", NEW) for n in range(2)]
    build = Action(ActionKind.BUILD, CONTROLLER, "sha256:" + "a" * 64, NEW)
    deliveries = [Action(ActionKind.DELIVER, f"node{n + 1}", build.subject, NEW) for n in range(1000)]
    everything = [build, *deliveries, *ps, *workers(range(1000))]
    lines = [line.split() for line in folded(*everything)]
    assert [" ".join(line) for line in lines] == [
        "build code aaaaaaaaaaaa (not there)",
        "deliver code aaaaaaaaaaaa to node[1:1000] (not there)",
        "start ps/0 on ps0 (not there)",
        "start ps/1 on ps1 (not there)",
        "start worker/0-999 on node[1:1000] (not there)",
    ]
    assert len(plan_lines(Plan("lab", tuple(everything)))) == len(everything)


@pytest.mark.parametrize("count", [1, 8])
def test_few_alike_have_a_line_each(count: int) -> None:
    plan = Plan("lab", tuple(workers(range(count))))
    assert plan_lines(plan, fold=True) == plan_lines(plan)
    assert len(plan_lines(plan)) == count


def test_nine_alike_have_one_line() -> None:
    assert folded(*workers(range(9))) == ["start  worker/0-8  on node[1:9]  (not there)"]


def test_gaps_are_visible_and_many_of_them_are_counted() -> None:
    assert folded(*workers([*range(5), 7, *range(9, 20)])) == [
        "start  worker/0-4,7,9-19  on node[1-5,8,10-20]  (not there)"
    ]
    assert folded(*workers(range(0, 40, 2))) == [
        "start  worker/0,2,4,6 and 16 more  on node[1,3,5,7 and 16 more]  (not there)"
    ]


def test_a_different_cause_has_its_own_line_where_it_stands() -> None:
    moved = workers([4], ["flags.steps"])
    lines = folded(*workers(range(4)), *moved, *workers(range(5, 15)))
    assert lines == [
        "start  worker/0-3,5-14  on node[1-4,6-15]  (not there)",
        "start  worker/4         on node5           (flags.steps)",
    ]


def test_few_of_several_causes_keep_their_order() -> None:
    mixed = [action for n in range(8) for action in workers([n], [f"env.{n % 2}"])]
    assert folded(*mixed) == plan_lines(Plan("lab", tuple(mixed)))


def test_restarts_are_apart_from_starts_and_their_stops_have_no_line() -> None:
    stops = workers(range(10), ["command"], ActionKind.STOP)
    lines = folded(*stops, *workers(range(10), ["command"]), *workers(range(10, 20), ["command"]))
    assert lines == [
        "restart  worker/0-9    on node[1:10]   (command)",
        "start    worker/10-19  on node[11:20]  (command)",
    ]


def test_jobs_are_apart() -> None:
    ps = [Action(ActionKind.START, f"node{n + 1}", f"ps/{n}", NEW) for n in range(9)]
    assert [line.split()[1] for line in folded(*ps, *workers(range(9)))] == ["ps/0-8", "worker/0-8"]


def test_hosts_with_unlike_names_are_counted() -> None:
    names = ["alice", "bob", "fe80::a", "[::1]", "carol", "dave", "erin", "frank", "grace"]
    actions = [Action(ActionKind.REMOVE, name, f"worker/{n}", ("left",)) for n, name in enumerate(names)]
    assert folded(*actions) == ["remove  worker/0-8  on [::1], alice, bob, carol and 5 more  (left)"]


def test_nothing_to_do_is_still_said() -> None:
    assert folded() == ["nothing to do"]


def test_a_plan_in_json_has_what_each_action_waits_for() -> None:
    stop = Action(ActionKind.STOP, "h1", "worker/0", ("a", "b"))
    start = Action(ActionKind.START, "h2", "worker/0", ("c",), (stop.id,))
    assert Plan("lab", (stop, start)).to_dict() == {
        "cluster": "lab",
        "actions": [
            {"action": "stop", "host": "h1", "subject": "worker/0", "causes": ["a", "b"], "needs": []},
            {"action": "start", "host": "h2", "subject": "worker/0", "causes": ["c"], "needs": ["stop worker/0 on h1"]},
        ],
    }


def test_sizes_durations_and_counts_change_their_unit_at_its_bound() -> None:
    sizes = {
        0: "0 B", 1.4: "1 B", 999: "999 B", 1000: "1.0 kB", 999_900: "999.9 kB", 1_000_000: "1.0 MB",
        1_500_000_000: "1.5 GB", 999_900_000_000: "999.9 GB", 1_000_000_000_000: "1.0 TB", 5e15: "5000.0 TB",
    }  # fmt: skip
    assert {size: format_size(size) for size in sizes} == sizes
    durations = {
        0.4: "0 s", 119: "119 s", 120: "2 min", 179: "2 min", 7199: "119 min", 7200: "2 h", 172799: "47 h",
        172800: "2 d", 259199: "2 d",
    }  # fmt: skip
    assert {seconds: format_duration(seconds) for seconds in durations} == durations
    spans = {
        0: "0s", 59.9: "59s", 60: "1m 0s", 3599: "59m 59s", 3600: "1h 0m", 86399: "23h 59m", 86400: "1d 0h",
        180000: "2d 2h",
    }  # fmt: skip
    assert {seconds: format_span(seconds) for seconds in spans} == spans
    assert [format_count(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
