"""The mirror of a checkpoint directory: what a reader of the remote one sees at any moment, and after any cut."""

import hashlib
import os
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.permissions import forbidden
from tests.support.remote_dirs import URL, FaultyFileSystem, newest_manifest_file, remote_dir, save
from tfprov.filesystems.generations import Manifest, RemoteCheckpoint, read_newest
from tfprov.filesystems.remote_dir import RemoteDir, RemoteError
from tfprov.formats.checkpoint import parse_state
from tfprov.runtime.mirror.mirror import Mirror, Superseded
from tfprov.runtime.mirror.restore import Owner, Refused, take_over
from tfprov.runtime.mirror.scan import HELD, scan

OWNER = Owner("linear", "run-1")


def begun(local: Path, remote: RemoteDir, owner: Owner = OWNER) -> Mirror:
    """Return the mirror of a task that starts."""
    manifest, listing = take_over(remote, local, owner, lambda _line: None)
    mirror = Mirror(local, remote, manifest, lambda _line: None)
    mirror.adopt(listing)
    (local / "mirror.json").write_text(f'{{"url": "{URL}"}}')
    return mirror


def damage(remote: Path, one: RemoteCheckpoint) -> str:
    """Return what is wrong with a checkpoint that the manifest calls whole; empty for a good one."""
    for name, file in one.files.items():
        path = remote / file.object
        if not path.is_file():
            return f"{name} is not there"
        if hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
            return f"{name} has another content"
    return ""


def called_whole(remote: Path) -> list[RemoteCheckpoint]:
    """Return what a reader takes for whole checkpoints."""
    directory = remote_dir(remote)
    manifest = read_newest(directory)
    return list(manifest.whole(directory.files()).checkpoints) if manifest else []


def tensorflow_sees(remote: Path) -> list[str]:
    """Return the checkpoints that the `checkpoint` file names, without those whose files are not all there."""
    state = remote / "checkpoint"
    named = parse_state(state.read_text()) if state.is_file() else []
    return [name for name in named if (remote / f"{name}.index").is_file()]


def test_new_checkpoints_are_mirrored_and_removed_ones_go_after_them(tmp_path: Path) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    mirror = begun(local, remote_dir(far))
    for step in (100, 200, 300):
        save(local, step, keep=2)
        assert mirror.sync()
    assert not mirror.sync()
    assert [one.prefix for one in called_whole(far)] == ["model.ckpt-200", "model.ckpt-300"]
    assert {path.name for path in far.glob("*.index")} == {"model.ckpt-200.index", "model.ckpt-300.index"}
    assert tensorflow_sees(far)[0] == "model.ckpt-300"
    assert not (local / HELD).exists()
    assert len(list((far / ".tfprov").iterdir())) == 2  # the newest manifest, and the one before it


def test_a_reader_sees_a_whole_checkpoint_at_every_moment_of_an_upload(tmp_path: Path) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    fs = FaultyFileSystem()
    mirror = begun(local, remote_dir(far, fs))
    save(local, 100, keep=1)
    mirror.sync()
    steps: list[int] = []

    def look() -> None:
        whole = called_whole(far)
        assert whole
        assert all(damage(far, one) == "" for one in whole)
        assert tensorflow_sees(far)
        steps.append(max(one.step for one in whole))

    fs.seen = look
    save(local, 200, keep=1)
    mirror.sync()
    assert steps == sorted(steps)
    assert set(steps) == {100, 200}
    assert len(steps) > 15


