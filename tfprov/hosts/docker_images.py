"""Whether a name on an engine still stands for the image that was delivered under it: anyone there can move a tag."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from tfprov.hosts.docker_labels import DELIVERED
from tfprov.model.state import not_delivered


class Deliveries(Protocol):
    """What the controller delivered to one host."""

    def known(self, reference: str) -> Collection[str]:
        """Return the ids that the image `reference` may have there; none where the controller does not know."""

    def note(self, reference: str, image_id: str) -> None:
        """Keep the id that the host's engine gives to the image `reference`."""


class Unrecorded:
    """Accepts every image: for engines that nothing was delivered to."""

    def known(self, reference: str) -> Collection[str]:
        """See Deliveries."""
        del reference
        return ()

    def note(self, reference: str, image_id: str) -> None:
        """See Deliveries."""


def is_delivered(deliveries: Deliveries, reference: str, image_id: str) -> bool:
    """Whether the image with `image_id` may run under the name `reference`."""
    ids = deliveries.known(reference)
    return not ids or image_id in ids


def sorted_out(deliveries: Deliveries, images: Iterable[Mapping[str, Any]]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of `images`, an engine's list, that stand for what was delivered, and those that do not."""
    names = {(name, str(image["Id"])) for image in images for name in image.get("RepoTags") or ()}
    delivered = frozenset(name for name, image_id in names if is_delivered(deliveries, name, image_id))
    return delivered, frozenset(name for name, _ in names) - delivered


def other_image(deliveries: Deliveries, facts: Mapping[str, Any]) -> str:
    """Return why the image of a container, as an inspect describes it, is not the one that was delivered; or nothing.

    Containers of earlier versions have no label, and are made from the name itself.
    """
    made_from, image_id = str(facts["Config"].get("Image") or ""), str(facts.get("Image") or "")
    label = str((facts["Config"].get("Labels") or {}).get(DELIVERED) or "")
    reference, _, delivered = label.rpartition("@")
    if reference:  # engines differ in whether they show the id of a manifest or of an index; both name this image
        return "" if delivered in (image_id, made_from) else not_delivered(reference)
    return "" if is_delivered(deliveries, made_from, image_id) else not_delivered(made_from)
