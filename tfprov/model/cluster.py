"""The cluster: TensorFlow tasks with addresses."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfprov.wiring import OUTSIDE, Wiring


@dataclass(frozen=True)
class Task:
    """One TensorFlow task. `role` is the inventory group it comes from, `job` and `index` its name in the ClusterSpec."""

    job: str
    index: int
    role: str
    host: str
    address: str
    port: int

    @property
    def name(self) -> str:
        """How users and messages call it: `worker/1`."""
        return f"{self.job}/{self.index}"

    @property
    def endpoint(self) -> str:
        """Where it serves: `10.0.0.12:2222`."""
        return f"{self.address}:{self.port}"

    @property
    def serves(self) -> bool:
        """Whether it listens on its port: an evaluator only reads checkpoints."""
        return self.job != "evaluator"

    @property
    def trains(self) -> bool:
        """Whether it is a member of the ClusterSpec; the others only read what the chief writes."""
        return self.job not in OUTSIDE


@dataclass(frozen=True)
class Cluster:
    """All tasks of one inventory, in the order in which they start."""

    name: str
    tasks: tuple[Task, ...]

    @property
    def spec(self) -> dict[str, tuple[str, ...]]:
        """The ClusterSpec: addresses by job, in the order of the index; evaluators and tensorboards are outside of it."""
        jobs: dict[str, list[Task]] = {}
        for task in self.tasks:
            if task.trains:
                jobs.setdefault(task.job, []).append(task)
        return {
            job: tuple(task.endpoint for task in sorted(tasks, key=lambda t: t.index)) for job, tasks in jobs.items()
        }

    @property
    def chief(self) -> Task:
        """The task that saves checkpoints, and whose end is the end of the training: `chief/0`, else `worker/0`."""
        by_name = {task.name: task for task in self.tasks}
        return by_name.get("chief/0") or by_name["worker/0"]

    def wiring(self, task: Task) -> Wiring:
        """Return the cluster as `task` is told about it."""
        return Wiring(task.job, task.index, self.spec)

    def find(self, name: str) -> Task | None:
        """Return the task called `name`, or None."""
        return next((task for task in self.tasks if task.name == name), None)


def job_counts(cluster: Cluster) -> Mapping[str, int]:
    """Return how many tasks each job has, in starting order."""
    counts: dict[str, int] = {}
    for task in cluster.tasks:
        counts[task.job] = counts.get(task.job, 0) + 1
    return counts
