"""The compression of a run's deliveries: measures links, and decides for each host, or for all that share layers."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tfprov.errors import DeliveryError
from tfprov.hosts.machine import Machine
from tfprov.images.compression.compressor import Compressor
from tfprov.images.compression.decision import FASTEST, MIN_MISSING, Mode, worth_compressing
from tfprov.images.compression.engine_digests import EngineDigests
from tfprov.images.compression.stage_forms import StageForms
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage


@dataclass(frozen=True)
class Choice:
    """Whether layers are compressed. `rate` is that of the link in bytes a second, None when it was not measured."""

    compress: bool
    rate: float | None = None


class Compression:
    """Thread-safe. `mode` is the setting `deliver.compress`; `cores` are those that compress, by default all."""

    def __init__(self, layout: Layout, mode: Mode = "auto", cores: int | None = None) -> None:
        self._layout, self._mode = layout, mode
        self._compressor = Compressor(layout, cores)
        self._digests = EngineDigests(layout.engines)
        self._shared: dict[str, Choice] = {}
        self._lock = threading.Lock()

    def choose(self, machine: Machine, layers: Sequence[Descriptor]) -> Choice:
        """Decide for the delivery of `layers` to one host. Raises Unreachable."""
        variants = self._layout.variants
        shrinking = [layer for layer in layers if variants.may_shrink(layer)]
        size = sum(layer.size for layer in shrinking)
        if self._mode != "auto" or not size:
            return Choice(self._mode == "always" and bool(size))
        if size < MIN_MISSING or (rate := _link_rate(machine)) is None:
            return Choice(compress=False)
        to_compress = sum(layer.size for layer in shrinking if variants.find(layer) is None)
        return Choice(worth_compressing(rate, self._compressor.cores, size, to_compress), rate)

    def choose_for_all(self, machine: Machine, image: OciImage, layers: Sequence[Descriptor]) -> Choice:
        """Decide for all hosts that get layers of `image` from each other: by the link of the first. Raises Unreachable."""
        with self._lock:
            choice = self._shared.get(image.id) or self.choose(machine, layers)
            if choice.compress or choice.rate is not None:  # else this host lacks too little to measure its link
                self._shared[image.id] = choice
            return choice

    def forms(
        self, image: OciImage, number: int, engine_id: str, choice: Choice, note: Callable[[str], None]
    ) -> StageForms:
        """Return the stages of `image` for an engine that has its lowest `number` layers."""
        compressor = self._compressor if choice.compress else None
        recorded = self._digests.read(engine_id)
        return StageForms(self._layout, image, number, recorded=recorded, compressor=compressor, note=note)

    def record(self, engine_id: str, forms: StageForms, stage: OciImage) -> None:
        """Record by which digests an engine that has pulled `stage` knows its layers."""
        with suppress(DeliveryError):  # a lost record costs one failed pull, and the stage is there
            self._digests.update(engine_id, *forms.digests(stage))

    def close(self) -> None:
        """End what is being compressed: the deliveries are over. Idempotent."""
        self._compressor.close()


def _link_rate(machine: Machine) -> float | None:
    """Return the link's rate in bytes a second, measured again where it seems slow, as by a busy controller."""
    rate = machine.link_rate()
    if rate is None or rate >= FASTEST:
        return rate
    return max(rate, machine.link_rate() or 0.0)
