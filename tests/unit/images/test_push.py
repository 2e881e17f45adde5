"""A delivery without a host: stages, archives for `docker load`, the registry, disk space, platform, pull errors."""

import gzip
import io
import json
import re
import tarfile
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery_images import LAYERS, OciArchive, blob_path, config, entry, load_image, settings, tar
from tests.support.memory_engine import MemoryEngine, MemoryMachine
from tfprov.errors import DeliveryError, HostError, Unreachable
from tfprov.images.archive import CHUNK, load, stream_archive
from tfprov.images.engine_images import explain_pull_error
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OCI_CONFIG, OCI_LAYER, OCI_MANIFEST, Descriptor, OciImage, encode
from tfprov.images.preflight import check_disk_space, check_platform, disk_space_needed, format_size
from tfprov.images.push import push
from tfprov.images.registry_routes import Request
from tfprov.images.registry_server import PushRegistry
from tfprov.images.sent_bytes import SentBytes
from tfprov.images.stages import layers_worth_finding, split_stages

MIB = 1024 * 1024


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


# --- the archive for `docker load` -----------------------------------------------------------------------------------


def archive(
    layout: Layout, image: OciImage, layers: Sequence[Descriptor], reference: str | None = "tfprov/x:1"
) -> bytes:
    pieces = list(stream_archive(layout, image, reference, layers))
    assert max(map(len, pieces)) <= CHUNK + tarfile.BLOCKSIZE, "the archive is streamed"
    return b"".join(pieces)


