"""What a host's engine has: images by name or id, the layers they share with another, and their names."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tfprov.errors import HostError, Unreachable, shown
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, Image, compression


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


MARGIN = 8 * 1024 * 1024
"""Bytes that are to stay free: the engine keeps books, and a container wants to write."""

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "armv6l": "arm",
    "i386": "386",
    "i686": "386",
}
"""What Go, and so every image, calls the machines that Linux names."""
_DF = re.compile(r"\s\d+\s+-?\d+\s+(?P<free>-?\d+)\s+\d+%\s")


def check_platform(host: str, info: Mapping[str, Any], image: Image) -> None:
    """Raise HostError when the engine that says `info` of itself runs other machines' programs than the image has."""
    machine = str(info.get("Architecture") or "")
    runs = f"{info.get('OSType') or 'linux'}/{_ARCHITECTURES.get(machine, machine)}"
    if machine and not image.platform.endswith("/") and runs != image.platform:
        what = f"its engine runs {shown(runs)}, and the image is for {shown(image.platform)}"
        raise HostError(host, what, f"make the image for {shown(runs)}, or take the host out of the cluster")


def check_room(
    host: str, directory: str, needed: int, run: Callable[[Sequence[str]], tuple[int, str]], margin: int = MARGIN
) -> None:
    """Raise HostError when less than `needed` bytes and a margin are free in `directory` on the host.

    `run` runs a program there. Where it cannot be known, there may be room enough.
    """
    free = _free(directory, run)
    if free is not None and free < needed + margin:
        what = (
            f"no room for the image: it needs {amount(needed + margin)}, {amount(free)} is free in {shown(directory)}"
        )
        raise HostError(host, what, "free some there, for example with `docker system prune`")


def _free(directory: str, run: Callable[[Sequence[str]], tuple[int, str]]) -> int | None:
    try:
        code, output = run(["df", "-Pk", "--", directory])
    except Unreachable:
        raise
    except HostError:
        return None
    found = _DF.search(f"{output} ")
    return max(0, int(found["free"])) * 1024 if code == 0 and found else None


def room_needed(layout: Layout, stages: Sequence[Collection[Descriptor]]) -> int:
    """Return the bytes an engine needs at the worst moment to take in the layers of `stages`, one after the other.

    It keeps what came of a stage until all of it is unpacked. A compressed layer counts with what its last bytes say of
    its content; it may be more.
    """
    kept = max((sum(layer.size for layer in layers) for layers in stages), default=0)
    return kept + sum(_unpacked(layout, layer) for layers in stages for layer in layers)


def _unpacked(layout: Layout, layer: Descriptor) -> int:
    if compression(layer) != "gzip" or layer.size < 4:
        return layer.size
    with layout.blobs.open(layer) as file:
        file.seek(layer.size - 4)
        return max(layer.size, int.from_bytes(file.read(4), "little"))


def amount(size: int) -> str:
    """Return a number of bytes as people say it: `1.4 GiB`."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{-(-size // 1024)} KiB"
