"""Which listings of a container count as complete."""

import pytest

from tfprov.hosts.docker.listing import is_complete_listing

GONE = b"find: /checkpoints/comes: No such file or directory\n"


@pytest.mark.parametrize(
    ("code", "wrong", "whole"),
    [
        (0, b"", True),
        (1, GONE, True),
        (1, GONE + GONE, True),
        (1, b"", False),
        (1, GONE + b"find: /checkpoints/secret: Permission denied\n", False),
        (66, GONE, False),
        (137, GONE, False),
        (None, b"", False),
    ],
)
def test_a_listing_may_lack_only_files_removed_meanwhile(code: int | None, wrong: bytes, whole: bool) -> None:
    assert is_complete_listing(code, wrong) is whole