def entries_of(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar_file:
        members = tar_file.getmembers()
        assert len({it.name for it in members}) == len(members)
        return {it.name: file.read() for it in members if (file := tar_file.extractfile(it))}


def test_the_whole_archive_is_the_image_again(layout: Layout, tmp_path: Path) -> None:
    image = load_image(layout, layers=[*LAYERS, tar({"large": b"x" * 3 * CHUNK})])
    back = Layout(tmp_path / "back")
    assert load(back, io.BytesIO(archive(layout, image, image.layers)), "x", wanted="tfprov/x:1") == image


def test_the_archive_ends_with_two_zero_blocks(layout: Layout) -> None:
    whole = archive(layout, load_image(layout), ())
    with tarfile.open(fileobj=io.BytesIO(whole), mode="r:") as tar_file:
        last = tar_file.getmembers()[-1]
    end = last.offset_data + -(-last.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    assert whole[end:] == bytes(2 * tarfile.BLOCKSIZE)


def test_older_engines_read_the_same_image_from_manifest_json(layout: Layout, tmp_path: Path) -> None:
    image = load_image(layout)
    entries = entries_of(archive(layout, image, image.layers))
    del entries["index.json"]
    again = load(Layout(tmp_path / "back"), io.BytesIO(tar(entries)), "x", wanted="tfprov/x:1")
    assert (again.id, again.diff_ids) == (image.id, image.diff_ids)


@pytest.mark.parametrize("held", range(len(LAYERS) + 1))
def test_layers_that_the_host_has_are_named_and_not_sent(layout: Layout, held: int) -> None:
    image = load_image(layout)
    entries = entries_of(archive(layout, image, image.layers[held:]))
    (entry,) = json.loads(entries["manifest.json"])
    assert entry == {
        "Config": blob_path(image.id),
        "RepoTags": ["tfprov/x:1"],
        "Layers": [blob_path(layer.digest) for layer in image.layers],
    }
    assert [path in entries for path in entry["Layers"]] == [number >= held for number in range(len(LAYERS))]
    assert entries[entry["Config"]] == layout.blobs.read(image.config)
    assert all(entries[blob_path(it.digest)] == layout.blobs.path(it.digest).read_bytes() for it in image.layers[held:])


def test_a_stage_has_no_name(layout: Layout) -> None:
    image = load_image(layout)
    entries = entries_of(archive(layout, image, image.layers, None))
    assert json.loads(entries["manifest.json"])[0]["RepoTags"] is None
    assert "annotations" not in json.loads(entries["index.json"])["manifests"][0]


def test_a_repeated_layer_is_sent_once(layout: Layout) -> None:
    image = load_image(layout, layers=[LAYERS[0], LAYERS[1], LAYERS[0]])
    entries = entries_of(archive(layout, image, image.layers))
    assert len(json.loads(entries["manifest.json"])[0]["Layers"]) == 3


def test_a_truncated_blob_is_an_error(layout: Layout) -> None:
    image = load_image(layout)
    path = layout.blobs.path(image.layers[2].digest)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DeliveryError, match=r"is damaged; remove it: images are made again"):
        archive(layout, image, image.layers)
    path.unlink()
    with pytest.raises(DeliveryError, match="No such file"):
        archive(layout, image, image.layers)


# --- stages ----------------------------------------------------------------------------------------------------------

SIZES = [60, 10, 20, 80, 1, 1]
"""Sizes of layers, in units of 10 kB; a tar is a little larger than its content."""


def image_of_sizes(layout: Layout, sizes: Sequence[int]) -> OciImage:
    return load_image(layout, layers=[tar({str(number): b"x" * size * 10_000}) for number, size in enumerate(sizes)])


@pytest.mark.parametrize(
    ("stage", "ends"),
    [(1, [1, 2, 3, 4, 5, 6]), (30, [1, 3, 4, 6]), (61, [2, 4, 6]), (65, [2, 4, 6]), (200, [6])],
)
def test_a_stage_ends_when_its_layers_reach_the_size(layout: Layout, stage: int, ends: list[int]) -> None:
    image = image_of_sizes(layout, SIZES)
    parts = split_stages(layout, image, stage * 10_000)
    assert [len(it.layers) for it in parts] == ends
    assert parts[-1] is image
    for it in parts:
        assert it.layers == image.layers[: len(it.layers)]
        assert it.diff_ids == image.diff_ids[: len(it.layers)]
        assert it.platform == image.platform


def test_small_images_have_one_stage(layout: Layout) -> None:
    image = load_image(layout)
    assert split_stages(layout, image) == (image,)


def with_sizes(image: OciImage, *sizes: int) -> OciImage:
    """Return an image whose layers claim to have these sizes."""
    layers = tuple(it.model_copy(update={"size": size}) for it, size in zip(image.layers, sizes, strict=True))
    return replace(image, layers=layers)


@pytest.mark.parametrize(("missing", "stages"), [(0, [1, 3]), (1, [2, 3])])
def test_a_stage_has_32_mib_of_layers_unless_another_size_is_chosen(
    layout: Layout, missing: int, stages: list[int]
) -> None:
    image = with_sizes(load_image(layout), (32 << 20) - missing, 1, 1)
    assert [len(it.layers) for it in split_stages(layout, image)] == stages


@pytest.mark.parametrize(
    ("sizes", "number"), [((0, 0, 65_536), 0), ((9, 9, 65_537), 3), ((9, 65_536, 1), 2), ((9, 9, 9), 0)]
)
def test_layers_of_64_kib_together_are_not_worth_a_question(
    layout: Layout, sizes: tuple[int, ...], number: int
) -> None:
    assert layers_worth_finding(with_sizes(load_image(layout), *sizes)) == number


def test_images_with_the_same_lower_layers_have_the_same_lower_stages(layout: Layout) -> None:
    """So the next run finds and removes the stages of a killed one."""
    one, other = image_of_sizes(layout, SIZES), image_of_sizes(layout, [*SIZES[:-1], 2])
    assert one != other
    assert [it.id for it in split_stages(layout, one, 300_000)[:-1]] == [
        it.id for it in split_stages(layout, other, 300_000)[:-1]
    ]


def test_the_configuration_of_a_stage_has_only_its_layers(layout: Layout) -> None:
    first = split_stages(layout, image_of_sizes(layout, SIZES), 1)[0]
    configuration = settings(layout, first)
    assert configuration.pop("rootfs") == {"type": "layers", "diff_ids": list(first.diff_ids)}
    assert configuration == {"architecture": "amd64", "os": "linux", "config": {}, "history": []}
    assert layout.images().keys() == {"base"}


# --- the registry with a token ---------------------------------------------------------------------------------------


def status_of(registry: PushRegistry, kind: str, digest: str) -> int:
    return registry.answer(
        Request("GET", f"/v2/{registry.name}/{kind}/{digest}", {"authorization": authorization(registry)})
    ).status


def authorization(registry: PushRegistry) -> str:
    """Return the Authorization header of an engine with the token."""
    return "Basic " + b64encode(f"{registry.login['username']}:{registry.login['password']}".encode()).decode()


def test_without_the_token_every_request_gets_the_same_401(layout: Layout) -> None:
    image = load_image(layout)
    registry, other = (PushRegistry(layout, [image], image.layers[:2], lambda size: None) for _ in range(2))
    assert re.fullmatch(r"tfprov/[0-9a-f]{32}", registry.name)
    assert (registry.name, registry.login) != (other.name, other.login)
    manifest = f"/v2/{registry.name}/manifests/{image.manifest.digest}"
    blob = f"/v2/{registry.name}/blobs/{image.layers[0].digest}"
    targets = (
        manifest,
        blob,
        f"/v2/{registry.name}/tags/list",
        "/v2/_catalog",
        "/v2/",
        "/v2/tfprov/image/manifests/latest",
    )
    headers = (
        "",
        "Basic",
        "Basic dGZwcm92Og==",
        "Basic \xff",
        "Bearer " + authorization(registry)[6:],
        authorization(other),
    )
    answers = {
        (response.status, response.body, tuple(response.headers.items()))
        for target in targets
        for header in headers
        if (response := registry.answer(Request("GET", target, {"authorization": header} if header else {})))
    }
    ((status, body, response_headers),) = answers
    assert (status, dict(response_headers)["WWW-Authenticate"]) == (401, 'Basic realm="tfprov"')
    assert image.manifest.digest.encode() not in body
    assert (registry.is_authenticated, registry.refused) == (False, set())
    statuses = [
        registry.answer(Request("GET", it, {"authorization": authorization(registry)})).status for it in targets
    ]
    assert statuses == [200, 403, 404, 404, 200, 404]
    assert registry.is_authenticated


def test_a_request_for_a_layer_on_the_host_is_refused_and_recorded(layout: Layout) -> None:
    image = load_image(layout)
    registry = PushRegistry(layout, [image], image.layers[:2], lambda size: None)
    assert status_of(registry, "manifests", image.manifest.digest) == 200
    assert [status_of(registry, "blobs", it.digest) for it in (image.config, image.layers[2])] == [200, 200]
    assert not registry.refused
    assert [status_of(registry, "blobs", it.digest) for it in image.layers[:2]] == [403, 403]
    assert registry.refused == {layer.digest for layer in image.layers[:2]}


def test_a_layer_that_is_missing_again_higher_up_is_served(layout: Layout) -> None:
    """Empty layers have the same digest; an engine that has one may need it again higher up."""
    image = load_image(layout, layers=[LAYERS[0], LAYERS[1], LAYERS[0]])
    registry = PushRegistry(layout, [image], image.layers[:2], lambda size: None)
    assert [status_of(registry, "blobs", it.digest) for it in image.layers] == [200, 403, 200]


def test_all_stages_are_served(layout: Layout) -> None:
    parts = split_stages(layout, image_of_sizes(layout, SIZES), 300_000)
    registry = PushRegistry(layout, parts, (), lambda size: None)
    for part in parts:
        assert (
            status_of(registry, "manifests", part.manifest.digest)
            == status_of(registry, "blobs", part.config.digest)
            == 200
        )


# --- platform and disk space -----------------------------------------------------------------------------------------


def image_for(layout: Layout, platform: str) -> OciImage:
    os, architecture = platform.split("/")
    document = json.loads(config(LAYERS[:1])) | {"os": os, "architecture": architecture}
    built = OciArchive()
    part, about = built.blob(OCI_LAYER, LAYERS[0]), built.blob(OCI_CONFIG, encode(document))
    manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": entry(about), "layers": [entry(part)]}
    built.name(built.blob(OCI_MANIFEST, encode(manifest)))
    return load(layout, io.BytesIO(built.tar()), "base")


@pytest.mark.parametrize(
    ("machine", "platform", "fits"),
    [
        ("x86_64", "linux/amd64", True),
        ("aarch64", "linux/arm64", True),
        ("armv7l", "linux/arm", True),
        ("i686", "linux/386", True),
        ("riscv64", "linux/riscv64", True),
        ("s390x", "linux/s390x", True),
        ("amd64", "linux/amd64", True),
        ("aarch64", "linux/amd64", False),
        ("x86_64", "linux/arm64", False),
        ("x86_64", "windows/amd64", False),
        ("", "linux/arm64", True),
        ("x86_64", "linux/", True),
    ],
)
def test_an_image_for_another_platform_is_refused(layout: Layout, machine: str, platform: str, fits: bool) -> None:
    image = image_for(layout, platform)
    info = {"OSType": "linux", "Architecture": machine}
    if fits:
        check_platform("h1", info, image)
        return
    runs = {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}[machine]
    expected = f"^h1: its engine runs {runs}, and the image is for {platform}; make the image for {runs}, or take the"
    with pytest.raises(HostError, match=expected):
        check_platform("h1", info, image)


DF = """Filesystem     1024-blocks     Used Available Capacity Mounted on
{name}            1000000   900000    {free}      90% /var/lib/docker data
"""


@pytest.mark.parametrize("name", ["/dev/sda1", "tmpfs", "//nas/a share", "10.0.0.1:/x 7 8"])
def test_too_little_disk_space_is_an_error_with_both_amounts(name: str) -> None:
    output = DF.format(name=name, free=100 * 1024)
    commands = []

    def run(argv: Sequence[str]) -> tuple[int, str]:
        commands.append(list(argv))
        return 0, output

    check_disk_space("h1", "/var/lib/docker", 90 * MIB, run, margin=10 * MIB)
    expected = r"^h1: no room for the image: it needs 100.1 MiB, 100.0 MiB is free in /var/lib/docker; free some there"
    with pytest.raises(HostError, match=expected):
        check_disk_space("h1", "/var/lib/docker", 90 * MIB + 100_000, run, margin=10 * MIB)
    assert commands == [["df", "-Pk", "--", "/var/lib/docker"]] * 2


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (127, "sh: df: not found"),
        (1, DF.format(name="/dev/sda1", free=0)),
        (0, ""),
        (0, "something else entirely"),
        (0, "Filesystem 1024-blocks Used Available Capacity Mounted on\nx - - - - /x"),
    ],
    ids=["none", "refused", "silent", "other", "unknown"],
)
def test_unknown_disk_space_passes_the_check(code: int, output: str) -> None:
    check_disk_space("h1", "/var/lib/docker", 1 << 60, lambda argv: (code, output))


