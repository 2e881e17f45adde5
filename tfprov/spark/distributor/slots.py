"""How many Spark tasks a training has, and which GPUs each of them uses. Pure."""

import math
from collections.abc import Mapping, Sequence

from tfprov.wiring import DRIVEN_BY_CHIEF

STRATEGIES = ("multi_worker_mirrored", "parameter_server", "between_graph", "in_graph", "single")
WITH_PS = ("parameter_server", "between_graph", "in_graph")
"""Strategies with parameter servers, which hold the variables."""


def count_tasks(slots: int, amount: float | None) -> int:
    """Return the number of Spark tasks for `slots`; `amount` is the number of GPUs of a task, None without GPUs.

    A task with a part of a GPU (`spark.task.resource.gpu.amount=0.5`) has one slot. Raises ValueError.
    """
    if isinstance(slots, bool) or not isinstance(slots, int) or slots <= 0:
        raise ValueError(f"num_slots must be a whole number of 1 or more, not {slots!r}")
    if amount is None:
        return slots
    if not amount > 0 or math.isinf(amount):
        raise ValueError(f"the number of GPUs of a task must be more than 0, not {amount:g}")
    return math.ceil(slots / max(1, math.floor(amount)))


def slots_of(task: int, tasks: int, slots: int) -> int:
    """Return the number of slots of `task`, from 0: the first tasks have one more where `slots` leaves a remainder."""
    return slots // tasks + (task < slots % tasks)


def choose_gpus(addresses: Sequence[str], count: int, visible: str | None) -> str:
    """Return CUDA_VISIBLE_DEVICES for a task that uses `count` of the GPUs that Spark assigned to it, `addresses`.

    Where CUDA_VISIBLE_DEVICES is set already (`visible`), the addresses are positions in that list. Raises ValueError
    where there are too few.
    """
    if len(addresses) < count:
        raise ValueError(f"Spark assigned {len(addresses)} GPUs to a task that needs {count}")
    chosen = sorted(addresses, key=_as_number)[:count]
    if not visible:
        return ",".join(chosen)
    devices = [device.strip() for device in visible.split(",")]
    try:
        return ",".join(devices[int(address)] for address in chosen)
    except (ValueError, IndexError):
        what = f"CUDA_VISIBLE_DEVICES={visible} has no device for the address"
        raise ValueError(f"{what} {', '.join(chosen)} of Spark's discovery script") from None


def _as_number(address: str) -> tuple[int, str]:
    return (int(address), "") if address.isdigit() else (0, address)


def names_of_tasks(strategy: str, workers: int, ps: int) -> tuple[str, ...]:
    """Return the tasks of a training in the order of Spark's partitions; the first one is the chief.

    Raises ValueError for a strategy that does not exist, and for one without the ps that it needs.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    if strategy not in WITH_PS and ps:
        raise ValueError(f"num_ps: the strategy {strategy} has no ps; use one of {', '.join(WITH_PS)}")
    if strategy in DRIVEN_BY_CHIEF and ps < 1:
        raise ValueError(f"num_ps: the strategy {strategy} needs a ps; for example num_ps=1")
    if strategy == "between_graph" and workers > 1 and ps < 1:
        raise ValueError(
            "num_ps: between_graph with several workers needs a ps for their variables; for example num_ps=1"
        )
    if strategy == "single" and workers > 1:
        raise ValueError(f"the strategy single trains in one task, not in {workers}: use num_slots=1")
    chief = ("chief/0",) if strategy in DRIVEN_BY_CHIEF else ()
    named_workers = tuple(f"worker/{index}" for index in range(workers))
    return (*chief, *named_workers, *(f"ps/{index}" for index in range(ps)))


def serves(strategy: str, task: str) -> bool:
    """Whether a task is a server, which runs until the training ends: a ps, or a worker that the chief drives."""
    job = task.partition("/")[0]
    return job == "ps" or (job == "worker" and strategy in DRIVEN_BY_CHIEF)


def gpu_users(strategy: str, names: Sequence[str]) -> list[str]:
    """Return the tasks that compute: not a ps, and not a chief that only drives workers."""
    without = ("ps", "chief") if strategy in DRIVEN_BY_CHIEF else ("ps",)
    return [name for name in names if name.partition("/")[0] not in without]


def cluster_of(names: Sequence[str], addresses: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the ClusterSpec: the `addresses` of the tasks called `names`, by job."""
    cluster: dict[str, tuple[str, ...]] = {}
    for name, address in zip(names, addresses, strict=True):
        job = name.partition("/")[0]
        cluster[job] = (*cluster.get(job, ()), address)
    return cluster
