"""What a delivery says of its bytes."""

import pytest

from tfprov.engine.image_artifacts import describe_compression, describe_sources
from tfprov.images.push import PushResult

MB = 10**6


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (8.1 * MB, "8.1 MB/s link: layers compressed, 412.0 MB instead of 1.2 GB"),
        (0.0, "very slow link: layers compressed, 412.0 MB instead of 1.2 GB"),
        (None, "layers compressed, 412.0 MB instead of 1.2 GB"),
    ],
)
def test_compressed_layers_are_named_with_the_link(rate: float | None, expected: str) -> None:
    assert describe_compression(PushResult(412 * MB, "pull", saved=788 * MB, rate=rate)) == expected


def test_bytes_of_other_hosts_are_counted_apart() -> None:
    assert describe_sources({"b": 2 * MB, "a": MB}, 4 * MB) == "1.0 MB from a, 2.0 MB from b, 1.0 MB from this machine"
