"""The stages of an image: images of its lowest layers, which an engine gets one after the other.

An engine drops what it has received of an image when a pull fails; a stage that is complete stays.
"""

import re
from collections.abc import Iterator, Sequence

from tfprov.hosts.docker.engine import Engine
from tfprov.images.engine_images import find_image, untag
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, OciImage, encode, write_manifest
from tfprov.images.registry_server import LOOPBACK

STAGE_SIZE = 32 * 1024 * 1024
"""Minimum bytes of a stage's layers: smaller stages would cost more in requests than they save."""
_SMALL = 64 * 1024
"""Bytes whose transfer takes about as long as one query to the engine about an image."""
_TEMPORARY_NAME = re.compile(rf"{re.escape(LOOPBACK)}:[0-9]+/tfprov/(image|[0-9a-f]{{32}})@")
"""The name of an image while it is pulled: from `random_repository`, or the fixed one of earlier versions."""


def split_stages(layout: Layout, image: OciImage, size: int = STAGE_SIZE) -> tuple[OciImage, ...]:
    """Return the stages of `image`, itself the last; they are stored in `layout` without a name.

    They depend on the image alone, so that a run continues the delivery that another run began.
    """
    result = []
    pending = 0
    for number, layer in enumerate(image.layers[:-1], 1):
        pending += layer.size
        if pending >= size:
            result.append(_stage(layout, image, number))
            pending = 0
    return (*result, image)


def _stage(layout: Layout, image: OciImage, number: int) -> OciImage:
    os, _, architecture = image.platform.partition("/")
    root = {"type": "layers", "diff_ids": image.diff_ids[:number]}
    config = encode({"architecture": architecture, "os": os, "config": {}, "history": [], "rootfs": root})
    manifest, document = write_manifest(layout.blobs.write(config, DOCKER_CONFIG), image.layers[:number])
    layout.blobs.write(document, manifest.media_type)
    return layout.image(manifest)


def untag_temporary(engine: Engine, image: OciImage) -> None:
    """Remove the names under which `engine` pulled `image`, in this run or in one that was killed.

    A stage is removed with its last name; its layers stay with the image that contains them.
    """
    facts = find_image(engine, image) or {}
    for name in facts.get("RepoDigests") or ():
        if _TEMPORARY_NAME.match(name):
            untag(engine, name)


def remove_stage(engine: Engine, stage: OciImage) -> None:
    """Remove a stage after the image is complete."""
    untag_temporary(engine, stage)
    facts = find_image(engine, stage)
    if facts is not None and not facts.get("RepoTags"):  # it came as an archive, without a name
        untag(engine, facts["Id"])


def layers_worth_finding(image: OciImage) -> int:
    """Return how many layers are worth finding: the rest is sent faster than the engine answers about another image."""
    size = 0
    for number, layer in reversed(list(enumerate(image.layers))):
        size += layer.size
        if size > _SMALL:
            return number + 1
    return 0


def with_layer_offsets(parts: Sequence[OciImage], number: int) -> Iterator[tuple[int, OciImage]]:
    """Yield each stage with the number of its layers that the engine has by then: at first, `number`."""
    for part in parts:
        yield number, part
        number = len(part.layers)
