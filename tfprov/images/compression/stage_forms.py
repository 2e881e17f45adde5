"""The stages of one delivery as they are sent: with compressed layers, or plain ones."""

from collections.abc import Callable, Collection, Sequence

from tfprov.errors import DeliveryError
from tfprov.images.compression.compressor import Compressor
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage, write_manifest


class StageForms:
    """Stages of `image` for one engine, which has its lowest `number` layers and recorded digests of compressed ones.

    Without a compressor, layers that it lacks stay as they are. `note` gets lines for the user. `saved` is what the
    compressed forms of the stages so far need less than the plain ones.
    """

    def __init__(  # noqa: PLR0913
        self,
        layout: Layout,
        image: OciImage,
        number: int,
        *,
        recorded: Collection[str] = (),
        compressor: Compressor | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._layout, self._image, self._number, self._note = layout, image, number, note
        self._compressor = compressor
        plain = [*image.layers[:number]]
        compressed = [layout.variants.named(layer) or layer for layer in plain]
        pairs = zip(plain, compressed, strict=True)
        self._held = [variant if variant.digest in recorded else layer for layer, variant in pairs]
        self._others = [forms for forms in (compressed, plain) if forms != self._held]
        self._missing: dict[int, Descriptor] = {}
        self._last: dict[str, OciImage] = {}

    @property
    def held(self) -> Sequence[Descriptor]:
        """The layers that the engine has, by the digests under which it should know them."""
        return self._held

    @property
    def saved(self) -> int:
        """Bytes that compressed layers are smaller than plain ones, of the stages so far."""
        return sum(self.saved_by_layer.values())

    @property
    def saved_by_layer(self) -> dict[str, int]:
        """What each compressed layer is smaller than the plain one, by the digest of that."""
        plain = self._image.layers
        return {plain[at].digest: plain[at].size - form.size for at, form in self._missing.items()}

    def begin(self) -> None:
        """Begin to compress the layers that the engine lacks."""
        if self._compressor is not None:
            self._compressor.begin(self._image.layers[self._number :])

    def of(self, stage: OciImage, *, all_layers: bool = False) -> OciImage:
        """Return `stage` as it is sent, its layers compressed by now; with `all_layers` also those that the engine has."""
        known = 0 if all_layers else self._number
        layers = (
            *self._held[: min(known, len(stage.layers))],
            *(self._missing_form(at) for at in range(known, len(stage.layers))),
        )
        form = stage if layers == stage.layers else self._written(stage, layers)
        self._last[stage.id] = form
        return form

    def last(self, stage: OciImage) -> OciImage:
        """Return `stage` as it was sent; as it is when it was not."""
        return self._last.get(stage.id, stage)

    def digests(self, stage: OciImage) -> tuple[set[str], set[str]]:
        """Return the digests of compressed layers by which an engine with `stage` knows layers, and those it does not."""
        pairs = [
            (variant.digest, form.digest)
            for layer, form in zip(stage.layers, self.last(stage).layers, strict=True)
            if (variant := self._layout.variants.named(layer)) is not None
        ]
        return {digest for digest, sent in pairs if digest == sent}, {
            digest for digest, sent in pairs if digest != sent
        }

    def switch(self) -> bool:
        """Name the layers that the engine has by other digests, as it has asked for one; False when none are left.

        It asks for all layers above the first that it does not know, so that its requests do not tell which one that is.
        """
        if not self._others:
            return False
        self._held = self._others.pop(0)
        return True

    def drop_damaged(self) -> None:
        """Verify the compressed layers that were sent; damaged ones are removed, and made again for the next stage."""
        for at, form in list(self._missing.items()):
            if form != self._image.layers[at] and not self._layout.blobs.verify(form):
                del self._missing[at]

    def _missing_form(self, at: int) -> Descriptor:
        layer = self._image.layers[at]
        if at not in self._missing:
            form = layer
            if self._compressor is not None:
                try:
                    form = self._compressor.form(layer)
                except DeliveryError as error:
                    self._compressor = None
                    self._note(f"layers are sent uncompressed: {error}")
            self._missing[at] = form
        return self._missing[at]

    def _written(self, stage: OciImage, layers: tuple[Descriptor, ...]) -> OciImage:
        manifest, document = write_manifest(stage.config, layers)
        self._layout.blobs.write(document, manifest.media_type)
        return self._layout.image(manifest)
