"""Images of a registry, pulled by the hosts. The registry is one of the tests, on the host's loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.delivery import (
    OURS,
    TEAM,
    build_with_buildkit,
    export_tiny,
    failed_pull,
    names,
    random_image,
    registry,
    unused,
)
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tfprov.hosts.machine import SSHMachine
from tfprov.images.engine_images import Pulled, pull
from tfprov.images.oci_layout import Layout


@pytest.fixture
def node(lab: Lab) -> Iterator[Host]:
    yield from unused(lab.hosts[0])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


def test_an_image_is_pulled_once_and_named(node: Host, node_machine: SSHMachine, layout: Layout) -> None:
    image = random_image(layout, 100_000)
    message: list[str] = []
    with registry(node_machine, layout, image) as at:
        name = f"{at}/{TEAM}:latest"
        digest = f"{at}/{TEAM}@{image.manifest.digest}"
        assert pull(node_machine.engine, name, f"{OURS}:1", message.append) == Pulled(image.id, digest)
        assert message == [f"pulling {name}"]
        assert names(node) == {name, digest, f"{OURS}:1"}
    # The registry is gone: who has the image asks nobody.
    assert pull(node_machine.engine, name, f"{OURS}:2", message.append) == Pulled(image.id, digest)
    assert pull(node_machine.engine, digest, f"{OURS}:3", message.append) == Pulled(image.id, digest)
    assert message == [f"pulling {name}"]
    assert {f"{OURS}:{number}" for number in (1, 2, 3)} < names(node)


def test_other_hosts_pull_the_same_by_its_digest(node: Host, node_machine: SSHMachine, layout: Layout) -> None:
    """A tag may mean another image by then."""
    first, moved = random_image(layout, 1000), random_image(layout, 1000)
    with registry(node_machine, layout, moved, first) as at:
        name = f"{at}/{TEAM}@{first.manifest.digest}"
        assert pull(node_machine.engine, name, f"{OURS}:1", lambda text: None) == Pulled(first.id, name)
        assert node.client.images.get(f"{OURS}:1").id == first.id


def test_an_image_that_came_from_no_registry_has_no_digest(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    mine = node.client.api.import_image_from_data(b"", repository="mine", tag="1")
    assert mine
    image_id = str(node.client.images.get("mine:1").id)
    assert pull(node_machine.engine, "mine:1", f"{OURS}:1", lambda text: None) == Pulled(image_id, None)


def test_an_impossible_pull_is_reported_in_one_line_with_a_fix(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    with registry(node_machine, layout, random_image(layout, 1000)) as at:
        assert failed_pull(node_machine, f"{at}/{TEAM}:none") == (
            f"node1: the registry has no image {at}/{TEAM}:none; correct `image`"
        )
        assert failed_pull(node_machine, f"{at}/nobody/nothing:1").startswith("node1: the registry ")
    assert failed_pull(node_machine, "127.0.0.1:1/team/linear:1") == (
        "node1: its engine does not reach the registry 127.0.0.1:1; check the host's network, its DNS and its proxy, "
        "or deliver the image from here with `image: {build: …}`"
    )
    assert "its engine does not reach the registry registry.invalid" in failed_pull(
        node_machine, "registry.invalid/team/linear:1"
    )
    assert failed_pull(node_machine, "Not A Name").startswith("node1: invalid reference format")
    assert names(node) == set()


def test_buildkit_builds_from_an_image_of_a_registry_that_wants_a_token(
    private_engine: PrivateEngine, images: Images, node_machine: SSHMachine, layout: Layout, tmp_path: Path
) -> None:
    """It has no session with us, which would tell it a login or that there is none."""
    tiny = export_tiny(private_engine, images, layout)
    pulling, *steps = build_with_buildkit(node_machine, layout, tiny, tmp_path / "context")
    assert pulling.startswith("pulling 127.0.0.1:")
    assert [step.partition("] ")[2][:6] for step in steps] == ["FROM 1", "RUN --"]
