"""Checks before a delivery: the image's platform, and free disk space on the host."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tfprov.errors import HostError, Unreachable, printable
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage, compression

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


def check_platform(host: str, info: Mapping[str, Any], image: OciImage) -> None:
    """Raise HostError when the platform in the engine's `info` differs from the image's."""
    machine = str(info.get("Architecture") or "")
    runs = f"{info.get('OSType') or 'linux'}/{_ARCHITECTURES.get(machine, machine)}"
    if machine and not image.platform.endswith("/") and runs != image.platform:
        what = f"its engine runs {printable(runs)}, and the image is for {printable(image.platform)}"
        raise HostError(host, what, f"make the image for {printable(runs)}, or take the host out of the cluster")


def check_disk_space(
    host: str, directory: str, size: int, run: Callable[[Sequence[str]], tuple[int, str]], margin: int = MARGIN
) -> None:
    """Raise HostError when less than `size` bytes and a margin are free in `directory` on the host.

    `run` runs a program on the host. If `df` fails there, the check passes.
    """
    free = _free_bytes(directory, run)
    if free is not None and free < size + margin:
        needed = format_size(size + margin)
        what = f"no room for the image: it needs {needed}, {format_size(free)} is free in {printable(directory)}"
        raise HostError(host, what, "free some there, for example with `docker system prune`")


def _free_bytes(directory: str, run: Callable[[Sequence[str]], tuple[int, str]]) -> int | None:
    try:
        code, output = run(["df", "-Pk", "--", directory])
    except Unreachable:
        raise
    except HostError:
        return None
    match = _DF.search(f"{output} ")
    return max(0, int(match["free"])) * 1024 if code == 0 and match else None


def disk_space_needed(layout: Layout, stages: Sequence[Collection[Descriptor]], *, keeps_received: bool = False) -> int:
    """Return the peak of bytes that an engine needs to store the layers of `stages`, one stage after the other.

    It keeps the layers of a stage as received until all are unpacked, and for good where it `keeps_received` layers. A
    gzip layer counts with the uncompressed size in its trailer, which is modulo 4 GiB.
    """
    received = [sum(layer.size for layer in layers) for layers in stages]
    stage_bytes = sum(received) if keeps_received else max(received, default=0)
    return stage_bytes + sum(_unpacked_size(layout, layer) for layers in stages for layer in layers)


def _unpacked_size(layout: Layout, layer: Descriptor) -> int:
    if compression(layer) != "gzip" or layer.size < 4:
        return layer.size
    with layout.blobs.open(layer) as file:
        file.seek(layer.size - 4)
        return max(layer.size, int.from_bytes(file.read(4), "little"))


def format_size(size: int) -> str:
    """Return a number of bytes for people: `1.4 GiB`."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{-(-size // 1024)} KiB"
