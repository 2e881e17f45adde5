"""Private directories are for their owner alone, whatever the umask; pipes and symlinks that a user names stay."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.full_disk import full_disk
from tfprov.atomic_write import private_directory, replace, replace_output


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_directory_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    private_directory(tmp_path / "a" / "b")
    assert [mode(tmp_path / name) for name in ("a", "a/b")] == [0o700, 0o700]
    replace(tmp_path / "a" / "file", b"1", mode=0o600)
    assert mode(tmp_path / "a" / "file") == 0o600


def test_an_existing_directory_becomes_private_and_its_parents_stay(tmp_path: Path) -> None:
    above = tmp_path / "above"
    (above / "ours").mkdir(parents=True)
    for path in (above, above / "ours"):
        path.chmod(0o755)
    private_directory(above / "ours")
    assert (mode(above), mode(above / "ours")) == (0o755, 0o700)


def test_a_pipe_takes_the_data_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_output(pipe, b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_symlink_still_leads_to_its_file(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to("file")
    for data in (b"1", b"2"):  # first it leads nowhere
        replace_output(link, data)
        assert (link.is_symlink(), file.read_bytes()) == (True, data)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o755])
def test_a_file_that_a_user_named_keeps_its_mode(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "job.sh"
    file.touch()
    file.chmod(kept)
    before = os.umask(0o022)
    replace_output(file, b"text")
    os.umask(before)
    assert (mode(file), file.read_bytes()) == (kept, b"text")


def test_a_user_keeps_other_files_beside_an_output_and_gets_none(tmp_path: Path, umask: int) -> None:
    (tmp_path / "lab.yml.part").write_bytes(b"a download")
    for _ in range(2):
        replace_output(tmp_path / "lab.yml", b"text")
    with full_disk(2), pytest.raises(OSError, match="File too large") as caught:
        replace_output(tmp_path / "lab.yml", b"more")
    assert caught.value.filename == str(tmp_path / "lab.yml")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "lab.yml": b"text", "lab.yml.part": b"a download",
    }  # fmt: skip
    assert mode(tmp_path / "lab.yml") == 0o666 & ~umask


def test_the_error_of_a_full_disk_has_the_name_of_the_file(tmp_path: Path) -> None:
    replace(tmp_path / "file", b"before")
    with full_disk(2), pytest.raises(OSError, match="File too large") as caught:
        replace(tmp_path / "file", b"after")
    assert caught.value.filename == str(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"before"
