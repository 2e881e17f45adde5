"""`cp`: copies are whole or not there, stay where they belong, and say what is wrong in one line."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.support.memory_lab import MemoryLab
from tfprov.engine.task_files import copy_from, copy_to
from tfprov.errors import HostError, TfprovError, Usage, printable
from tfprov.hosts.base import File, Tree
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.memory_task import MemoryOutsideFiles
from tfprov.hosts.process.copy_in import put_beside


@pytest.fixture
def host() -> MemoryRuntime:
    lab = MemoryLab()
    lab.hosts["h2"].writes("worker/0", "out/a", b"1")
    lab.hosts["h2"].writes("worker/0", "out/deep/b", b"22")
    return lab.hosts["h2"]


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_files_and_directories(host: MemoryRuntime, tmp_path: Path) -> None:
    assert copy_from(host, "worker/0", "out", tmp_path) == tmp_path / "out"
    assert copy_from(host, "worker/0", "out", f"{tmp_path}/new/") == tmp_path / "new"
    assert copy_from(host, "worker/0", "out/a", tmp_path / "file") == tmp_path / "file"
    assert names(tmp_path) == ["file", "new/a", "new/deep/b", "out/a", "out/deep/b"]
    (tmp_path / "file").write_text("old")
    copy_from(host, "worker/0", "out/a", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        ("nope", ".", "h2: no such file or directory: nope"),
        ("out", "none/x", "no such directory: {}/none; make it first, or choose another"),
        ("out/a", "none/", "no such directory: {}/none/; make it first, or choose another"),
        ("out", "taken", "{}/taken/out is a directory already; remove it first, or choose another name"),
    ],
)
def test_what_cannot_be_copied_is_one_line(
    host: MemoryRuntime, tmp_path: Path, path: str, to: str, message: str
) -> None:
    (tmp_path / "taken" / "out").mkdir(parents=True)
    with pytest.raises(TfprovError) as caught:
        copy_from(host, "worker/0", path, f"{tmp_path}/{to}")
    assert str(caught.value) == message.format(tmp_path)
    assert names(tmp_path) == []


def test_a_device_or_a_pipe_is_not_replaced_and_a_link_leads_to_the_copy(host: MemoryRuntime, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    (tmp_path / "to file").symlink_to("file")
    for name in ("pipe", "to pipe"):
        with pytest.raises(Usage, match=r"/pipe is neither a file nor a directory; choose another name$"):
            copy_from(host, "worker/0", "out/a", tmp_path / name)
    for _ in range(2):  # first it leads nowhere
        assert copy_from(host, "worker/0", "out/a", tmp_path / "to file") == tmp_path / "file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe", "to file", "to pipe"]
    assert (tmp_path / "pipe").is_fifo()
    assert ((tmp_path / "to file").is_symlink(), (tmp_path / "file").read_bytes()) == (True, b"1")


class Hostile(MemoryOutsideFiles):
    """An engine that sends these names, and breaks off."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def tree(self, _task: str, _path: str) -> Tree:
        return Tree("out", self._files())

    def _files(self) -> Iterator[tuple[str, File, BinaryIO]]:
        yield "good", File(1, 1.0), io.BytesIO(b"1")
        for name in self.names:
            yield name, File(1, 1.0), io.BytesIO(b"1")
        raise HostError("h2", "the connection was lost")


def hostile(*names: str) -> MemoryRuntime:
    host = MemoryRuntime("h2")
    host.outside = Hostile(*names)
    return host


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "..", "a\0b"])
def test_a_name_that_leads_out_is_refused_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / "to").mkdir()
    with pytest.raises(HostError) as caught:
        copy_from(hostile(name), "worker/0", "out", tmp_path / "to" / "copy")
    assert str(caught.value) == f"h2: the copy has a file outside of it: `{printable(name)}`; look at the host's engine"
    assert [*tmp_path.rglob("*")] == [tmp_path / "to"]


def test_a_copy_that_breaks_off_leaves_nothing_and_an_older_one_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("old")
    with pytest.raises(HostError, match=r"^h2: the connection was lost$"):
        copy_from(hostile(), "worker/0", "out", tmp_path / "copy")
    assert names(tmp_path) == ["copy"]
    assert (tmp_path / "copy").read_text() == "old"


def test_into_a_task(host: MemoryRuntime, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"v")
    assert copy_to(host, tmp_path / "v.txt", "worker/0", "v.txt") == "v.txt"
    assert host.places["worker/0"].written["v.txt"][0] == b"v"
    (tmp_path / "link").symlink_to("gone")
    for source, message in (
        ("none", f"no such file or directory: {tmp_path}/none; check the path"),
        ("link", f"{tmp_path}/link is a link to nothing; correct it, or name the file itself"),
    ):
        with pytest.raises(Usage) as caught:
            copy_to(host, tmp_path / source, "worker/0", "x")
        assert str(caught.value) == message


def test_into_the_directory_of_a_process(tmp_path: Path) -> None:
    work, source = tmp_path / "work", tmp_path / "data"
    (work / "sub").mkdir(parents=True)
    source.mkdir()
    (source / "a").write_text("1")
    (source / "out").symlink_to("/etc")
    assert put_beside("h", "worker/0", work, "new", source) == str(work / "new")
    assert put_beside("h", "worker/0", work, "sub", source) == str(work / "sub" / "data")
    assert names(work) == ["new/a", "sub/data/a"], "links are left out"
    (work / "away").symlink_to(tmp_path)
    for path, message in (
        ("../x", f"../x is not in the working directory of worker/0; copy to {tmp_path}/x yourself"),
        ("/etc/x", "/etc/x is not in the working directory of worker/0; copy to /etc/x yourself"),
        ("away/x", f"away/x is not in the working directory of worker/0; copy to {work}/away/x yourself"),
        ("none/x", f"no such directory in worker/0: {work}/none; make it first, or choose another"),
        ("none/", "no such directory in worker/0: none/; make it first, or choose another"),
        ("sub", "worker/0 has a directory at sub/data already; remove it first, or choose another name"),
        ("new/a", "worker/0 has a file at new/a already; remove it first, or choose another name"),
    ):
        with pytest.raises(HostError) as caught:
            put_beside("h", "worker/0", work, path, source / "a" if path == "none/" else source)
        assert str(caught.value) == f"h: {message}"
    assert names(work) == ["new/a", "sub/data/a"]
    with pytest.raises(HostError, match=r"^h: worker/0 is not there; start it with `tfprov up`$"):
        put_beside("h", "worker/0", tmp_path / "gone", "x", source)
