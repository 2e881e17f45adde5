"""Checks before a delivery: the image's platform, and free disk space on the host."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tfprov.errors import HostError, Unreachable, printable
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, Image, compression

MARGIN = 8 * 1024 * 1024
"""Bytes that stay free for the engine's metadata and for containers."""

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "armv6l": "arm",
    "i386": "386",
    "i686": "386",
}
"""Go's names of architectures, which images use, by Linux's names."""
_DF = re.compile(r"\s\d+\s+-?\d+\s+(?P<free>-?\d+)\s+\d+%\s")


def check_platform(host: str, info: Mapping[str, Any], image: Image) -> None:
    """Raise HostError when the engine that says `info` of itself runs other machines' programs than the image has."""
    machine = str(info.get("Architecture") or "")
    runs = f"{info.get('OSType') or 'linux'}/{_ARCHITECTURES.get(machine, machine)}"
    if machine and not image.platform.endswith("/") and runs != image.platform:
        what = f"its engine runs {printable(runs)}, and the image is for {printable(image.platform)}"
        raise HostError(host, what, f"make the image for {printable(runs)}, or take the host out of the cluster")


def check_room(
    host: str, directory: str, needed: int, run: Callable[[Sequence[str]], tuple[int, str]], margin: int = MARGIN
) -> None:
    """Raise HostError when less than `needed` bytes and a margin are free in `directory` on the host.

    `run` runs a program there. Where it cannot be known, there may be room enough.
    """
    free = _free(directory, run)
    if free is not None and free < needed + margin:
        there = printable(directory)
        what = f"no room for the image: it needs {amount(needed + margin)}, {amount(free)} is free in {there}"
        raise HostError(host, what, "free some there, for example with `docker system prune`")


def _free(directory: str, run: Callable[[Sequence[str]], tuple[int, str]]) -> int | None:
    try:
        code, output = run(["df", "-Pk", "--", directory])
    except Unreachable:
        raise
    except HostError:
        return None
    match = _DF.search(f"{output} ")
    return max(0, int(match["free"])) * 1024 if code == 0 and match else None


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