def test_a_host_without_df_passes_and_an_unreachable_host_fails() -> None:
    def failing(error: HostError) -> Any:
        def run(argv: Sequence[str]) -> tuple[int, str]:
            raise error

        return run

    check_disk_space("h1", "/x", 1 << 60, failing(HostError("h1", "`df` did not end within 60 s")))
    with pytest.raises(Unreachable):
        check_disk_space("h1", "/x", 1, failing(Unreachable("h1", "no answer")))


def test_negative_free_space_counts_as_none() -> None:
    """Blocks reserved for root make df report less than nothing."""
    with pytest.raises(HostError, match="0 KiB is free"):
        check_disk_space("h1", "/x", 1, lambda argv: (0, DF.format(name="/dev/sda1", free=-400)))


def test_an_engine_needs_space_for_layers_as_received_and_unpacked(layout: Layout) -> None:
    image = image_of_sizes(layout, [10, 20, 5])
    small, large, last = (layer.size for layer in image.layers)
    assert disk_space_needed(layout, [image.layers]) == 2 * (small + large + last)
    assert disk_space_needed(layout, [image.layers[:1], image.layers[1:]]) == small + 2 * (large + last)
    assert disk_space_needed(layout, []) == disk_space_needed(layout, [()]) == 0


def test_an_engine_that_keeps_layers_as_received_needs_space_for_those_of_all_stages(layout: Layout) -> None:
    image = image_of_sizes(layout, [10, 20, 5])
    stages = [image.layers[:1], image.layers[1:]]
    whole = sum(layer.size for layer in image.layers)
    assert disk_space_needed(layout, stages, keeps_received=True) == 2 * whole
    assert disk_space_needed(layout, [], keeps_received=True) == 0


