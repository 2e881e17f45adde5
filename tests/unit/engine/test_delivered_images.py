"""What the controller remembers of the images it delivered."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.waiting import until
from tfprov.atomic_write import replace
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


def test_the_file_is_read_once_for_all_hosts_and_again_after_another_process_has_changed_it(tmp_path: Path) -> None:
    path, reads = tmp_path / "images.json", []

    def read(path: Path) -> bytes:
        reads.append(path)
        return path.read_bytes()

    DeliveredImages(path).record("h1", NAME, "first")
    delivered = DeliveredImages(path, read=read)
    assert [delivered.image_ids(f"h{number}", NAME) for number in range(100)] == [(), ("first",), *[()] * 98]
    assert len(reads) == 1
    DeliveredImages(path).record("h1", NAME, "other")
    assert delivered.image_ids("h1", NAME) == ("other",)
    path.unlink()
    assert delivered.image_ids("h1", NAME) == ()


def test_records_that_are_made_while_the_file_is_written_are_written_together(tmp_path: Path) -> None:
    path, writing, go_on = tmp_path / "images.json", threading.Event(), threading.Event()
    writes: list[bytes] = []

    def write(path: Path, data: bytes) -> None:
        writing.set()
        assert go_on.wait(60)
        writes.append(data)
        replace(path, data, mode=0o600)

    delivered = DeliveredImages(path, write=write)
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(delivered.record, "h0", NAME, "id")
        assert writing.wait(60)
        others = [pool.submit(delivered.record, f"h{number}", NAME, "id") for number in range(1, 20)]
        until(lambda: delivered.waiting == 19)
        go_on.set()
        for done in (first, *others):
            done.result()
    assert len(writes) == 2
    again = DeliveredImages(path)
    assert all(again.image_ids(f"h{number}", NAME) == ("id",) for number in range(20))


def test_a_record_that_cannot_be_written_is_an_error_for_each_of_its_makers(tmp_path: Path) -> None:
    def write(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    delivered = DeliveredImages(tmp_path / "images.json", write=write)
    for host in ("h1", "h2"):
        with pytest.raises(OSError, match="No space left"):
            delivered.record(host, NAME, "id")
    delivered = DeliveredImages(tmp_path / "images.json")
    assert delivered.image_ids("h1", NAME) == ()