@pytest.mark.parametrize("atomic", [True, False], ids=["object store", "file system that keeps halves"])
def test_no_cut_leaves_a_checkpoint_that_is_called_whole_and_is_not(tmp_path: Path, *, atomic: bool) -> None:
    """Cut after each step of two uploads, the second of which replaces a name: every prefix of the sequence."""
    cut, is_done = 0, False
    while not is_done:
        local, far = tmp_path / f"local-{cut}", tmp_path / f"far-{cut}"
        first = begun(local, remote_dir(far))
        save(local, 100, keep=2)
        first.sync()
        fs = FaultyFileSystem(cut_at=cut, atomic=atomic)
        mirror = Mirror(local, remote_dir(far, fs), first.manifest, lambda _line: None)
        mirror.adopt(scan(local))
        save(local, 100, "other weights", keep=2)
        save(local, 200, keep=2)
        try:
            mirror.sync(final=True)
            is_done = True
        except RemoteError:
            pass
        whole = called_whole(far)
        assert whole, f"cut at {cut}"
        assert {damage(far, one) for one in whole} == {""}, f"cut at {cut}"
        # The task goes on elsewhere, and nothing that it cannot use stays.
        again = tmp_path / f"again-{cut}"
        mirror = begun(again, remote_dir(far))
        assert scan(again).newest() is not None
        objects = {name for name in remote_dir(far).files() if name.startswith(".tfprov/objects/")}
        assert objects <= mirror.manifest.objects, f"cut at {cut}"
        cut += 1
    assert cut > 30


def test_twenty_random_cuts_and_restarts_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(20)
    local, far = tmp_path / "local", tmp_path / "far"
    newest = 0
    for attempt in range(20):
        fs = FaultyFileSystem(atomic=bool(attempt % 2))
        mirror = begun(local, remote_dir(far, fs))
        fs.cut_at = fs.steps + rng.randrange(90)
        for _ in range(3):
            newest_saved = scan(local).newest()
            save(local, (newest_saved.step if newest_saved else 0) + 10, keep=3)
            try:
                mirror.sync()
            except RemoteError:
                break
        whole = called_whole(far)
        assert {damage(far, one) for one in whole} <= {""}
        reached = max((one.step for one in whole), default=0)
        assert reached >= newest
        newest = reached
        if attempt % 3 == 2:  # the host is lost for good
            local = tmp_path / f"local-{attempt}"
    assert newest >= 100


def test_a_name_that_is_used_again_never_replaces_the_whole_checkpoint(tmp_path: Path) -> None:
    """Keras saves to one name again and again."""
    local, far = tmp_path / "local", tmp_path / "far"
    mirror = begun(local, remote_dir(far))
    for number in range(4):
        save(local, number, content=f"epoch {number}", prefix="cp.ckpt")
        mirror.sync()
        again = tmp_path / f"again-{number}"
        begun(again, remote_dir(far))
        assert f"epoch {number}" in (again / "cp.ckpt.index").read_text()
        mirror = begun(local, remote_dir(far))
        indexes = [*far.glob("*.index"), *(far / ".tfprov").rglob("*.index")]
        assert len(indexes) == 1


def test_a_checkpoint_that_the_program_removes_during_its_upload_arrives_whole(tmp_path: Path) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    fs = FaultyFileSystem()
    mirror = begun(local, remote_dir(far, fs))
    save(local, 100)
    begin = fs.steps

    def remove() -> None:
        if fs.steps == begin + 10:
            for path in local.glob("model.ckpt-100.*"):
                path.unlink()

    fs.seen = remove
    mirror.sync()
    assert not list(local.glob("model.ckpt-100.*"))
    assert [damage(far, one) for one in called_whole(far)] == [""]


def test_with_a_slow_connection_the_newest_goes_first(tmp_path: Path) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    fs = FaultyFileSystem()
    mirror = begun(local, remote_dir(far, fs))
    for step in (10, 20, 30):
        save(local, step)
    fs.cut_at = fs.steps + 45
    with pytest.raises(RemoteError):
        mirror.sync(final=True)
    assert [one.step for one in called_whole(far)] == [30]
    assert mirror.behind() == 2
    fs.cut_at = None
    mirror.sync(final=True)
    assert sorted(tensorflow_sees(far)) == ["model.ckpt-10", "model.ckpt-20", "model.ckpt-30"]
    assert tensorflow_sees(far)[0] == "model.ckpt-30", "older ones that follow are not the newest"