def test_a_compressed_layer_needs_space_for_its_content(layout: Layout) -> None:
    content = tar({"zeros": bytes(MIB)})
    built = OciArchive()
    built.name(built.image([content], "+gzip", [gzip.compress(content)]))
    image = load(layout, io.BytesIO(built.tar()), "base")
    assert disk_space_needed(layout, [image.layers]) == len(content) + image.layers[0].size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 KiB"), (1, "1 KiB"), (1024, "1 KiB"), (1025, "2 KiB"), (MIB, "1.0 MiB"), (3 << 29, "1.5 GiB")],
)
def test_sizes_are_formatted_with_units(size: int, text: str) -> None:
    assert format_size(size) == text


# --- an engine that cannot pull --------------------------------------------------------------------------------------

NAME = "registry.example:5000/team/linear:1"
REQUEST = "https://registry.example:5000/v2/team/linear/manifests/1"
RESOLVE, FAILED = f'failed to resolve reference "{NAME}"', f'failed to do request: Head "{REQUEST}"'
PULL_ERRORS = [
    (
        "pull access denied for team/linear, repository does not exist or may require 'docker login': denied: requested",
        "the registry refuses access",
    ),
    ("Get https://registry.example:5000/v2/team/linear/manifests/1: no basic auth credentials", "refuses access to"),
    ("unauthorized: authentication required", "refuses access to"),
    ("manifest for registry.example:5000/team/linear:1 not found: manifest unknown: no such manifest", "has no image"),
    ("name unknown: repository name not known to registry", "has no image"),
    ("no matching manifest for linux/arm64/v8 in the manifest list entries", "has no variant for this host's platform"),
    ('Get "https://registry.example:5000/v2/": dial tcp: lookup registry.example: no such host', "does not reach"),
    ("Get https://registry.example:5000/v2/: dial tcp 10.0.0.1:5000: connect: connection refused", "does not reach"),
    (
        "Get https://registry.example:5000/v2/: net/http: request canceled while waiting for connection",
        "does not reach",
    ),
    ("Get https://registry.example:5000/v2/: net/http: TLS handshake timeout", "does not reach"),
    ("Get https://registry.example:5000/v2/: http: server gave HTTP response to HTTPS client", "does not trust"),
    ("Get https://registry.example:5000/v2/: x509: certificate signed by unknown authority", "does not trust"),
    ("write /var/lib/docker/tmp/GetImageBlob1: no space left on device", "no space left on its disk"),
    # An engine that stores images in containerd.
    (f"{RESOLVE}: {NAME}: not found", "has no image"),
    (f"{RESOLVE}: pull access denied, repository does not exist or may require authorization", "refuses access"),
    (f"{RESOLVE}: unexpected status from HEAD request to {REQUEST}: 401 Unauthorized", "refuses access"),
    (f"{RESOLVE}: {FAILED}: dial tcp: lookup registry.example: no such host", "does not reach"),
    (f"{RESOLVE}: {FAILED}: http: server gave HTTP response to HTTPS client", "does not trust"),
    ("no match for platform in manifest: not found", "no variant"),
]


