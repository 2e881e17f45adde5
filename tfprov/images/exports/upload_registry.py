"""The uploads of one image from an engine: what is accepted, refused and kept.

An engine with a store of its own uploads the uppermost layers first, and ends with the first one that is refused. A layer
that the layout has is refused as soon as it is recognized, so that the engine compresses little of it.
"""

import hmac
import secrets
import threading
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from tfprov.images.blobs import Blobs, IncomingBlob
from tfprov.images.exports.layer_upload import DamagedUpload, KnownLayer, LayerUpload, Openings
from tfprov.images.registry_server import random_repository

MAX_UPLOADS = 200
"""Uploads of one image: it has 127 layers at most, and an engine tries one five times."""
_USER = "tfprov"


class Refused(Exception):
    """A request that gets an error: `status`, the specification's `code`, and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Upload(Protocol):
    """What comes in one upload: `received` is the number of its bytes so far, and `digest` that of them."""

    received: int

    @property
    def digest(self) -> str: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None: ...

    def drop(self) -> None: ...


_T = TypeVar("_T", bound=_Upload)


class UploadRegistry(ABC, Generic[_T]):
    """Receives what clients with the token upload.

    `name` is the repository; it and the token in `login` are random. `on_received` is called with the bytes received since
    the last call, from one thread at a time. `was_contacted` is set by the first request with the token.
    """

    def __init__(self, on_received: Callable[[int], None]) -> None:
        self.was_contacted = False
        self.name = random_repository()
        self.login = {"username": _USER, "password": secrets.token_urlsafe(32)}
        self._credentials = b64encode(f"{_USER}:{self.login['password']}".encode())
        self._on_received = on_received
        self._uploads: dict[str, _T] = {}
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closed = False

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether all is there that the layout lacks."""

    @abstractmethod
    def _new_upload(self) -> _T: ...

    @abstractmethod
    def _take(self, upload: _T) -> None:
        """Take an upload that is complete, with the lock."""

    def check_token(self, header: str) -> None:
        """Take the value of an Authorization header; raise Refused unless it has the token."""
        scheme, _, credentials = header.partition(" ")
        is_right = hmac.compare_digest(credentials.strip().encode("latin-1", "replace"), self._credentials)
        if scheme.lower() != "basic" or not is_right:
            raise Refused(401, "UNAUTHORIZED", "a token is needed")
        self.was_contacted = True

    def begin(self) -> str:
        """Begin an upload; return its id."""
        with self._lock:
            if self._closed or len(self._uploads) >= MAX_UPLOADS:
                raise Refused(403, "DENIED", "no more uploads")
            identifier = secrets.token_hex(16)
            self._uploads[identifier] = self._new_upload()
        return identifier

    def receive(self, identifier: str, pieces: Iterable[bytes]) -> int:
        """Take all of an upload; return the bytes it came in. Raises Refused as soon as it is not wanted."""
        upload = self._find(identifier)
        if upload.received:
            raise Refused(416, "RANGE_INVALID", "a layer comes in one piece")
        try:
            for piece in pieces:
                upload.write(piece)
                self._count(len(piece))
            upload.finish()
        except KnownLayer:
            raise Refused(403, "DENIED", "this layer is there") from None
        except DamagedUpload as error:
            raise Refused(403, "DENIED", f"the layer is damaged: {error}") from None
        return upload.received

    def commit(self, identifier: str, digest: str) -> None:
        """End an upload with the `digest` of what was sent."""
        upload = self._find(identifier)
        if upload.digest != digest:
            raise Refused(400, "DIGEST_INVALID", "the upload has another digest")
        with self._lock:
            self._sizes[digest] = upload.received
            self._take(upload)

    def put_manifest(self, name: str, media_type: str, document: bytes) -> str:
        """Take a manifest under its digest or tag, `name`; return its digest. Raises Refused where none is wanted."""
        raise Refused(404, "NAME_UNKNOWN", "no such repository")

    def size(self, digest: str) -> int | None:
        """Return how many bytes an upload with this digest had; None if there was none."""
        with self._lock:
            return self._sizes.get(digest)

    def _find(self, identifier: str) -> _T:
        with self._lock:
            upload = self._uploads.get(identifier)
        if upload is None:
            raise Refused(404, "BLOB_UPLOAD_UNKNOWN", "no such upload")
        return upload

    def _count(self, size: int) -> None:
        with self._lock:
            if self._closed:
                raise Refused(403, "DENIED", "no more uploads")
            self._on_received(size)

    def close(self) -> None:
        """End all uploads, and remove what was not kept."""
        with self._lock:
            self._closed = True
            for upload in self._uploads.values():
                upload.drop()


class LayerRegistry(UploadRegistry[LayerUpload]):
    """Receives the layers with the diff ids `wanted`; `openings` are of layers to refuse.

    `limit` is the number of bytes, uncompressed, of a layer.
    """

    def __init__(
        self,
        blobs: Blobs,
        wanted: Sequence[str],
        openings: Openings,
        limit: int,
        on_received: Callable[[int], None],
    ) -> None:
        super().__init__(on_received)
        self._blobs, self._wanted, self._openings, self._limit = blobs, frozenset(wanted), openings, limit
        self._received: dict[str, IncomingBlob] = {}

    @property
    def layers(self) -> Mapping[str, IncomingBlob] | None:
        """The received layers by diff id, which its content has; None until all are there."""
        with self._lock:
            return dict(self._received) if self._wanted <= self._received.keys() else None

    @property
    def is_complete(self) -> bool:
        """Whether all wanted layers are there."""
        return self.layers is not None

    def _new_upload(self) -> LayerUpload:
        return LayerUpload(self._blobs, self._openings, self._limit)

    def _take(self, upload: LayerUpload) -> None:
        if upload.blob.digest in self._wanted:
            self._received.setdefault(upload.blob.digest, upload.blob)
