"""Images handed to one engine: the registry that answers it, and what there is to know about how it went."""

import hmac
import secrets
import threading
from base64 import b64encode
from collections.abc import Callable, Collection, Sequence

from tfprov.delivery.layout import Layout
from tfprov.delivery.oci import Descriptor, Image
from tfprov.delivery.registry import Registry, Request, Response, error
from tfprov.delivery.serve import Connection, serve
from tfprov.delivery.stages import repository

_USER = "tfprov"


class Handing(Registry):
    """Hands out the stages of an image to whoever knows the token, but none of the layers the host has.

    Every user of the host can connect to the port that leads here: without the token, all that is asked for is answered
    alike. `name` is the repository; token and name are made up for this one delivery. `login` is what the engine is given.

    An engine that got a layer from elsewhere (an archive, another registry) does not know it by our digest and would
    fetch it again: it is refused, which ends the pull at once, and `refused` says so. `asked` tells whether anybody
    found the way to us at all, and `known` whether somebody had the token. Bytes sent are told to `count`, from one
    thread at a time.
    """

    def __init__(
        self, layout: Layout, stages: Sequence[Image], held: Collection[Descriptor], count: Callable[[int], None]
    ) -> None:
        self.name = repository()
        super().__init__(layout, {self.name: stages})
        self.asked = self.known = self.refused = False
        self.login = {"username": _USER, "password": secrets.token_urlsafe(32)}
        self._credentials = b64encode(f"{_USER}:{self.login['password']}".encode())
        self._count = count
        self._lock = threading.Lock()
        wanted = {layer.digest for layer in stages[-1].layers[len(held) :]}
        self._held = {layer.digest for layer in held} - wanted

    def answer(self, request: Request) -> Response:
        """See Registry."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(credentials.strip().encode("latin-1", "replace"), self._credentials)
        if scheme.lower() != "basic" or not right:
            return error(401, "UNAUTHORIZED", "a token is needed", {"WWW-Authenticate": 'Basic realm="tfprov"'})
        self.known = True
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