def test_checkpoints_in_folders_and_event_files_are_mirrored_and_restored(tmp_path: Path) -> None:
    local, far, again = tmp_path / "local", tmp_path / "far", tmp_path / "again"
    mirror = begun(local, remote_dir(far))
    save(local, 100)
    save(local / "best", 90, prefix="ckpt-{}")
    (local / "events.out.tfevents.1").write_bytes(b"events")
    (local / "model.ckpt-200.data-00000-of-00001.tempstate7").write_bytes(b"half")
    mirror.sync(final=True)
    assert (far / "events.out.tfevents.1").read_bytes() == b"events"
    assert not list(far.rglob("*tempstate*"))
    begun(again, remote_dir(far))
    assert {one.prefix for one in scan(again).checkpoints} == {"model.ckpt-100", "best/ckpt-90"}
    assert parse_state((again / "best/checkpoint").read_text()) == ["ckpt-90"]


def test_after_a_cut_no_removed_checkpoint_stays_for_good(tmp_path: Path) -> None:
    for cut in range(1, 30):
        local, far, fs = tmp_path / str(cut), tmp_path / f"far-{cut}", FaultyFileSystem()
        mirror = begun(local, remote_dir(far, fs))
        save(local, 100, keep=1)
        mirror.sync(final=True)
        save(local, 200, keep=1)
        fs.cut_at = fs.steps + cut
        with suppress(RemoteError):
            mirror.sync(final=True)
        fs.cut_at = None
        save(local, 300, keep=1)
        mirror.sync(final=True)
        assert [path.name for path in far.glob("*.index")] == ["model.ckpt-300.index"], f"after a cut at step {cut}"


def test_after_a_cut_every_file_beside_the_checkpoints_gets_into_the_manifest(tmp_path: Path) -> None:
    for cut in range(1, 16):
        local, far, fs = tmp_path / str(cut), tmp_path / f"far-{cut}", FaultyFileSystem()
        mirror = begun(local, remote_dir(far, fs))
        for name in ("a.csv", "b.csv"):
            (local / name).write_text(name)
        fs.cut_at = fs.steps + cut
        with suppress(RemoteError):
            mirror.sync(final=True)
        fs.cut_at = None
        mirror.sync(final=True)
        manifest = read_newest(remote_dir(far))
        assert manifest is not None
        assert sorted(manifest.others) == ["a.csv", "b.csv"], f"after a cut at step {cut}"


def test_old_checkpoints_of_lost_hosts_are_kept_in_bounds(tmp_path: Path) -> None:
    far = tmp_path / "far"
    for number in range(8):
        local = tmp_path / f"local-{number}"
        mirror = begun(local, remote_dir(far))
        for step in range(1, 5):
            save(local, 10 * number + step, keep=2)
            mirror.sync()
    assert [one.step for one in called_whole(far)] == [23, 33, 43, 53, 63, 73, 74]


def test_a_damaged_checkpoint_is_not_restored_and_the_one_before_it_is(tmp_path: Path) -> None:
    local, far, again = tmp_path / "local", tmp_path / "far", tmp_path / "again"
    mirror = begun(local, remote_dir(far))
    for step in (100, 200):
        save(local, step)
        mirror.sync()
    path = far / "model.ckpt-200.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[::-1])  # the same size
    lines: list[str] = []
    manifest, listing = take_over(remote_dir(far), again, OWNER, lines.append)
    assert [one.prefix for one in listing.checkpoints] == ["model.ckpt-100"]
    assert "model.ckpt-200 in s3://bucket/run is damaged and not restored" in lines[0]
    assert [one.step for one in manifest.checkpoints] == [100]


def test_a_task_whose_directory_was_taken_over_stops_mirroring(tmp_path: Path) -> None:
    """A host that was cut off from the network comes back after the training went on elsewhere."""
    far = tmp_path / "far"
    old = begun(tmp_path / "old", remote_dir(far))
    save(tmp_path / "old", 100)
    old.sync()
    new = begun(tmp_path / "new", remote_dir(far))
    save(tmp_path / "old", 200)
    with pytest.raises(Superseded, match="taken over by another task"):
        old.sync()
    save(tmp_path / "new", 150)
    new.sync()
    assert [one.step for one in called_whole(far)] == [100, 150]


