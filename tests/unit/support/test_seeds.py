"""Images for new test hosts: made once, shared, and made again where another image is asked for."""

from pathlib import Path

import pytest

from tests.support.seeds import link_images, seed


def test_a_seed_is_made_once_and_goes_when_another_one_is_made(tmp_path: Path) -> None:
    made: list[Path] = []

    def fill(directory: Path) -> None:
        (directory / "image").mkdir()
        made.append(directory)

    first = seed(tmp_path, ("host", "train:1"), fill)
    assert seed(tmp_path, ("host", "train:1"), fill) == first
    assert len(made) == 1
    second = seed(tmp_path, ("host", "train:2"), fill)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [second]
    assert list(second.iterdir()) == [second / "image"]


def test_a_seed_that_was_not_finished_is_not_used(tmp_path: Path) -> None:
    def fails(directory: Path) -> None:
        (directory / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seed(tmp_path, ("host",), fails)
    made = seed(tmp_path, ("host",), lambda directory: (directory / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]


def test_files_of_layers_are_shared_and_the_list_of_images_is_each_hosts_own(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for path in (source / "image" / "repositories.json", source / "overlay2" / "1" / "diff" / "file"):
        path.parent.mkdir(parents=True)
        path.write_text("content")
    (source / "volumes").mkdir()
    target.mkdir()
    link_images(source, target)
    assert (target / "overlay2/1/diff/file").samefile(source / "overlay2/1/diff/file")
    assert not (target / "image/repositories.json").samefile(source / "image/repositories.json")
    assert (target / "image/repositories.json").read_text() == "content"
    assert sorted(path.name for path in target.iterdir()) == ["image", "overlay2"]
