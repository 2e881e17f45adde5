"""What the controller remembers of the images it delivered."""

from pathlib import Path

import pytest

from tfprov.engine.host_registry import DeliveredImages

NAME = "tfprov/lab:1"


def test_the_last_delivery_to_a_host_decides_and_what_was_made_here_where_there_was_none(tmp_path: Path) -> None:
    path = tmp_path / "lab" / "images.json"
    delivered = DeliveredImages(path, lambda name: ("config", "manifest") if name == NAME else ())
    assert delivered.image_ids("h1", NAME) == ("config", "manifest")
    delivered.record("h1", NAME, "first")
    delivered.on("h1").record(NAME, "second")
    again = DeliveredImages(path)
    assert (again.image_ids("h1", NAME), again.on("h2").image_ids(NAME)) == (("second",), ())
    assert delivered.image_ids("h2", "tfprov/lab:2") == ()
    assert [one.stat().st_mode & 0o777 for one in (path, path.parent)] == [0o600, 0o700]


def test_only_so_many_images_of_a_host_are_remembered(tmp_path: Path) -> None:
    delivered = DeliveredImages(tmp_path / "images.json")
    for number in range(40):
        delivered.record("h1", f"tfprov/lab:{number}", str(number))
    assert [bool(delivered.image_ids("h1", f"tfprov/lab:{number}")) for number in (0, 7, 8, 39)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("text", ["", "[1]", '{"h1": 3}', "\x00"])
def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.json").write_text(text)
    delivered = DeliveredImages(tmp_path / "images.json")
    assert delivered.image_ids("h1", NAME) == ()
    delivered.record("h1", NAME, "id")
    assert delivered.image_ids("h1", NAME) == ("id",)
