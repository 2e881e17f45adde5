"""Which listings of a container count as complete, and what an image lacks."""

import pytest

from tfprov.hosts.docker.data_volumes import image_problem
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


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        ("SyntaxError: future feature annotations is not defined", "no python3 from 3.8 on, which"),
        ("(ImportError: tfprov.runtime needs Python 3.8 or newer, and", "no python3 from 3.8 on, which"),
        ("the image has no program python3 that can be run", "no python3, which"),
        ("(ModuleNotFoundError: No module named 'tfprov')", "no tfprov.runtime, which"),
        ("it was ended", ""),
    ],
)
def test_what_an_image_lacks_to_fetch_data(reason: str, problem: str) -> None:
    lacks, _ = image_problem(f"the data was not fetched to its end: {reason}") or ("", "")
    assert lacks[: len("the image has ") + len(problem)] == (problem and f"the image has {problem}")