def test_what_the_task_before_mirrors_during_the_takeover_is_restored(tmp_path: Path) -> None:
    """Its host was cut off from tfprov alone: it saves between two requests of the task that takes over."""
    far, fs = tmp_path / "far", FaultyFileSystem()
    old = begun(tmp_path / "old", remote_dir(far))
    save(tmp_path / "old", 100)
    old.sync()
    save(tmp_path / "old", 200)

    def after_the_first_request() -> None:
        if fs.steps == 2:
            old.sync()

    fs.seen = after_the_first_request
    _, listing = take_over(remote_dir(far, fs), tmp_path / "new", OWNER, lambda _line: None)
    assert [one.step for one in listing.checkpoints] == [200]


def test_two_tasks_that_start_at_once_leave_one_writer(tmp_path: Path) -> None:
    far = tmp_path / "far"
    mirrors = [begun(tmp_path / "a", remote_dir(far)), begun(tmp_path / "b", remote_dir(far))]
    for mirror in mirrors:
        mirror.manifest = Manifest(1, mirror.manifest.writer, "linear", "run-1")
        (far / mirror.manifest.name).write_bytes(mirror.manifest.encode())
    for path in far.glob(".tfprov/manifest-0000000002-*"):
        path.unlink()
    outcomes = []
    for mirror in mirrors:
        save(mirror.directory, 10)
        try:
            mirror.sync()
            outcomes.append("writes")
        except Superseded:
            outcomes.append("stops")
    assert sorted(outcomes) == ["stops", "writes"]


@pytest.mark.parametrize("files", [["checkpoint"], ["model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001"]])
def test_a_directory_with_checkpoints_of_others_is_refused_and_left_alone(tmp_path: Path, files: list[str]) -> None:
    far = tmp_path / "far"
    far.mkdir()
    for name in files:
        (far / name).write_text("theirs")
    with pytest.raises(Refused, match="holds checkpoints that tfprov did not put there"):
        begun(tmp_path / "local", remote_dir(far))
    assert sorted(path.name for path in far.iterdir()) == sorted(files)


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    far = tmp_path / "far"
    begun(tmp_path / "local", remote_dir(far))
    with pytest.raises(Refused, match="holds checkpoints of cluster linear, not digits"):
        begun(tmp_path / "other", remote_dir(far), Owner("digits", "run-2"))


def test_local_checkpoints_of_another_directory_are_not_mixed_with_remote_ones(tmp_path: Path) -> None:
    far = tmp_path / "far"
    mirror = begun(tmp_path / "local", remote_dir(far))
    save(tmp_path / "local", 100)
    mirror.sync()
    save(tmp_path / "stranger", 999)
    with pytest.raises(Refused, match=r"has the checkpoint model\.ckpt-999 of another one"):
        take_over(remote_dir(far), tmp_path / "stranger", OWNER, lambda _line: None)
    assert newest_manifest_file(far)["checkpoints"][0]["prefix"] == "model.ckpt-100"


def test_a_newer_local_checkpoint_is_kept_and_mirrored(tmp_path: Path) -> None:
    """The task restarts on its host, after a time in which the remote directory could not be reached."""
    local, far = tmp_path / "local", tmp_path / "far"
    mirror = begun(local, remote_dir(far))
    save(local, 100)
    mirror.sync()
    save(local, 200)
    again = begun(local, remote_dir(far))
    assert again.behind() == 1
    again.sync()
    assert [one.step for one in called_whole(far)] == [100, 200]


def test_the_run_of_a_training_stays_on_other_hosts(tmp_path: Path) -> None:
    far = tmp_path / "far"
    begun(tmp_path / "a", remote_dir(far))
    manifest = begun(tmp_path / "b", remote_dir(far), Owner("linear", "run-2")).manifest
    assert manifest.run == "run-1"
    assert manifest.number == 2


class LosingDir(RemoteDir):
    """A remote directory that stores what `left` leaves of the next manifest, and whose answer to that is lost."""

    left: Callable[[bytes], bytes] | None = None

    def write(self, name: str, chunks: Iterable[bytes], size: int = 0) -> None:
        if self.left is None or "/manifest-" not in name:
            super().write(name, chunks, size)
            return
        left, self.left = self.left, None
        super().write(name, [left(b"".join(chunks))], size)
        raise RemoteError(f"{self.url}: {name} cannot be written: no answer in time")


LEFT = pytest.mark.parametrize("left", [lambda data: data, lambda data: data[:40]], ids=["whole", "a part"])


