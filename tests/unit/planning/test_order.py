"""The order in which a plan starts, stops and removes the tasks of each job, and what waits for what."""

from tfprov.model.plan import CONTROLLER, Action, ActionKind
from tfprov.planning.order import order_actions

UNKNOWN = "accountant"
"""A job that only a later tfprov knows."""
JOBS = (
    *(UNKNOWN, "chief", "data_worker", "dispatcher", "evaluator", "notebook", "ps", "serving", "tensorboard", "worker"),
)
"""All jobs, in the order of their names."""


def ordered(kind: ActionKind, subjects: tuple[str, ...] = JOBS) -> list[str]:
    actions = [Action(kind, "h1", f"{job}/0", ("why",)) for job in subjects]
    return [action.subject.partition("/")[0] for action in order_actions(actions, {})]


def test_tasks_start_before_those_that_need_them() -> None:
    assert ordered(ActionKind.START) == [
        *("ps", "dispatcher", "data_worker", "chief", "worker", "evaluator", "tensorboard", "serving", "notebook"),
        UNKNOWN,
    ]


def test_the_chief_is_stopped_first_and_what_it_needs_last() -> None:
    assert ordered(ActionKind.STOP) == [
        *("chief", "evaluator", "tensorboard", "serving", "notebook", "worker", "data_worker", "dispatcher", "ps"),
        UNKNOWN,
    ]


def test_readers_are_removed_before_the_chief_whose_files_they_mount() -> None:
    assert ordered(ActionKind.REMOVE) == [
        *("evaluator", "tensorboard", "serving", "notebook", "chief", "worker", "data_worker", "dispatcher", "ps"),
        UNKNOWN,
    ]


def test_a_fetch_waits_for_the_image_on_its_host_and_a_start_for_both() -> None:
    image, data = "train:1", "data:1"
    actions = [
        Action(ActionKind.START, "h2", "worker/0", ("why",)),
        Action(ActionKind.START, "h1", "ps/0", ("why",)),
        Action(ActionKind.FETCH, "h2", data, ("why",)),
        *(Action(ActionKind.DELIVER, host, image, ("why",)) for host in ("h1", "h2")),
        Action(ActionKind.DELIVER, "h2", "other:1", ("why",)),
        Action(ActionKind.BUILD, CONTROLLER, image, ("why",)),
    ]
    assert {action.id: action.needs for action in order_actions(actions, {})} == {
        "build train:1 on (controller)": (),
        "deliver train:1 on h1": ("build train:1 on (controller)",),
        "deliver train:1 on h2": ("build train:1 on (controller)",),
        "deliver other:1 on h2": (),
        "fetch data:1 on h2": ("deliver train:1 on h2", "deliver other:1 on h2"),
        "start ps/0 on h1": ("deliver train:1 on h1",),
        "start worker/0 on h2": ("deliver train:1 on h2", "deliver other:1 on h2", "fetch data:1 on h2"),
    }


def test_a_removal_waits_for_its_own_stop_and_for_the_readers_on_its_host() -> None:
    actions = [
        Action(kind, host, task, ("why",))
        for kind in (ActionKind.STOP, ActionKind.REMOVE)
        for task, host in (("worker/0", "h1"), ("worker/0", "h2"), ("evaluator/0", "h1"), ("tensorboard/0", "h2"))
    ]
    needs = {action.id: action.needs for action in order_actions(actions, {})}
    assert {name: needs[name] for name in needs if name.startswith("remove")} == {
        "remove evaluator/0 on h1": ("stop evaluator/0 on h1",),
        "remove tensorboard/0 on h2": ("stop tensorboard/0 on h2",),
        "remove worker/0 on h1": ("stop worker/0 on h1", "remove evaluator/0 on h1"),
        "remove worker/0 on h2": ("stop worker/0 on h2", "remove tensorboard/0 on h2"),
    }
