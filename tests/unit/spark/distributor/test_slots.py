"""How slots become Spark tasks, GPUs and names of tasks."""

import pytest

from tfprov.spark.distributor.slots import choose_gpus, cluster_of, count_tasks, names_of_tasks, serves, slots_of


@pytest.mark.parametrize(
    ("amount", "slots", "gpus"),
    [
        (4, 2, [2]),
        (4, 4, [4]),
        (4, 6, [3, 3]),
        (4, 8, [4, 4]),
        (4, 9, [3, 3, 3]),
        (2, 2, [2]),
        (2, 4, [2, 2]),
        (2, 6, [2, 2, 2]),
        (2, 8, [2, 2, 2, 2]),
        (2, 3, [2, 1]),
        (0.5, 3, [1, 1, 1]),
        (1.5, 3, [1, 1, 1]),
        (None, 3, [1, 1, 1]),
    ],
)
def test_slots_are_split_among_as_few_tasks_as_possible(amount: float | None, slots: int, gpus: list[int]) -> None:
    tasks = count_tasks(slots, amount)
    assert [slots_of(task, tasks, slots) for task in range(tasks)] == gpus


@pytest.mark.parametrize("slots", [0, -1, True, 1.5, "2", None])
def test_slots_that_are_no_positive_number_are_refused(slots: object) -> None:
    with pytest.raises(ValueError, match="num_slots must be a whole number of 1 or more"):
        count_tasks(slots, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("amount", [0.0, -1.0, float("inf"), float("nan")])
def test_amounts_that_are_no_positive_number_are_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="must be more than 0"):
        count_tasks(2, amount)


def test_the_gpus_of_a_task_are_the_first_that_spark_assigned() -> None:
    assert choose_gpus(["10", "9", "2"], 2, None) == "2,9"
    assert choose_gpus(["GPU-b", "GPU-a"], 1, "") == "GPU-a"
    assert choose_gpus(["0"], 0, None) == ""


def test_addresses_are_positions_in_devices_that_are_visible_already() -> None:
    assert choose_gpus(["1", "0"], 2, "5, 7") == "5,7"
    for addresses, visible in ((["2"], "5,7"), (["GPU-a"], "5,7")):
        with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES=5,7 has no device for the address"):
            choose_gpus(addresses, 1, visible)
    with pytest.raises(ValueError, match="Spark assigned 1 GPUs to a task that needs 2"):
        choose_gpus(["0"], 2, None)


def test_the_chief_is_the_first_partition() -> None:
    assert names_of_tasks("multi_worker_mirrored", 2, 0) == ("worker/0", "worker/1")
    assert names_of_tasks("parameter_server", 1, 2) == ("chief/0", "worker/0", "ps/0", "ps/1")
    assert names_of_tasks("between_graph", 2, 1) == ("worker/0", "worker/1", "ps/0")
    assert cluster_of(("chief/0", "worker/0", "ps/0"), ("a:1", "b:2", "c:3")) == {
        "chief": ("a:1",), "worker": ("b:2",), "ps": ("c:3",),
    }  # fmt: skip


def test_servers_are_the_ps_and_the_workers_of_a_chief() -> None:
    assert [serves("parameter_server", name) for name in ("chief/0", "worker/0", "ps/0")] == [False, True, True]
    assert [serves("between_graph", name) for name in ("worker/0", "ps/0")] == [False, True]


@pytest.mark.parametrize(
    ("strategy", "workers", "ps", "message"),
    [
        ("mirrored", 1, 0, "strategy must be one of"),
        ("multi_worker_mirrored", 2, 1, "has no ps"),
        ("single", 1, 1, "has no ps"),
        ("single", 2, 0, "trains in one task"),
        ("parameter_server", 2, 0, "needs a ps"),
        ("in_graph", 2, 0, "needs a ps"),
        ("between_graph", 2, 0, "needs a ps"),
    ],
)
def test_strategies_without_their_tasks_are_refused(strategy: str, workers: int, ps: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        names_of_tasks(strategy, workers, ps)
