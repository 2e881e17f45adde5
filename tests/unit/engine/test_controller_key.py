"""The key for the hashes of secrets: made once, whole, for its owner alone."""

import os
import threading
from pathlib import Path

import pytest

from tfprov.engine.host_registry import controller_key
from tfprov.errors import Usage


def test_the_key_is_created_once(tmp_path: Path) -> None:
    directory, keys = tmp_path / "state", list[bytes]()
    threads = [threading.Thread(target=lambda: keys.append(controller_key(directory))) for _ in range(8)]
    before = os.umask(0)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        os.umask(before)
    assert (len(keys), len(set(keys)), len(keys[0])) == (8, 1, 32)
    [path] = directory.iterdir()
    assert (path.stat().st_mode & 0o777, directory.stat().st_mode & 0o777) == (0o600, 0o700)
    path.chmod(0o644)
    assert controller_key(directory) == keys[0]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_named_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secret-hash-key"
    path.write_bytes(content)
    with pytest.raises(
        Usage, match=r"/secret-hash-key is no key of 32 bytes; remove it: the next command makes another one$"
    ):
        controller_key(tmp_path)
    assert path.read_bytes() == content


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"x" * 32)
    (tmp_path / "secret-hash-key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        Usage,
        match=r"/secret-hash-key: .*; the key for the hashes of secrets lies there: make it accessible$",
    ):
        controller_key(tmp_path)
