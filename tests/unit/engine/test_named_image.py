"""An image of a registry on many hosts: each host is asked for it once, and all pull the same digest."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from tests.support.memory_cluster import MemoryStore
from tfprov.engine.events import Quiet
from tfprov.engine.host_registry import DeliveredImages
from tfprov.engine.image_artifacts import Workshop
from tfprov.errors import DeliveryError, HostError
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.images.oci_layout import Layout

REFERENCE, NAME, DIGEST = "tfprov/lab:1", "train:1.0", "train@sha256:7"


class Host:
    """A machine whose engine has no image until it pulls one; `registry` names it by digest."""

    def __init__(self, name: str, *, registry: bool) -> None:
        self.host = name
        self.engine: Any = self
        self.api = SimpleNamespace(images=self.images, inspect_image=self.inspect, pull=self.pull, tag=self.tag)
        self.facts = {"Id": "sha256:7", "RepoDigests": [DIGEST] if registry else []}
        self.asked: Counter[str] = Counter()
        self.pulled: list[str] = []
        self.names: set[str] = set()
        self.broken = False

    def errors(self) -> Any:
        return engine_errors(self.host)

    def images(self, name: str) -> list[Mapping[str, Any]]:
        self.asked[name] += 1
        return [self.facts] if name in self.names else []

    def inspect(self, name: str) -> Mapping[str, Any]:
        if name not in self.names:
            raise docker.errors.ImageNotFound("no such image")
        return self.facts

    def pull(self, name: str, *, stream: bool, decode: bool) -> Iterator[Mapping[str, str]]:
        assert stream
        assert decode
        if self.broken:
            return iter([{"error": "dial tcp: no route"}])
        self.pulled.append(name)
        self.names.add(name)
        return iter(())

    def tag(self, _image: str, repository: str, tag: str) -> None:
        self.names.add(f"{repository}:{tag}")


def deliver(hosts: list[Host], directory: Path) -> list[str]:
    """Deliver to all hosts, several at a time; return the errors."""
    machines: Any = {host.host: host for host in hosts}
    workshop = Workshop(Layout(directory), machines, Quiet(), set(), DeliveredImages(directory / "images.json"))
    artifact = workshop.named(NAME, MemoryStore())(REFERENCE, None)

    def one(host: Host) -> str:
        try:
            artifact.deliver(host.host)
        except HostError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(8) as pool:
        return [error for error in pool.map(one, hosts) if error]


@pytest.mark.parametrize("registry", [True, False])
def test_many_hosts_are_asked_once_each(tmp_path: Path, registry: bool) -> None:
    hosts = [Host(f"h{number}", registry=registry) for number in range(40)]
    assert deliver(hosts, tmp_path) == []
    assert {host.asked[REFERENCE] for host in hosts} == {1}
    by_name = [host for host in hosts if host.pulled == [NAME]]
    assert all(host.pulled in ([NAME], [DIGEST]) for host in hosts)
    assert len(by_name) == (1 if registry else 40)
    assert all(REFERENCE in host.names for host in hosts)


def test_a_host_that_has_the_image_decides_which_one_all_pull(tmp_path: Path) -> None:
    first = Host("h0", registry=True)
    assert deliver([first], tmp_path) == []
    later = Host("h1", registry=True)
    hosts = [Host("h2", registry=True), later]
    machines: Any = {host.host: host for host in (*hosts, first)}
    delivered = DeliveredImages(tmp_path / "images.json")
    artifact = Workshop(Layout(tmp_path), machines, Quiet(), set(), delivered).named(NAME, MemoryStore())(
        REFERENCE, None
    )
    for host in hosts:
        artifact.deliver(host.host)
    assert [host.pulled for host in hosts] == [[DIGEST], [DIGEST]]


def test_the_digest_is_that_of_the_repository_and_not_of_one_that_ends_alike(tmp_path: Path) -> None:
    first = Host("h0", registry=True)
    first.facts["RepoDigests"] = ["mytrain@sha256:8", DIGEST]
    assert deliver([first], tmp_path) == []
    later = Host("h1", registry=True)
    assert deliver([later, first], tmp_path) == []
    assert later.pulled == [DIGEST]


def test_the_next_host_pulls_first_where_one_cannot(tmp_path: Path) -> None:
    hosts = [Host(f"h{number}", registry=True) for number in range(3)]
    hosts[0].broken = True
    (error,) = deliver(hosts, tmp_path)
    assert error.startswith("h0: its engine does not reach the registry docker.io")
    assert sorted(host.pulled[0] for host in hosts[1:]) == sorted([NAME, DIGEST])


def test_hosts_whose_image_is_from_no_registry_use_their_own_each(tmp_path: Path) -> None:
    """An engine with containerd's store names each image by its id, which no registry knows."""
    hosts = [Host(f"h{number}", registry=True) for number in range(3)]
    for number, host in enumerate(hosts):
        host.facts = {"Id": f"sha256:{number}", "RepoDigests": [f"train@sha256:{number}"]}
        host.names, host.broken = {NAME}, True
    assert deliver(hosts, tmp_path) == []
    assert all(REFERENCE in host.names for host in hosts)


