"""A container in the place of another, and what a start that an engine refuses leaves."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.runtime_bench import container
from tfprov.errors import HostError
from tfprov.hosts.docker import secret_files
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.hosts.docker.inspection import TaskContainers
from tfprov.hosts.docker.preconditions import (
    create_container,
    orphaned_volume,
    remove_orphans,
    remove_volume,
    task_volume,
)
from tfprov.model.state import DockerOptions

NAME = "tfprov-lab-worker-0"
VOLUME = f"{NAME}-checkpoints"
WORKER = replace(container(), docker=DockerOptions("tfprov/lab:1", address="10.0.0.5"))
RUNNING = {"Id": "old", "Name": f"/{NAME}"}
STOPPED = {"Id": "old", "Name": f"/{NAME}-stopped"}


class FakeEngine:
    """Its `containers` are names by id, its `volumes` labels by name; it refuses to create containers if `refuses`."""

    def __init__(self, containers: Mapping[str, str] | None = None, *, refuses: bool = False) -> None:
        self.host, self.api = "h1", self
        self.containers = dict(containers or {})
        self.volumes: dict[str, dict[str, str]] = {}
        self.refuses = refuses

    def errors(self) -> AbstractContextManager[None]:
        return engine_errors(self.host)

    def create_host_config(self, **_: Any) -> dict[str, Any]:
        return {}

    def create_container(self, **config: Any) -> dict[str, str]:
        assert config["name"] not in self.containers.values(), "the name is taken"
        if self.refuses:
            raise docker.errors.APIError("bind source path does not exist: /nosuch")
        self.containers["new"] = config["name"]
        return {"Id": "new"}

    def rename(self, container: str, name: str) -> None:
        assert name not in self.containers.values(), "the name is taken"
        self.containers[container] = name

    def remove_container(self, container: str, *, v: bool) -> None:
        assert v
        del self.containers[container]

    def create_volume(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        return {"Name": name, "Labels": self.volumes.setdefault(name, dict(labels))}

    def ask(self, *paths: str, newest: str = "") -> list[Any]:
        if paths == ("/system/df?type=volume",):
            assert newest == "1.52", "from 1.53 on its volumes are elsewhere"
            return [
                {
                    "Volumes": [
                        {"Name": it, "UsageData": {"Size": VOLUMES[it][1]}} for it in self.volumes if it in VOLUMES
                    ]
                }
            ]
        listed = [{"Name": name, "Labels": labels} for name, labels in self.volumes.items()]
        return [[{"Id": "x", "Mounts": [{"Type": "bind"}, {"Name": "mounted"}]}], {"Volumes": listed}]

    def remove_volume(self, name: str) -> None:
        if "new" in self.containers:
            raise docker.errors.APIError("volume is in use")
        del self.volumes[name]


def create(fake: FakeEngine, previous: Mapping[str, Any] | None = None, *older: str, secret: bool = False) -> None:
    worker = replace(WORKER, env={"TOKEN": "x"}, secret=frozenset({"TOKEN"})) if secret else WORKER
    with task_volume(fake, "lab", "worker/0"), fake.errors():  # type: ignore[arg-type]  # all of an engine that it needs
        create_container(fake, "lab", worker, "run-1", "sha256:1", previous=previous, older=older)  # type: ignore[arg-type]


@pytest.mark.parametrize("previous", [RUNNING, STOPPED])
def test_a_container_takes_the_place_of_another_and_of_older_ones(previous: Mapping[str, str]) -> None:
    fake = FakeEngine({"old": previous["Name"].lstrip("/"), "oldest": "x"})
    create(fake, previous, "oldest")
    assert fake.containers == {"new": NAME}


@pytest.mark.parametrize("previous", [RUNNING, STOPPED])
def test_a_container_that_is_refused_leaves_the_one_before(previous: Mapping[str, str]) -> None:
    fake = FakeEngine({"old": previous["Name"].lstrip("/")}, refuses=True)
    fake.volumes[VOLUME] = {"tfprov.cluster": "lab"}
    with pytest.raises(HostError, match="/nosuch"):
        create(fake, previous)
    assert fake.containers == {"old": previous["Name"].lstrip("/")}
    assert VOLUME in fake.volumes


def test_a_first_container_that_is_refused_leaves_no_volume_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {NAME}
    monkeypatch.setattr(secret_files, "put_secrets", lambda *_: ["sh"])
    monkeypatch.setattr(secret_files, "remove_secrets", lambda _engine, name, _image: kept.remove(name))
    fake = FakeEngine(refuses=True)
    with pytest.raises(HostError, match="/nosuch"):
        create(fake, secret=True)
    assert (fake.volumes, kept) == ({}, set())


def start_and_interrupt(fake: FakeEngine) -> None:
    with task_volume(fake, "lab", "worker/0"):  # type: ignore[arg-type]
        fake.containers["new"] = NAME
        raise KeyboardInterrupt


def test_a_volume_that_was_there_or_is_in_use_stays_after_an_error() -> None:
    fake = FakeEngine()
    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt(fake)
    assert list(fake.volumes) == [VOLUME]
    fake.containers.clear()
    fake.refuses = True
    with pytest.raises(HostError, match="/nosuch"):
        create(fake)
    assert list(fake.volumes) == [VOLUME]


def test_a_foreign_volume_is_refused() -> None:
    fake = FakeEngine()
    fake.volumes[VOLUME] = {"tfprov.cluster": "other"}
    with pytest.raises(HostError, match=f"the volume {VOLUME} is not ours"):
        create(fake)
    assert fake.containers == {}


VOLUMES = {  # and the size of what is in each; -1 is unknown
    "ps": ("ps/0", 0),
    "chief": ("worker/0", 500),
    "ps-shard": ("ps/1", -1),
    "progress": ("worker/1", 500),
    "mounted": ("evaluator/0", 500),
}

CHIEF = ("worker/0", 500)


@pytest.mark.parametrize(
    ("volumes", "discard", "left", "problem"),
    [
        (["ps", "progress", "mounted"], False, ["mounted"], None),
        (["chief", "ps", "mounted"], True, ["mounted"], None),
        (["chief", "ps"], False, ["chief"], "the volume chief has files of a task whose container somebody removed"),
        (["chief", "ps-shard"], False, ["chief", "ps-shard"], "the volumes chief, ps-shard have files of a task"),
        (["mounted"], False, ["mounted"], None),
        (["not listed"], False, ["not listed"], "the volume not listed has files of a task"),
    ],
)
def test_volumes_of_containers_that_somebody_removed_are_removed_but_for_checkpoints(
    volumes: list[str], discard: bool, left: list[str], problem: str | None
) -> None:
    fake = FakeEngine()
    fake.volumes = {name: {"tfprov.cluster": "lab", "tfprov.task": VOLUMES.get(name, CHIEF)[0]} for name in volumes}
    expected = pytest.raises(HostError, match=problem) if problem else nullcontext()
    with expected:
        remove_orphans(fake, "lab", discard=discard)  # type: ignore[arg-type]
    assert list(fake.volumes) == left


class HelperEngine:
    """An engine on which the helper containers `left`, by id and state, use the only volume."""

    def __init__(self, left: Mapping[str, str], released_after: int = 0) -> None:
        self.api, self.left, self.is_there = self, dict(left), True
        self.refusals = released_after

    def remove_volume(self, name: str) -> None:
        assert name == "chief"
        self.refusals -= not self.left
        if self.left or self.refusals >= 0:
            response: Any = SimpleNamespace(status_code=409, url="u", reason="r")
            raise docker.errors.APIError("volume is in use", response)
        self.is_there = False

    def containers(self, **options: Any) -> list[dict[str, str]]:
        assert options == {"all": True, "filters": {"volume": "chief", "label": "tfprov.helper"}}
        return [{"Id": one, "State": state} for one, state in self.left.items()]

    def remove_container(self, container: str, *, force: bool) -> None:
        assert force
        del self.left[container]


def test_a_volume_is_removed_with_what_a_killed_run_has_left_of_a_look_into_it() -> None:
    """`down` would fail once, pass over the volume, and a new training go on from its checkpoints."""
    fake = HelperEngine({"a": "created", "b": "exited"})
    remove_volume(fake, "chief")  # type: ignore[arg-type]
    assert not fake.is_there
    busy = HelperEngine({"a": "created", "b": "running"})
    with pytest.raises(docker.errors.APIError, match="409"):
        remove_volume(busy, "chief")  # type: ignore[arg-type]
    assert busy.left == {"b": "running"}


def test_a_volume_is_removed_once_the_engine_has_released_it() -> None:
    """A container goes from the engine's list before its volumes are released."""
    fake = HelperEngine({"a": "exited"}, released_after=3)
    remove_volume(fake, "chief")  # type: ignore[arg-type]
    assert (fake.is_there, fake.refusals) == (False, -1)


