"""The image layout: no incomplete blob and no lost name after kills and concurrent writes."""

import errno
import io
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.delivery_images import LAYERS, code, contents, load_image
from tests.support.forked import run_forked
from tfprov.errors import DeliveryError, Locked
from tfprov.images.blobs import CHUNK, disk_errors
from tfprov.images.code_layer import append
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_LAYER, digest_of


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


class Broken(io.RawIOBase):
    """A stream that breaks."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, size: int = -1) -> bytes:
        self.reads += 1
        if self.reads == 3:
            raise ConnectionResetError
        return b"x" * size


def test_a_stored_blob_is_read_by_its_digest(layout: Layout) -> None:
    data = os.urandom(3 * CHUNK + 1)
    blob = layout.blobs.put(io.BytesIO(data), DOCKER_LAYER)
    assert (blob.digest, blob.size, layout.blobs.has(blob)) == (digest_of(data), len(data), True)
    with layout.blobs.open(blob) as file:
        assert file.read() == data
    assert layout.blobs.write(data, DOCKER_LAYER) == blob
    assert contents(layout).keys() == {blob.digest.removeprefix("sha256:")}


def test_a_stream_that_breaks_leaves_nothing(layout: Layout) -> None:
    with pytest.raises(ConnectionResetError):
        layout.blobs.put(Broken(), DOCKER_LAYER)  # type: ignore[arg-type]  # all it needs is read
    assert contents(layout) == {}


def test_many_writers_of_one_blob_and_of_many_names_lose_nothing(layout: Layout) -> None:
    image = load_image(layout)
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(10):
            layout.blobs.write(b"the same", DOCKER_LAYER)
            Layout(layout.directory).name(f"{number}-{turn}", image)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(layout.images()) == 81
    assert not list(layout.blobs.incoming.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from tfprov.images.oci_layout import Layout
layout, where = Layout(Path(sys.argv[1])), sys.argv[2]
def die(*args, **options): os.kill(os.getpid(), signal.SIGKILL)
from tfprov.images import blobs, oci_layout as module
if where == "before the rename": blobs.sync = die
if where == "in the index": module.replace = die
with layout.in_use(), layout.blobs.receive() as blob:
    blob.write(b"half of ")
    if where == "in a blob": die()
    blob.write(b"it")
    blob.keep("t")
    layout.name("other", layout.find("base"))
"""


@pytest.mark.parametrize("where", ["in a blob", "before the rename", "in the index"])
def test_after_a_kill_everything_is_as_before_and_nothing_is_locked(layout: Layout, where: str) -> None:
    image = load_image(layout)
    assert run_forked(KILLED, str(layout.directory), where) == -signal.SIGKILL
    again = Layout(layout.directory)
    assert again.images() == {"base": image}
    again.prune(keep=5)
    assert len(contents(again)) == len(image.blobs)
    again.name("other", image)
    assert set(again.images()) == {"base", "other"}


def test_a_name_belongs_to_the_image_named_last(layout: Layout) -> None:
    first, second = load_image(layout), load_image(layout, layers=LAYERS[:1])
    assert first != second
    assert layout.find("base") == second
    assert layout.find("nobody") is None