def test_a_host_that_cannot_pull_the_digest_of_a_registry_does_not_use_another_image(tmp_path: Path) -> None:
    first, second = Host("h0", registry=True), Host("h1", registry=True)
    machines: Any = {host.host: host for host in (first, second)}
    delivered = DeliveredImages(tmp_path / "images.json")
    artifact = Workshop(Layout(tmp_path), machines, Quiet(), set(), delivered).named(NAME, MemoryStore())(
        REFERENCE, None
    )
    artifact.deliver("h0")
    second.names, second.broken = {NAME}, True
    second.facts = {"Id": "sha256:8", "RepoDigests": ["train@sha256:8"]}
    with pytest.raises(HostError, match="h1: its engine does not reach the registry"):
        artifact.deliver("h1")
    assert REFERENCE not in second.names


def test_without_an_image_of_its_own_a_host_reports_the_failed_pull(tmp_path: Path) -> None:
    first, second = Host("h0", registry=True), Host("h1", registry=True)
    first.names, second.broken = {NAME}, True
    (error,) = deliver([first, second], tmp_path)
    assert error.startswith("h1: its engine does not reach the registry")


def test_an_archive_that_was_replaced_since_it_was_planned_with_is_not_stored_as_the_earlier_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.tar").write_bytes(b"another image")
    workshop = Workshop(Layout(tmp_path), {}, Quiet(), set(), DeliveredImages(tmp_path / "images.json"))
    artifact = workshop.archived(tmp_path / "train.tar", "1234", lambda: "5678")(REFERENCE, None)
    with pytest.raises(DeliveryError) as raised:
        artifact.build()
    assert str(raised.value) == f"{tmp_path}/train.tar has changed since it was planned with; run this again"


def test_a_delivery_removes_old_images_and_none_of_the_inventory(tmp_path: Path) -> None:
    """One that is on the host already is not delivered again, so that it may be the oldest."""
    host = Host("h1", registry=True)
    stored = {f"tfprov/lab:{number}": f"2026-01-{number:02}T00:00:00Z" for number in range(1, 9)}
    removed: list[str] = []
    host.api.images = lambda *_, **__: [{"Id": name, "RepoTags": [name]} for name in stored]
    host.api.inspect_image = lambda name: {"Id": "sha256:7", "Metadata": {"LastTagTime": stored.get(name)}}
    host.api.containers = lambda **_: []
    host.api.remove_image = lambda name, **_: removed.append(name)
    machines: Any = {"h1": host}
    workshop = Workshop(
        Layout(tmp_path), machines, Quiet(), {"tfprov/lab:1"}, DeliveredImages(tmp_path / "images.json")
    )
    workshop.named(NAME, MemoryStore())("tfprov/lab:8", None).deliver("h1")
    assert removed == ["tfprov/lab:3", "tfprov/lab:2"], "1 is a role's, 8 is new, and four earlier ones stay"
