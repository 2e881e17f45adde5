"""Checkpoints of a process that are held while it removes them."""

from pathlib import Path

from tfprov.hosts.base import File
from tfprov.hosts.held_checkpoints import FOLDER, apart, hold, release

NAMES = ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001", "model.ckpt-5.meta")


def test_only_files_of_checkpoints_are_held_and_outlive_their_first_name(tmp_path: Path) -> None:
    for name in (*NAMES, "checkpoint", "events.out.tfevents.1.h1", ".index"):
        (tmp_path / name).write_text(name)
    (tmp_path / "model.ckpt-6.index").symlink_to(tmp_path / NAMES[0])
    (tmp_path / "model.ckpt-7.index").mkdir()
    assert sorted(hold(tmp_path)) == sorted(NAMES)
    for name in NAMES:
        (tmp_path / name).unlink()
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == sorted(NAMES)
    assert (tmp_path / FOLDER / NAMES[0]).read_text() == NAMES[0]
    assert hold(tmp_path) == {}, "a new one lets go of the one before"
    release(tmp_path)
    release(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_what_is_held_is_apart_from_the_rest() -> None:
    file = File(1, 0.0)
    assert apart({"a": file, f"{FOLDER}/a": file, f"{FOLDER}-not/a": file}) == (
        {"a": file, f"{FOLDER}-not/a": file},
        True,
    )
    assert apart({"a": file}) == ({"a": file}, False)
