"""Which files of a container are read as one archive of their directory, and which by requests of their own."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from tfprov.hosts.base import File, Prefix
from tfprov.hosts.docker.archive import open_rest, plan_archives
from tfprov.hosts.docker.engine import Engine

KB, MB, GB = 1024, 1024**2, 1024**3
MANY = {f"f{number}": KB for number in range(10_000)}
BELOW = {f"many/{name}": size for name, size in MANY.items()}
CKPT = {"ckpt-1.index": KB, "ckpt-1.data-00000-of-00001": 5 * GB}

TABLE = {
    "nothing is requested": ({}, MANY, {}),
    "one file is requested alone": ({"f1": KB}, {"f1": KB}, {}),
    "all of a directory": (MANY, MANY, {"": 10_000}),
    "next to an unrequested file": (MANY, {**MANY, "old": 100 * KB}, {"": 10_000}),
    "a folder next to checkpoints that take longer": (BELOW, {**BELOW, **CKPT}, {"many": 10_000}),
    "few files next to a larger one": (CKPT, {**CKPT, "old": GB}, {}),
    "two of many": ({"f1": KB, "f2": KB}, {**MANY, "old": GB}, {}),
    "several folders, each worth an archive": (
        {"a/1": 1, "a/2": 1, "b/1": 1, "b/c/2": 1, "d/1": 1},
        {"a/1": 1, "a/2": 1, "b/1": 1, "b/c/2": 1, "d/1": 1, "d/old": GB},
        {"a": 2, "b": 2},
    ),
    "a folder in a folder not worth an archive": (
        {"a/b/1": 1, "a/b/2": 1},
        {"a/b/1": 1, "a/b/2": 1, "a/old": GB},
        {"a/b": 2},
    ),
    "a large file next to many": (
        BELOW | {"many/big": 200 * KB**2},
        BELOW | {"many/big": 200 * KB**2},
        {
            "": 10_001,
        },
    ),
    "a large file next to a few": ({"f1": 1, "f2": 1, "big": 10 * GB}, {"f1": 1, "f2": 1, "big": 10 * GB}, {}),
    "folders in folders without end": ({"f1": 1, "f2": 1}, {"f1": 1, "f2": 1, "a/" * 2000 + "x": GB}, {}),
    "a file that was not listed": ({"f1": 1, "gone": 1}, {"f1": 1}, {}),
}
"""Requested files, existing files, and the number of files expected from each archived directory."""


def test_a_directory_is_read_as_one_archive_if_that_is_faster() -> None:
    failures = []
    for name, (requested, existing, expected) in TABLE.items():
        files = {path: File(size, 0.0) for path, size in existing.items()}
        plan = {directory: len(names) for directory, names in plan_archives(requested, files)}
        if plan != expected:
            failures.append(f"{name}: {plan}")
    assert not failures


class Hashing:
    """An engine whose program prints the end of a file after a while; `limits` are the seconds that it was allowed."""

    def __init__(self) -> None:
        self.limits: list[float | None] = []

    def errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start_program(self, *_: Any, **__: Any) -> "Hashing":
        return self

    def output(self, silence: float | None) -> Iterator[tuple[int, bytes]]:
        self.limits.append(silence)
        yield from [(1, b"sa"), (1, b"me\nthe e"), (1, b"nd")]

    def close(self) -> None:
        pass


def test_a_host_has_time_to_read_the_beginning_of_a_large_file() -> None:
    engine, facts = Hashing(), {"Id": "1", "State": {"Running": True}}
    for size in (MB, 60 * GB):
        rest = open_rest(cast(Engine, engine), facts, "/checkpoints/x", Prefix(size, "0" * 64))
        assert rest is not None
        assert rest.read() == b"the end"
    small, large = (limit or 0 for limit in engine.limits)
    assert small < 121
    assert large > 60 * GB / (100 * MB), "at 100 MB/s it is silent for ten minutes"
