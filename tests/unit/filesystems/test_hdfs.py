"""tfprov.filesystems.hdfs: how long its clients live."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tfprov.filesystems.hdfs import HdfsFiles


class SilentClient:
    """A client of a NameNode that never answers."""

    async def list_status(self, path: str, recursive: bool = False) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None

    async def read(self, path: str) -> Any:
        await asyncio.Event().wait()

    async def create(self, path: str, write_options: Any = None) -> Any:
        await asyncio.Event().wait()

    async def delete(self, path: str, recursive: bool = False) -> bool:
        await asyncio.Event().wait()
        return False


@pytest.fixture
def made() -> list[weakref.ref[SilentClient]]:
    """The clients that a test has made, alive or not."""
    return []


@pytest.fixture
def files(made: list[weakref.ref[SilentClient]]) -> HdfsFiles:
    def connect() -> SilentClient:
        client = SilentClient()
        made.append(weakref.ref(client))
        return client

    return HdfsFiles(connect, None, 0.001)


def test_a_client_outlives_a_request_without_an_answer(files: HdfsFiles, made: list[weakref.ref[SilentClient]]) -> None:
    with pytest.raises(TimeoutError):
        files.find("/checkpoints")
    gc.collect()
    assert made[0]() is not None, "its runtime would end wherever the last reference to it ends"


def test_few_clients_are_kept(files: HdfsFiles, made: list[weakref.ref[SilentClient]]) -> None:
    for _ in range(40):
        with pytest.raises(TimeoutError):
            files.find("/checkpoints")
    gc.collect()
    assert len(made) == 40
    assert sum(it() is not None for it in made) == 16
