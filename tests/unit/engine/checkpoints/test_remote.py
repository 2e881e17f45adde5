"""A remote checkpoint directory, as the controller reads it: runs, forecasts, `--resume`, and `gather` without a host."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.growth import check_growth
from tests.support.memory_cluster import run_up
from tests.support.permissions import forbidden
from tests.support.remote_dirs import URL, FaultyFileSystem, remote_dir, save
from tests.support.split_training import INVENTORY, SplitTraining
from tfprov.engine.checkpoints.forecast import forecast
from tfprov.engine.checkpoints.gather import check_writable
from tfprov.engine.checkpoints.remote import RemoteFiles, RemoteTraining, newest_step, read_remote, remote_run
from tfprov.engine.checkpoints.resume import resuming
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.execute import current_run
from tfprov.engine.observe import observe, plan
from tfprov.errors import GatherError, HostError, Usage
from tfprov.filesystems.generations import MIRROR_STATUS, Manifest, RemoteCheckpoint, RemoteFile
from tfprov.filesystems.remote_dir import ClientMissing, RemoteDir
from tfprov.filesystems.urls import SCHEMES
from tfprov.formats.checkpoint import parse_state
from tfprov.model.state import State
from tfprov.playbook.gathering import gather_mirrored
from tfprov.playbook.steps import RUN
from tfprov.runtime.mirror.mirror import Mirror
from tfprov.runtime.mirror.restore import Owner, take_over

REMOTE = INVENTORY.replace("textbook.py]", f'textbook.py], checkpoints: {{dir: "{URL}"}}')


class RemoteSplit(SplitTraining):
    """A cluster whose checkpoints are mirrored to the directory `far`; `opened` has what it was opened with."""

    def __init__(self, directory: Path, far: Path, fs: FaultyFileSystem | None = None) -> None:
        super().__init__(directory, REMOTE)
        self.opened: list[tuple[str, Mapping[str, str]]] = []

        def open_remote(url: str, env: Mapping[str, str]) -> RemoteDir:
            self.opened.append((url, env))
            return remote_dir(far, fs)

        self.context = replace(self.context, open_remote=open_remote)

    def forecast(self, *, resume: bool = False) -> str | None:
        context = replace(self.context, resume=resume)
        observation = observe(context)
        return forecast(context, plan(context, observation), observation)

    def run(self, *, resume: bool = False) -> str:
        context = replace(self.context, resume=resume)
        return current_run(context, observe(context))


def mirror(far: Path, local: Path, *steps: int, cluster: str = "split") -> Mirror:
    """Leave in `far` what a training on other hosts has mirrored."""
    remote = remote_dir(far)
    manifest, _ = take_over(remote, local, Owner(cluster, "run-7"), lambda _line: None)
    mirror = Mirror(local, remote, manifest, lambda _line: None)
    for step in steps:
        save(local, step)
        (local / "events.out.tfevents.1").write_bytes(b"e" * step)
        mirror.sync(final=True)
    return mirror


@pytest.fixture
def far(tmp_path: Path) -> Path:
    return tmp_path / "far"


def test_what_is_mirrored_may_be_trained_without_a_directory_to_gather_into(tmp_path: Path, far: Path) -> None:
    remote, local = RemoteSplit(tmp_path, far), SplitTraining(tmp_path)
    assert remote.target == local.target
    with forbidden(local.target.parent, 0o500):
        check_writable(remote.context)
        with pytest.raises(GatherError, match="this user may not write in"):
            check_writable(local.context)


def test_the_chief_alone_is_started_beside_the_mirror(tmp_path: Path, far: Path) -> None:
    wanted = {container.task.name: container for container in RemoteSplit(tmp_path, far).context.wanted}
    assert wanted["worker/0"].argv[:5] == ("python", "-m", "tfprov.runtime.mirror.task", "--group", "--")
    assert wanted["worker/0"].env["TFPROV_CHECKPOINT_URL"] == URL
    assert wanted["worker/0"].spec["mirror"] == URL
    for name in ("worker/1", "ps/0", "ps/1"):
        assert wanted[name].argv[0:2] == ("python", "textbook.py")
        assert wanted[name].remote is None


def test_a_new_cluster_goes_on_from_there_and_keeps_the_run(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100, 200)
    split = RemoteSplit(tmp_path, far)
    for resume in (False, True):
        assert split.forecast(resume=resume) == f"the training goes on from step 200 ({URL})"
        assert split.run(resume=resume) == "run-7"


def test_a_chief_that_ended_and_has_nothing_goes_on_from_there(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100)
    split = RemoteSplit(tmp_path, far)
    split.runs("run-7", State.EXITED)
    assert split.forecast() == f"the training goes on from step 100 ({URL})"
    split.saves_whole(50)
    assert split.forecast() == "the training goes on from step 50"


@pytest.mark.parametrize(("step", "hint"), [(99, ""), (100, ""), (101, "; `--resume` would go on from step 101")])
def test_a_gathered_checkpoint_is_mentioned_if_it_is_newer_than_the_mirrored_one(
    tmp_path: Path, far: Path, step: int, hint: str
) -> None:
    mirror(far, tmp_path / "local", 100)
    before = RemoteSplit(tmp_path, far).runs("run-7")
    before.saves_whole(step)
    before.gather()
    assert RemoteSplit(tmp_path, far).forecast() == f"the training goes on from step 100 ({URL}){hint}"


def test_the_files_of_a_remote_directory_are_those_of_its_manifest(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100)
    training = read_remote(RemoteSplit(tmp_path, far).context)
    assert training is not None
    files = RemoteFiles(training)
    assert files.hold("worker/0") == files.files("worker/0")
    assert "model.ckpt-100.index" in files.files("worker/0")
    with files.open("worker/0", "checkpoint") as file:
        assert parse_state(file.read().decode()) == ["model.ckpt-100"]
    with files.open("worker/0", "model.ckpt-100.index") as file:
        assert file.read() == (far / "model.ckpt-100.index").read_bytes()
    with pytest.raises(HostError, match=rf"^{URL}: model\.ckpt-7\.index is not there$"):
        files.open("worker/0", "model.ckpt-7.index")
    (far / "model.ckpt-100.index").unlink()
    with files.open("worker/0", "model.ckpt-100.index") as file, pytest.raises(HostError) as gone:
        file.read()
    assert str(gone.value).startswith(f"{URL}: model.ckpt-100.index")


def test_an_empty_directory_starts_a_new_run(tmp_path: Path, far: Path) -> None:
    split = RemoteSplit(tmp_path, far)
    assert split.forecast() is None
    assert split.run() != "run-7"
    with pytest.raises(
        Usage,
        match=r"^nothing to resume from: .*/split has no checkpoint; start without `--resume`, or set "
        r"`checkpoints\.to` to where one was gathered$",
    ):
        split.run(resume=True)


def test_a_directory_that_cannot_be_read_from_here_does_not_stop_a_start(tmp_path: Path, far: Path) -> None:
    split = RemoteSplit(tmp_path, far, FaultyFileSystem(cut_at=0))
    goes_on = f"the training goes on from the newest checkpoint in {URL}, if there is one"
    assert split.forecast() == f"{goes_on} (cannot be listed: the connection was cut)"
    assert split.run() != ""
    assert (newest_step(split.context), remote_run(split.context)) == (None, "")


def test_a_missing_client_is_named_with_its_installation(tmp_path: Path, far: Path) -> None:
    def open_remote(_url: str, _env: Mapping[str, str]) -> RemoteDir:
        raise ClientMissing(SCHEMES["s3"])

    context = replace(RemoteSplit(tmp_path, far).context, open_remote=open_remote)
    with pytest.raises(HostError) as caught:
        read_remote(context)
    what = f"{URL}: s3:// needs the Python package s3fs, which is not installed"
    assert str(caught.value) == f"{what}; install it here: pip install 'tfprov[s3]'"


def test_what_is_mirrored_is_known_by_its_step_and_its_run(tmp_path: Path, far: Path) -> None:
    split = RemoteSplit(tmp_path, far)
    assert (newest_step(split.context), remote_run(split.context)) == (None, "")
    mirror(far, tmp_path / "local", 100)
    assert (newest_step(split.context), remote_run(split.context)) == (100, "run-7")


def test_a_newer_gathered_checkpoint_is_restored_with_resume_alone(tmp_path: Path, far: Path) -> None:
    """The connection to the remote directory was lost, `down` gathered, and the hosts went."""
    mirror(far, tmp_path / "local", 100)
    before = RemoteSplit(tmp_path, far).runs("run-7")
    before.saves_whole(300)
    before.gather()
    split = RemoteSplit(tmp_path, far)
    assert split.forecast() == f"the training goes on from step 100 ({URL}); `--resume` would go on from step 300"
    assert split.forecast(resume=True) == "the training goes on from step 300 (gathered)"
    assert split.run(resume=True) == "run-7"
    run_up(replace(split.context, resume=True))
    with split.hosts["w0"].open("worker/0", MIRROR_STATUS) as file:
        assert json.loads(file.read()) == {"url": URL}, "the mirror knows that what is there is older"


def test_a_gathered_checkpoint_of_another_training_is_not_mixed_with_the_mirrored_one(
    tmp_path: Path, far: Path
) -> None:
    training = mirror(far, tmp_path / "local", 100)
    before = RemoteSplit(tmp_path, far).runs("run-1")
    before.saves_whole(300)
    before.gather()
    split = RemoteSplit(tmp_path, far)
    context = replace(split.context, resume=True)
    with pytest.raises(
        Usage,
        match=r"/split and s3://bucket/run hold checkpoints of two trainings; start without `--resume`, which "
        r"goes on from the latter, or choose an empty directory$",
    ):
        resuming(context, observe(context))
    save(tmp_path / "local", 300)
    training.sync(final=True)
    assert resuming(context, observe(context)) == "run-7", "what was gathered is not newer"


def test_gather_reads_it_without_a_host(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100, 200)
    split = RemoteSplit(tmp_path, far)
    split.context = replace(split.context, runtimes={}, home=tmp_path / "home", verify=lambda _: {})
    gathered = gather_mirrored(split.context)
    assert gathered is not None
    assert [one.prefix for one in gathered.new] == ["model.ckpt-100", "model.ckpt-200"]
    assert split.gathered() >= {"model.ckpt-200.index", "model.ckpt-200.meta", "events.out.tfevents.1"}
    assert parse_state((split.target / "checkpoint").read_text())[0] == "model.ckpt-200"
    for name in ("model.ckpt-200.index", "model.ckpt-200.data-00000-of-00001", "events.out.tfevents.1"):
        assert (split.target / name).read_bytes() == (far / name).read_bytes(), name
    again = gather_mirrored(split.context)
    assert again is not None
    assert (again.files, again.new) == (0, ())


def test_gather_brings_the_checkpoint_files_of_folders_that_are_not_mirrored(tmp_path: Path, far: Path) -> None:
    training = mirror(far, tmp_path / "local", 100)
    best = tmp_path / "local/best"
    for step in (80, 90):
        save(best, step, prefix="ckpt-{}")
    training.sync(final=True)
    split = RemoteSplit(tmp_path, far)
    verified: list[list[Path]] = []

    def verify(prefixes: Sequence[Path]) -> Mapping[str, Verification]:
        verified.append(list(prefixes))
        return {one.name: Verification(0, "torn") for one in prefixes if one.name == damaged}

    damaged = ""
    split.context = replace(split.context, home=tmp_path / "home", verify=verify)
    assert gather_mirrored(split.context) is not None
    assert parse_state((split.target / "best/checkpoint").read_text()) == ["ckpt-90", "ckpt-80"]
    assert "ckpt-90" in [one.name for prefixes in verified for one in prefixes]
    again = gather_mirrored(split.context)
    assert again is not None
    assert again.files == 0
    save(best, 95, prefix="ckpt-{}")
    training.sync(final=True)
    damaged = "ckpt-95"
    gather_mirrored(split.context)
    assert any("best: ckpt-95 is damaged: torn" in note for note in split.report.notes), split.report.notes
    assert parse_state((split.target / "best/checkpoint").read_text())[0] == "ckpt-90"


class ReplacingFileSystem(FaultyFileSystem):
    """Calls `replaced` once, before a file whose name ends with `name` is opened; `read` has the names that were read."""

    def __init__(self, name: str, replaced: Callable[[], None]) -> None:
        super().__init__()
        self.name, self.replaced, self.read = name, [replaced], list[str]()

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        if path.endswith(self.name) and self.replaced:
            self.replaced.pop()()
        self.read.append(path.rpartition("/")[2])
        return super()._open(path, mode, block_size, **options)


@pytest.mark.parametrize(("removed", "kept"), [(100, [200, 300]), (200, [300])])
def test_a_checkpoint_that_is_removed_during_a_gather_gives_way_to_a_newer_one(
    tmp_path: Path, far: Path, removed: int, kept: list[int]
) -> None:
    training = mirror(far, tmp_path / "local", 100, 200)

    def train_on() -> None:
        save(tmp_path / "local", 300, keep=len(kept))
        training.sync()

    fs = ReplacingFileSystem(f"model.ckpt-{removed}.index", train_on)
    split = RemoteSplit(tmp_path, far, fs)
    split.context = replace(split.context, home=tmp_path / "home", verify=lambda _: {})
    gathered = gather_mirrored(split.context)
    assert gathered is not None
    assert [one.step for one in gathered.new] == kept
    assert all(fs.read.count(f"model.ckpt-{step}.index") <= 2 for step in kept)


def test_a_gather_ends_where_another_training_takes_the_directory_meanwhile(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100)
    training = read_remote(RemoteSplit(tmp_path, far).context)
    assert training is not None
    manifest = replace(training.manifest, run="run-6")
    files = RemoteFiles(replace(training, manifest=manifest))
    assert files.read_and_list("worker/0", "checkpoint")[0] is not None, "the first time, by what is known"
    with pytest.raises(HostError) as caught:
        files.read_and_list("worker/0", "checkpoint")
    assert str(caught.value) == f"{URL}: another training has replaced the one that is gathered; gather again"


def test_gather_refuses_content_that_was_changed_there(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100)
    path = far / "model.ckpt-100.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[::-1])
    split = RemoteSplit(tmp_path, far)
    split.context = replace(split.context, home=tmp_path / "home", verify=lambda _: {})
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-100 could not be copied: s3://bucket/run: "
        r"model\.ckpt-100\.data-00000-of-00001 is damaged: it has another SHA-256 than when it was "
        r"mirrored$",
    ):
        gather_mirrored(split.context)
    assert split.gathered() == {"events.out.tfevents.1"}


def test_gather_goes_to_the_host_if_it_cannot_be_read_from_here(tmp_path: Path, far: Path) -> None:
    split = RemoteSplit(tmp_path, far, FaultyFileSystem(cut_at=0))
    assert gather_mirrored(split.context) is None
    assert split.report.notes == [f"{URL}: cannot be listed: the connection was cut; gathering from worker/0 instead"]


def test_gather_goes_to_the_host_while_nothing_was_mirrored(tmp_path: Path, far: Path) -> None:
    split = RemoteSplit(tmp_path, far)
    assert gather_mirrored(split.context) is None
    assert split.report.notes == [f"{URL} has no checkpoint yet; gathering from worker/0 instead"]


def test_the_files_of_ten_thousand_checkpoints_are_collected_once(far: Path) -> None:
    files = [f"ckpt-{step}.index" for step in range(10_000)]
    mirrored = tuple(RemoteCheckpoint(name[:-6], {name: RemoteFile(name, 0, "")}) for name in files)

    def opens(count: int) -> None:
        there = RemoteFiles(RemoteTraining(remote_dir(far), Manifest(1, "w", "split", "run-7", mirrored)))
        for name in files[:count]:
            there.open("worker/0", name).close()

    check_growth(lambda: opens(4), lambda: opens(100), below=6)  # all of them for each: 25


def test_down_gathers_what_is_not_mirrored(tmp_path: Path, far: Path) -> None:
    mirror(far, tmp_path / "local", 100)
    split = RemoteSplit(tmp_path, far, FaultyFileSystem(cut_at=0)).runs("run-7", State.EXITED)
    split.saves_whole(300)
    RUN["gather"](replace(split.context, verify=lambda _: {}), None, False)
    assert "model.ckpt-300.index" in split.gathered()


def test_the_credentials_are_those_of_the_chief(tmp_path: Path, far: Path) -> None:
    split = RemoteSplit(tmp_path, far)
    split.forecast()
    assert {url for url, _ in split.opened} == {URL}
    assert all(env["TFPROV_TASK"] == "worker/0" for _, env in split.opened)
