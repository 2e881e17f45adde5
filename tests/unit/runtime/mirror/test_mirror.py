"""The mirror of a checkpoint directory: what a reader of the remote one sees at any moment, and after any cut."""

import hashlib
import random
from contextlib import suppress
from pathlib import Path

import pytest

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
