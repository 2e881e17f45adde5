"""What a listing inside a container is worth, by how it ended."""

import pytest

from tfprov.hosts.docker.files import is_whole

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
def test_only_what_has_vanished_may_be_missing(code: int | None, wrong: bytes, whole: bool) -> None:
    assert is_whole(code, wrong) is whole
