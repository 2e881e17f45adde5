"""Exports from an engine that stores images in containerd and pushes over real HTTP."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.content_engine import (
    AMD64,
    EMPTY,
    ContentEngine,
    Push,
    push_content,
    put_manifest,
    upload_part,
)
from tests.support.delivery_images import blob_path, contents, load_image, tar
from tests.support.pushing_engine import Client
from tfprov.errors import Unreachable
from tfprov.images.exports.content_upload import ContentRegistry, PartUpload
from tfprov.images.exports.export import export
from tfprov.images.exports.layer_upload import DamagedUpload
from tfprov.images.exports.upload_registry import MAX_UPLOADS, Refused
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import MAX_DOCUMENT, OCI_MANIFEST, OciManifest, digest_of, parse

BASE = tar({"lib": os.urandom(200_000)})
OLD, NEW = tar({"code": b"old"}), tar({"code": b"new"})


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layout with the image before the edit."""
    directory = tmp_path_factory.mktemp("before") / "images"
    engine = ContentEngine([BASE, OLD])
    assert export(engine.machine, engine.id, Layout(directory), "before").manifest.digest == engine.id
    assert (engine.saved, engine.pushed) == (1, 0), "there was nothing to begin with"
    return directory


@pytest.fixture
def layout(before: Path, tmp_path: Path) -> Layout:
    """A copy of it."""
    return Layout(shutil.copytree(before, tmp_path / "images"))


def exported(engine: ContentEngine, layout: Layout) -> tuple[int, list[str]]:
    """Export the image of `engine`, which still has it afterwards; return the bytes received and the notes."""
    received: list[int] = []
    notes: list[str] = []
    image = export(engine.machine, engine.id, layout, "after", lambda size, total: received.append(size), notes.append)
    assert image.manifest.digest == engine.manifests[0].digest
    assert layout.find("after") == image
    assert layout.verify(image)
    assert list(layout.blobs.incoming.iterdir()) == []
    assert (engine.names, engine.present) == ({}, {engine.id})
    return (received or [0])[-1], notes


def test_after_an_edit_only_the_new_layer_and_the_configuration_are_uploaded(layout: Layout, tmp_path: Path) -> None:
    engine = ContentEngine([BASE, NEW])
    received, notes = exported(engine, layout)
    new = parse(OciManifest, engine.content(engine.manifests[0]))
    assert engine.uploaded == [new.layers[1].digest, new.config.digest]
    assert (received, notes) == (new.layers[1].size + new.config.size, [])
    assert (engine.saved, engine.pushed) == (0, 1)
    whole = export(engine.machine, engine.id, Layout(tmp_path / "elsewhere"), "after")
    assert (engine.saved, whole) == (1, layout.find("after")), "it is the same as `docker save` has it"


def test_the_progress_ends_at_what_has_come_or_at_the_unpacked_size(layout: Layout) -> None:
    engine = ContentEngine([BASE, tar({"code": bytes(50_000)})])
    engine.sizes += [0, 0]  # steps without a layer
    progress: list[tuple[int, int]] = []
    export(engine.machine, engine.id, layout, "after", lambda size, total: progress.append((size, total)))
    assert {total for _, total in progress} == {engine.sizes[1]}, "of the layer that was missing"
    packed = ContentEngine([BASE, b"1"])
    export(packed.machine, packed.id, layout, "after", lambda size, total: progress.append((size, total)))
    assert progress[-1][0] == progress[-1][1] > 1


def test_an_image_that_is_there_is_not_uploaded_again(layout: Layout) -> None:
    engine = ContentEngine([BASE, OLD])
    assert exported(engine, layout) == (0, [])
    assert (engine.saved, engine.uploaded) == (0, [])


def test_a_layer_below_known_ones_is_uploaded_alone(layout: Layout) -> None:
    engine = ContentEngine([tar({"first": b"1"}), BASE, OLD])
    exported(engine, layout)
    assert len(engine.uploaded) == 2
    assert engine.saved == 0


def test_a_layer_in_another_form_is_another_part(layout: Layout) -> None:
    engine = ContentEngine([BASE, OLD], level=1)
    received, _ = exported(engine, layout)
    assert received > 200_000
    assert engine.saved == 0


def test_an_image_of_which_no_layer_is_there_is_saved_whole(layout: Layout) -> None:
    engine = ContentEngine([tar({"lib": b"another"}), NEW])
    assert exported(engine, layout)[1] == []
    assert (engine.saved, engine.pushed) == (1, 0)