@pytest.mark.parametrize(("text", "what"), PULL_ERRORS, ids=[text[-30:] for text, _ in PULL_ERRORS])
def test_a_pull_error_is_explained_with_a_fix(text: str, what: str) -> None:
    message, fix = explain_pull_error(NAME, text)
    assert what in message
    assert fix
    assert "{" not in message + fix.replace("{build: …}", "")
    assert "registry.example:5000" in message + fix or "space" in what


def test_an_unknown_pull_error_is_passed_on() -> None:
    assert explain_pull_error(NAME, "toomanyrequests: You have reached your pull rate limit.") == (
        "toomanyrequests: You have reached your pull rate limit",
        "",
    )


def test_a_name_without_a_registry_is_on_docker_hub() -> None:
    for name in ("python", "team/linear:1"):
        assert "docker login docker.io" in explain_pull_error(name, "unauthorized: authentication required")[1]


def test_bytes_that_are_sent_are_counted_with_the_hosts_that_sent_them() -> None:
    progress: list[tuple[int, int]] = []
    sent = SentBytes(lambda *numbers: progress.append(numbers))
    layer = Descriptor(media_type=OCI_LAYER, digest=f"sha256:{1:064}", size=100)
    sent.add(3)
    sent.expect([layer, layer])
    sent.add_from("h2", 40)
    sent.expect_less(20)
    sent.add_from("h2", 30)
    assert list(sent.through([b"12345", b"6789012345"])) == [b"12345", b"6789012345"]
    sent.add_from("h3", 2)
    assert (sent.sent, sent.from_hosts) == (90, {"h2": 70, "h3": 2})
    assert progress == [(3, 3), (43, 103), (73, 83), (78, 83), (88, 88), (90, 90)]


