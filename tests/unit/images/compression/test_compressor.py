"""Compressed layers in the layout: made once, complete or not there, and gone with their image."""

import gzip
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.delivery_images import contents, load_image, tar
from tests.support.forked import run_forked
from tests.support.waiting import LONG, until
from tfprov.errors import DeliveryError
from tfprov.images.compression.compressor import Compressor
from tfprov.images.compression.decision import MIN_LAYER
from tfprov.images.compression.engine_digests import EngineDigests
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_LAYER, Descriptor, OciImage, layer_type

LAYERS = (tar({"text": os.urandom(300_000).hex().encode()}), tar({"noise": os.urandom(600_000)}), tar({"small": b"x"}))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


@pytest.fixture
def image(layout: Layout) -> OciImage:
    return load_image(layout, layers=LAYERS)


def content_of(layout: Layout, blob: Descriptor) -> bytes:
    return layout.blobs.path(blob.digest).read_bytes()


def test_a_layer_is_compressed_once_and_kept_for_later_runs(layout: Layout, image: OciImage) -> None:
    compressor = Compressor(layout, 2)
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(compressor.form, [image.layers[0]] * 8))
    [form] = made
    assert form.media_type == layer_type("gzip")
    assert form.size < 0.7 * image.layers[0].size
    assert gzip.decompress(content_of(layout, form)) == LAYERS[0]
    assert not list(layout.blobs.incoming.iterdir())
    layout.blobs.path(image.layers[0].digest).unlink()  # a later run does not read the layer again
    assert Compressor(Layout(layout.directory), 1).form(image.layers[0]) == form


def test_layers_that_do_not_shrink_stay_as_they_are(layout: Layout, image: OciImage) -> None:
    compressor = Compressor(layout)
    packed = layout.blobs.write(gzip.compress(LAYERS[0]), layer_type("gzip"))
    for layer in (image.layers[1], image.layers[2], packed):
        assert compressor.form(layer) == layer
        assert layout.variants.named(layer) is None
        assert not layout.variants.may_shrink(layer), "and nobody tries again"
    assert image.layers[2].size < MIN_LAYER < image.layers[1].size
    sizes = [image.layers[0].model_copy(update={"size": (256 << 10) - less}) for less in (0, 1)]
    assert [layout.variants.may_shrink(layer) for layer in sizes] == [True, False]


def test_a_layer_that_only_seems_to_shrink_stays_as_it_is(layout: Layout) -> None:
    """The samples are at its ends and between them."""
    zeros, length = bytes(64 * 1024), 64 * 1024 * 200
    step = (length - len(zeros)) / 15
    data = bytearray(os.urandom(length))
    for number in range(16):
        at = int(number * step)
        data[at : at + len(zeros)] = zeros
    layer = layout.blobs.write(bytes(data), DOCKER_LAYER)
    assert Compressor(layout).form(layer) == layer
    assert len(contents(layout)) == 1


def test_a_truncated_or_unrecorded_form_is_made_again(layout: Layout, image: OciImage) -> None:
    compressor = Compressor(layout)
    form = compressor.form(image.layers[0])
    path, record = layout.blobs.path(form.digest), layout.directory / "compressed" / image.layers[0].digest[7:]
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert layout.variants.find(image.layers[0]) is None
    assert compressor.form(image.layers[0]) == form
    assert path.read_bytes() == whole
    for damage in (b"", b"{", b"[]", b'{"variant": 5}', b'{"variant": {"digest": "../../x"}}', b"\xff"):
        record.write_bytes(damage)
        assert layout.variants.find(image.layers[0]) is None
        assert compressor.form(image.layers[0]) == form


