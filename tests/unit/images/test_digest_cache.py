"""The cache of file digests: a large archive is hashed once, and a stale entry is never used."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tfprov.images.blobs import digest_of_file


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "image.tar"
    path.write_bytes(b"an image")
    return path


def change_unseen(path: Path, data: bytes) -> None:
    """Write other content with the same size, mtime and inode, which only hashing the file again reveals."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_unchanged_file_is_not_read_again(file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "made" / "archives.json"
    assert digest_of_file(file, cache) == sha256(b"an image")
    change_unseen(file, b"AN IMAGE")
    assert digest_of_file(file, cache) == sha256(b"an image")
    assert digest_of_file(file, tmp_path / "other.json") == sha256(b"AN IMAGE")


def test_every_visible_change_is_noticed(file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "archives.json"
    digest_of_file(file, cache)
    before = file.stat()

    change_unseen(file, b"AN IMAGE")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert digest_of_file(file, cache) == sha256(b"AN IMAGE")

    file.write_bytes(b"longer than before")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert digest_of_file(file, cache) == sha256(b"longer than before")

    beside = tmp_path / "beside"
    beside.write_bytes(b"LONGER THAN BEFORE")
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    beside.replace(file)
    assert digest_of_file(file, cache) == sha256(b"LONGER THAN BEFORE")


def test_two_paths_of_a_file_share_an_entry(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "archives.json"
    digest_of_file(file, cache)
    change_unseen(file, b"AN IMAGE")
    (tmp_path / "link").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    assert digest_of_file(Path("link"), cache) == sha256(b"an image")


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"KEY": 1}', b'{"KEY": []}', b'{"KEY": [8]}', b'{"KEY": "STAMP"}',
        b'{"KEY": [STAMP, 7]}', b"[" * 100_000,
    ],
    ids=lambda damage: damage[:12].decode("latin-1"),
)  # fmt: skip
def test_a_damaged_cache_costs_only_time(file: Path, tmp_path: Path, damage: bytes) -> None:
    cache = tmp_path / "archives.json"
    status = file.stat()
    stamp = f"{status.st_size}, {status.st_mtime_ns}, {status.st_ino}"
    cache.write_bytes(damage.replace(b"KEY", str(file).encode()).replace(b"STAMP", stamp.encode()))
    assert digest_of_file(file, cache) == sha256(b"an image")
    change_unseen(file, b"AN IMAGE")
    assert digest_of_file(file, cache) == sha256(b"an image")


def test_a_cache_that_cannot_be_written_costs_only_time(file: Path) -> None:
    assert digest_of_file(file, file / "archives.json") == sha256(b"an image")


def test_an_unreadable_file_raises_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        digest_of_file(tmp_path / "none", tmp_path / "archives.json")
    assert not (tmp_path / "archives.json").exists()


def test_the_cache_has_a_limit(tmp_path: Path) -> None:
    cache = tmp_path / "archives.json"
    for number in range(55):
        path = tmp_path / str(number)
        path.write_bytes(b"x")
        digest_of_file(path, cache)
    assert list(json.loads(cache.read_bytes())) == [str(tmp_path / str(number)) for number in range(5, 55)]
