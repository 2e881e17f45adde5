"""Image archives: the formats that are read, and damaged, ambiguous or hostile ones, which leave no trace."""

import bz2
import errno
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delivery_images import (
    LAYERS,
    Entry,
    OciArchive,
    blob_path,
    contents,
    entry,
    link,
    load_image,
    oci_archive,
    save_entries,
    tar,
)
from tfprov.errors import DeliveryError
from tfprov.images.archive import load
from tfprov.images.archive_reader import UncompressedDigest
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import (
    DOCKER_LAYER,
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_LAYER,
    OCI_MANIFEST,
    OciImage,
    compression,
    describe,
    digest_of,
    encode,
    layer_type,
    write_manifest,
)

ONE = save_entries(("app:1", LAYERS))
TWO = save_entries(("app:1", LAYERS), ("docker.io/library/other", LAYERS[:2]))
ZSTD = b"\x28\xb5\x2f\xfd" + b"not looked into"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


def layer_contents(layout: Layout, data: bytes, name: str = "base", **how: Any) -> OciImage:
    return load(layout, io.BytesIO(data), name, where="a.tar", **how)


def stored(layout: Layout, image: OciImage) -> list[bytes]:
    """Return the layers as they are stored in the layout."""
    return [layout.blobs.path(layer.digest).read_bytes() for layer in image.layers]


def test_what_docker_saves_becomes_a_manifest_that_every_engine_pulls(layout: Layout) -> None:
    image = layer_contents(layout, tar(ONE))
    assert image.manifest.media_type == DOCKER_MANIFEST
    assert {layer.media_type for layer in image.layers} == {DOCKER_LAYER}
    assert [layer.digest for layer in image.layers] == list(image.diff_ids) == list(map(digest_of, LAYERS))
    assert stored(layout, image) == list(LAYERS)
    assert f"{image.id.removeprefix('sha256:')}.json" in ONE
    assert (image.platform, image.labels) == ("linux/amd64", {})
    assert image.size == sum(map(len, LAYERS)) + image.config.size + image.manifest.size
    assert layout.find("base") == image
    assert len(contents(layout)) == 5, "what is not of the image is not kept"


def test_a_layer_that_two_images_share_is_a_link_in_the_archive(layout: Layout) -> None:
    assert any(isinstance(it, tarfile.TarInfo) for it in TWO.values())
    assert stored(layout, layer_contents(layout, tar(TWO), wanted="other")) == list(LAYERS[:2])


def test_an_image_with_the_same_layer_twice_has_it_twice(layout: Layout) -> None:
    layers = (LAYERS[0], LAYERS[1], LAYERS[0])
    image = layer_contents(layout, tar(save_entries(("app:1", layers))))
    assert stored(layout, image) == list(layers)
    assert image.size < sum(map(len, layers)) + 2000, "a host is sent it once"


def test_an_oci_archive_keeps_its_manifest_and_so_its_digest(layout: Layout) -> None:
    archive = OciArchive()
    manifest = archive.image(LAYERS)
    archive.name(manifest)
    image = layer_contents(layout, archive.tar())
    assert (image.manifest, image.manifest.media_type) == (manifest, OCI_MANIFEST)
    assert stored(layout, image) == list(LAYERS)


def test_compressed_layers_stay_compressed_and_their_content_is_verified(layout: Layout) -> None:
    image = layer_contents(layout, oci_archive(compressed=True))
    assert [layer.media_type for layer in image.layers] == [f"{OCI_LAYER}+gzip"] * 3
    assert list(map(gzip.decompress, stored(layout, image))) == list(LAYERS)
    assert list(image.diff_ids) == list(map(digest_of, LAYERS))