def manifests_at(remote: Path) -> list[str]:
    return sorted(path.name.partition("-")[2].partition("-")[0] for path in (remote / ".tfprov").glob("manifest-*"))


@LEFT
def test_a_manifest_whose_answer_was_lost_is_replaced_by_its_own_writer(
    tmp_path: Path, left: Callable[[bytes], bytes]
) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    remote = LosingDir(URL, FaultyFileSystem(), str(far))
    mirror = begun(local, remote)
    save(local, 100)
    mirror.sync()
    for step in (200, 300):
        before = mirror.manifest
        save(local, step, keep=2)
        remote.left = left
        with pytest.raises(RemoteError, match="no answer in time"):
            mirror.sync()
        assert mirror.sync()
        assert mirror.manifest.number == before.number + 2, "one lists what is uploaded"
    whole = called_whole(far)
    assert [one.step for one in whole] == [200, 300]
    assert [damage(far, one) for one in whole] == ["", ""]
    assert len(manifests_at(far)) == 2


@LEFT
def test_the_manifest_before_one_whose_answer_was_lost_stays_for_readers(
    tmp_path: Path, left: Callable[[bytes], bytes]
) -> None:
    """A reader may have listed both, and read none yet."""
    local, far = tmp_path / "local", tmp_path / "far"
    remote = LosingDir(URL, FaultyFileSystem(), str(far))
    mirror = begun(local, remote)
    remote.left = left
    (local / "events").write_bytes(b"events")
    with pytest.raises(RemoteError):
        mirror.sync(final=True)
    assert manifests_at(far) == ["0000000001", "0000000002"]
    mirror.sync(final=True)
    assert manifests_at(far) == ["0000000001", "0000000002"]
    assert read_newest(remote) == mirror.manifest


@LEFT
@pytest.mark.parametrize("first", ["0", "z"], ids=["sorts before", "sorts after"])
@pytest.mark.parametrize("steps", [(), (100,)], ids=["the first manifest", "a later one"])
def test_a_task_that_starts_after_a_lost_manifest_becomes_the_writer(
    tmp_path: Path, steps: tuple[int, ...], first: str, left: Callable[[bytes], bytes]
) -> None:
    """Names of writers are random: what is left of the earlier writer's must count as older whatever its name."""
    local, far = tmp_path / "local", tmp_path / "far"
    remote = LosingDir(URL, FaultyFileSystem(), str(far))
    if steps:
        earlier = begun(local, remote)
        save(local, 100)
        earlier.sync()
        last = earlier.manifest
    else:
        last = Manifest(0, "", "linear", "run-1")
    lost = replace(last, number=last.number + 1, writer=first * 12)
    remote.left = left
    with pytest.raises(RemoteError):
        remote.write(lost.name, [lost.encode()])
    new = begun(local, remote)
    assert new.manifest.number > lost.number
    save(local, 200)
    assert new.sync()
    assert [one.step for one in called_whole(far)] == [*steps, 200]


@LEFT
def test_a_task_that_was_taken_over_after_its_lost_manifest_still_stops(
    tmp_path: Path, left: Callable[[bytes], bytes]
) -> None:
    far = tmp_path / "far"
    remote = LosingDir(URL, FaultyFileSystem(), str(far))
    old = begun(tmp_path / "old", remote)
    save(tmp_path / "old", 100)
    remote.left = left
    with pytest.raises(RemoteError):
        old.sync()
    begun(tmp_path / "new", remote)
    with pytest.raises(Superseded, match="taken over by another task"):
        old.sync()


class ChoosyFileSystem(FaultyFileSystem):
    """Takes no file whose name `refuses` is true for; `asked` has the names of those that were to be written."""

    def __init__(self, refuses: Callable[[str], bool]) -> None:
        super().__init__()
        self.refuses, self.asked = refuses, list[str]()

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        name = path.rpartition("/")[2]
        if mode == "wb":
            self.asked.append(name)
            name.encode()  # as every client does
            if self.refuses(name):
                raise OSError(f"Invalid path name {name}")
        return super()._open(path, mode, block_size, **options)


