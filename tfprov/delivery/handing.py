"""Images handed to one engine: the registry that answers it, and what there is to know about how it went."""

import threading
from collections.abc import Callable, Collection, Sequence

from tfprov.delivery.layout import Layout
from tfprov.delivery.oci import Descriptor, Image
from tfprov.delivery.registry import Registry, Request, Response, error
from tfprov.delivery.serve import Connection, serve
from tfprov.delivery.stages import REPOSITORY


class Handing(Registry):
    """Hands out the stages of an image, but none of the layers the host has.

    An engine that got a layer from elsewhere (an archive, another registry) does not know it by our digest and would
    fetch it again: it is refused, which ends the pull at once, and `refused` says so. `asked` tells whether the engine
    found its way to us at all. Bytes sent are told to `count`, from one thread at a time.
    """

    def __init__(
        self, layout: Layout, stages: Sequence[Image], held: Collection[Descriptor], count: Callable[[int], None]
    ) -> None:
        super().__init__(layout, {REPOSITORY: stages})
        self.asked = self.refused = False
        self._count = count
        self._lock = threading.Lock()
        wanted = {layer.digest for layer in stages[-1].layers[len(held) :]}
        self._held = {layer.digest for layer in held} - wanted

    def answer(self, request: Request) -> Response:
        """See Registry."""
        response = super().answer(request)
        if response.blob is not None and response.blob.digest in self._held:
            self.refused = True
            return error(403, "DENIED", "the host has this layer")
        return response

    def serve(self, connection: Connection) -> None:
        """Answer on one connection to its end."""
        self.asked = True
        serve(self, connection, self._sent)

    def _sent(self, size: int) -> None:
        with self._lock:
            self._count(size)
