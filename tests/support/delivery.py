"""Push images to test hosts, record the progress of a push, and pull images from a registry of the tests."""

import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery_images import config, tar
from tests.support.engine import Engine
from tests.support.files import write
from tests.support.images import Images
from tests.support.testhost import Host
from tfprov.errors import HostError, Position
from tfprov.hosts.machine import LocalMachine, Machine, SSHMachine
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost
from tfprov.images.archive import stream_archive
from tfprov.images.build import Recipe, build, pack_context
from tfprov.images.compression.compression import Compression
from tfprov.images.engine_images import pull
from tfprov.images.exports.export import export
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, DOCKER_LAYER, OciImage, write_manifest
from tfprov.images.push import PushResult, push
from tfprov.images.registry_routes import Registry, Request, Response, error_response
from tfprov.images.registry_server import ByteStream, serve

OURS = "tfprov/push-test"
TEAM = "team/linear"
"""The repository of `registry`."""
DOCUMENTS = 8_000
"""Bytes of manifests, configurations and headers that one pull takes at most."""


def machine(host: Host) -> SSHMachine:
    """Return a test host as the Remote of a push."""
    bed = host.bed
    target = SSHTarget(host.name, host.address, host.port, host.user, (bed.key,), known_hosts=(bed.known_hosts,))
    return SSHMachine(SSHHost(target))


def export_tiny(engine: Engine, images: Images, layout: Layout) -> OciImage:
    """Return the small image of an engine of this machine, in `layout` as `tiny`."""
    here = LocalMachine("here", engine.socket)
    try:
        return export(here, str(engine.client.images.get(images.tiny()).id), layout, "tiny")
    finally:
        here.close()


def unused(host: Host) -> Iterator[Host]:
    """Yield a host that has never seen an image, and forget those that it gets: for a fixture."""
    host.forget_images()
    yield host
    clean(host)
    host.forget_images()


def clean(host: Host) -> None:
    for image in host.client.images.list():
        for name in image.tags:
            if name.startswith(OURS):
                host.client.images.remove(name, force=True)


class PushRecorder:
    """Records the progress and notes of a push; calls `then` once `at` bytes are sent."""

    def __init__(self, at: int | None = None, then: Callable[[], object] = lambda: None) -> None:
        self.reports: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self._at, self._then = at, then

    def progress(self, sent: int, total: int) -> None:
        assert 0 < sent <= total
        assert not self.reports or sent > self.reports[-1][0]
        self.reports.append((sent, total))
        if self._at is not None and sent >= self._at:
            self._at = None
            self._then()

    @property
    def sent(self) -> int:
        return self.reports[-1][0] if self.reports else 0


def push_image(
    to: Machine,
    layout: Layout,
    image: OciImage,
    tag: str,
    recorder: PushRecorder | None = None,
    *,
    compression: Compression | None = None,
) -> PushResult:
    recorder = recorder or PushRecorder()
    pushed = push(
        to,
        layout,
        image,
        f"{OURS}:{tag}",
        recorder.progress,
        recorder.notes.append,
        (0, 0, 1),
        compression=compression,
    )
    assert pushed.sent == recorder.sent
    return pushed


def random_image(layout: Layout, *sizes: int, **changes: Any) -> OciImage:
    """Return an image that no host has, with layers of `sizes` bytes."""
    layers = [tar({f"{number}": os.urandom(size)}) for number, size in enumerate(sizes)]
    document = json.dumps(json.loads(config(layers)) | changes).encode()
    blobs = tuple(layout.blobs.write(layer, DOCKER_LAYER) for layer in layers)
    manifest, written = write_manifest(layout.blobs.write(document, DOCKER_CONFIG), blobs)
    layout.blobs.write(written, manifest.media_type)
    return layout.image(manifest)


def names(host: Host) -> set[str]:
    """Return all names that images have on a host, also those by digest, and `<none>` for an image without a name."""
    listed = host.client.api.images(all=True)
    return {
        name for image in listed for name in [*(image["RepoTags"] or ()), *(image["RepoDigests"] or ())] or ["<none>"]
    }


class Tagged(Registry):
    """Somebody's registry, with the tag `latest`, at a `port`; with a `token`, whoever asks for it gets it."""

    latest, port, token = "", 0, ""

    def answer(self, request: Request) -> Response:
        if self.token and request.target.startswith("/token"):
            body = json.dumps({"token": self.token}).encode()
            return Response(200, {"Content-Type": "application/json"}, len(body), body)
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            scope = f'service="registry",scope="repository:{TEAM}:pull"'
            where = {"WWW-Authenticate": f'Bearer realm="http://127.0.0.1:{self.port}/token",{scope}'}
            return error_response(401, "UNAUTHORIZED", "a token is needed", where)
        target = request.target.replace("/manifests/latest", f"/manifests/{self.latest}")
        return super().answer(replace(request, target=target))


@contextmanager
def registry(node_machine: SSHMachine, layout: Layout, *images: OciImage, token: str = "") -> Iterator[str]:
    """Yield the name of a registry that has `images`; the first of them is tagged `latest`."""
    served = Tagged(layout, {TEAM: images})
    served.latest, served.token = images[0].manifest.digest, token

    def answer(connection: ByteStream) -> None:
        serve(served, connection)

    with node_machine.remote_forward(answer) as served.port:
        yield f"127.0.0.1:{served.port}"


def build_with_buildkit(node_machine: SSHMachine, layout: Layout, tiny: OciImage, directory: Path) -> list[str]:
    """Build from `tiny` in a registry as Docker Hub is, which wants a token; return the steps that were reported."""
    steps: list[str] = []
    with registry(node_machine, layout, tiny, token="a token") as at:
        run = "RUN --mount=type=cache,target=/cache ls -d /cache >/checkpoints/seen"
        files = {"Dockerfile": f"FROM {at}/{TEAM}:latest\n{run}\n"}
        recipe = Recipe(pack_context(write(directory, files), Position("lab.yml")), {})
        built = build(node_machine.engine, recipe, "pull", steps.append)
        image = export(node_machine, built, layout, "built")
    with layout.blobs.open(image.layers[-1]) as blob, tarfile.open(fileobj=blob) as layer:
        seen = layer.extractfile("checkpoints/seen")
        assert seen
        assert seen.read() == b"/cache\n"
    return steps


def failed_pull(node_machine: SSHMachine, name: str) -> str:
    """Return the message of a pull of `name` that fails, which has one line."""
    with pytest.raises(HostError) as caught:
        pull(node_machine.engine, name, f"{OURS}:1", lambda text: None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def load(host: Host, layout: Layout, image: OciImage, name: str) -> None:
    """Put an image on a host as somebody would who does not know of us."""
    for _ in host.client.api.load_image(stream_archive(layout, image, name, image.layers)):  # type: ignore[no-untyped-call]
        pass


def tags(host: Host) -> set[str]:
    return {name for image in host.client.images.list() for name in image.tags}