def test_a_margin_of_disk_space_stays_free() -> None:
    def free(kibibytes: int) -> tuple[int, str]:
        return 0, f"Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda 9 1 {kibibytes} 50% /\n"

    check_disk_space("h1", "/", 1024, lambda _: free(8 * 1024 + 1))
    with pytest.raises(HostError, match=r"h1: no room for the image: it needs 8\.0 MiB, 8\.0 MiB is free in /"):
        check_disk_space("h1", "/", 1024, lambda _: free(8 * 1024))


def test_a_name_without_a_repository_is_in_the_library_of_an_archive(layout: Layout) -> None:
    image = load_image(layout)
    (entry,) = json.loads(entries_of(archive(layout, image, image.layers, "relay:1"))["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/library/relay:1"


@pytest.mark.parametrize("reference", ["tfprov/x:1", None])
def test_an_archive_has_the_documents_of_both_kinds_of_engines(layout: Layout, reference: str | None) -> None:
    image = load_image(layout)
    entries = entries_of(archive(layout, image, image.layers, reference))
    notes = {"io.containerd.image.name": "docker.io/tfprov/x:1", "org.opencontainers.image.ref.name": "1"}
    manifest = {"mediaType": image.manifest.media_type, "digest": image.manifest.digest, "size": image.manifest.size}
    assert json.loads(entries["index.json"]) == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**manifest, **({"annotations": notes} if reference else {})}],
    }
    assert json.loads(entries["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def test_layers_that_were_damaged_on_this_machine_are_removed_and_made_anew(layout: Layout) -> None:
    image, engine = load_image(layout), MemoryEngine()
    path = layout.blobs.path(image.layers[1].digest)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(DeliveryError, match="h1 refuses an image whose layers were damaged on this machine"):
        push(MemoryMachine(engine), layout, image, "tfprov/x:1", lambda *_: None, lambda _: None)
    assert layout.find("base") is None
    assert load_image(layout) == image
    push(MemoryMachine(engine), layout, image, "tfprov/x:1", lambda *_: None, lambda _: None)
    assert engine.tags == {"tfprov/x:1": image.id}