def others_at(far: Path) -> list[str]:
    manifest = read_newest(remote_dir(far))
    return sorted(manifest.others) if manifest else []


def test_a_file_that_the_remote_directory_refuses_is_left_out_alone(tmp_path: Path) -> None:
    """HDFS has no `:` in names, and no remote one has names that are not UTF-8."""
    local, far, lines = tmp_path / "local", tmp_path / "far", list[str]()
    fs = ChoosyFileSystem(lambda name: ":" in name)
    mirror = begun(local, remote_dir(far, fs))
    mirror.noted, mirror.clock = lines.append, iter(range(0, 10_000, 100)).__next__
    bad, binary = local / "host:7000.trace", local / os.fsdecode(b"\xff.bin")
    for path in (local / "a.csv", bad, local / "z.csv", binary):
        path.write_text("content")
    assert mirror.sync()
    assert not mirror.sync(), "nothing is new"
    assert others_at(far) == ["a.csv", "z.csv"]
    url = "left out of s3://bucket/run"
    assert [line.partition(": ")[0] for line in lines] == [f"'host:7000.trace' is {url}", f"'\\udcff.bin' is {url}"]
    assert lines[0].endswith(": Invalid path name host:7000.trace; rename it")
    assert fs.asked.count(bad.name) == 2, "a fault may pass"
    bad.write_text("it has grown")
    assert not mirror.sync()
    assert fs.asked.count(bad.name) == 4
    assert not mirror.sync(final=True), "and no error, which would be tried again for minutes"
    assert fs.asked.count(bad.name) == 6, "the last chance"
    assert len(lines) == 2
    fs.refuses = lambda _name: False
    assert mirror.sync(final=True)
    assert bad.name in others_at(far)


def test_a_fault_that_passes_leaves_no_file_out(tmp_path: Path) -> None:
    local, far, lines = tmp_path / "local", tmp_path / "far", list[str]()
    fs = ChoosyFileSystem(lambda name: name == "a.csv" and fs.asked.count(name) == 1)
    mirror = begun(local, remote_dir(far, fs))
    mirror.noted = lines.append
    for name in ("a.csv", "b.csv"):
        (local / name).write_text(name)
    assert mirror.sync()
    assert (others_at(far), lines) == (["a.csv", "b.csv"], [])


def test_a_local_file_that_may_not_be_read_is_left_out_alone(tmp_path: Path) -> None:
    local, far, lines = tmp_path / "local", tmp_path / "far", list[str]()
    mirror = begun(local, remote_dir(far))
    mirror.noted = lines.append
    for name in ("a.csv", "b.csv"):
        (local / name).write_text(name)
    with forbidden(local / "a.csv"):
        assert mirror.sync(final=True)
        mirror.sync(final=True)
    assert others_at(far) == ["b.csv"]
    assert lines == ["'a.csv' is left out of s3://bucket/run: Permission denied; let this task read it"]
    mirror.sync(final=True)
    assert others_at(far) == ["a.csv", "b.csv"]


def test_a_remote_directory_that_takes_no_file_at_all_is_behind_with_the_first_error(tmp_path: Path) -> None:
    local, far, lines = tmp_path / "local", tmp_path / "far", list[str]()
    fs = ChoosyFileSystem(lambda _name: False)
    mirror = begun(local, remote_dir(far, fs))
    mirror.noted = lines.append
    for name in ("a.csv", "b.csv", "c.csv"):
        (local / name).write_text(name)
    fs.refuses, fs.asked = lambda name: name != "a.csv", []
    for _ in range(2):
        with pytest.raises(RemoteError, match=r"b\.csv cannot be written: Invalid path name"):
            mirror.sync(final=True)
    assert "c.csv" not in fs.asked, "each may take a minute to fail"
    assert (others_at(far), lines) == ([], [])
    fs.refuses = lambda _name: False
    assert mirror.sync(final=True)
    assert others_at(far) == ["a.csv", "b.csv", "c.csv"]


