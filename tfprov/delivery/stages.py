"""A large image brought in stages: an engine keeps nothing of an image that it did not get whole.

Each stage is an image of the lower layers of the next. What has arrived as a stage is there for good, so a connection that
is lost costs one stage and not all of them.
"""

import re
import secrets

from tfprov.delivery.holdings import held, untag
from tfprov.delivery.layout import Layout
from tfprov.delivery.oci import DOCKER_CONFIG, Image, encode, write_manifest
from tfprov.hosts.engine_api import Engine

STAGE = 32 * 1024 * 1024
"""Bytes of layers from which on they are a stage: smaller ones would cost more in questions than they save."""
LOOPBACK = "127.0.0.1"
_ON_THE_WAY = re.compile(rf"{re.escape(LOOPBACK)}:[0-9]+/tfprov/(image|[0-9a-f]{{32}})@")
"""What an image is called while it is pulled: by the name that `repository` made up, or that earlier versions used."""


def repository() -> str:
    """Return a name for an image on its way that nobody can guess: any user of the host reaches the port it comes by."""
    return f"tfprov/{secrets.token_hex(16)}"


def stages(layout: Layout, image: Image, size: int = STAGE) -> tuple[Image, ...]:
    """Return the stages of `image`, itself the last; they are kept in `layout` without a name.

    They depend on the image alone: whoever goes on with what another run began finds the same ones.
    """
    found = []
    waiting = 0
    for number, layer in enumerate(image.layers[:-1], 1):
        waiting += layer.size
        if waiting >= size:
            found.append(_beginning(layout, image, number))
            waiting = 0
    return (*found, image)


def _beginning(layout: Layout, image: Image, number: int) -> Image:
    os, _, architecture = image.platform.partition("/")
    root = {"type": "layers", "diff_ids": image.diff_ids[:number]}
    config = encode({"architecture": architecture, "os": os, "config": {}, "history": [], "rootfs": root})
    manifest, document = write_manifest(layout.blobs.write(config, DOCKER_CONFIG), image.layers[:number])
    layout.blobs.write(document, manifest.media_type)
    return layout.image(manifest)


def tidy(engine: Engine, image: Image) -> None:
    """Take away the names under which `engine` pulled `image`, in this run or in one that was killed.

    With its last name a stage goes as well; its layers stay with the image that was built upon it.
    """
    facts = held(engine, image) or {}
    for name in facts.get("RepoDigests") or ():
        if _ON_THE_WAY.match(name):
            untag(engine, name)


def remove(engine: Engine, stage: Image) -> None:
    """Remove a stage that has served its purpose."""
    tidy(engine, stage)
    facts = held(engine, stage)
    if facts is not None and not facts.get("RepoTags"):  # it came as an archive, without a name
        untag(engine, facts["Id"])