def test_a_volume_that_only_a_helper_has_is_an_orphan() -> None:
    class Left(FakeEngine):
        def ask(self, *paths: str, newest: str = "") -> list[Any]:
            answers = super().ask(*paths, newest=newest)
            if len(paths) > 1:
                answers[0][0]["Labels"] = {"tfprov.helper": ""}
            return answers

    fake = Left()
    fake.volumes = {"mounted": {"tfprov.cluster": "lab", "tfprov.task": "worker/1"}}
    remove_orphans(fake, "lab", discard=False)  # type: ignore[arg-type]
    assert not fake.volumes


def test_a_volume_with_files_of_a_task_without_a_container_is_named() -> None:
    fake = FakeEngine()
    fake.volumes = {name: {"tfprov.cluster": "lab", "tfprov.task": task} for name, (task, _) in VOLUMES.items()}
    tasks = [task for task, _ in VOLUMES.values()]
    assert [orphaned_volume(fake, "lab", task) for task in tasks] == ["", "chief", "ps-shard", "progress", ""]  # type: ignore[arg-type]


def facts(container: str, task: str) -> dict[str, Any]:
    return {"Id": container, "State": {}, "Config": {"Labels": {"tfprov.task": task}}}


def test_of_several_containers_of_a_task_the_newest_counts() -> None:
    listed = [facts("new", "worker/0"), facts("ps", "ps/0"), facts("old", "worker/0")]

    class Asked:
        def ask(self, *_: str) -> list[Any]:
            return [[one for one in listed if task in one["Config"]["Labels"]["tfprov.task"]]]

        def ask_each(self, *paths: str) -> list[Any]:
            if "label" in paths[0]:
                return [*self.ask(), *self.ask_each(*paths[1:])]
            return [one for path in paths for one in listed if f"/{one['Id']}/" in path]

    task = ""
    containers = TaskContainers(Asked(), "lab")  # type: ignore[arg-type]
    assert [one["Id"] for one in containers.inspect()[0]] == ["new", "ps"]
    task = "worker/0"
    newest = containers.find("worker/0")
    assert newest is not None
    assert (newest["Id"], containers.older("worker/0"), containers.older("ps/0")) == ("new", ["old"], ())
    listed.pop()
    containers.find("worker/0")
    assert containers.older("worker/0") == []
    listed[0]["Config"] |= {
        "Labels": {"tfprov.task": "worker/0", "tfprov.delivered": "lab:1@sha256:a"},
        "Image": "debug",
    }
    assert containers.find("worker/0") is None, "a container from an image of `docker commit` is no task"
    listed[0]["Mounts"] = [{"Name": VOLUME}]
    assert containers.find("worker/0") == listed[0], "somebody made the task's container anew, from another image"
