"""Remote directories: what of a file is seen, and the errors of servers that are not there."""

import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.ports import free_port
from tests.support.remote_dirs import URL, FaultyFileSystem, remote_dir, save
from tfprov.filesystems.generations import Manifest, RemoteCheckpoint, RemoteFile, decode, read_newest
from tfprov.filesystems.remote_dir import TIME_LIMIT, RemoteDir, RemoteError, open_remote, open_through
from tfprov.runtime.mirror.loop import MirrorLoop
from tfprov.runtime.mirror.mirror import Mirror
from tfprov.runtime.mirror.scan import scan


def s3_at(port: int) -> dict[str, str]:
    """Return variables that lead a client of S3 to a port of this machine."""
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.mark.parametrize("scheme", ["hdfs", "s3"])
def test_a_server_that_is_not_there_is_one_line_soon(scheme: str) -> None:
    port = free_port()
    url = f"hdfs://127.0.0.1:{port}/run" if scheme == "hdfs" else "s3://bucket/run"
    remote = open_remote(url, s3_at(port))  # this imports the client, which may take long
    began = time.monotonic()
    with pytest.raises(RemoteError) as caught:
        remote.files()
    assert caught.value.message.startswith(f"{url}: cannot be listed: ")
    assert "\n" not in caught.value.message
    assert time.monotonic() - began < TIME_LIMIT


@pytest.mark.parametrize("scheme", ["hdfs", "s3"])
def test_a_server_that_accepts_and_never_answers_does_not_block_the_mirror(scheme: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        url = f"hdfs://127.0.0.1:{port}/run" if scheme == "hdfs" else "s3://bucket/run"
        remote = open_remote(url, s3_at(port), limit=0.1)
        calls: list[Callable[[], object]] = [
            remote.files,
            lambda: remote.read("x", 10),
            lambda: remote.write("x", [b"1"]),
            lambda: remote.remove(["x"]),
        ]
        for call in calls:
            with pytest.raises(RemoteError, match=rf"^{url}: .*: (no answer in time|Read timeout on endpoint URL.*)$"):
                call()
        save(tmp_path, 1)
        lines: list[str] = []
        loop = MirrorLoop(Mirror(tmp_path, remote, Manifest(1, "a", "linear", "run-1"), lines.append), lines.append)
        loop.start()
        loop.stop(lambda _seconds: True, patient=False)
    assert "no answer" in loop.problem or "timeout" in loop.problem
    assert lines[-1].startswith(f"{url} is behind: ")


def test_files_are_relative_and_those_beside_the_directory_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "run/a").mkdir(parents=True)
    (tmp_path / "run/a/b").write_bytes(b"123")
    (tmp_path / "run-2").mkdir()
    (tmp_path / "run-2/c").write_bytes(b"4")
    remote = remote_dir(tmp_path / "run")
    assert remote.files() == remote.files("a") == {"a/b": 3}
    assert remote.files("none") == {}
    with pytest.raises(RemoteError, match="is larger than 2 bytes"):
        remote.read("a/b", 2)


def test_an_upload_that_fails_here_is_not_finished_and_no_error_of_the_server(tmp_path: Path) -> None:
    def chunks() -> "list[bytes]":
        raise OSError("the local disk is gone")

    remote = remote_dir(tmp_path, FaultyFileSystem())
    with pytest.raises(OSError, match=r"^the local disk is gone$"):
        remote.write("x", (piece for _ in range(1) for piece in chunks()))
    assert remote.files() == {}


MANIFEST = Manifest(
    7, "abc", "linear", "run-1",
    (RemoteCheckpoint("best/ckpt-2", {"best/ckpt-2.index": RemoteFile("best/ckpt-2.index", 3, "00", 1.5)}),),
    {"events": RemoteFile("events", 1, "11")}, ("x",),
)  # fmt: skip


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert decode(MANIFEST.encode()) == MANIFEST


def is_read(data: bytes) -> bool:
    try:
        decode(data)
    except ValueError:
        return False
    return True


def test_no_changed_or_cut_manifest_is_read() -> None:
    data = MANIFEST.encode().rstrip()
    variants = [data[:end] for end in range(len(data))]
    for position in range(0, len(data), 3):
        changed = bytearray(data)
        changed[position] ^= 1
        variants.append(bytes(changed))
    assert [variant for variant in variants if is_read(variant)] == []


BAD_NAMES = ["../evil.sh", "/etc/evil.sh", "best/../../evil", "best//x", "best/./x", "best/", "..", ".", "", "a\0b"]


def with_file(prefix: str, name: str, object_name: str = "x") -> Manifest:
    """Return a manifest with one checkpoint of one file."""
    return replace(MANIFEST, checkpoints=(RemoteCheckpoint(prefix, {name: RemoteFile(object_name, 1, "00")}),))


