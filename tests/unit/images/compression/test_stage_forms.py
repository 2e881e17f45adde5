"""Stages as they are sent: which layers are compressed, and by which digests an engine knows those that it has."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.delivery_images import load_image, tar
from tfprov.hosts.machine import LocalMachine
from tfprov.images.compression.compression import Choice, Compression
from tfprov.images.compression.compressor import Compressor
from tfprov.images.compression.decision import MIN_MISSING
from tfprov.images.compression.stage_forms import StageForms
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage
from tfprov.images.stages import split_stages

LAYERS = (*(tar({str(number): os.urandom(200_000).hex().encode()}) for number in range(3)), tar({"s": b"x"}))
LARGE = (tar({"zeros": bytes(MIN_MISSING)}), LAYERS[0])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


@pytest.fixture
def image(layout: Layout) -> OciImage:
    return load_image(layout, layers=LAYERS)


Prepared = tuple[Path, tuple[Descriptor, ...]]
"""The directory of a layout, and descriptors of what is in it."""


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    layout = Layout(tmp_path_factory.mktemp("compressed"))
    compressor = Compressor(layout)
    return layout.directory, tuple(map(compressor.form, load_image(layout, layers=LAYERS).layers))


@pytest.fixture
def forms(layout: Layout, image: OciImage, compressed: Prepared) -> tuple[Descriptor, ...]:
    """The compressed forms of the layers; the small one has none. They are made once, and copied."""
    shutil.copytree(compressed[0], layout.directory, dirs_exist_ok=True)
    assert layout.verify(image)
    return compressed[1]


def test_stages_name_compressed_layers_and_are_the_same_images(
    layout: Layout, image: OciImage, forms: Sequence[Descriptor]
) -> None:
    stages = split_stages(layout, image, 500_000)
    assert [len(stage.layers) for stage in stages] == [2, 4]
    made = StageForms(layout, image, 0, compressor=Compressor(layout))
    for stage in stages:
        form = made.of(stage)
        assert form.layers == tuple(forms[: len(stage.layers)])
        assert (form.id, form.diff_ids) == (stage.id, stage.diff_ids)
        assert form.manifest != stage.manifest
        assert made.last(stage) == form
    assert forms[3] == image.layers[3]
    assert made.saved == image.size - sum(blob.size for blob in (*forms, image.config, image.manifest))


def test_without_a_compressor_an_image_stays_as_it_is(layout: Layout, image: OciImage) -> None:
    made = StageForms(layout, image, 0)
    assert made.of(image) is image
    assert (made.saved, made.switch()) == (0, False)


def test_layers_of_the_host_are_named_as_its_engine_knows_them(
    layout: Layout, image: OciImage, forms: Sequence[Descriptor]
) -> None:
    made = StageForms(layout, image, 2, recorded={forms[1].digest})
    assert made.of(image).layers == (image.layers[0], forms[1], *image.layers[2:])
    assert list(made.held) == [image.layers[0], forms[1]]
    assert made.saved == 0, "they are not sent"
    assert made.digests(image) == ({forms[1].digest}, {forms[0].digest, forms[2].digest})


def test_an_engine_that_asks_for_a_layer_it_has_is_offered_the_other_digests_once(
    layout: Layout, image: OciImage, forms: Sequence[Descriptor]
) -> None:
    plain, packed = list(image.layers[:2]), list(forms[:2])
    made = StageForms(layout, image, 2)
    assert made.switch()
    assert list(made.held) == packed
    assert not made.switch(), "its layers came from elsewhere"
    made = StageForms(layout, image, 2, recorded={form.digest for form in forms})
    assert made.switch()
    assert list(made.held) == plain
    mixed = StageForms(layout, image, 2, recorded={forms[0].digest})
    assert [mixed.switch(), list(mixed.held), mixed.switch(), list(mixed.held), mixed.switch()] == [
        True,
        packed,
        True,
        plain,
        False,
    ]
    assert not StageForms(layout, image, 0).switch()


def test_an_archive_for_engines_that_want_all_layers_has_all_compressed(
    layout: Layout, image: OciImage, forms: Sequence[Descriptor]
) -> None:
    made = StageForms(layout, image, 2, compressor=Compressor(layout))
    assert made.of(image, all_layers=True).layers == tuple(forms)


def test_a_layer_that_cannot_be_compressed_goes_as_it_is_with_one_note(layout: Layout, image: OciImage) -> None:
    notes: list[str] = []
    (layout.directory / "compressed").write_text("a file in the place of the directory")
    made = StageForms(layout, image, 0, compressor=Compressor(layout), note=notes.append)
    assert made.of(image) is image
    assert StageForms(layout, image, 0, compressor=Compressor(layout)).of(image) is image
    [note] = notes
    why = ": Not a directory; make it readable and writable"
    assert re.fullmatch(f"layers are sent uncompressed: {layout.directory}/compressed/[^ ]+{why}", note)


def test_damaged_forms_are_removed_and_made_again(layout: Layout, image: OciImage, forms: Sequence[Descriptor]) -> None:
    made = StageForms(layout, image, 0, compressor=Compressor(layout))
    made.of(image)
    path = layout.blobs.path(forms[0].digest)
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))
    made.drop_damaged()
    assert not path.exists()
    assert made.of(image).layers == tuple(forms)
    assert path.read_bytes() == whole


class Linked(LocalMachine):
    """A machine whose link is measured with `rates` bytes a second, the last one from then on; `asked` counts that."""

    def __init__(self, *rates: float | None) -> None:
        super().__init__("h1")
        self.rates, self.asked = rates, 0

    def link_rate(self) -> float | None:  # type: ignore[override]
        self.asked += 1
        return self.rates[min(self.asked, len(self.rates)) - 1]


@pytest.fixture
def large(layout: Layout) -> OciImage:
    return load_image(layout, layers=LARGE)


@pytest.mark.parametrize(
    ("rate", "compress", "asked"), [(1e6, True, 2), (0.0, True, 2), (1e8, False, 1), (None, False, 1)]
)
def test_a_link_is_measured_where_much_is_missing(
    layout: Layout, large: OciImage, rate: float | None, compress: bool, asked: int
) -> None:
    machine = Linked(rate)
    assert Compression(layout).choose(machine, large.layers) == Choice(compress, rate)
    assert machine.asked == asked


@pytest.mark.parametrize(("rates", "choice"), [((1e6, 1e8), Choice(False, 1e8)), ((1e6, None), Choice(True, 1e6))])
def test_a_link_that_seems_slow_is_measured_again_as_the_controller_may_have_been_busy(
    layout: Layout, large: OciImage, rates: tuple[float | None, ...], choice: Choice
) -> None:
    assert Compression(layout).choose(Linked(*rates), large.layers) == choice


def test_a_link_is_not_measured_for_an_edit_or_where_a_setting_decides(layout: Layout, large: OciImage) -> None:
    machine = Linked(1e6)
    assert Compression(layout).choose(machine, large.layers[1:]) == Choice(compress=False)
    assert Compression(layout, "always").choose(machine, large.layers[1:]) == Choice(compress=True)
    assert Compression(layout, "always").choose(machine, ()) == Choice(compress=False)
    assert Compression(layout, "never").choose(machine, large.layers) == Choice(compress=False)
    layout.variants.record(large.layers[0], None)  # it does not shrink
    assert Compression(layout).choose(machine, large.layers) == Choice(compress=False)
    assert machine.asked == 0


def test_hosts_that_share_layers_follow_the_first_measured_link(layout: Layout, large: OciImage) -> None:
    compression = Compression(layout)
    few, fast, slow = Linked(1e6), Linked(1e8), Linked(1e6)
    assert not compression.choose_for_all(few, large, large.layers[1:]).compress
    assert [compression.choose_for_all(it, large, large.layers).compress for it in (slow, fast)] == [True, True]
    assert (few.asked, slow.asked, fast.asked) == (0, 2, 0)


def test_digests_are_recorded_for_the_engine(layout: Layout, large: OciImage) -> None:
    compression = Compression(layout, "always")
    notes: list[str] = []
    forms = compression.forms(large, 0, "engine", Choice(compress=True), notes.append)
    form = forms.of(large)
    compression.record("engine", forms, large)
    later = Compression(Layout(layout.directory)).forms(large, 2, "engine", Choice(compress=False), notes.append)
    assert later.of(large) == form
    again = Compression(layout).forms(large, 0, "engine", Choice(compress=False), notes.append)
    again.of(large)
    compression.record("engine", again, large)  # it was pulled plain, after its engine had lost everything
    later = compression.forms(large, 2, "engine", Choice(compress=False), notes.append)
    assert later.of(large) is large
    assert notes == []