def test_compressed_layers_in_dockers_layout_get_dockers_media_type(layout: Layout) -> None:
    files = {name: gzip.compress(it) if it in LAYERS else it for name, it in ONE.items() if isinstance(it, bytes)}
    image = layer_contents(layout, tar(files))
    assert {layer.media_type for layer in image.layers} == {f"{DOCKER_LAYER}.gzip"}
    assert list(image.diff_ids) == list(map(digest_of, LAYERS))


def test_a_layer_in_zstd_is_passed_on_for_the_engine_to_check(layout: Layout) -> None:
    archive = OciArchive()
    archive.name(archive.image(LAYERS[:1], "+zstd", [ZSTD]))
    image = layer_contents(layout, archive.tar())
    assert (compression(image.layers[0]), stored(layout, image)) == ("zstd", [ZSTD])


def test_an_archive_with_both_layouts_is_read_with_dockers_names(layout: Layout) -> None:
    archive = OciArchive()
    first, second = archive.image(LAYERS), archive.image(LAYERS[:1])
    for manifest, name, tag in ((first, "app", "1"), (first, "app", "latest"), (second, "user/tool", "2")):
        names = {"io.containerd.image.name": f"docker.io/{name}:{tag}", "org.opencontainers.image.ref.name": tag}
        archive.index.append(entry(manifest) | {"annotations": names})
    archive.files["manifest.json"] = b"not looked at"
    assert layer_contents(layout, archive.tar(), wanted="app").manifest == first
    assert layer_contents(layout, archive.tar(), wanted="user/tool:2").manifest == second
    with pytest.raises(
        DeliveryError, match=r"a.tar: it holds 2 images: app:1, .*app:latest.*; user/tool:2, .*; name one"
    ):
        layer_contents(layout, archive.tar())


DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"


def _variants(*platforms: str, kind: str = OCI_INDEX) -> tuple[OciArchive, list[Any]]:
    archive = OciArchive()
    manifests = [archive.image(LAYERS[: number + 1]) for number, _ in enumerate(platforms)]
    pairs = [dict(zip(("os", "architecture"), it.split("/"), strict=True)) for it in platforms]
    listed = [entry(it) | {"platform": pair} for it, pair in zip(manifests, pairs, strict=True)]
    index = archive.blob(kind, encode({"schemaVersion": 2, "manifests": listed}))
    archive.name(index, io_containerd_image_name="docker.io/library/app:1")
    return archive, manifests


def test_the_requested_platform_is_chosen_of_several(layout: Layout) -> None:
    archive, manifests = _variants("linux/arm64", "linux/amd64", "unknown/unknown")
    assert layer_contents(layout, archive.tar()).manifest == manifests[1]
    assert layer_contents(layout, archive.tar(), platform="linux/arm64").manifest == manifests[0]
    with pytest.raises(DeliveryError, match=r"^a\.tar: no image for linux/s390x; it has: linux/amd64, linux/arm64$"):
        layer_contents(layout, archive.tar(), platform="linux/s390x")


def test_a_list_of_dockers_has_the_variants_too(layout: Layout) -> None:
    archive, manifests = _variants("linux/arm64", "linux/amd64", kind=DOCKER_INDEX)
    assert layer_contents(layout, archive.tar()).manifest == manifests[1]


@pytest.mark.parametrize(
    ("forms", "kind", "settings", "layers"),
    [
        (
            ("", "gzip"), "docker.distribution.manifest.v2+json", "docker.container.image.v1+json",
            ["docker.image.rootfs.diff.tar", "docker.image.rootfs.diff.tar.gzip"],
        ),
        (
            ("", "gzip", "zstd"), "oci.image.manifest.v1+json", "oci.image.config.v1+json",
            ["oci.image.layer.v1.tar", "oci.image.layer.v1.tar+gzip", "oci.image.layer.v1.tar+zstd"],
        ),
    ],
    ids=["Docker's", "OCI's"],
)  # fmt: skip
def test_a_manifest_has_the_media_types_of_its_specification(
    forms: Sequence[str], kind: str, settings: str, layers: Sequence[str]
) -> None:
    blobs = tuple(describe(layer_type(form), form.encode()) for form in forms)
    manifest, document = write_manifest(describe("any", b"{}"), blobs)
    parts = [{"digest": digest_of(form.encode()), "size": len(form)} for form in forms]
    assert json.loads(document) == {
        "schemaVersion": 2,
        "mediaType": f"application/vnd.{kind}",
        "config": {"mediaType": f"application/vnd.{settings}", "digest": digest_of(b"{}"), "size": 2},
        "layers": [{"mediaType": f"application/vnd.{name}", **part} for name, part in zip(layers, parts, strict=True)],
    }
    assert manifest == describe(f"application/vnd.{kind}", document)


