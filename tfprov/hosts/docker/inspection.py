"""The details of a cluster's containers: those that are known already are asked for in the same trip as the list."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.paths import container_path, containers_path
from tfprov.hosts.docker.labels import CHECKPOINTS, CLUSTER, DELIVERED, TASK

Facts = dict[str, Any]
"""An inspected container."""


class TaskContainers:
    """The containers of `cluster` on an engine. It keeps only their ids; each call asks the engine. Thread-safe."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine, self._cluster = engine, cluster
        self._ids: Mapping[str, str] = {}
        """The id of the container of each task when it was seen last."""
        self._older: Mapping[str, Sequence[str]] = {}

    def inspect(self, *questions: str) -> tuple[list[Facts], list[Any]]:
        """Return the details of the tasks' containers, and the answers to `questions`, which are asked with the list.

        Of several containers of one task, which a start that was cut off leaves, it is the newest, as the list begins with.
        """
        mine = containers_path(label=[f"{CLUSTER}={self._cluster}", TASK])
        (listed, *answers), details = self._ask([mine, *questions], self._ids.values())
        by_task: dict[str, Facts] = {}
        for facts in self._complete(listed, details):
            by_task.setdefault((facts["Config"].get("Labels") or {}).get(TASK, ""), facts)
        self._ids = {task: facts["Id"] for task, facts in by_task.items()}
        return list(by_task.values()), answers

    def find(self, task: str) -> Facts | None:
        """Return the details of the container of a task; None without one."""
        return self.find_with(task)[0]

    def find_with(self, task: str, *questions: str) -> tuple[Facts | None, list[Any]]:
        """Return what `find` does, and the answers to `questions`, which are asked with the list."""
        mine = containers_path(label=[f"{CLUSTER}={self._cluster}", f"{TASK}={task}"])
        known = [self._ids[task]] if task in self._ids else []
        (listed, *answers), details = self._ask([mine, *questions], known)
        containers = self._complete(listed, details)
        self.forget(task)
        newest = next(iter(containers), None)
        self._ids = {**self._ids, **({task: newest["Id"]} if newest else {})}
        self._older = {**self._older, task: [facts["Id"] for facts in containers[1:]]}
        return newest, answers

    def older(self, task: str) -> Sequence[str]:
        """Return the ids of further containers of a task, when `find` looked last: a start that was cut off left them."""
        return self._older.get(task, ())

    def forget(self, task: str) -> None:
        """Ask no more for a container that was removed."""
        self._ids = {name: container for name, container in self._ids.items() if name != task}

    def _ask(self, questions: Sequence[str], ids: Collection[str]) -> tuple[list[Any], Mapping[str, Facts]]:
        """Return the answers to `questions`, and the details of those containers of `ids` that exist."""
        if not ids:
            return self._engine.ask(*questions), {}
        answers = self._engine.ask_each(*questions, *map(container_path, ids))
        own, inspected = answers[: len(questions)], answers[len(questions) :]
        if any(map(_is_inspected, own)) or not all(map(_is_inspected, inspected)) or len(own) < len(questions):
            return self._engine.ask(*questions), {}  # which raises the error of the question without an answer
        return own, {facts["Id"]: facts for facts in inspected}

    def _complete(self, listed: Sequence[Mapping[str, Any]], details: Mapping[str, Facts]) -> list[Facts]:
        """Return the details of the listed containers, in that order, without copies and those that were removed since.

        Those that `details` lacks are asked for.
        """
        more = [container_path(entry["Id"]) for entry in listed if entry["Id"] not in details]
        asked = {facts["Id"]: facts for facts in self._engine.ask_each(*more)} if more else {}
        known = {**details, **asked}
        return [known[entry["Id"]] for entry in listed if entry["Id"] in known and not _is_copy(known[entry["Id"]])]


def _is_inspected(answer: Any) -> bool:
    """Whether an answer is that of a container, and not a list of containers, images or volumes."""
    return isinstance(answer, dict) and "State" in answer


def _is_copy(facts: Facts) -> bool:
    """Whether it runs an image of `docker commit`, which has the labels of a task's container, and not its volume.

    Such a container has neither the checkpoints of the task nor its process.
    """
    labels, mounts = facts["Config"].get("Labels") or {}, facts.get("Mounts") or ()
    reference, _, delivered = str(labels.get(DELIVERED) or "").rpartition("@")
    if not reference or delivered in (facts.get("Image"), facts["Config"].get("Image")):
        return False
    return not any(str(mount.get("Name") or "").endswith(CHECKPOINTS) for mount in mounts)
