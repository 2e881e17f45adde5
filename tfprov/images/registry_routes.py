"""A read-only registry: the four routes of the OCI distribution specification 1.1 that a pull needs. No effects.

Names and digests are looked up in dictionaries of the registry's images, never on the disk, so that no request path
reaches another file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage, encode

_ROUTE = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs)/(?P<reference>[A-Za-z0-9_.:+-]+)\Z")
_RANGE = re.compile(r"bytes=(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})?|-(?P<suffix>[0-9]{1,18}))\Z")


@dataclass(frozen=True)
class Request:
    """A request's first line and headers; the names of the headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Response:
    """A response with `body`, or with `length` bytes of `blob` from offset `first` on."""

    status: int
    headers: Mapping[str, str]
    length: int
    body: bytes = b""
    blob: Descriptor | None = None
    first: int = 0


class Registry:
    """Serves `images`, by repository and digest: `{"tfprov/linear": [image]}`. There are no tags.

    Any number of threads may call it. The caller holds the layout `in_use`.
    """

    def __init__(self, layout: Layout, images: Mapping[str, Sequence[OciImage]]) -> None:
        self.blobs = layout.blobs
        self._manifests: dict[str, dict[str, Descriptor]] = {}
        self._blobs: dict[str, dict[str, Descriptor]] = {}
        for name, named in images.items():
            for image in named:
                self.add(name, image)

    def add(self, name: str, image: OciImage) -> None:
        """Serve one more image in the repository `name`."""
        self._blobs.setdefault(name, {}).update({blob.digest: blob for blob in (*image.layers, image.config)})
        self._manifests.setdefault(name, {})[image.manifest.digest] = image.manifest

    def answer(self, request: Request) -> Response:
        """Return the response to a request; a HEAD gets the response of a GET, and the server omits the body."""
        if request.method not in ("GET", "HEAD"):
            return error_response(405, "UNSUPPORTED", "this registry is read-only", {"Allow": "GET, HEAD"})
        if request.target in ("/v2/", "/v2"):
            return _json_response(200, b"{}")
        route = _ROUTE.match(request.target)
        if not route or route["name"] not in self._blobs:
            return error_response(404, "NAME_UNKNOWN", "no such repository")
        if route["kind"] == "manifests":
            return self._manifest(self._manifests[route["name"]].get(route["reference"]))
        return self._blob(self._blobs[route["name"]].get(route["reference"]), request)

    def _manifest(self, manifest: Descriptor | None) -> Response:
        if manifest is None:
            return error_response(404, "MANIFEST_UNKNOWN", "no such manifest")
        headers = {"Content-Type": manifest.media_type, **_digest_headers(manifest)}
        return Response(200, headers, manifest.size, blob=manifest)

    def _blob(self, blob: Descriptor | None, request: Request) -> Response:
        if blob is None:
            return error_response(404, "BLOB_UNKNOWN", "no such blob")
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **_digest_headers(blob)}
        byte_range = _RANGE.match(request.headers.get("range", ""))
        # Blobs never change, but clients may send If-Range all the same.
        if not byte_range or request.headers.get("if-range", headers["ETag"]) != headers["ETag"]:
            return Response(200, headers, blob.size, blob=blob)
        first, end = _bounds(byte_range, blob.size)
        if first >= end:
            return error_response(
                416, "RANGE_INVALID", "not within the blob", {"Content-Range": f"bytes */{blob.size}"}
            )
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{blob.size}"
        return Response(206, headers, end - first, blob=blob, first=first)


def _bounds(byte_range: re.Match[str], size: int) -> tuple[int, int]:
    if byte_range["suffix"]:
        return max(0, size - int(byte_range["suffix"])), size
    return int(byte_range["first"]), min(size, int(byte_range["last"]) + 1) if byte_range["last"] else size


def _digest_headers(blob: Descriptor) -> dict[str, str]:
    return {"Docker-Content-Digest": blob.digest, "ETag": f'"{blob.digest}"'}


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in the JSON form of the specification."""
    return _json_response(status, encode({"errors": [{"code": code, "message": message}]}), headers)


def _json_response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, {"Content-Type": "application/json", **(headers or {})}, len(body), body)
