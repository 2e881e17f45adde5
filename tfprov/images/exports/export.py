"""Brings an image from the engine that built it into the layout: the layers that the layout lacks, or all of them."""

from collections.abc import Callable

from tfprov.errors import HostError, printable
from tfprov.hosts.base import OnProgress, ignore_progress
from tfprov.hosts.machine import Machine
from tfprov.images.engine_images import inspect_image
from tfprov.images.exports.save import save
from tfprov.images.exports.upload import WholeImageNeeded, upload
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage


def export(  # noqa: PLR0913, PLR0917
    machine: Machine,
    image_id: str,
    layout: Layout,
    name: str,
    on_progress: OnProgress = ignore_progress,
    note: Callable[[str], None] = lambda text: None,
) -> OciImage:
    """Store an image of the engine of `machine` in `layout` as `name`; DeliveryError when it arrives incomplete.

    `on_progress` is called with the bytes received and an estimate of the total: the engine reports the unpacked size.
    `note` is called with the reason when the whole image is exported although most of it is in the layout.
    """
    facts = inspect_image(machine.engine, image_id)
    if facts is None:
        raise HostError(machine.host, f"the image {printable(image_id)} is not there", "build it again")
    try:
        return upload(machine, facts, layout, name, on_progress)
    except WholeImageNeeded as error:
        if str(error):
            note(f"the whole image is exported, which is slower: {error}")
    return save(machine.engine, image_id, facts.get("Size") or 0, layout, name, on_progress)
