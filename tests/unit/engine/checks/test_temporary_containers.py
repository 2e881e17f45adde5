"""tfprov.engine.checks.temporary_containers: nothing stays after Ctrl-C."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.memory_cluster import ReadInventory, Runtimes, make_context, run_up
from tests.support.waiting import LONG
from tfprov.engine.checks.image_programs import refuse_mounts
from tfprov.engine.checks.temporary_containers import container_pool, sweep_hosts
from tfprov.errors import HostError, InvalidInput
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.hosts.docker.reachability_probe import temporary
from tfprov.hosts.machine import Machine
from tfprov.playbook.steps import RUN

NO_SOURCE = "bind source path does not exist: "


class EngineInMemory:
    """The part of a host's engine that a sweep uses; its containers are their labels, by id."""

    def __init__(self) -> None:
        self.api = self
        self.there: dict[str, Mapping[str, str]] = {}
        self.swept = threading.Event()
        self.fault: HostError | None = None

    @property
    def engine(self) -> "EngineInMemory":
        return self

    @contextmanager
    def errors(self) -> Iterator[None]:
        if self.fault is not None:
            raise self.fault
        yield

    def containers(self, **query: Any) -> list[dict[str, Any]]:
        assert query["all"], "a container that was not started yet counts"
        pairs = [label.split("=", 1) for label in query["filters"]["label"]]
        listed = [name for name, labels in self.there.items() if all_match(labels, pairs)]
        self.swept.set()
        return [{"Id": name} for name in listed]

    def remove_container(self, name: str, **_: object) -> None:
        del self.there[name]


def all_match(labels: Mapping[str, str], pairs: list[list[str]]) -> bool:
    return all(labels.get(name) == value for name, value in pairs)


@pytest.fixture
def engine() -> EngineInMemory:
    return EngineInMemory()


def machines(engine: EngineInMemory) -> Mapping[str, Machine]:
    return {"h1": cast(Machine, engine)}


def test_after_ctrl_c_nothing_stays_of_what_was_there_and_of_what_was_being_made(engine: EngineInMemory) -> None:
    begun, stopping, began = threading.Event(), threading.Event(), []

    def slow() -> None:
        engine.there["one"] = temporary("lab")
        begun.set()
        assert engine.swept.wait(LONG)  # the engine answers `create` only after the first sweep
        engine.there["two"] = temporary("lab")

    def queued() -> None:
        began.append(True)

    def interrupted() -> None:
        with container_pool("lab", machines(engine), 1, stopping) as pool:
            pool.submit(slow)
            pool.submit(queued)
            assert begun.wait(LONG)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (engine.there, began) == ({}, [])
    assert stopping.is_set()


def test_only_what_this_process_made_for_the_cluster_is_removed(engine: EngineInMemory) -> None:
    others = {
        "other process": {**temporary("lab"), "tfprov.check.maker": "x"},
        "other cluster": temporary("x"),
        "task": {},
    }
    engine.there = {"ours": temporary("lab"), **others}
    assert sweep_hosts("lab", machines(engine), 4) == {}
    assert engine.there == others
    sweep_hosts("lab", machines(engine), 4, everything=True)
    assert [*engine.there] == ["other cluster", "task"]


def test_a_host_that_does_not_answer_is_reported(engine: EngineInMemory) -> None:
    engine.fault = HostError("h1", "no answer")
    assert sweep_hosts("lab", machines(engine), 4) == {
        "h1": "what was started there may run for some minutes more: no answer"
    }


MOUNTS = """
all: {vars: {tfprov: {cluster: lab, image: {name: "train:1"}, command: [sh]}}}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker:
  hosts: {h1: {ansible_host: 10.0.0.1}, h2: {ansible_host: 10.0.0.2}}
  vars: {tfprov: {mounts: [{source: /data, target: /data}]}}
"""


class EngineWithMounts(EngineInMemory):
    """An engine that creates containers, unless it lacks `missing`, the source of their mounts, or the image."""

    def __init__(self, missing: str = "", *, has_image: bool = True) -> None:
        super().__init__()
        self.host, self.missing, self.has_image = "h2", missing, has_image
        self.made: list[list[str]] = []

    @contextmanager
    def errors(self) -> Iterator[None]:
        with engine_errors(self.host):
            yield

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    def create_container(self, _image: str, **options: Any) -> dict[str, str]:
        sources = [mount["Source"] for mount in options["host_config"]["mounts"]]
        if not self.has_image:
            raise docker.errors.APIError("No such image: train:1")
        if self.missing in sources:
            raise docker.errors.APIError(f'invalid mount config for type "bind": {NO_SOURCE}{self.missing}')
        self.made.append(sources)
        self.there["one"] = options["labels"]
        return {"Id": "one"}


def test_a_start_is_refused_before_any_stop_where_the_source_of_a_mount_does_not_exist() -> None:
    made = make_context(MOUNTS)
    whole, lacking = EngineWithMounts(), EngineWithMounts("/data")
    context = replace(made, machines={"h1": cast(Machine, whole), "h2": cast(Machine, lacking)})
    with pytest.raises(HostError) as caught:
        refuse_mounts(context, context.wanted)
    assert str(caught.value) == "h2: /data of `mounts` does not exist there; create it, or correct `mounts`"
    assert (whole.made, whole.there, lacking.there) == ([["/data"]], {}, {}), "one look for the worker, none for the ps"


def test_a_mount_that_cannot_be_tried_is_left_to_the_start() -> None:
    made = make_context(MOUNTS)
    machine = cast(Machine, EngineWithMounts("/data", has_image=False))
    refuse_mounts(replace(made, machines={"h1": machine, "h2": machine}), made.wanted)


class EngineWithoutPrograms(EngineInMemory):
    """An engine with an image that has no file at all."""

    base_url, api_version = "http://engine", "1.41"

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    def create_container(self, _image: str, **options: Any) -> dict[str, str]:
        self.there["one"] = options["labels"]
        return {"Id": "one"}

    def inspect_container(self, _name: str) -> dict[str, Any]:
        return {"Config": {}}

    def inspect_image(self, _name: str) -> dict[str, Any]:
        return {"Config": None}

    def head(self, url: str, params: Mapping[str, str]) -> Any:
        assert url == "http://engine/v1.41/containers/one/archive"
        return SimpleNamespace(status_code=404)


TRAINING = """
all: {{vars: {{tfprov: {{cluster: lab, image: {{name: "train:1"}}, command: [{}]}}}}}}
ps: {{hosts: {{h1: {{ansible_host: 10.0.0.1}}}}}}
worker: {{hosts: {{h1: {{ansible_host: 10.0.0.1}}}}}}
"""


def test_a_start_is_refused_before_any_stop_where_an_image_lacks_the_program() -> None:
    hosts: Runtimes = {}
    run_up(make_context(TRAINING.format("sh"), (), hosts))
    before = list(hosts["h1"].calls)
    engine = EngineWithoutPrograms()
    read = ReadInventory.of(TRAINING.format("trian"))
    context = replace(make_context(read, (), hosts), roles=tuple(read.roles), machines=machines(engine))
    with pytest.raises(InvalidInput) as caught:
        RUN["start"](context, None, False)
    what = "`command`: the image has no program trian; install it there, or correct `command`"
    assert [str(problem) for problem in caught.value.problems] == [f"inventory.yml:2:63: error: {what}"]
    assert (hosts["h1"].calls, engine.there) == (before, {})
