"""Pushes with compressed layers, to an engine in memory that pulls from the real registry."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery import PushRecorder
from tests.support.delivery_images import load_image, tar
from tests.support.memory_engine import MemoryEngine, MemoryMachine
from tfprov.errors import DeliveryError
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.images.compression.compression import Compression
from tfprov.images.compression.compressor import Compressor
from tfprov.images.compression.decision import MIN_MISSING
from tfprov.images.compression.engine_digests import EngineDigests
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage
from tfprov.images.push import PushResult, push
from tfprov.images.relays.protocols import RelayedPull
from tfprov.images.stages import STAGE_SIZE

TEXT = tar({"text": os.urandom(300_000).hex().encode()})
BASE = (tar({"large": bytes(MIN_MISSING)}), TEXT)
STAGES = (tar({"larger": bytes(STAGE_SIZE)}), TEXT)
"""With these lower layers, an image has two stages."""
SLOW = 1e6


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


def image(layout: Layout, code: bytes = b"one", lower: Sequence[bytes] = BASE) -> OciImage:
    """Return an image of a large layer, and two small ones."""
    return load_image(layout, layers=[*lower, tar({"code": code})])


def pushed(machine: MemoryMachine, layout: Layout, image: OciImage, compression: Compression) -> PushResult:
    recorder = PushRecorder()
    result = push(machine, layout, image, "tfprov/x:1", recorder.progress, compression=compression)
    assert machine.engine.inspect_image("tfprov/x:1")["Id"] == image.id  # type: ignore[attr-defined]
    assert result.sent == recorder.sent
    if recorder.reports:
        assert recorder.reports[-1][1] <= 1.1 * result.sent + 8_000, "the total is that of what is sent"
    return result


def test_layers_are_compressed_for_a_slow_link_and_known_in_later_pushes(layout: Layout) -> None:
    engine = MemoryEngine()
    machine, compression = MemoryMachine(engine, SLOW), Compression(layout)
    first = pushed(machine, layout, image(layout), compression)
    assert (first.way, first.rate) == ("pull", SLOW)
    assert first.sent < 1_000_000 < first.saved
    asked = len(engine.asked)
    again = pushed(machine, layout, image(layout, b"two"), Compression(layout))
    assert (again.way, again.rate, again.saved) == ("pull", None, 0)
    assert len(engine.asked) == asked + 1, "the code"
    assert machine.measured == 2


def test_an_engine_that_got_plain_layers_is_not_asked_for_compressed_ones(layout: Layout) -> None:
    """Another host got them compressed meanwhile."""
    engine, other = MemoryEngine("a"), MemoryEngine("b")
    pushed(MemoryMachine(engine, 1e9), layout, image(layout), Compression(layout))
    pushed(MemoryMachine(other, SLOW), layout, image(layout), Compression(layout))
    for it in (engine, other):
        it.asked.clear()
        pushed(MemoryMachine(it, SLOW), layout, image(layout, b"two"), Compression(layout))
        assert len(it.asked) == 1


@pytest.mark.parametrize("before", [SLOW, 1e9])
def test_without_a_record_the_next_pull_names_the_other_digests(layout: Layout, before: float) -> None:
    engine = MemoryEngine()
    Compressor(layout).form(image(layout).layers[0])
    pushed(MemoryMachine(engine, before), layout, image(layout), Compression(layout))
    compressor = Compressor(layout)
    forms = [compressor.form(layer) for layer in image(layout).layers]
    for path in layout.engines.iterdir() if layout.engines.exists() else ():
        path.unlink()
    if before != SLOW:  # the record is of an engine with the same id that was lost
        EngineDigests(layout.engines).update("engine", {form.digest for form in forms}, ())
    result = pushed(MemoryMachine(engine, SLOW), layout, image(layout, b"two"), Compression(layout))
    assert (result.way, result.reason) == ("pull", "")
    engine.asked.clear()
    pushed(MemoryMachine(engine, SLOW), layout, image(layout, b"three"), Compression(layout))
    assert len(engine.asked) == 1, "it is recorded now"


def test_a_delivery_that_begins_plain_goes_on_compressed(layout: Layout) -> None:
    """A run was killed after its first stage; the link has become slow since."""
    engine = MemoryEngine()
    whole = image(layout, lower=STAGES)
    lower = load_image(layout, "lower", layers=STAGES[:1])
    pushed(MemoryMachine(engine, 1e9), layout, lower, Compression(layout))
    engine.asked.clear()
    result = pushed(MemoryMachine(engine, SLOW), layout, whole, Compression(layout, "always"))
    assert result.way == "pull"
    assert result.saved > 0
    assert len(engine.asked) == 2, "the large layer is there"


class Cut(MemoryEngine):
    """An engine whose connection is lost as it is about to pull, `left` times."""

    left = 2

    def pull(self, repository: str, digest: str, auth_config: Mapping[str, str], **_: object) -> Iterator[Any]:
        if self.left:
            self.left -= 1
            raise ConnectionLost(self.host, "the connection was lost")
        return super().pull(repository, digest, auth_config)


def test_layers_that_are_sent_again_count_once_as_saved(layout: Layout) -> None:
    def push_to(engine: MemoryEngine) -> PushResult:
        progress = PushRecorder().progress
        machine, compression = MemoryMachine(engine, SLOW), Compression(layout)
        return push(machine, layout, image(layout), "tfprov/x:1", progress, pauses=(0, 0), compression=compression)

    assert push_to(Cut("a")).saved == push_to(MemoryEngine("b")).saved > 0


def test_a_record_that_cannot_be_written_does_not_fail_a_delivery(layout: Layout) -> None:
    layout.engines.write_text("a file in the place of the directory")
    assert pushed(MemoryMachine(MemoryEngine(), SLOW), layout, image(layout), Compression(layout)).way == "pull"


class Relayed:
    """Relays that none of the hosts gets; `layers` are those that one would be asked for."""

    def __init__(self) -> None:
        self.layers: Sequence[Descriptor] = ()

    def join(self, pull: RelayedPull) -> None:
        self.layers = pull.layers


def test_a_relay_is_told_the_compressed_layers_of_all_stages(layout: Layout) -> None:
    engine, relays = MemoryEngine(), Relayed()
    recorder = PushRecorder()
    machine, made = MemoryMachine(engine, SLOW), image(layout, lower=STAGES)
    compression = Compression(layout)
    push(machine, layout, made, "tfprov/x:1", recorder.progress, relays=relays, compression=compression)
    assert [layer.digest for layer in relays.layers] == engine.asked
    assert sum(layer.size for layer in relays.layers) < 1_000_000


def test_a_damaged_image_is_reported_and_not_half_delivered(layout: Layout) -> None:
    engine = MemoryEngine()
    made = image(layout)
    path = layout.blobs.path(made.layers[0].digest)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(
        DeliveryError, match=r"^h1 refuses an image whose layers were damaged on this machine"
    ) as raised:
        pushed(MemoryMachine(engine, SLOW), layout, made, Compression(layout))
    assert "invalid diffID" in str(raised.value.__cause__)
    assert engine.images_by_id == {}
    assert layout.variants.named(made.layers[0]) is None
    assert not path.exists()


def test_a_damaged_compressed_layer_is_made_again_for_the_archive(layout: Layout) -> None:
    engine = MemoryEngine()
    made = image(layout)
    form = Compressor(layout).form(made.layers[0])
    path = layout.blobs.path(form.digest)
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes(len(whole) - 1000))
    result = pushed(MemoryMachine(engine, SLOW), layout, made, Compression(layout))
    assert (result.way, result.reason) == ("load", "its engine did not pull all of it, so the rest went as one archive")
    assert result.sent < 2_000_000
    assert path.read_bytes() == whole