@pytest.mark.parametrize("bad", BAD_NAMES, ids=repr)
def test_a_manifest_with_a_name_outside_of_its_directory_is_not_read(bad: str) -> None:
    folder = bad.rpartition("/")[0]
    variants = {
        "file": with_file(f"{folder}/ckpt-2" if folder else "ckpt-2", bad),
        "object": with_file("ckpt-2", "ckpt-2.index", bad),
        "other file": replace(MANIFEST, others={bad: RemoteFile("x", 1, "00")}),
        "object of another file": replace(MANIFEST, others={"x": RemoteFile(bad, 1, "00")}),
        "upload": replace(MANIFEST, uploading=(bad,)),
    }
    assert [what for what, manifest in variants.items() if is_read(manifest.encode())] == []


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        *[("../ckpt-2", "../ckpt-2.index"), ("/ckpt-2", "/ckpt-2.index"), ("a//ckpt-2", "a//ckpt-2.index")],
        *[("best/ckpt-2", "ckpt-2.index"), ("best/ckpt-2", "best/more/ckpt-2.index"), ("ckpt-2", "best/ckpt-2.index")],
        *[("", ".index"), ("best/", "best/.index"), ("a\0b", "ckpt-2.index")],
    ],
)
def test_a_manifest_whose_checkpoint_has_files_elsewhere_is_not_read(prefix: str, name: str) -> None:
    assert not is_read(with_file(prefix, name).encode())


@pytest.mark.parametrize("folder", ["", "best", "a b/ü/\udcff", "...", "..a/.b", "c:\\d", "line\nbreak"], ids=ascii)
@pytest.mark.parametrize("prefix", ["ckpt-2", ".", "..", "...", ".hidden", "w\udcfe\n\\ '\"-3"], ids=ascii)
def test_a_manifest_with_any_other_name_is_read(folder: str, prefix: str, tmp_path: Path) -> None:
    """Scan a directory with such files, and read a manifest of what is there."""
    directory = tmp_path / folder
    directory.mkdir(parents=True, exist_ok=True)
    for name in (f"{prefix}.index", f"{prefix}.data-00000-of-00001", f"{prefix}.txt"):
        (directory / name).touch()
    listing = scan(tmp_path)
    (checkpoint,) = (
        RemoteCheckpoint(one.prefix, {name: RemoteFile(name, 0, "00") for name in one.files})
        for one in listing.checkpoints
    )
    others = {name: RemoteFile(f".tfprov/objects/00/{name.rpartition('/')[2]}", 0, "00") for name in listing.others}
    manifest = replace(MANIFEST, checkpoints=(checkpoint,), others=others, uploading=tuple(checkpoint.files))
    assert len(checkpoint.files) == 2
    assert len(others) == 1
    assert decode(manifest.encode()) == manifest


def test_manifests_that_their_writer_replaces_after_the_listing_are_listed_again(tmp_path: Path) -> None:
    class Moving(RemoteDir):
        number = 1

        def files(self, below: str = "") -> dict[str, int]:
            listed = super().files(below)
            if self.number < 4:
                self.remove(listed)
                self.number += 1
                newer = replace(MANIFEST, number=self.number)
                self.write(newer.name, [newer.encode()])
            return listed

    remote = Moving(URL, FaultyFileSystem(), str(tmp_path))
    remote.write(replace(MANIFEST, number=1).name, [replace(MANIFEST, number=1).encode()])
    newest = read_newest(remote)
    assert newest is not None
    assert newest.number == 4


def test_the_newest_manifest_that_can_be_read_counts(tmp_path: Path) -> None:
    remote = remote_dir(tmp_path)
    remote.write(MANIFEST.name, [MANIFEST.encode()])
    remote.write(".tfprov/manifest-0000000008-abd.json", [MANIFEST.encode()[:40]])
    assert read_newest(remote) == MANIFEST
    (tmp_path / MANIFEST.name).unlink()
    with pytest.raises(RemoteError, match=f"{URL} has no manifest that can be read"):
        read_newest(remote)


SECRET = "MIIEvQ-private"


def refuses(error: Exception) -> SimpleNamespace:
    """Return a client of GS that does not take its credentials."""

    def files(**_options: object) -> None:
        raise error

    return SimpleNamespace(GCSFileSystem=files)


@pytest.mark.parametrize(
    ("error", "env", "reason"),
    [
        (FileNotFoundError(SECRET), {"GOOGLE_APPLICATION_CREDENTIALS": SECRET}, "a file that they name is not here"),
        (PermissionError(13, "Permission denied", SECRET), {}, "a file that they name cannot be read: Permission denied"),
        (ValueError(f"Token format not understood: {SECRET}"), {}, "ValueError"),
        (AssertionError("not called"), {"GOOGLE_CREDENTIALS": f"{SECRET}\n\\q"}, "they are not JSON"),
        (AssertionError("not called"), {"GOOGLE_CREDENTIALS": f'{{"key": "{SECRET}'}, "they are not JSON"),
    ],
)  # fmt: skip
def test_credentials_that_a_client_does_not_take_are_one_line_without_them(
    error: Exception, env: dict[str, str], reason: str
) -> None:
    with pytest.raises(RemoteError) as caught:
        open_through(refuses(error), "gs://bucket/run", env)
    assert caught.value.message == f"gs://bucket/run: the credentials cannot be used: {reason}"
    assert caught.value.fix == "look at the credentials in `env`"
    assert SECRET not in "".join(traceback.format_exception(None, caught.value, caught.value.__traceback__))
