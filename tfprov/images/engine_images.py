"""What a host's engine has: images by name or id, the layers they share with another, and their names."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.oci_spec import Image


def inspected(engine: Engine, name: str) -> dict[str, Any] | None:
    """Return what `engine` says of the image `name`, a name or an id; None when it has none of that name."""
    with engine.errors():
        api = engine.api
    try:
        with engine.errors():
            facts: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    except Unreachable:
        raise
    except HostError:  # what else may be wrong with the engine shows in the next call
        return None
    return facts


def held(engine: Engine, image: Image) -> dict[str, Any] | None:
    """Return what `engine` says of `image`; None when it does not have it.

    Engines know an image by its configuration, and those that keep images in containerd by its manifest.
    """
    return inspected(engine, image.id) or inspected(engine, image.manifest.digest)


def layers_held(engine: Engine, diff_ids: Sequence[str], enough: int | None = None) -> int:
    """Return how many layers, from the lowest on, of an image with `diff_ids` the engine has.

    An engine finds a layer by all that lies below it, so what counts is the longest beginning that another image shares.
    With `enough` of them found, it is not asked about more images: it may have more layers than that.
    """
    with engine.errors():
        listed = engine.api.images()
    most, enough = 0, len(diff_ids) if enough is None else enough
    for it in listed:
        most = max(most, _in_common(_layers(engine, it["Id"]), diff_ids))
        if most >= enough:
            break
    return most


def _layers(engine: Engine, image_id: str) -> Sequence[str]:
    facts = inspected(engine, image_id) or {}  # it may have been removed since it was listed
    return (facts.get("RootFS") or {}).get("Layers") or ()


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    number = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        number += 1
    return number


def tag(engine: Engine, image_id: str, reference: str) -> None:
    """Give an image the name `reference`, `repository:tag`, which may have meant another image."""
    repository, _, name = reference.rpartition(":")
    with engine.errors():
        engine.api.tag(image_id, repository, name)


def untag(engine: Engine, name: str) -> None:
    """Take a name away, and the image with its last one, unless a container uses it; what it was built on stays."""
    try:
        with engine.errors():
            engine.api.remove_image(name, noprune=True)
    except Unreachable:
        raise
    except HostError:  # it is in use, or gone already
        return


def heeded(engine: Engine, lines: Iterator[Mapping[str, Any]]) -> None:
    """Follow what the engine says while it works, to the end. HostError when it says that it failed."""
    with engine.errors():
        said = [str(line["error"]) for line in lines if "error" in line]
    if said:
        raise HostError(engine.host, *explain(said[0]))


def tagged(engine: Engine, image_id: str) -> datetime:
    """Return when an image was last given a name, by the engine's own clock."""
    stated = ((inspected(engine, image_id) or {}).get("Metadata") or {}).get("LastTagTime") or ""
    with suppress(ValueError):
        found = datetime.fromisoformat(stated)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return datetime.min.replace(tzinfo=UTC)
