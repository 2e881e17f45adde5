"""Copying a remote directory to a host: which files, what is verified, and what goes on after a cut."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.memory_cluster import make_context
from tests.support.remote_dirs import URL, FaultyFileSystem, remote_dir
from tfprov.errors import InvalidInput
from tfprov.filesystems.remote_dir import ClientMissing, RemoteDir
from tfprov.filesystems.urls import SCHEMES
from tfprov.hosts.data_download import fetch_command, fetch_request
from tfprov.hosts.program_checks import module_command
from tfprov.model.state import DataSet
from tfprov.runtime.fetch import FetchError
from tfprov.runtime.fetch_remote import copy_all

INVENTORY = """
all: {vars: {tfprov: {cluster: c, command: [python, x.py], data: {path: PATH}, env: {AWS_SECRET_ACCESS_KEY: hidden-key}}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""


@pytest.fixture
def far(tmp_path: Path) -> Path:
    far = tmp_path / "far"
    (far / "train").mkdir(parents=True)
    (far / "train/part-0.tfrecord").write_bytes(b"a" * 1000)
    (far / "labels.txt").write_bytes(b"cat\n")
    (far / ".tfprov").mkdir()
    (far / ".tfprov/manifest-0000000001-a.json").write_text("{}")
    return far


def copied(far: Path, to: Path, fs: FaultyFileSystem | None = None) -> dict[str, bytes]:
    to.mkdir(exist_ok=True)
    copy_all(URL, {}, to, 0.0, lambda _url, _env: remote_dir(far, fs))
    return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}


def test_all_files_are_copied_under_their_names(far: Path, tmp_path: Path) -> None:
    assert copied(far, tmp_path / "to") == {"train/part-0.tfrecord": b"a" * 1000, "labels.txt": b"cat\n"}


def test_after_a_cut_the_missing_files_are_copied(far: Path, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="the connection was cut"):
        copied(far, tmp_path / "to", FaultyFileSystem(cut_at=2))
    first = tmp_path / "to/labels.txt"
    before = first.stat().st_mtime_ns
    assert len(copied(far, tmp_path / "to")) == 2
    assert first.stat().st_mtime_ns == before


def test_data_that_were_written_anew_are_not_mixed_with_those_of_a_copy_that_was_cut(far: Path, tmp_path: Path) -> None:
    def sums(labels: bytes) -> None:
        (far / "SHA256SUMS").write_text(f"{hashlib.sha256(labels).hexdigest()}  labels.txt\n")

    sums(b"cat\n")
    (far / "old.txt").write_bytes(b"x")
    copied(far, tmp_path / "to")
    (tmp_path / "to/.cut.txt.part").write_bytes(b"x")
    sums(b"dog\n")
    (far / "labels.txt").write_bytes(b"dog\n")
    (far / "old.txt").unlink()
    files = copied(far, tmp_path / "to")
    assert files.keys() == {"SHA256SUMS", "train/part-0.tfrecord", "labels.txt"}
    assert (files["labels.txt"], files["SHA256SUMS"]) == (b"dog\n", (far / "SHA256SUMS").read_bytes())


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (f"{hashlib.sha256(b'dog').hexdigest()}  labels.txt\n", "labels.txt has the SHA-256"),
        (f"{'0' * 64} *./gone.txt\n", "has no gone.txt, which its SHA256SUMS names"),
    ],
)
def test_a_sum_that_does_not_fit_is_an_error(far: Path, tmp_path: Path, sums: str, words: str) -> None:
    (far / "SHA256SUMS").write_text(sums)
    with pytest.raises(FetchError, match=words):
        copied(far, tmp_path / "to")
    assert not (tmp_path / "to/labels.txt").exists()


def test_sums_that_fit_are_accepted(far: Path, tmp_path: Path) -> None:
    (far / "SHA256SUMS").write_text(f"{hashlib.sha256(b'cat' + bytes([10])).hexdigest()} *labels.txt\nnonsense\n")
    assert "labels.txt" in copied(far, tmp_path / "to")


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=f"{URL} has no files"):
        copied(tmp_path / "nothing", tmp_path / "to")


def test_a_missing_client_is_named(tmp_path: Path) -> None:
    def missing(_url: str, _env: object) -> RemoteDir:
        raise ClientMissing(SCHEMES["s3"])

    with pytest.raises(FetchError) as caught:
        copy_all(URL, {}, tmp_path, 0.0, missing)
    assert "s3fs" in caught.value.message
    assert "tfprov[s3]" in caught.value.fix


def test_hosts_that_read_it_fetch_it_with_the_credentials_of_their_tasks() -> None:
    context = make_context(INVENTORY.replace("PATH", '"s3://bucket/train"'))
    (fetched,) = context.data.values()
    assert fetched.data.remote == "s3://bucket/train"
    request = json.loads(fetch_request(fetched.data, 1.0))
    assert request["url"] == "s3://bucket/train"
    assert request["env"]["AWS_SECRET_ACCESS_KEY"] == "hidden-key"
    command = fetch_command(fetched.data, ["python3", "-I"], "program", "/fetched")
    assert command == module_command("python3", "tfprov.runtime.fetch_remote", "/fetched")
    assert "hidden-key" not in repr(fetched.data) + " ".join(command)
    worker = context.container("worker/0")
    assert worker is not None
    assert worker.data == fetched.data.artifact
    assert fetched.data.key != DataSet((), "s3://bucket/other").key


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ('"http://web/train.tfrecord"', "use `fetch` with the `url` and `sha256` of each file"),
        ('"s3a://bucket/x"', "write `s3://`"),
        ('"s3://bucket"', "needs a directory"),
    ],
)
def test_urls_that_cannot_work_are_refused_with_the_way_that_does(path: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make_context(INVENTORY.replace("PATH", path))