def test_any_oci_tool_can_read_the_layout(layout: Layout) -> None:
    image = load_image(layout)
    assert json.loads((layout.directory / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    manifest = {
        "mediaType": image.manifest.media_type,
        "digest": image.manifest.digest,
        "size": image.manifest.size,
        "annotations": {"org.opencontainers.image.ref.name": "base"},
    }
    assert json.loads((layout.directory / "index.json").read_bytes()) == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    }
    assert {path.stat().st_mode & 0o777 for path in layout.directory.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.parametrize("part", ["layers", "config", "manifest"])
def test_an_incomplete_image_is_not_returned(layout: Layout, part: str) -> None:
    image = load_image(layout)
    blob = image.layers[0] if part == "layers" else getattr(image, part)
    path = layout.blobs.path(blob.digest)
    path.write_bytes(path.read_bytes()[:-1])
    assert layout.find("base") is None
    assert layout.images() == {}
    assert not layout.verify(image)


def test_verify_removes_a_blob_with_a_flipped_bit(layout: Layout) -> None:
    image = load_image(layout)
    assert layout.verify(image)
    path = layout.blobs.path(image.layers[1].digest)
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)
    assert layout.find("base") == image
    assert not layout.verify(image)
    assert layout.find("base") is None


def test_prune_keeps_the_images_used_last_and_returns_the_bytes_freed(layout: Layout) -> None:
    for age, name in enumerate(("c", "b", "a")):
        image = load_image(layout, name, [*LAYERS[:1], name.encode() * 512])
        os.utime(layout.blobs.path(image.manifest.digest), (1000 - age, 1000 - age))
    layout.find("a")
    before = sum(map(len, contents(layout).values()))
    assert layout.prune(keep=2) == before - sum(map(len, contents(layout).values())) > 512
    assert set(layout.images()) == {"a", "c"}
    assert layout.prune(keep=2) == 0
    assert layout.prune(keep=0) > 0
    assert contents(layout) == {}


def test_prune_removes_first_an_image_whose_manifest_is_gone(layout: Layout) -> None:
    images = {name: load_image(layout, name, [LAYERS[number]]) for number, name in enumerate(("old", "new"))}
    layout.blobs.path(images["new"].manifest.digest).unlink()
    layout.prune(keep=2)
    assert layout.images() == {"old": images["old"]}
    layout.prune(keep=1)
    assert layout.images() == {"old": images["old"]}
    layout.prune(keep=0)
    assert contents(layout) == {}


def test_prune_leaves_the_layers_another_image_needs(layout: Layout) -> None:
    base = load_image(layout)
    top = append(layout, base, code(main=b"1"), "top")
    os.utime(layout.blobs.path(base.manifest.digest), (1, 1))
    layout.prune(keep=1)
    assert layout.images() == {"top": top}


def test_prune_is_locked_during_a_run(layout: Layout) -> None:
    image = load_image(layout)
    with layout.in_use(), layout.in_use(), pytest.raises(Locked) as raised:
        Layout(layout.directory).prune(keep=0)
    assert str(raised.value) == f"{layout.directory} is in use by another run; prune when it is done"
    assert layout.find("base") == image
    with layout.blobs.open(image.layers[0]) as file:
        layout.prune(keep=0)
        assert file.read() == LAYERS[0]


def test_a_damaged_index_is_an_error_with_a_fix(layout: Layout) -> None:
    (layout.directory / "index.json").write_text("{")
    with pytest.raises(DeliveryError) as raised:
        layout.find("base")
    fix = f"remove {layout.directory}: images are made again when they are needed"
    assert str(raised.value) == f"{layout.directory}/index.json is damaged; {fix}"


def test_a_damaged_document_is_an_error_with_a_fix(layout: Layout) -> None:
    image = load_image(layout)
    path = layout.blobs.path(image.config.digest)
    path.write_bytes(b"{}")
    with pytest.raises(DeliveryError) as raised:
        layout.image(image.manifest)
    assert str(raised.value) == f"{path} is damaged; remove it: images are made again when they are needed"


FREE, ALLOW = "free some space there: `tfprov image prune`", "make it readable and writable"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "full", "images/x"), f"images/x: full; {FREE}"),
        (OSError(errno.EDQUOT, "over quota", "images/x"), f"images/x: over quota; {FREE}"),
        (OSError(errno.EACCES, "refused", "images/x"), f"images/x: refused; {ALLOW}"),
        (OSError(errno.EIO, "broken"), f"images: broken; {ALLOW}"),
        (OSError("odd"), f"images: odd; {ALLOW}"),
    ],
)
def test_an_error_of_the_disk_is_one_line_with_the_fix(error: OSError, message: str) -> None:
    with pytest.raises(DeliveryError) as raised, disk_errors(Path("images")):
        raise error
    assert str(raised.value) == message


def test_a_layout_that_cannot_be_created_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DeliveryError, match=f"^{tmp_path}/file/images: Not a directory; {ALLOW}$"):
        Layout(tmp_path / "file" / "images")
