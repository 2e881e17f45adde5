"""Moved image names: which images a runtime accepts. Also where an engine has its images."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.hostile import IMAGE, engine, recorded
from tfprov.hosts.collect_facts import engine_facts
from tfprov.hosts.docker.image_contents import (
    image_directory,
    is_delivered,
    split_by_delivery,
    stores_in_containerd,
    wrong_image_reason,
)

OURS, OTHER = "sha256:aa", "sha256:bb"
NAME, NEW = "tfprov/lab:0123456789abcdef", "tfprov/lab:fedcba9876543210"
MOVED = "the image 0123456789ab is not the one that was delivered"


class RecordedDeliveries:
    """Deliveries with `NAME` as `OURS` only."""

    def image_ids(self, reference: str) -> tuple[str, ...]:
        return (OURS,) if reference == NAME else ()

    def record(self, reference: str, image_id: str) -> None:
        raise AssertionError("a look keeps nothing")


def container(image: str, made_from: str, label: str | None) -> dict[str, Any]:
    labels = {} if label is None else {"tfprov.delivered": label}
    return {"Image": image, "Config": {"Image": made_from, "Labels": labels}}


CONTAINERS = [
    ("created by its id", container(OURS, OURS, f"{NAME}@{OURS}"), ""),
    ("an engine that shows a manifest of the index", container("sha256:m", OURS, f"{NAME}@{OURS}"), ""),
    ("delivered by another controller", container(OTHER, OTHER, f"{NAME}@{OTHER}"), ""),
    ("made again by hand from a tag", container(OTHER, NAME, f"{NAME}@{OURS}"), MOVED),
    ("of an earlier version, from the right image", container(OURS, NAME, None), ""),
    ("of an earlier version, from a moved tag", container(OTHER, NAME, None), MOVED),
    ("of an earlier version, of an image that is not recorded", container(OTHER, NEW, None), ""),
    ("without labels at all", {"Image": OTHER, "Config": {"Image": NEW, "Labels": None}}, ""),
]


def test_a_container_of_an_image_other_than_the_delivered_one_is_noticed() -> None:
    wrong = {
        name: results
        for name, facts, expected in CONTAINERS
        if (results := wrong_image_reason(RecordedDeliveries(), facts)) != expected
    }
    assert not wrong


def test_a_name_counts_as_delivered_only_for_the_delivered_image() -> None:
    listed: list[dict[str, Any]] = [
        {"Id": OTHER, "RepoTags": [NAME, NEW]},
        {"Id": OURS, "RepoTags": ["tfprov/lab:old"]},
        {"Id": "sha256:cc", "RepoTags": None},
    ]
    assert split_by_delivery(RecordedDeliveries(), listed) == (frozenset({NEW, "tfprov/lab:old"}), frozenset({NAME}))
    assert [is_delivered(RecordedDeliveries(), NAME, image) for image in (OURS, OTHER)] == [True, False]


class OneDelivery(RecordedDeliveries):
    """Deliveries with `tfprov/lab:1` as one id."""

    def __init__(self, image_id: str) -> None:
        self.image_id = image_id

    def image_ids(self, reference: str) -> tuple[str, ...]:
        return (self.image_id,) if reference == "tfprov/lab:1" else ()


def test_check_ignores_moved_names_and_returns_the_ids_of_others() -> None:
    results = []
    for image_id in (str(IMAGE["Id"]), OTHER):
        hostile = engine(lambda _method, path: recorded(path))
        facts = engine_facts(hostile, ["tfprov/lab:1"], OneDelivery(image_id))
        results.append((dict(facts.images), dict(facts.image_ids), facts.moved))
    assert results == [
        ({"tfprov/lab:1": "linux/amd64"}, {"tfprov/lab:1": IMAGE["Id"]}, frozenset()),
        ({}, {}, frozenset({"tfprov/lab:1"})),
    ]


CONTAINERD = {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
OWN, SYSTEM = "/var/run/docker/containerd/containerd.sock", "/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    ("info", "directory"),
    [
        pytest.param({}, "", id="unknown"),
        pytest.param({"DockerRootDir": "/data/docker"}, "/data/docker", id="the engine's own store"),
        pytest.param({"DockerRootDir": "/data", "Containerd": {"Address": SYSTEM}}, "/data", id="containers only"),
        pytest.param({"DockerRootDir": "/var/lib/docker", **CONTAINERD}, "/var/lib/containerd", id="before 27"),
        pytest.param({"DockerRootDir": "/data", **CONTAINERD}, "/data", id="before 27, with a directory"),
        pytest.param(
            {"DockerRootDir": "/data", "Containerd": {"Address": SYSTEM}, **CONTAINERD},
            "/var/lib/containerd",
            id="system's",
        ),
        pytest.param(
            {"DockerRootDir": "/var/lib/docker", "Containerd": {"Address": OWN}, **CONTAINERD},
            "/var/lib/docker",
            id="own",
        ),
        pytest.param(
            {"DockerRootDir": "/home/me/docker", "Containerd": {"Address": f"/run/user/1000{OWN[8:]}"}, **CONTAINERD},
            "/home/me/docker",
            id="rootless",
        ),
    ],
)
def test_the_directory_with_an_engines_images(info: Mapping[str, Any], directory: str) -> None:
    assert image_directory(info) == directory
    assert stores_in_containerd(info) == ("DriverStatus" in info)
