"""Whether layers are compressed: by the link, the cores, and what is compressed already."""

import pytest

from tfprov.images.compression.decision import worth_compressing

GB, MB = 10**9, 10**6


@pytest.mark.parametrize(
    ("rate", "cores", "size", "to_compress", "worth"),
    [
        (12.5 * MB, 2, GB, GB, True),
        (1.2 * MB, 1, GB, GB, True),
        (12.5 * MB, 1, GB, GB, True),
        (22 * MB, 2, GB, GB, True),
        (24 * MB, 1, GB, GB, False),
        (24 * MB, 1, GB, 0, True),
        (24 * MB, 64, 20 * MB, 20 * MB, True),
        (26 * MB, 64, GB, 0, False),
        (110 * MB, 64, GB, 0, False),
        (0.0, 1, GB, GB, True),
        (0.0, 0, 20 * MB, 20 * MB, True),
        (12.5 * MB, 2, 0, 0, False),
    ],
)
def test_links_slower_than_the_engines_are_worth_it(
    rate: float, cores: int, size: int, to_compress: int, worth: bool
) -> None:
    assert worth_compressing(rate, cores, size, to_compress) is worth