def test_a_damaged_layer_gets_no_form(layout: Layout, image: OciImage) -> None:
    """Its digest would be that of the damage, also after the layer is made again."""
    path = layout.blobs.path(image.layers[0].digest)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(DeliveryError) as raised:
        Compressor(layout).form(image.layers[0])
    assert str(raised.value) == f"{path} is damaged; remove it: images are made again when they are needed"
    path.unlink()
    with pytest.raises(DeliveryError, match="No such file"):
        Compressor(layout).form(image.layers[0])
    assert layout.variants.named(image.layers[0]) is None
    assert not list(layout.blobs.incoming.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from tfprov.images.compression import compressor, variants
from tfprov.images.oci_layout import Layout
layout, where = Layout(Path(sys.argv[1])), sys.argv[2]
def die(*args, **options): os.kill(os.getpid(), signal.SIGKILL)
if where == "in the member":
    def pieces(source, *rest):
        yield source.read(1000)
        die()
    compressor.gzip_pieces = pieces
if where == "before the record": variants.replace_shared = die
compressor.Compressor(layout).form(layout.find("base").layers[0])
"""


@pytest.mark.parametrize("where", ["in the member", "before the record"])
def test_after_a_kill_the_next_run_makes_the_same_form(layout: Layout, image: OciImage, where: str) -> None:
    assert run_forked(KILLED, str(layout.directory), where) == -signal.SIGKILL
    assert layout.variants.named(image.layers[0]) is None
    form = Compressor(layout).form(image.layers[0])
    assert gzip.decompress(content_of(layout, form)) == LAYERS[0]
    layout.prune(keep=5)
    assert len(contents(layout)) == len(image.blobs) + 1, "nothing of the killed one is left"


def test_two_runs_that_record_the_same_form_do_not_disturb_each_other(layout: Layout, image: OciImage) -> None:
    form = Compressor(layout).form(image.layers[0])
    runs = [Layout(layout.directory) for _ in range(2)]
    digests = [EngineDigests(run.engines) for run in runs]

    def record(number: int) -> None:
        for count in range(100):
            runs[number].variants.record(image.layers[0], form)
            digests[number].update("engine", {form.digest, str(count)}, ())
            assert runs[number].variants.named(image.layers[0]) == form
            assert form.digest in digests[number].read("engine")

    with ThreadPoolExecutor() as pool:
        list(pool.map(record, range(2)))
    assert len(list((layout.directory / "compressed").iterdir())) == 1
    assert len(list(layout.engines.iterdir())) == 1


def test_a_form_is_pruned_with_its_image_and_stays_with_it(layout: Layout, image: OciImage) -> None:
    compressor, digests = Compressor(layout), EngineDigests(layout.engines)
    form = compressor.form(image.layers[0])
    compressor.form(image.layers[1])
    digests.update("engine 1", {form.digest, "sha256:" + 64 * "0"}, ())
    digests.update("engine 2", {"sha256:" + 64 * "0"}, ())
    assert layout.prune(keep=5) == 0
    assert layout.variants.find(image.layers[0]) == form
    assert not layout.variants.may_shrink(image.layers[1])
    assert digests.read("engine 1") == {form.digest}
    assert len(list(layout.engines.iterdir())) == 1
    assert layout.prune(keep=0) == image.size + form.size
    assert contents(layout) == {}
    assert not list((layout.directory / "compressed").iterdir())
    assert not list(layout.engines.iterdir())


def test_digests_of_engines_are_kept_by_the_id_of_the_engine(tmp_path: Path) -> None:
    digests = EngineDigests(tmp_path / "engines")
    digests.update("a/../b", {"1", "2"}, ())
    digests.update("other", {"3"}, {"1"})
    digests.update("a/../b", {"4"}, {"1", "5"})
    again = EngineDigests(tmp_path / "engines")
    assert (again.read("a/../b"), again.read("other"), again.read("none"), again.read("")) == (
        {"2", "4"},
        {"3"},
        set(),
        set(),
    )
    digests.update("", {"6"}, ())  # an engine without an id
    names = [path.name for path in (tmp_path / "engines").iterdir()]
    assert [re.fullmatch("[0-9a-f]{32}", name) is not None for name in names] == [True, True]
    for path in (tmp_path / "engines").iterdir():
        path.write_bytes(b"\xff\xfe")
    assert again.read("other") == set(), "a damaged record costs a failed pull"


def test_close_ends_what_is_being_compressed(layout: Layout) -> None:
    layers = [layout.blobs.write(os.urandom(4_000_000).hex().encode(), DOCKER_LAYER) for _ in range(4)]
    compressor = Compressor(layout, 1)
    compressor.begin(layers)
    compressor.close()
    compressor.close()
    assert layout.variants.named(layers[-1]) is None
    assert not list(layout.blobs.incoming.iterdir())
    assert compressor.form(layers[-1]).size < layers[-1].size, "the next delivery can compress again"


class Ending(Layout):
    """A layout whose compressor is closed as soon as it uses the layout."""

    compressor: Compressor | None = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        with super().in_use():
            if self.compressor is not None:
                self.compressor.close()
            yield


def test_who_waits_for_a_layer_is_told_that_the_deliveries_have_ended(tmp_path: Path) -> None:
    layout = Ending(tmp_path / "images")
    layer = layout.blobs.write(LAYERS[0], DOCKER_LAYER)
    layout.compressor = Compressor(layout, 1)
    with pytest.raises(DeliveryError) as raised:
        layout.compressor.form(layer)
    assert str(raised.value) == "the layers are compressed no further: the deliveries have ended"
    assert not list(layout.blobs.incoming.iterdir())


class Late(Layout):
    """A layout that can be used only while its compressor is being closed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.asked, self.is_closing = threading.Event(), threading.Event()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.asked.set()
        assert self.is_closing.wait(LONG)
        with super().in_use():
            yield


def test_close_ends_what_is_about_to_be_compressed(tmp_path: Path) -> None:
    layout = Late(tmp_path / "images")
    layer = layout.blobs.write(os.urandom(4_000_000).hex().encode(), DOCKER_LAYER)
    compressor = Compressor(layout, 1)
    compressor.begin([layer])
    assert layout.asked.wait(LONG)
    before = compressor._stopped  # noqa: SLF001  nobody else sees that `close` has begun to wait
    closing = threading.Thread(target=compressor.close)
    closing.start()
    until(lambda: compressor._stopped is not before, "it is being closed")  # noqa: SLF001
    layout.is_closing.set()
    closing.join(LONG)
    assert layout.variants.named(layer) is None
