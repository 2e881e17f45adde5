"""Lets an engine with a store of its own upload the layers that the layout lacks; the others come from the layout.

Engines that store images in containerd do it in another way: `content_upload`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.errors import HostError, Unreachable, printable
from tfprov.hosts.base import OnProgress
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.answers import list_of, object_of, optional, read_int, read_name, read_text
from tfprov.hosts.docker.engine_api.paths import image_path
from tfprov.hosts.machine import Machine
from tfprov.hosts.ssh.errors import ForwardingForbidden
from tfprov.images.engine_images import tag, untag
from tfprov.images.exports.engine_config import UNKNOWN, WITH_CONTAINER_CONFIG, engine_config
from tfprov.images.exports.layer_upload import Openings
from tfprov.images.exports.missing_layers import MissingLayers, missing_layers, stored_layers, upload_limit
from tfprov.images.exports.upload_registry import LayerRegistry, UploadRegistry
from tfprov.images.exports.upload_server import serve
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, DOCKER_LAYER, Descriptor, OciImage, write_manifest
from tfprov.images.registry_server import LOOPBACK

_TAG = "export"
EMPTY = "empty"
"""The tag of an image without content, which takes a name away from another one."""
_TEMPORARY_NAME = re.compile(rf"{re.escape(LOOPBACK)}:[0-9]+/tfprov/[0-9a-f]{{32}}:({_TAG}|{EMPTY})\Z")
_HISTORY = list_of(object_of(Id=read_name, CreatedBy=optional(read_text), Size=optional(read_int)))

Facts = Mapping[str, Any]


class WholeImageNeeded(Exception):
    """The layers cannot be uploaded alone, or that would take longer; the message is empty, or says why they were not."""


@dataclass(frozen=True)
class _Image:
    """An image of an engine. `pushed` is the id of the image with the same layers that is pushed."""

    facts: Facts
    pushed: str
    missing: MissingLayers
    stored: Mapping[str, Descriptor]
    config: bytes


def upload_layers(machine: Machine, facts: Facts, layout: Layout, name: str, on_progress: OnProgress) -> OciImage:
    """Store the image with the engine's `facts` in `layout` as `name`. Raises WholeImageNeeded."""
    with layout.in_use():
        image = _examine(machine.engine, facts, layout)
        size, received = image.missing.size, 0

        def count(more: int) -> None:
            nonlocal received
            received += more
            on_progress(received, max(received, size))

        openings = Openings(layout.blobs, [image.stored[diff_id] for diff_id in image.missing.lower])
        registry = LayerRegistry(layout.blobs, image.missing.uploaded, openings, upload_limit(size), count)
        try:
            if image.missing.uploaded:
                push(machine, image.pushed, registry)
            stored = _store(layout, image, registry)
        finally:
            registry.close()
        layout.name(name, stored)
    return stored


def _examine(engine: Engine, facts: Facts, layout: Layout) -> _Image:
    images = layout.images()
    diff_ids = (facts.get("RootFS") or {}).get("Layers") or ()
    if not images or not diff_ids:
        raise WholeImageNeeded
    stored = stored_layers(images)
    history = _history(engine, facts["Id"])
    missing = missing_layers(diff_ids, history, stored)
    if missing is None:
        raise WholeImageNeeded
    if "ContainerConfig" not in facts:
        (facts,) = engine.ask(image_path(facts["Id"]), newest=WITH_CONTAINER_CONFIG)
    ids = {str(step.get("Id")) for step in history} - {UNKNOWN, str(facts["Id"])}
    steps = {str(it["Id"]): it for it in engine.ask_each(*map(image_path, sorted(ids)))}
    config = engine_config(facts, history, steps, [layout.blobs.read(it.config) for it in images.values()])
    parent = steps.get(str(facts.get("Parent")), {})
    # Untagging removes an image without another name, unless it has children; and its last step only adds a label.
    if config is None or (parent.get("RootFS") or {}).get("Layers") != diff_ids:
        raise WholeImageNeeded
    return _Image(facts, str(parent["Id"]), missing, stored, config)


def _history(engine: Engine, image_id: str) -> list[dict[str, Any]]:
    with engine.errors():
        history: list[dict[str, Any]] = _HISTORY(engine.ask(image_path(image_id, "history"))[0], "")
    return history[::-1]


def step_sizes(engine: Engine, image_id: str) -> list[int]:
    """Return the bytes of each step of an image, unpacked, the oldest first; 0 for a step without a layer."""
    return [int(step.get("Size") or 0) for step in _history(engine, image_id)]


def push(
    machine: Machine, image_id: str, registry: UploadRegistry[Any], remove_name: Callable[[Engine, str], None] = untag
) -> None:
    """Make the engine of `machine` push an image to `registry`. Raises WholeImageNeeded when not all of it comes.

    `remove_name` takes away the name that the image has meanwhile.
    """
    try:
        with machine.remote_forward(lambda connection: serve(registry, connection)) as port:
            errors = _push_to(machine.engine, image_id, registry, f"{LOOPBACK}:{port}", remove_name)
    except ForwardingForbidden:
        raise WholeImageNeeded("its sshd forwards no ports") from None
    except Unreachable:
        raise
    except HostError as error:
        errors = [error.reason]
    if not registry.is_complete:
        if not registry.was_contacted:
            raise WholeImageNeeded("its engine does not reach this machine through the loopback")
        raise WholeImageNeeded(printable(next(iter(errors), "its engine uploaded other layers")))


def _push_to(
    engine: Engine,
    image_id: str,
    registry: UploadRegistry[Any],
    address: str,
    remove_name: Callable[[Engine, str], None],
) -> Sequence[str]:
    """Push until the engine ends, with an error where it is refused what the layout has; return its errors."""
    _remove_temporary_names(engine, remove_name)
    repository = f"{address}/{registry.name}"
    tag(engine, image_id, f"{repository}:{_TAG}")
    try:
        with engine.errors():
            login = {**registry.login, "serveraddress": address}  # instead of this machine's logins
            lines = engine.api.push(repository, _TAG, stream=True, decode=True, auth_config=login)
            return [str(line["error"]) for line in lines if "error" in line]
    finally:
        remove_name(engine, f"{repository}:{_TAG}")


def _remove_temporary_names(engine: Engine, remove_name: Callable[[Engine, str], None]) -> None:
    """Remove what killed runs have left."""
    with engine.errors():
        images = engine.api.images()
    for name in [name for image in images for name in image.get("RepoTags") or ()]:
        if match := _TEMPORARY_NAME.match(name):
            (remove_name if match[1] == _TAG else untag)(engine, name)


def _store(layout: Layout, image: _Image, registry: LayerRegistry) -> OciImage:
    """Keep the layers, then the configuration, the manifest last: as `docker save` would have it."""
    received = registry.layers or {}
    layers = {diff_id: blob.keep(DOCKER_LAYER) for diff_id, blob in received.items()}
    config = layout.blobs.write(image.config, DOCKER_CONFIG)
    parts = tuple(layers.get(it) or image.stored[it] for it in image.facts["RootFS"]["Layers"])
    manifest, document = write_manifest(config, parts)
    layout.blobs.write(document, manifest.media_type)
    return layout.image(manifest)
