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


def test_a_client_outlives_its_requests_and_its_files() -> None:
    made: list[weakref.ref[SilentClient]] = []

    def connect() -> SilentClient:
        client = SilentClient()
        made.append(weakref.ref(client))
        return client

    files = HdfsFiles(connect, None, 0.01)
    with pytest.raises(TimeoutError):
        files.find("/checkpoints")
    del files
    gc.collect()
    assert made[0]() is not None, "its runtime would end wherever the last reference to it ends"


def test_few_clients_are_kept() -> None:
    made: list[weakref.ref[SilentClient]] = []

    def connect() -> SilentClient:
        client = SilentClient()
        made.append(weakref.ref(client))
        return client

    files = HdfsFiles(connect, None, 0.001)
    for _ in range(40):
        with pytest.raises(TimeoutError):
            files.find("/checkpoints")
    gc.collect()
    assert sum(it() is not None for it in made) <= 16
