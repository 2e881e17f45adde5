"""Engines that store images in containerd, as Docker does by default from 29 on: here the newer one of Debian 13.

An image's id is its manifest's digest there, every image has a name by digest, and layers are kept as they were received.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery import (
    DOCUMENTS,
    OURS,
    TEAM,
    build_with_buildkit,
    export_tiny,
    failed_pull,
    load,
    machine,
    names,
    push_image,
    random_image,
    registry,
    tags,
    unused,
)
from tests.support.delivery_images import code
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.lab_cluster import LabCluster, open_lab_cluster, standin
from tests.support.testhost import Host
from tests.support.testhosts import Lab, each
from tfprov.errors import HostError, Position
from tfprov.hosts.machine import SSHMachine
from tfprov.images.build import Recipe, build, pack_context
from tfprov.images.code_layer import compose
from tfprov.images.engine_images import Pulled, list_tags, pull
from tfprov.images.exports.export import export
from tfprov.images.oci_layout import Layout
from tfprov.images.push import PushResult


@pytest.fixture
def node(containerd_lab: Lab) -> Iterator[Host]:
    yield from unused(containerd_lab.hosts[0])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


def test_an_image_is_pushed_and_runs_and_an_edit_sends_its_layer(
    private_engine: PrivateEngine, images: Images, node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    tiny = export_tiny(private_engine, images, layout)
    first = compose(layout, tiny, code(main=b"#!/bin/sh\necho first\n"), "first")
    pushed = push_image(node_machine, layout, first, "1")
    assert (pushed.way, pushed.reason, pushed.image_id) == ("pull", "", first.manifest.digest)
    assert first.size <= pushed.sent <= first.size + DOCUMENTS
    edited = compose(layout, tiny, code(main=b"#!/bin/sh\necho edited\n", more=bytes(50_000)), "edited")
    pushed = push_image(node_machine, layout, edited, "2")
    assert edited.layers[-1].size < pushed.sent <= 1.1 * edited.layers[-1].size + DOCUMENTS
    assert push_image(node_machine, layout, first, "1") == PushResult(0, "there")
    assert list_tags(node_machine.engine, OURS) == {"1": first.manifest.digest, "2": edited.manifest.digest}
    assert not [name for name in names(node) if "127.0.0.1" in name], "the names they were pulled by are gone"
    assert node.client.containers.run(f"{OURS}:2", ["sh", "main"], remove=True) == b"edited\n"


def test_layers_from_elsewhere_are_not_sent_by_a_pull(node: Host, node_machine: SSHMachine, layout: Layout) -> None:
    base = random_image(layout, 2_000_000)
    load(node, layout, base, "base:1")
    image = compose(layout, base, code(main=b"x"), "top")
    pushed = push_image(node_machine, layout, image, "1")
    assert pushed.way == "pull"
    assert pushed.sent < 2 * sum(layer.size for layer in image.layers[1:]) + 2 * DOCUMENTS < base.size
    assert tags(node) == {f"{OURS}:1", "base:1"}, "also a name without a slash is the engine's own"


def test_an_archive_brings_what_is_missing(node: Host, layout: Layout) -> None:
    node.sshd_option("AllowTcpForwarding no")
    node.wait()
    strict = machine(node)
    base = random_image(layout, 2_000_000)
    first, edited = (compose(layout, base, code(main=name), name.decode()) for name in (b"first", b"edited"))
    pushed = push_image(strict, layout, first, "1")
    assert (pushed.way, pushed.image_id) == ("load", first.manifest.digest)
    pushed = push_image(strict, layout, edited, "2")
    assert pushed.sent <= 1.1 * edited.layers[-1].size + 2 * DOCUMENTS, "only what is missing"
    assert tags(node) == {f"{OURS}:1", f"{OURS}:2"}
    strict.close()


def exported_bytes(node: SSHMachine, image_id: str, layout: Layout) -> int:
    """Export an image, and return how many bytes were received."""
    received, notes = [0], list[str]()
    image = export(node, image_id, layout, "built", lambda size, total: received.append(size), notes.append)
    assert (layout.find("built"), image.manifest.digest, notes) == (image, image_id, [])
    assert layout.verify(image)
    return received[-1]


def test_an_image_built_there_comes_back_and_after_an_edit_its_new_layer(
    node: Host, node_machine: SSHMachine, layout: Layout, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\nCOPY packages /\nCOPY code /\n")
    (context / "packages").write_bytes(os.urandom(3_000_000))
    received, ids = [], []
    for number in range(3):
        (context / "code").write_text(f"edit {min(number, 1)}")
        recipe = Recipe(pack_context(context, Position("lab.yml")), {})
        ids.append(build(node_machine.engine, recipe, "containerd", lambda line: None))
        received.append(exported_bytes(node_machine, ids[-1], layout))
    assert received[0] > 3_000_000
    assert 0 < received[1] < 10_000, "the layer and the configuration"
    assert received[2] == 0, "the engine's cache had the same image"
    assert {node.client.images.get(image).id for image in ids} == {*ids}, "it stays there, and for the next build"
    assert tags(node) == set(), "without the name by which it was pushed"


def test_buildkit_of_this_version_cannot_read_a_context(
    private_engine: PrivateEngine, images: Images, node_machine: SSHMachine, layout: Layout, tmp_path: Path
) -> None:
    """With this store; from 28 on it can, as every version can with the store of its own."""
    tiny = export_tiny(private_engine, images, layout)
    with pytest.raises(HostError, match=r"node21: .*cannot read a build context; update its Docker to 28 or newer, or"):
        build_with_buildkit(node_machine, layout, tiny, tmp_path / "context")


def test_a_pull_names_its_image_by_digest_or_fails_in_one_line_with_a_fix(
    node: Host, node_machine: SSHMachine, layout: Layout
) -> None:
    image = random_image(layout, 1000)
    with registry(node_machine, layout, image) as at:
        digest = f"{at}/{TEAM}@{image.manifest.digest}"
        pulled = pull(node_machine.engine, f"{at}/{TEAM}:latest", f"{OURS}:1", lambda text: None)
        assert pulled == Pulled(image.manifest.digest, digest)
        assert failed_pull(node_machine, f"{at}/{TEAM}:none") == (
            f"node21: the registry has no image {at}/{TEAM}:none; correct `image`"
        )
    for name in ("127.0.0.1:1/team/linear:1", "registry.invalid/team/linear:1"):
        assert "its engine does not reach the registry " in failed_pull(node_machine, name)


@pytest.fixture
def cluster(containerd_lab: Lab, tmp_path: Path) -> Iterator[LabCluster]:
    each(Host.forget_images, containerd_lab.hosts)
    yield from open_lab_cluster(containerd_lab, tmp_path)
    each(Host.forget_images, containerd_lab.hosts)


def test_a_cluster_is_started_changed_and_taken_down(
    containerd_lab: Lab, cluster: LabCluster, tiny_archive: Path
) -> None:
    first, second = containerd_lab.hosts
    cluster.write({"ps": [first], "worker": [first, second]}, standin(tiny_archive))
    assert re.search(r"^engine +ok +all 2 +Docker \S+ \(API [\d.]+\), overlayfs$", cluster("check"), re.MULTILINE)
    assert cluster("up").count("ok       deliver image") == 2
    assert cluster("up").endswith("nothing to do\n")
    cluster("down", "--discard")
    image = second.client.images.list("tfprov/lab")[0]
    other = second.client.api.import_image_from_data(b"", repository="other", tag="1")
    assert other
    second.client.images.get("other:1").tag(*image.tags[0].split(":"))
    assert "(the image of this name on node22 is not the one that was delivered)" in cluster("plan")
    assert cluster("up").count("ok       deliver image") == 1
    assert second.client.images.get(image.tags[0]).id == image.id
    assert len(re.findall("^node2[12] +tfprov/lab:", cluster("image", "list", "--hosts"), re.MULTILINE)) == 2
    assert {task["state"] for task in cluster.tasks().values()} == {"running"}
    cluster("down")
    cluster("image", "prune", "--hosts")
    assert not [tag for host in containerd_lab.hosts for tag in tags(host) if tag.startswith("tfprov/")]


def test_hosts_get_layers_from_each_other(containerd_lab: Lab, cluster: LabCluster, images: Images) -> None:
    """containerd asks in TLS first, and turns to HTTP only when it is answered so."""
    settings: dict[str, Any] = {
        "image": {"archive": str(images.archive(images.bulky()))},
        "deliver": {"from_hosts": "auto", "compress": "never"},
        "command": ["sh", "-c", "exec sleep 1000"],
    }
    cluster.write({"ps": containerd_lab.hosts[:1], "worker": containerd_lab.hosts[1:]}, settings)
    printed = cluster("image", "deliver")
    assert re.search(r"^node2[12]: .*[\d.]+ MB from node2[12], .* from this machine$", printed, re.MULTILINE), printed
    assert "failed" not in printed


def test_each_host_uses_its_own_image_from_no_registry(
    containerd_lab: Lab, cluster: LabCluster, layout: Layout
) -> None:
    """It has a name by digest on each, which no registry knows."""
    for host in containerd_lab.hosts:
        load(host, layout, random_image(layout, 1000), "mine:1")
    cluster.write(
        {"worker": containerd_lab.hosts},
        {"image": {"name": "mine:1"}, "command": ["true"], "strategy": "multi_worker_mirrored"},
    )
    assert cluster("image", "deliver").count("ok       deliver image") == 2
    ids = {host.client.images.get("mine:1").id for host in containerd_lab.hosts}
    assert {host.client.images.list("tfprov/lab")[0].id for host in containerd_lab.hosts} == ids
    assert len(ids) == 2
