"""The mirror beside a program: its lines about the remote directory, and how long it waits for it."""

import json
import threading
from pathlib import Path

import pytest

from tests.support.remote_dirs import FaultyFileSystem, remote_dir, save
from tests.support.waiting import LONG
from tfprov.filesystems.remote_dir import RemoteError
from tfprov.filesystems.urls import SCHEMES
from tfprov.runtime.mirror.loop import MirrorLoop
from tfprov.runtime.mirror.restore import Owner, take_over


def begun(tmp_path: Path, fs: FaultyFileSystem, lines: list[str], pauses: list[float] | None = None) -> MirrorLoop:
    waited = [] if pauses is None else pauses
    owner = Owner("linear", "run-1")
    remote = remote_dir(tmp_path / "far", fs)
    return MirrorLoop.begin(remote, tmp_path / "local", owner, lines.append, waited.append, lambda: sum(waited))


def test_an_unreachable_directory_is_told_once_and_again_when_it_is_complete(tmp_path: Path) -> None:
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    save(tmp_path / "local", 100)
    fs.cut_at = 0
    assert not loop.try_once()
    assert not loop.try_once()
    assert len(lines) == 1
    assert "mirroring to s3://bucket/run waits: " in lines[0]
    assert "the connection was cut" in (tmp_path / "local/mirror.json").read_text()
    fs.cut_at = None
    assert loop.try_once()
    assert lines[1:] == ["model.ckpt-100 is in s3://bucket/run", "s3://bucket/run is complete again"]


def test_the_end_waits_for_the_directory_and_says_when_it_is_behind(tmp_path: Path) -> None:
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    loop.start()
    fs.cut_at = 0
    save(tmp_path / "local", 100)
    asked: list[float] = []

    def pause(seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) == 3

    loop.stop(pause, patient=True)
    assert len(asked) == 3
    assert asked[2] > asked[0]
    assert lines[-1].startswith("s3://bucket/run is behind: ")
    assert lines[-1].count("s3://") == 1


def test_a_directory_that_was_taken_over_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    lines: list[str] = []
    loop = begun(tmp_path, FaultyFileSystem(), lines)
    take_over(remote_dir(tmp_path / "far"), tmp_path / "other", Owner("linear", "run-1"), lambda _line: None)
    save(tmp_path / "local", 100)
    assert not loop.try_once()
    reason = "it was taken over by another task, which restored from it: this one's checkpoints stay here"
    line = f"mirroring to s3://bucket/run has ended: {reason}; end one of the two with `tfprov down`"
    assert lines[-1] == line
    assert json.loads((tmp_path / "local" / "mirror.json").read_text())["problem"] == line.partition(": ")[2]


def test_a_directory_that_does_not_answer_at_the_start_ends_the_task_after_a_while(tmp_path: Path) -> None:
    fs, lines, pauses = FaultyFileSystem(cut_at=0), list[str](), list[float]()
    with pytest.raises(RemoteError, match="the connection was cut"):
        begun(tmp_path, fs, lines, pauses)
    assert pauses == [1.0, 2.0, 4.0, 8.0, *[15.0] * 7], "of 120 s"
    assert [line.partition("; ")[2] for line in lines] == ["trying again"]


def test_the_training_never_waits_for_the_directory(tmp_path: Path) -> None:
    """A thread that hangs in a request holds nothing that the program needs."""
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    begun_request, release, ended = threading.Event(), threading.Event(), list[bool]()

    def hang() -> None:
        if not begun_request.is_set():
            begun_request.set()
            ended.append(release.wait(LONG))

    fs.seen = hang
    save(tmp_path / "local", 100)
    try:
        loop.start()
        assert begun_request.wait(LONG)
        for step in range(200, 1000, 100):
            save(tmp_path / "local", step, keep=1)
        assert (tmp_path / "local/model.ckpt-900.index").is_file()
        assert ended == [], "the request hangs still"
    finally:
        release.set()
    loop.stop(lambda _seconds: False, patient=True)
    assert not loop.problem


def test_weights_that_a_saver_leaves_with_a_ps_are_told(tmp_path: Path) -> None:
    fs, lines = FaultyFileSystem(), list[str]()
    loop = begun(tmp_path, fs, lines)
    local = tmp_path / "local"
    (local / "model.ckpt-5.meta").write_bytes(b"graph")
    (local / "checkpoint").write_text('model_checkpoint_path: "/checkpoints/model.ckpt-5"\n')
    assert loop.try_once()
    assert loop.try_once()
    (line,) = lines
    assert (
        line
        == "the weights of model.ckpt-5 are not here, but with a ps; save with tfprov.runtime, or Saver(sharded=False)"
    )
    assert loop.problem == line


def test_every_scheme_names_its_package_and_extra() -> None:
    assert {name: (it.package, it.extra) for name, it in SCHEMES.items()} == {
        "s3": ("s3fs", "s3"), "hdfs": ("hdfs-native", "hdfs"), "gs": ("gcsfs", "gs"),
    }  # fmt: skip