def test_layers_from_an_engine_with_a_store_of_its_own_count_as_there(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images")
    load_image(layout, layers=[BASE])
    engine = ContentEngine([BASE, NEW])
    exported(engine, layout)
    assert (engine.saved, len(engine.uploaded)) == (0, 3), "it has another form here"


def test_an_index_is_taken_for_its_only_image(layout: Layout) -> None:
    engine = ContentEngine([BASE, NEW])
    engine.add_index(engine.archive.image([b"{}"], "+in-toto"))
    assert exported(engine, layout)[1] == []
    assert engine.saved == 0


def test_of_an_index_with_two_images_the_whole_is_saved(layout: Layout) -> None:
    engine = ContentEngine([BASE, NEW])
    engine.add_index(engine.archive.image([OLD]), platform=AMD64 | {"architecture": "arm64"})
    assert exported(engine, layout)[1] == ["the whole image is exported, which is slower: the engine uploaded 2 images"]
    assert engine.saved == 1


def _nothing(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    yield "dial tcp 127.0.0.1: connection refused"


def _half(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    """Break the connection within a part."""
    client.connection.putrequest("PUT", f"{client.begin()}?digest=sha256:{0:064x}")
    for key, value in {**client.headers, "Content-Length": "1000000"}.items():
        client.connection.putheader(key, value)
    client.connection.endheaders(b"\x1f\x8b")
    yield "connection reset by peer"


def _another_digest(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    image = engine.manifests[0]
    layer = parse(OciManifest, engine.content(image)).layers[1]
    engine.archive.files[blob_path(layer.digest)] = b"of somebody else"
    yield from upload_part(client, engine, layer)


def _manifest_alone(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    image = engine.manifests[0]
    yield from upload_part(client, engine, parse(OciManifest, engine.content(image)).config)
    yield from put_manifest(client, name, image, engine.content(image))


def _no_configuration(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    image = engine.manifests[0]
    yield from put_manifest(client, name, image, engine.content(image))


def _another_image(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    yield from push_content(client, ContentEngine([BASE, OLD]), name)


def _no_manifest(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
    client.ask("GET", "/v2/")
    yield from ()


@pytest.mark.parametrize(
    ("push", "reason"),
    [
        (_nothing, "its engine does not reach this machine through the loopback"),
        (_half, "connection reset by peer"),
        (_another_digest, "DIGEST_INVALID"),
        (_manifest_alone, f"layer {digest_of(NEW)} is missing"),
        (_no_configuration, "No such file or directory; make it readable and writable"),
        (_another_image, "its engine uploaded other layers"),
        (_no_manifest, "its engine uploaded other layers"),
    ],
    ids=["unreachable", "broken", "another digest", "no layer", "no configuration", "another image", "no manifest"],
)
def test_an_interrupted_push_of_parts_keeps_nothing_and_the_whole_image_is_saved(
    layout: Layout, push: Push, reason: str
) -> None:
    before = set(contents(layout))
    engine = ContentEngine([BASE, NEW], push)
    pristine = dict(engine.archive.files)

    def saved(image: str, chunk_size: int) -> Iterator[bytes]:
        engine.archive.files = pristine
        assert set(contents(layout)) == before, "nothing of the push was kept"
        pieces: Iterator[bytes] = save(image, chunk_size)
        return pieces

    save, engine.api.get_image = engine.api.get_image, saved
    _, notes = exported(engine, layout)
    (note,) = notes
    assert note.startswith("the whole image is exported, which is slower: ")
    assert note.endswith(reason)
    assert (engine.saved, engine.pushed) == (1, 1)


def test_a_layer_with_other_content_than_its_configuration_says_is_damaged(layout: Layout) -> None:
    engine = ContentEngine([BASE, NEW])
    manifest = json.loads(engine.content(engine.manifests[0]))
    other = ContentEngine([BASE, tar({"code": b"another"})])
    layers = json.loads(other.content(other.manifests[0]))["layers"]
    document = json.dumps(manifest | {"layers": layers}).encode()
    engine.archive.files |= other.archive.files
    engine.manifests = [engine.archive.blob(OCI_MANIFEST, document)]
    notes: list[str] = []
    with pytest.raises(Exception, match="is damaged: its content has another digest"):
        export(engine.machine, engine.id, layout, "after", note=notes.append)
    assert notes == [
        f"the whole image is exported, which is slower: layer {digest_of(NEW)} is damaged: its content has another digest"
    ]


def test_where_the_connection_is_lost_no_part_is_kept(layout: Layout) -> None:
    engine = ContentEngine([BASE, NEW])
    engine.can_import = False  # the connection is lost when the name is to be removed
    with pytest.raises(Unreachable):
        export(engine.machine, engine.id, layout, "after")
    assert engine.saved == 0
    assert layout.find("after") is None


def test_names_of_a_killed_export_are_removed_and_their_images_stay(layout: Layout) -> None:
    engine = ContentEngine([BASE, NEW])
    left = f"127.0.0.1:40001/tfprov/{7:032x}"
    engine.names = {f"{left}:export": "sha256:old", f"{left}:empty": EMPTY, f"{left}:1": "sha256:old"}
    engine.present |= {"sha256:old", EMPTY}
    export(engine.machine, engine.id, layout, "after")
    assert (engine.names, engine.present) == ({f"{left}:1": "sha256:old"}, {engine.id, "sha256:old"})


# --- the registry ----------------------------------------------------------------------------------------------------


def unserved(layout: Layout, limit: int = 1000) -> ContentRegistry:
    return ContentRegistry(layout.blobs, "sha256:7", {"sha256:5": 50}, limit, lambda size: None)


def test_a_part_is_there_when_it_is_known_or_was_uploaded(layout: Layout) -> None:
    registry = unserved(layout)
    assert (registry.size("sha256:5"), registry.size(digest_of(b"12"))) == (50, None)
    identifier = registry.begin()
    assert registry.receive(identifier, [b"1", b"2"]) == 2
    registry.commit(identifier, digest_of(b"12"))
    assert registry.size(digest_of(b"12")) == 2
    assert list(registry.parts) == [digest_of(b"12")]
    registry.close()
    assert list(layout.blobs.incoming.iterdir()) == []


def test_a_part_has_as_many_bytes_as_the_limit_and_no_more(layout: Layout) -> None:
    registry = unserved(layout, 10)
    assert registry.receive(registry.begin(), [b"12345", b"67890"]) == 10
    with pytest.raises(Refused, match=r"^the layer is damaged: more than 10 bytes$"):
        registry.receive(registry.begin(), [b"12345", b"678901"])
    registry.close()


GZIP, ZSTD = b"\x1f\x8b\x08\x00more", b"\x28\xb5\x2f\xfdmore"


@pytest.mark.parametrize(
    ("pieces", "compression"),
    [
        ([GZIP], "gzip"),
        ([GZIP[:1], GZIP[1:3], GZIP[3:]], "gzip"),
        ([ZSTD[:3], ZSTD[3:]], "zstd"),
        ([b"1", b"2345678"], ""),
    ],
)
def test_the_compression_is_known_however_the_first_bytes_come(
    layout: Layout, pieces: list[bytes], compression: str
) -> None:
    part = PartUpload(layout.blobs, 100)
    for piece in pieces:
        part.write(piece)
    part.finish()
    assert part.member.compression == compression
    assert part.member.blob.size == part.received == 8
    with pytest.raises(DamagedUpload):
        part.write(bytes(93))
    part.drop()


def refusal(registry: ContentRegistry, name: str, document: bytes) -> tuple[int, str, str]:
    with pytest.raises(Refused) as raised:
        registry.put_manifest(name, OCI_MANIFEST, document)
    return raised.value.status, raised.value.code, str(raised.value)


def test_a_manifest_is_taken_under_its_digest_or_a_tag(layout: Layout) -> None:
    registry = unserved(layout)
    assert not registry.is_complete
    assert registry.put_manifest("export", OCI_MANIFEST, b"{}") == digest_of(b"{}")
    assert registry.put_manifest(digest_of(b"[]"), OCI_MANIFEST, b"[]") == digest_of(b"[]")
    assert refusal(registry, digest_of(b"[]"), b"{}") == (400, "DIGEST_INVALID", "the manifest has another digest")
    assert not registry.is_complete, "they are of other images"
    for number in range(MAX_UPLOADS - 2):
        registry.put_manifest("export", OCI_MANIFEST, b"%d" % number)
    for _ in range(2):
        assert refusal(registry, "export", b"more") == (403, "DENIED", "no more manifests")
        registry.close()


def test_a_manifest_of_more_than_four_mebibytes_is_refused(layout: Layout) -> None:
    answers: list[tuple[int, object]] = []

    def push(client: Client, engine: ContentEngine, name: str) -> Iterator[str]:
        path = f"/v2/{client.name}/manifests/{name}"
        for size in (MAX_DOCUMENT, MAX_DOCUMENT + 1):
            status, answer = client.ask("PUT", path, bytes(size), **{"Content-Type": OCI_MANIFEST})
            answers.append((status, answer if status >= 400 else ""))
        client.connection.close()
        yield "refused"

    engine = ContentEngine([BASE, NEW], push)
    assert exported(engine, layout)[1] == ["the whole image is exported, which is slower: refused"]
    assert answers == [(201, ""), (413, "SIZE_INVALID")]
