"""The cluster: TensorFlow tasks with addresses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tfprov.wiring import FEEDERS, OUTSIDE, READERS, WEB, Wiring


def is_loopback(address: str) -> bool:
    """Whether `address` is a loopback address, which no other host can reach."""
    return address == "localhost" or address.startswith("127.")


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
        """The name in messages and on the command line: `worker/1`."""
        return f"{self.job}/{self.index}"

    @property
    def endpoint(self) -> str:
        """Its address and port: `10.0.0.12:2222`."""
        return f"{self.address}:{self.port}"

    @property
    def serves(self) -> bool:
        """Whether it listens on its port: an evaluator only reads checkpoints."""
        return self.job != "evaluator"

    @property
    def trains(self) -> bool:
        """Whether it is a member of the ClusterSpec."""
        return self.job not in OUTSIDE

    @property
    def reads(self) -> bool:
        """Whether it only reads the chief's files: an evaluator, a tensorboard, a model server or a notebook."""
        return self.job in READERS

    @property
    def is_web(self) -> bool:
        """Whether people reach it over HTTP: a tensorboard, a model server or a notebook."""
        return self.job in WEB

    @property
    def feeds(self) -> bool:
        """Whether it is a task of tf.data's service, which prepares data for the tasks that train."""
        return self.job in FEEDERS


@dataclass(frozen=True)
class Cluster:
    """All tasks of one inventory, in the order of `ROLES`."""

    name: str
    tasks: tuple[Task, ...]
    outside_data_service: str | None = None
    """The address and port of the dispatcher of a tf.data service that is not part of the cluster."""

    @cached_property
    def spec(self) -> Mapping[str, tuple[str, ...]]:
        """The ClusterSpec: addresses by job, in the order of their index, without the tasks that do not train."""
        jobs: dict[str, list[Task]] = {}
        for task in self.tasks:
            if task.trains:
                jobs.setdefault(task.job, []).append(task)
        return {
            job: tuple(task.endpoint for task in sorted(tasks, key=lambda t: t.index)) for job, tasks in jobs.items()
        }

    @cached_property
    def chief(self) -> Task:
        """The task that saves checkpoints and ends the training: `chief/0`, else `worker/0`."""
        return self._by_name.get("chief/0") or self._by_name["worker/0"]

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """The rank of each task that trains, by its name: the chief has 0. A ps has none."""
        names = [task.name for task in self.tasks if task.trains and task.job != "ps"]
        names.sort(key=lambda name: name != self.chief.name)  # stable: the others keep the order of their index
        return {name: rank for rank, name in enumerate(names)}

    @cached_property
    def data_service(self) -> str | None:
        """The address of tf.data's service, `grpc://10.0.0.12:2222`; None without one."""
        dispatcher = self.find("dispatcher/0")
        address = dispatcher.endpoint if dispatcher else self.outside_data_service
        return f"grpc://{address}" if address else None

    def has_roles(self, roles: Iterable[str]) -> bool:
        """Whether each of `roles` has a task."""
        return set(roles) <= {task.role for task in self.tasks}

    @property
    def outside_service(self) -> Task | None:
        """The dispatcher outside of the cluster as what `check` tries to reach; None without one."""
        if self.outside_data_service is None:
            return None
        address, _, port = self.outside_data_service.rpartition(":")
        return Task("data_service", 0, "data_service", address, address, int(port))

    def wiring(self, task: Task) -> Wiring:
        """Return the wiring of `task`: its job, its index and the ClusterSpec."""
        return Wiring(task.job, task.index, self.spec)

    def find(self, name: str) -> Task | None:
        """Return the task called `name`, or None."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, Task]:
        return {task.name: task for task in self.tasks}


def job_counts(cluster: Cluster) -> Mapping[str, int]:
    """Return how many tasks each job has, in the order of `ROLES`."""
    counts: dict[str, int] = {}
    for task in cluster.tasks:
        counts[task.job] = counts.get(task.job, 0) + 1
    return counts
