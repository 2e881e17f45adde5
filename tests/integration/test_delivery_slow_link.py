"""Compressed layers over a slow link: fewer bytes, the same image, and engines that know layers by either digest."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.support.delivery import OURS, PushRecorder, export_tiny, machine, push_image, unused
from tests.support.delivery_images import code
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tfprov.images.code import Code
from tfprov.images.code_layer import compose
from tfprov.images.compression.compression import Compression
from tfprov.images.compression.compressor import Compressor
from tfprov.images.compression.decision import FASTEST
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage

SIZE = 20_000_000
RATE = "60mbit"
"""Of the slow link, in the words of tc and in bytes a second."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def base(private_engine: PrivateEngine, images: Images, layout: Layout) -> OciImage:
    """The small image, with a layer of SIZE bytes, which shrinks to three fifths, at its top."""
    tiny = export_tiny(private_engine, images, layout)
    return compose(layout, tiny, program(os.urandom(SIZE // 2).hex().encode()), "large")


def program(data: bytes) -> Code:
    return code(main=b"#!/bin/sh\nsha256sum data\n", data=data)


@pytest.fixture
def node(lab: Lab) -> Iterator[Host]:
    """A host that has never seen an image."""
    yield from unused(lab.hosts[0])


def edited(layout: Layout, base: OciImage) -> OciImage:
    """Return the image with other code, of 200 kB, in place of the large layer."""
    return compose(layout, base, program(os.urandom(200_000)), "edited")


def starts(host: Host, tag: str) -> bool:
    """Whether a container of the image runs its program, which reads all of the layer."""
    printed = host.client.containers.run(f"{OURS}:{tag}", ["sh", "-c", "sh main"], remove=True)
    return printed.endswith(b"  data\n")


def test_over_a_slow_link_layers_are_compressed_and_the_engine_knows_them_in_later_deliveries(
    node: Host, layout: Layout, base: OciImage
) -> None:
    made = machine(node)
    compression = Compression(layout)
    with node.slow_link(RATE):
        pushed = push_image(made, layout, base, "1", compression=compression)
    assert pushed.way == "pull"
    assert pushed.rate is not None
    assert pushed.rate < FASTEST, "a busy host may make it another one than the link's, but not that of a fast link"
    assert pushed.sent + pushed.saved == pytest.approx(base.size, rel=0.01)
    assert pushed.sent < 0.65 * base.size
    assert node.client.images.get(f"{OURS}:1").id == base.id
    assert starts(node, "1")

    edit = edited(layout, base)
    pushed = push_image(made, layout, edit, "2", compression=compression)
    assert (pushed.way, pushed.reason, pushed.rate, pushed.saved) == ("pull", "", None, 0)
    assert pushed.sent < 1.1 * edit.layers[-1].size + 8_000, "the other layers are known by their compressed digests"
    assert starts(node, "2")

    shutil.rmtree(layout.engines)  # as on another controller
    edit = edited(layout, base)
    pushed = push_image(made, layout, edit, "3", compression=compression)
    assert (pushed.way, pushed.reason) == ("pull", "")
    assert pushed.sent < 2.1 * edit.layers[-1].size + 16_000, "what the engine asked for at once was sent in vain"
    made.close()


def test_a_damaged_compressed_layer_is_made_again(node: Host, layout: Layout, base: OciImage) -> None:
    compression = Compression(layout, "always")
    path = layout.blobs.path(Compressor(layout).form(base.layers[-1]).digest)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100_000] + bytes(100_000))
    made = machine(node)
    pushed = push_image(made, layout, base, "1", compression=compression)
    assert (pushed.way, pushed.reason) == ("load", "its engine did not pull all of it, so the rest went as one archive")
    assert node.client.images.get(f"{OURS}:1").id == base.id
    assert path.read_bytes() == whole
    made.close()


def test_the_archive_for_hosts_that_forward_no_ports_has_compressed_layers(
    node: Host, layout: Layout, base: OciImage
) -> None:
    node.sshd_option("AllowTcpForwarding no")
    node.wait()
    made = machine(node)
    recorder = PushRecorder()
    pushed = push_image(made, layout, base, "1", recorder, compression=Compression(layout, "always"))
    assert pushed.way == "load"
    assert pushed.sent < 0.65 * base.size
    assert recorder.reports[-1][0] == recorder.reports[-1][1], "the total is that of the compressed layers"
    assert starts(node, "1")
    made.close()
