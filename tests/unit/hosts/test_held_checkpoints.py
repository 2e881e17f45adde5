"""Checkpoints held while a process removes them."""

from pathlib import Path

from tfprov.hosts.base import File
from tfprov.hosts.held_checkpoints import FOLDER, hold, release, split_held

NAMES = ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001", "model.ckpt-5.meta")


def test_only_checkpoint_files_are_held_and_they_outlive_their_removal(tmp_path: Path) -> None:
    for name in (*NAMES, "checkpoint", "events.out.tfevents.1.h1", ".index"):
        (tmp_path / name).write_text(name)
    (tmp_path / "model.ckpt-6.index").symlink_to(tmp_path / NAMES[0])
    (tmp_path / "model.ckpt-7.index").mkdir()
    assert sorted(hold(tmp_path)) == sorted(NAMES)
    for name in NAMES:
        (tmp_path / name).unlink()
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == sorted(NAMES)
    assert (tmp_path / FOLDER / NAMES[0]).read_text() == NAMES[0]
    assert hold(tmp_path) == {}, "holding again releases the earlier files"
    release(tmp_path)
    release(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_held_files_are_split_from_the_others() -> None:
    file = File(1, 0.0)
    assert split_held({"a": file, f"{FOLDER}/a": file, f"{FOLDER}-not/a": file}) == (
        {"a": file, f"{FOLDER}-not/a": file},
        True,
    )
    assert split_held({"a": file}) == ({"a": file}, False)
