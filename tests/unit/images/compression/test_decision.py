"""Whether layers are compressed: by the link, the cores, and what is compressed already."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfprov.images.compression.compression import Choice, Compression
from tfprov.images.compression.decision import worth_compressing
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_LAYER, Descriptor

GB, MB = 10**9, 10**6


@pytest.mark.parametrize(
    ("rate", "cores", "size", "to_compress", "worth"),
    [
        (12.5 * MB, 2, GB, GB, True),
        (1.2 * MB, 1, GB, GB, True),
        (12.5 * MB, 1, GB, GB, True),
        (22 * MB, 2, GB, GB, True),
        (18 * MB, 1, GB, GB, True),
        (24 * MB, 1, GB, GB, False),
        (24 * MB, 1, GB, 0, True),
        (24 * MB, 64, 20 * MB, 20 * MB, True),
        (25 * MB - 1, 64, GB, 0, True),
        (25 * MB, 64, GB, 0, False),
        (110 * MB, 64, GB, 0, False),
        (0.0, 1, GB, GB, True),
        (0.0, 0, 20 * MB, 20 * MB, True),
        (12.5 * MB, 2, 0, 0, False),
        (1.0, 2, 1, 0, True),
    ],
)
def test_links_slower_than_the_engines_are_worth_it(
    rate: float, cores: int, size: int, to_compress: int, worth: bool
) -> None:
    assert worth_compressing(rate, cores, size, to_compress) is worth


LEAST = 16 << 20
"""Bytes that a host must lack for its link to be measured."""


@pytest.mark.parametrize(
    ("sizes", "rates", "choice"),
    [
        ((LEAST,), [MB, 2 * MB], Choice(compress=True, rate=2 * MB)),
        ((LEAST,), [25 * MB], Choice(compress=False, rate=25 * MB)),
        ((LEAST - 1,), [], Choice(compress=False)),
        ((LEAST - 1, 256 * 1024 - 1), [], Choice(compress=False)),
        ((LEAST - 256 * 1024, 256 * 1024), [MB, MB], Choice(compress=True, rate=MB)),
    ],
)
def test_the_link_is_measured_from_16_mib_of_layers_on_that_may_shrink(
    tmp_path: Path, sizes: tuple[int, ...], rates: list[float], choice: Choice
) -> None:
    left = list(rates)
    machine: Any = SimpleNamespace(link_rate=lambda: left.pop(0))
    layers = [Descriptor(media_type=DOCKER_LAYER, digest=f"sha256:{0:064}", size=size) for size in sizes]
    assert Compression(Layout(tmp_path), cores=2).choose(machine, layers) == choice
    assert left == []