def test_a_restored_checkpoint_that_no_checkpoint_file_names_is_named_at_the_next_start(tmp_path: Path) -> None:
    """A task was killed when it had moved the index into place, and before it wrote the `checkpoint` file."""
    local, far, again = tmp_path / "local", tmp_path / "far", tmp_path / "again"
    mirror = begun(local, remote_dir(far))
    for step in (90, 100):
        save(local, step)
        save(local / "best", step, prefix="ckpt-{}")
    mirror.sync(final=True)
    begun(again, remote_dir(far))
    save(again, 90)  # that an earlier start restored, and its `checkpoint` file
    (again / "best/checkpoint").unlink()
    begun(again, remote_dir(far))
    assert parse_state((again / "checkpoint").read_text()) == ["model.ckpt-100"]
    assert parse_state((again / "best/checkpoint").read_text()) == ["ckpt-100"]
    named = 'model_checkpoint_path: "model.ckpt-90"\nall_model_checkpoint_paths: "model.ckpt-100"\n'
    (again / "checkpoint").write_text(named)
    begun(again, remote_dir(far))
    assert (again / "checkpoint").read_text() == named, "its program chose another one"


def save_beside(local: Path, *steps: int, prefix: str = "weights-{}") -> None:
    for step in steps:
        save(local, step, prefix=prefix, keep=100)


def test_what_the_runtime_saves_is_restored_whatever_lies_beside_it(tmp_path: Path) -> None:
    local, far, again = tmp_path / "local", tmp_path / "far", tmp_path / "again"
    mirror = begun(local, remote_dir(far))
    save(local, 90)
    save_beside(local, 900)
    mirror.sync(final=True)
    assert tensorflow_sees(far)[0] == "model.ckpt-90"
    assert [one.prefix for one in called_whole(far)] == ["model.ckpt-90", "weights-900"]
    save_beside(again, 800)
    (again / "mirror.json").write_text(f'{{"url": "{URL}"}}')
    begun(again, remote_dir(far))
    assert parse_state((again / "checkpoint").read_text()) == ["model.ckpt-90"]
    newest = scan(again).newest()
    assert newest is not None
    assert newest.prefix == "model.ckpt-90"
    for path in far.glob("model.ckpt-90*"):
        path.unlink()
    begun(again, remote_dir(far))
    assert parse_state((again / "checkpoint").read_text()) == ["model.ckpt-90"], "not the weights with a higher number"
    assert not (again / "weights-900.index").exists()


def test_an_index_that_is_none_of_a_checkpoint_is_mirrored(tmp_path: Path) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    mirror = begun(local, remote_dir(far))
    for name in ("embeddings.index", "cp.ckpt.data-00000-of-00002", "model.ckpt-5.index"):
        (local / name).write_text(name)
    mirror.sync(final=True)
    assert (far / "embeddings.index").read_text() == "embeddings.index"
    assert not [*far.glob("cp.ckpt*"), *far.glob("model.ckpt-5*")], "parts of a checkpoint that is being saved"


def test_with_a_slow_connection_what_the_runtime_saves_goes_first(tmp_path: Path) -> None:
    local, far = tmp_path / "local", tmp_path / "far"
    mirror = begun(local, remote_dir(far))
    save(local, 90)
    save_beside(local, 900)
    mirror.sync()
    assert [one.prefix for one in called_whole(far)] == ["model.ckpt-90"]


def test_checkpoints_of_lost_hosts_are_counted_by_series(tmp_path: Path) -> None:
    far = tmp_path / "far"
    first = begun(tmp_path / "first", remote_dir(far))
    for step in (80, 90):
        save(tmp_path / "first", step)
    first.sync(final=True)
    for number in range(1, 8):
        local = tmp_path / f"local-{number}"
        mirror = begun(local, remote_dir(far))  # it restores model.ckpt-90 alone
        save_beside(local, 900 + number)
        save_beside(local, number, prefix="epoch_{}")
        mirror.sync(final=True)
    kept = sorted(one.prefix for one in called_whole(far))
    assert [name for name in kept if name.startswith("model.ckpt-")] == ["model.ckpt-80", "model.ckpt-90"]
    assert [name for name in kept if name.startswith("weights-")] == [f"weights-{step}" for step in range(902, 908)]
    assert [name for name in kept if name.startswith("epoch_")] == [f"epoch_{number}" for number in range(2, 8)]