def test_a_listed_platform_missing_from_the_archive_is_skipped(layout: Layout) -> None:
    archive, manifests = _variants("linux/arm64", "linux/amd64")
    del archive.files[blob_path(manifests[1].digest)]
    assert layer_contents(layout, archive.tar()).manifest == manifests[0]


def test_other_entries_of_an_index_are_skipped(layout: Layout) -> None:
    archive = OciArchive()
    manifest = archive.image(LAYERS)
    archive.name(archive.blob("application/vnd.example.signature", b"not JSON"))
    archive.index.append(entry(archive.image(())) | {"platform": {"os": "unknown", "architecture": "unknown"}})
    archive.name(manifest)
    assert layer_contents(layout, archive.tar()).manifest == manifest


@pytest.mark.parametrize("wanted", ["app:1", "app:1 by its id"])
def test_one_of_several_images_is_chosen(layout: Layout, wanted: str) -> None:
    image_id = next(f"sha256:{name[:64]}" for name in TWO if name.endswith(".json") and len(name) > 64)
    assert layer_contents(layout, tar(TWO), wanted=wanted if wanted == "app:1" else image_id).id == image_id


def test_an_ambiguous_choice_lists_the_images(layout: Layout) -> None:
    with pytest.raises(DeliveryError, match=r"^a\.tar: it holds 2 images: app:1; other:latest; name one of them$"):
        layer_contents(layout, tar(TWO))
    with pytest.raises(DeliveryError, match=r"^a\.tar: no image app:2; it has: app:1; other:latest$"):
        layer_contents(layout, tar(TWO), wanted="app:2")
    with pytest.raises(DeliveryError, match=r"^a\.tar: no image app:2; it has: sha256:[0-9a-f]{64}$"):
        layer_contents(layout, tar(save_entries((None, LAYERS))), wanted="app:2")
    with pytest.raises(DeliveryError, match=r"^a\.tar: no image app:2; it has: none$"):
        layer_contents(layout, with_entry(ONE, "manifest.json", b"[]"), wanted="app:2")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_the_archive_itself_may_be_compressed(layout: Layout, compress: Any) -> None:
    assert stored(layout, layer_contents(layout, compress(tar(ONE)))) == list(LAYERS)


def test_names_may_begin_with_a_dot_as_in_tar(layout: Layout) -> None:
    assert layer_contents(layout, tar({f"./{name}": it for name, it in ONE.items()}))


def test_directories_in_an_archive_count_for_nothing(layout: Layout) -> None:
    folder = tarfile.TarInfo()
    folder.type = tarfile.DIRTYPE
    assert layer_contents(layout, tar({"a": folder, "b/c": folder, **ONE})) == layer_contents(layout, tar(ONE))


# Damage and malice


def assert_refused(layout: Layout, data: bytes, match: str) -> None:
    """Assert that the error is one line with the archive's name, and that the layout is unchanged."""
    before = contents(layout), layout.images()
    with pytest.raises(DeliveryError, match=rf"\Aa\.tar: {match}\Z"):
        layer_contents(layout, data)
    assert (contents(layout), layout.images()) == before


def with_entry(files: dict[str, Entry], name: str, data: bytes) -> bytes:
    (path,) = [path for path in files if path.endswith(name)]
    return tar(files | {path: data})


