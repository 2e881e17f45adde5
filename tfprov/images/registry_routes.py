"""A read-only registry: the four routes of the OCI distribution specification 1.1 that a pull needs. No effects.

Only what it was given can be asked for. Names and digests are looked up among the images, never on the disk, so no path
leads anywhere else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, Image, encode

_ROUTE = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs)/(?P<reference>[A-Za-z0-9_.:+-]+)\Z")
_RANGE = re.compile(r"bytes=(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})?|-(?P<suffix>[0-9]{1,18}))\Z")


@dataclass(frozen=True)
class Request:
    """A request's first line and headers; the names of the headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Response:
    """An answer: `body`, or the bytes of `blob` from `first` on, `length` of them."""

    status: int
    headers: Mapping[str, str]
    length: int
    body: bytes = b""
    blob: Descriptor | None = None
    first: int = 0


class Registry:
    """Hands out `images`, by repository and digest: `{"tfprov/linear": [image]}`. There are no tags.

    Immutable, so any number of threads may ask at once. The layout must be held `in_use` meanwhile.
    """

    def __init__(self, layout: Layout, images: Mapping[str, Sequence[Image]]) -> None:
        self.blobs = layout.blobs
        self._manifests = {
            name: {image.manifest.digest: image.manifest for image in named} for name, named in images.items() if named
        }
        self._blobs = {
            name: {blob.digest: blob for image in named for blob in (*image.layers, image.config)}
            for name, named in images.items()
            if named
        }

    def answer(self, request: Request) -> Response:
        """Return what to send; a HEAD is answered like a GET, and whoever sends it leaves out the body."""
        if request.method not in ("GET", "HEAD"):
            return error(405, "UNSUPPORTED", "this registry is read-only", {"Allow": "GET, HEAD"})
        if request.target in ("/v2/", "/v2"):
            return _document(200, b"{}")
        route = _ROUTE.match(request.target)
        if not route or route["name"] not in self._blobs:
            return error(404, "NAME_UNKNOWN", "no such repository")
        if route["kind"] == "manifests":
            return self._manifest(self._manifests[route["name"]].get(route["reference"]))
        return self._blob(self._blobs[route["name"]].get(route["reference"]), request)

    def _manifest(self, manifest: Descriptor | None) -> Response:
        if manifest is None:
            return error(404, "MANIFEST_UNKNOWN", "no such manifest")
        headers = {"Content-Type": manifest.media_type, **_identity(manifest)}
        return Response(200, headers, manifest.size, blob=manifest)

    def _blob(self, blob: Descriptor | None, request: Request) -> Response:
        if blob is None:
            return error(404, "BLOB_UNKNOWN", "no such blob")
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **_identity(blob)}
        wanted = _RANGE.match(request.headers.get("range", ""))
        # A range of something that changed meanwhile would be of no use; blobs do not change, but clients may ask.
        if not wanted or request.headers.get("if-range", headers["ETag"]) != headers["ETag"]:
            return Response(200, headers, blob.size, blob=blob)
        first, end = _bounds(wanted, blob.size)
        if first >= end:
            return error(416, "RANGE_INVALID", "not within the blob", {"Content-Range": f"bytes */{blob.size}"})
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{blob.size}"
        return Response(206, headers, end - first, blob=blob, first=first)


def _bounds(wanted: re.Match[str], size: int) -> tuple[int, int]:
    if wanted["suffix"]:
        return max(0, size - int(wanted["suffix"])), size
    return int(wanted["first"]), min(size, int(wanted["last"]) + 1) if wanted["last"] else size


def _identity(blob: Descriptor) -> dict[str, str]:
    return {"Docker-Content-Digest": blob.digest, "ETag": f'"{blob.digest}"'}


def error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as the specification wants it written."""
    return _document(status, encode({"errors": [{"code": code, "message": message}]}), headers)


def _document(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, {"Content-Type": "application/json", **(headers or {})}, len(body), body)
