"""Which files of a container are read as one archive of their directory, and which are asked for alone."""

from tfprov.hosts.base import File
from tfprov.hosts.docker.archive import bundles

KB, GB = 1024, 1024**3
MANY = {f"f{number}": KB for number in range(10_000)}
BELOW = {f"many/{name}": size for name, size in MANY.items()}
CKPT = {"ckpt-1.index": KB, "ckpt-1.data-00000-of-00001": 5 * GB}

TABLE = {
    "nothing is wanted": ({}, MANY, {}),
    "one file is asked for alone": ({"f1": KB}, {"f1": KB}, {}),
    "all of a directory": (MANY, MANY, {"": 10_000}),
    "beside a file that is not wanted": (MANY, {**MANY, "old": 100 * KB}, {"": 10_000}),
    "a folder beside checkpoints that take longer": (BELOW, {**BELOW, **CKPT}, {"many": 10_000}),
    "few files beside what takes longer": (CKPT, {**CKPT, "old": GB}, {}),
    "two of many": ({"f1": KB, "f2": KB}, {**MANY, "old": GB}, {}),
    "folders of which each is worth it": (
        {"a/1": 1, "a/2": 1, "b/1": 1, "b/c/2": 1, "d/1": 1},
        {"a/1": 1, "a/2": 1, "b/1": 1, "b/c/2": 1, "d/1": 1, "d/old": GB},
        {"a": 2, "b": 2},
    ),
    "a folder in a folder that is not": ({"a/b/1": 1, "a/b/2": 1}, {"a/b/1": 1, "a/b/2": 1, "a/old": GB}, {"a/b": 2}),
    "large files beside many": (
        BELOW | {"many/big": 200 * KB**2},
        BELOW | {"many/big": 200 * KB**2},
        {
            "": 10_001,
        },
    ),
    "a large file beside a few": ({"f1": 1, "f2": 1, "big": 10 * GB}, {"f1": 1, "f2": 1, "big": 10 * GB}, {}),
    "what was not listed": ({"f1": 1, "gone": 1}, {"f1": 1}, {}),
}
"""What is wanted, what there is, and how many files come with which directory."""


def test_a_directory_is_read_whole_where_that_is_faster() -> None:
    wrong = []
    for name, (wanted, there, expected) in TABLE.items():
        files = {path: File(size, 0.0) for path, size in there.items()}
        found = {directory: len(below) for directory, below in bundles(wanted, files)}
        if found != expected:
            wrong.append(f"{name}: {found}")
    assert not wrong