NO_ARCHIVE = r"not a whole archive \(tar, plain or compressed with gzip, bzip2 or xz\)"
NO_FILE = "is a link or a device: not an image archive"
ANOTHER = "is damaged: its content has another digest"
REFUSED: Sequence[tuple[str, bytes, str]] = (
    ("nothing", b"", rf"{NO_ARCHIVE}: .+"),
    ("no tar", b"x" * 2000, rf"{NO_ARCHIVE}: .+"),
    ("zstd", ZSTD * 100, rf"{NO_ARCHIVE}: .+"),
    ("a gzip header that is cut off", b"\x1f\x8b\x08\0", rf"{NO_ARCHIVE}: .+"),
    (
        "a file system",
        tar({"bin/sh": b""}),
        (
            r"not an image archive: it has neither index\.json nor manifest\.json; "
            r"make it with `docker save` \(a file system from `docker export` has no command, no environment and no user\)"
        ),
    ),
    ("an absolute name", tar({"/etc/passwd": b""}), "/etc/passwd leads out of the archive"),
    ("a name that climbs", tar({"blobs/../../x": b""}), r"blobs/\.\./\.\./x leads out of the archive"),
    ("a link", tar({"bin/sh": link("busybox")}), f"bin/sh {NO_FILE}"),
    ("a hard link", tar({"bin/sh": link("busybox", tarfile.LNKTYPE)}), f"bin/sh {NO_FILE}"),
    ("a link beside a layer", tar({"bin/sh": link(f"../{0:064}/layer.tar")}), f"bin/sh {NO_FILE}"),
    ("a device", tar({"null": link("", tarfile.CHRTYPE)}), f"null {NO_FILE}"),
    (
        "a layer that links out", tar({f"{0:064}/layer.tar": link("../../etc/shadow")}),
        rf"\.\.\.0{{47}}/layer\.tar {NO_FILE}",
    ),
    ("a name twice", tar([("a", b"1"), ("a", b"2")]), "a is in it twice"),
    (
        "another layer",
        with_entry(ONE, "0/layer.tar", LAYERS[1]),
        f"layer {digest_of(LAYERS[0])} {ANOTHER}",
    ),
    (
        "another config",
        with_entry(ONE, next(it for it in ONE if len(it) == 69), b"{}"),
        rf"\.\.\.[0-9a-f]{{52}}\.json {ANOTHER}",
    ),
    ("no images", with_entry(ONE, "manifest.json", b"[]"), "it holds no image"),
    ("no JSON", with_entry(ONE, "manifest.json", b"\xff"), r"manifest\.json is not valid: Invalid JSON: .+"),
    (
        "two faults",
        with_entry(ONE, "manifest.json", b"[{}]"),
        r"manifest\.json is not valid at 0\.Config: Field required",
    ),
    ("no list", with_entry(ONE, "manifest.json", b"{}"), r"manifest\.json is not valid: Input should be a valid array"),
    (
        "a number for a name", with_entry(ONE, "manifest.json", b'[{"Config": 1, "Layers": []}]'),
        r"manifest\.json is not valid at 0\.Config: Input should be a valid string",
    ),
    ("deep JSON", with_entry(ONE, "manifest.json", b"[" * 100_000), r"manifest\.json is not valid: Invalid JSON: .+"),
    ("huge JSON", with_entry(ONE, "manifest.json", b" " * 5_000_000), "an image's JSON is not valid: it has 5000000 bytes"),
    (
        "a missing layer",
        tar({k: it for k, it in ONE.items() if it is not LAYERS[0]}),
        r"the archive is cut off or damaged: \.\.\.0{47}/layer\.tar is missing",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("data", "match"), [it[1:] for it in REFUSED], ids=[it[0] for it in REFUSED])
def test_a_bad_archive_is_one_clear_error_and_leaves_nothing(layout: Layout, data: bytes, match: str) -> None:
    load_image(layout)
    assert_refused(layout, data, match)


class Unreadable(io.BytesIO):
    """An archive on a disk that fails."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


def test_an_archive_that_cannot_be_read_is_an_error_with_the_reason(layout: Layout) -> None:
    with pytest.raises(DeliveryError, match=r"^a\.tar: Input/output error$"):
        load(layout, Unreadable(), "base", where="a.tar")


def test_a_root_file_system_is_refused_before_it_fills_the_disk(layout: Layout) -> None:
    root = tar([(f"{number}", b"") for number in range(10_001)])
    assert_refused(layout, root, "more than 10000 files: not an image archive")


def test_an_archive_that_is_not_named_is_called_the_archive(layout: Layout) -> None:
    with pytest.raises(DeliveryError, match=r"^the archive: it holds no image$"):
        load(layout, io.BytesIO(with_entry(ONE, "manifest.json", b"[]")), "base")


@pytest.mark.parametrize(("more", "message"), [(0, ""), (1, "an image's JSON is not valid: it has 4194305 bytes")])
def test_a_document_may_have_4_mib(layout: Layout, more: int, message: str) -> None:
    with layout.blobs.receive() as blob:
        blob.write(bytes(4 * 1024**2 + more))
        try:
            read = str(len(blob.read()) - 4 * 1024**2 or "")
        except DeliveryError as error:
            read = str(error)
    assert read == message


def test_a_configuration_may_lack_all_but_its_layers(layout: Layout) -> None:
    manifest = OciArchive().image(())
    document = encode({"config": entry(manifest), "layers": []})
    image = OciImage.read(manifest, document, b'{"rootfs": {"diff_ids": []}}')
    assert (image.platform, image.labels, image.layers) == ("/", {}, ())
    with pytest.raises(DeliveryError, match=r"^an image's JSON is not valid at rootfs: Field required$"):
        OciImage.read(manifest, document, b"{}")


def test_the_numbers_of_layers_and_diff_ids_must_be_equal(layout: Layout) -> None:
    files = save_entries(("app:1", LAYERS))
    documents = save_entries(("app:1", LAYERS[:2]))
    path = next(it for it in documents if len(it) == 69)
    manifest = files["manifest.json"]
    assert isinstance(manifest, bytes)
    other = manifest.replace(next(it for it in files if len(it) == 69).encode(), path.encode())
    assert_refused(
        layout,
        tar(files | {path: documents[path], "manifest.json": other}),
        "the image has 3 layers, and 2 in its configuration",
    )


def test_an_artifact_that_is_no_container_image_is_refused(layout: Layout) -> None:
    archive = OciArchive()
    archive.name(archive.image(LAYERS[:1], ".wasm"))
    assert_refused(layout, archive.tar(), rf"not an image a container can run: it has a part of type {OCI_LAYER}\.wasm")


@pytest.mark.parametrize(
    "inside",
    [b"", b"other", gzip.compress(LAYERS[0])[:-1], gzip.compress(LAYERS[1])],
    ids=["nothing", "not gzip", "cut off", "another layer"],
)
def test_a_compressed_layer_with_another_content_is_refused(layout: Layout, inside: bytes) -> None:
    archive = OciArchive()
    archive.name(archive.image(LAYERS[:1], "+gzip", [inside]))
    assert_refused(layout, archive.tar(), f"layer {digest_of(LAYERS[0])} {ANOTHER}")


def test_a_manifest_that_is_wrong_about_a_size_is_refused(layout: Layout) -> None:
    archive = OciArchive()
    manifest = archive.image(LAYERS[:1])
    document = archive.files.pop(blob_path(manifest.digest))
    assert isinstance(document, bytes)
    size = f'"size":{len(LAYERS[0])}'.encode()
    archive.name(archive.blob(OCI_MANIFEST, document.replace(size, b'"size":7')))
    assert_refused(layout, archive.tar(), f"layer {digest_of(LAYERS[0])} {ANOTHER}")


def test_an_index_that_is_wrong_about_a_size_is_refused(layout: Layout) -> None:
    archive = OciArchive()
    archive.index.append(entry(archive.image(LAYERS)) | {"size": 7})
    assert_refused(layout, archive.tar(), "image sha256:[0-9a-f]{64} is damaged: its manifest has wrong sizes")


ARCHIVES = (tar(ONE), oci_archive(), oci_archive(compressed=True), gzip.compress(tar(ONE), mtime=0))


def load_or_none(layout: Layout, data: bytes) -> OciImage | None:
    try:
        return layer_contents(layout, data)
    except DeliveryError:
        return None


@given(archive=st.sampled_from(ARCHIVES), cut=st.floats(0, 1))
def test_an_archive_cut_off_anywhere_gives_the_whole_image_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, archive: bytes, cut: float
) -> None:
    layout = Layout(tmp_path_factory.mktemp("images"))
    image = load_or_none(layout, archive[: int(cut * len(archive))])
    assert image is None or layout.verify(image), "only what follows the last file may be missing"
    assert image is not None or contents(layout) == {}


def test_an_archive_cut_off_in_its_gzip_header_is_an_error(layout: Layout) -> None:
    for flags in (0, 4, 8, 16, 31):  # with fields that follow
        header = b"\x1f\x8b\x08" + bytes([flags]) + ARCHIVES[-1][4:30]
        for cut in range(len(header)):
            assert load_or_none(layout, header[:cut]) is None
    assert contents(layout) == {}


@given(archive=st.sampled_from(ARCHIVES), place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_a_damaged_byte_anywhere_gives_the_same_image_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, archive: bytes, place: float, bits: int
) -> None:
    layout = Layout(tmp_path_factory.mktemp("images"))
    data = bytearray(archive)
    data[int(place * len(data))] ^= bits
    image = load_or_none(layout, bytes(data))
    if image is None:
        assert contents(layout) == {}
    else:  # a header's time, or padding; the index of an OCI layout may name another type than the manifest has
        assert stored(layout, image) == [layout.blobs.path(layer.digest).read_bytes() for layer in image.layers]
        assert list(image.diff_ids) == list(map(digest_of, LAYERS))
        assert layout.verify(image)


@given(st.lists(st.binary(max_size=300)), st.integers(1, 50))
def test_gzip_content_is_hashed_however_the_bytes_arrive(parts: list[bytes], step: int) -> None:
    packed = b"".join(gzip.compress(part) for part in parts)
    inside = UncompressedDigest()
    for start in range(0, len(packed), step):
        inside.write(packed[start : start + step])
    assert inside.digest == digest_of(b"".join(parts))


def test_a_damaged_gzip_stream_has_no_digest_whatever_follows() -> None:
    whole = gzip.compress(b"content")
    other = zlib.compress(b"content")  # no gzip, although zlib could tell
    for data in (whole[:-1], whole[:-8] + b"damaged!", whole + b"x" * 20, b"x" * 20, other, whole + other):
        inside = UncompressedDigest()
        inside.write(data)
        assert inside.digest is None
        inside.write(whole if data != whole[:-1] else b"x")
        assert inside.digest is None


def test_many_zeros_in_few_bytes_are_hashed_in_little_memory() -> None:
    zeros = bytes(16_000_000)
    packed, digest = gzip.compress(zeros, 1), digest_of(zeros)
    tracemalloc.start()
    inside = UncompressedDigest()
    inside.write(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (inside.digest, peak < 1_000_000) == (digest, True)


def test_memory_does_not_grow_with_the_archive(layout: Layout) -> None:
    layer = bytes(16_000_000)
    stream = io.BytesIO(tar(save_entries(("app:1", [layer]))))
    tracemalloc.start()
    load(layout, stream, "base")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
