"""The registry's responses to valid, unknown and hostile requests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delivery_images import LAYERS, code, load_image
from tfprov.images.code_layer import append
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_MANIFEST, OciImage
from tfprov.images.registry_routes import Registry, Request, Response

HIDDEN = code(secret=b"of somebody else")


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def image(layout: Layout) -> OciImage:
    return load_image(layout)


@pytest.fixture(scope="module")
def registry(layout: Layout, image: OciImage) -> Registry:
    append(layout, image, HIDDEN, "hidden")
    return Registry(layout, {"tfprov/linear": [image], "tfprov/nothing": []})


def get(registry: Registry, target: str, method: str = "GET", **headers: str) -> Response:
    return registry.answer(Request(method, target, {name.replace("_", "-"): it for name, it in headers.items()}))


def content(layout: Layout, response: Response) -> bytes:
    """Return the body of a GET."""
    if response.blob is None:
        return response.body
    data = layout.blobs.path(response.blob.digest).read_bytes()
    return data[response.first : response.first + response.length]


def error_code_of(response: Response) -> str:
    """Return the code of an error response."""
    (error,) = json.loads(response.body)["errors"]
    assert error["message"]
    return str(error["code"])


@pytest.mark.parametrize("target", ["/v2/", "/v2"])
def test_the_root_identifies_a_registry(registry: Registry, target: str) -> None:
    assert (get(registry, target).status, get(registry, target).body) == (200, b"{}")


def test_a_manifest_by_its_digest(layout: Layout, registry: Registry, image: OciImage) -> None:
    response = get(registry, f"/v2/tfprov/linear/manifests/{image.manifest.digest}")
    assert (response.status, response.length) == (200, image.manifest.size)
    assert response.headers["Content-Type"] == DOCKER_MANIFEST
    assert response.headers["Docker-Content-Digest"] == image.manifest.digest
    assert content(layout, response) == layout.blobs.read(image.manifest)


def test_blobs_by_their_digest(layout: Layout, registry: Registry, image: OciImage) -> None:
    for blob in (*image.layers, image.config):
        response = get(registry, f"/v2/tfprov/linear/blobs/{blob.digest}")
        assert (response.status, response.headers["Accept-Ranges"]) == (200, "bytes")
        assert content(layout, response) == layout.blobs.path(blob.digest).read_bytes()


@given(first=st.integers(0, 3000), last=st.integers(0, 3000))
def test_a_range_returns_a_slice(layout: Layout, registry: Registry, image: OciImage, first: int, last: int) -> None:
    blob, size = image.layers[0], image.layers[0].size
    response = get(registry, f"/v2/tfprov/linear/blobs/{blob.digest}", range=f"bytes={first}-{last}")
    wanted = LAYERS[0][first : last + 1]
    if not wanted:
        assert (response.status, response.headers["Content-Range"]) == (416, f"bytes */{size}")
        return
    assert (response.status, content(layout, response)) == (206, wanted)
    assert response.headers["Content-Range"] == f"bytes {first}-{first + len(wanted) - 1}/{size}"


@given(number=st.integers(0, 20_000))
def test_an_open_range_and_a_suffix_range(layout: Layout, registry: Registry, image: OciImage, number: int) -> None:
    target = f"/v2/tfprov/linear/blobs/{image.layers[0].digest}"
    rest, tail = (get(registry, target, range=f"bytes={it}") for it in (f"{number}-", f"-{number}"))
    assert rest.status == (206 if number < len(LAYERS[0]) else 416)
    assert rest.status == 416 or content(layout, rest) == LAYERS[0][number:]
    assert tail.status == (206 if number else 416)
    assert tail.status == 416 or content(layout, tail) == LAYERS[0][-number:]


@pytest.mark.parametrize("text", ["", "bytes", "bytes=-", "bytes=a-b", "bytes=0-1,5-6", "lines=0-1", "bytes=5 -6"])
def test_an_unsupported_range_is_ignored(registry: Registry, image: OciImage, text: str) -> None:
    response = get(registry, f"/v2/tfprov/linear/blobs/{image.layers[0].digest}", range=text)
    assert (response.status, response.length) == (200, image.layers[0].size)


def test_if_range_with_another_etag_returns_the_whole_blob(registry: Registry, image: OciImage) -> None:
    target = f"/v2/tfprov/linear/blobs/{image.layers[0].digest}"
    same = get(registry, target).headers["ETag"]
    assert same == f'"{image.layers[0].digest}"'
    assert get(registry, target, range="bytes=5-", if_range=same).status == 206
    assert get(registry, target, range="bytes=5-", if_range='"other"').status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "get"])
def test_nothing_can_be_written(registry: Registry, image: OciImage, method: str) -> None:
    for target in ("/v2/", "/v2/tfprov/linear/blobs/uploads/", f"/v2/tfprov/linear/manifests/{image.manifest.digest}"):
        response = get(registry, target, method)
        assert (response.status, error_code_of(response)) == (405, "UNSUPPORTED")
        assert response.headers["Allow"] == "GET, HEAD"


def test_stored_images_outside_the_registry_are_unknown(layout: Layout, registry: Registry, image: OciImage) -> None:
    hidden = layout.find("hidden")
    assert hidden
    repository = "/v2/tfprov/linear"
    for target, error_code in (
        (f"{repository}/manifests/{hidden.manifest.digest}", "MANIFEST_UNKNOWN"),
        (f"{repository}/manifests/{image.config.digest}", "MANIFEST_UNKNOWN"),
        (f"{repository}/manifests/latest", "MANIFEST_UNKNOWN"),
        (f"{repository}/blobs/{hidden.layers[-1].digest}", "BLOB_UNKNOWN"),
        (f"{repository}/blobs/{image.manifest.digest}", "BLOB_UNKNOWN"),
        (f"{repository}/blobs/latest", "BLOB_UNKNOWN"),
        (f"/v2/tfprov/other/blobs/{image.layers[0].digest}", "NAME_UNKNOWN"),
        (f"/v2/tfprov/nothing/blobs/{image.layers[0].digest}", "NAME_UNKNOWN"),
        ("/v2/tfprov/nothing/manifests/latest", "NAME_UNKNOWN"),
        ("/v2/_catalog", "NAME_UNKNOWN"),
        ("/v2/tfprov/linear/tags/list", "NAME_UNKNOWN"),
        ("/", "NAME_UNKNOWN"),
        ("/v1/", "NAME_UNKNOWN"),
    ):
        response = get(registry, target)
        assert (response.status, error_code_of(response)) == (404, error_code)


@pytest.mark.parametrize(
    "target",
    [
        "/v2/tfprov/linear/blobs/../../index.json",
        "/v2/tfprov/linear/blobs/sha256:../../../index.json",
        "/v2/tfprov/linear/blobs/sha256:%2e%2e%2findex.json",
        "/v2/tfprov/linear/manifests/..",
        "/v2/../tfprov/linear/manifests/latest",
        "/v2/tfprov/./linear/manifests/latest",
        "/v2/tfprov%2flinear/manifests/latest",
        "//v2/tfprov/linear/manifests/latest",
        "/v2/tfprov/linear/manifests/latest/",
        "/v2/tfprov/linear/manifests/latest\n",
        "/v2/tfprov/linear/manifests/latest?a=b",
        "/v2/tfprov/linear/blobs//etc/passwd",
        "/etc/passwd",
        "/../../etc/passwd",
    ],
)
def test_no_path_leads_out(registry: Registry, target: str) -> None:
    assert get(registry, target).status == 404


@given(st.text())
def test_any_other_target_is_unknown(registry: Registry, text: str) -> None:
    assert get(registry, f"/v2/{text}").status == (404 if text else 200)


@pytest.mark.parametrize(
    ("line", "byte_range", "message"),
    [
        ("DELETE /v2/", "", "UNSUPPORTED: this registry is read-only"),
        ("GET /v2/other/manifests/latest", "", "NAME_UNKNOWN: no such repository"),
        ("GET /v2/tfprov/nothing/manifests/latest", "", "NAME_UNKNOWN: no such repository"),
        ("GET /v2/tfprov/linear/manifests/old", "", "MANIFEST_UNKNOWN: no such manifest"),
        (f"GET /v2/tfprov/linear/blobs/sha256:{0:064}", "", "BLOB_UNKNOWN: no such blob"),
        ("GET /v2/tfprov/linear/blobs/CONFIG", "bytes=9999999-", "RANGE_INVALID: not within the blob"),
    ],
)
def test_error_responses_have_code_and_message(
    registry: Registry, image: OciImage, line: str, byte_range: str, message: str
) -> None:
    method, target = line.split()
    response = get(registry, target.replace("CONFIG", image.config.digest), method, range=byte_range)
    (error,) = json.loads(response.body)["errors"]
    assert f"{error['code']}: {error['message']}" == message


def test_if_range_is_compared_with_the_etag(registry: Registry, image: OciImage) -> None:
    target = f"/v2/tfprov/linear/blobs/{image.config.digest}"
    assert get(registry, target, range="bytes=0-3", if_range='"of before"').status == 200
    etag = get(registry, target).headers["ETag"]
    assert get(registry, target, range="bytes=0-3", if_range=etag).status == 206
