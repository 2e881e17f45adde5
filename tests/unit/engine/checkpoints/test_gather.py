"""What is gathered, what is refused, and what must still be there after something went wrong."""

import errno
import hashlib
import io
import json
import os
import resource
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from tests.support.permissions import forbidden
from tests.support.reporters import RecordingReporter
from tfprov.engine.checkpoints.gather import check_target, check_writable, gather
from tfprov.engine.checkpoints.manifest import GatheredCheckpoint, GatheredFile, Manifest, directory_of, read
from tfprov.engine.checkpoints.ungathered import gathered_of, ungathered_files, unsaved, unsaved_among
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.context import Context
from tfprov.engine.events import Transferred
from tfprov.engine.observe import observe
from tfprov.errors import GatherError, HostError, Unreachable, printable
from tfprov.formats.checkpoint import NO_STEP, checkpoint_state, parse_state, stays_below
from tfprov.hosts.base import File
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.cluster import Cluster, Task
from tfprov.model.inventory import Inventory
from tfprov.model.state import Observed, State
from tfprov.playbook.gathering import report_gathered

MIB = 1024 * 1024
CHIEF = Task("worker", 0, "worker", "h1", "10.0.0.1", 2222)


class Fixture:
    """A chief on a host in memory, and a directory to gather into."""

    def __init__(self, directory: Path, runtime: MemoryRuntime | None = None) -> None:
        self.host = runtime or MemoryRuntime("h1")
        self.target = directory / "linear"
        self.report = RecordingReporter()
        self.new_run("run-1")
        self.context = Context(
            inventory=Inventory("inventory.yml", {}, {}),
            cluster=Cluster("linear", (CHIEF,)),
            wanted=(),
            runtimes={"h1": self.host},
            artifacts={},
            home=directory / "home",
            target=self.target,
            report=self.report,
        )

    def new_run(self, run: str) -> None:
        self.host.puts(Observed("worker/0", "h1", State.RUNNING, {}, run=run))

    def saves(self, step: int, content: bytes = b"weights") -> None:
        prefix = f"model.ckpt-{step}"
        self.host.now += 1
        self.host.saves("worker/0", f"{prefix}.data-00000-of-00001", content + str(step).encode())
        self.host.saves(
            "worker/0", f"{prefix}.index", b"index of " + prefix.encode() + content.removeprefix(b"weights")
        )
        self.host.saves("worker/0", "checkpoint", f'model_checkpoint_path: "/elsewhere/{prefix}"\n'.encode())

    def gather(self, verdicts: Mapping[str, Verification] | None = None) -> list[str]:
        gathered = gather(self.context, lambda prefixes: verdicts or {})
        return [saved.prefix for saved in gathered.new]

    def names(self) -> set[str]:
        return {path.relative_to(self.target).as_posix() for path in self.target.rglob("*") if path.is_file()}

    def latest(self) -> str:
        return parse_state((self.target / "checkpoint").read_text())[0]


@pytest.fixture
def chief(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_a_whole_checkpoint_is_brought_with_its_sha256_and_a_relative_state_file(chief: Fixture) -> None:
    chief.saves(100)
    assert chief.gather() == ["model.ckpt-100"]
    gathering = "gathering from worker/0"
    assert chief.report.awaited == [gathering, "reading every tensor of model.ckpt-100", gathering, ""]
    assert chief.latest() == "model.ckpt-100"
    data = chief.target / "model.ckpt-100.data-00000-of-00001"
    manifest = json.loads((chief.target / "manifest.json").read_text())
    assert manifest["files"][data.name]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert "/" not in (chief.target / "checkpoint").read_text()


def test_a_second_gather_copies_nothing_and_writes_nothing(chief: Fixture) -> None:
    chief.saves(100)
    chief.gather()
    before = {name: (chief.target / name).stat().st_mtime_ns for name in chief.names()}
    again = gather(chief.context, lambda _: {})
    assert (again.files, again.is_whole) == (0, True)
    assert {name: (chief.target / name).stat().st_mtime_ns for name in chief.names()} == before


def test_the_progress_of_each_checkpoint_and_of_what_lies_beside_them_is_counted_by_itself(chief: Fixture) -> None:
    chief.saves(100)
    chief.saves(200, b"weights" * 10)
    chief.host.saves("worker/0", "notes.txt", b"notes")
    chief.gather()
    moved = [(event.sent, event.total) for event in chief.report.events if isinstance(event, Transferred)]
    assert moved == [(73, 159), (159, 159), (10, 33), (33, 33), (5, 5)], "the newest first"


def test_a_torn_checkpoint_is_reported_and_the_whole_one_before_it_is_taken(chief: Fixture) -> None:
    chief.saves(100)
    chief.host.saves("worker/0", "model.ckpt-200.data-00000-of-00002", b"half")
    chief.host.saves("worker/0", "model.ckpt-200.index", b"index")
    chief.host.saves("worker/0", "checkpoint", b'model_checkpoint_path: "model.ckpt-200"\n')
    assert chief.gather() == ["model.ckpt-100"]
    assert "lacks model.ckpt-200.data-00001-of-00002" in chief.report.notes[0]
    assert not any("200" in name for name in chief.names())
    seen = observe(chief.context)
    kept = unsaved_among(chief.context, seen, lambda _: True)
    assert {name: prefix for (name, _), (_, prefix) in kept.items()} == {"worker/0": "model.ckpt-200"}, "not removed"


def test_a_chief_that_holds_only_an_empty_shell_is_an_error_with_the_remedy(chief: Fixture) -> None:
    chief.host.saves("worker/0", "checkpoint", b'model_checkpoint_path: "/c/model.ckpt-9"\n')
    chief.host.saves("worker/0", "model.ckpt-9.meta", b"graph")
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-9 lacks model\.ckpt-9\.index, all its shards; save with "
        r"tfprov\.runtime, or with a Saver\(sharded=False\) on the chief$",
    ):
        chief.gather()
    assert not chief.target.exists()


def test_nothing_older_ever_takes_the_place_of_something_newer(chief: Fixture) -> None:
    chief.saves(200)
    chief.gather()
    chief.new_run("run-1")  # a former chief of the same training, which was cut off
    chief.saves(100)
    (seen,) = observe(chief.context).containers()
    elsewhere = replace(chief.context, cluster=Cluster("linear", (replace(CHIEF, host="h2"),)))
    assert unsaved(elsewhere, seen) is None
    assert gather(elsewhere, lambda _: {}, source=seen).new == ()
    assert chief.latest() == "model.ckpt-200"


@pytest.mark.parametrize("removed", [False, True], ids=["earlier ones are left", "earlier ones are removed"])
@pytest.mark.parametrize("state", [False, True], ids=["without a state file", "with a state file"])
def test_a_training_that_began_anew_in_its_run_is_gathered_beside_the_earlier_one(
    chief: Fixture, *, removed: bool, state: bool
) -> None:
    for step in (100, 200, 300):
        chief.saves(step)
    chief.gather()
    if removed:  # as a CheckpointManager does
        chief.new_run("run-1")
    saved = (100, 150) if state else (100,)
    for step in saved:
        chief.saves(step, b"anew")
    if not state:
        chief.host.saves("worker/0", "checkpoint", b"")
    (seen,) = observe(chief.context).containers()
    lost = unsaved(chief.context, seen)
    assert lost is not None
    assert lost.prefix == f"model.ckpt-{saved[-1]}", "down does not remove it"
    assert chief.gather() == [f"model.ckpt-{step}" for step in saved]
    assert chief.latest() == f"model.ckpt-{saved[-1]}"
    assert parse_state((chief.target.with_name("linear.1") / "checkpoint").read_text())[0] == "model.ckpt-300"
    first, second = chief.report.notes
    assert first.startswith("worker/0 trains anew: it has saved model.ckpt-1")
    assert first.endswith("0 since model.ckpt-300 was gathered")
    assert second.startswith(f"{chief.target} held an earlier run (step 300)")
    assert unsaved(chief.context, seen) is None
    assert chief.gather() == [], "what is left of the earlier training does not come again"
    chief.saves(200, b"anew")
    assert chief.gather() == ["model.ckpt-200"]


@pytest.mark.parametrize(("step", "is_lost"), [(50, False), (100, False), (150, True)])
def test_a_named_checkpoint_that_lacks_files_is_lost_only_if_no_newer_one_was_gathered(
    chief: Fixture, step: int, is_lost: bool
) -> None:
    chief.saves(100)
    chief.gather()
    chief.new_run("run-1")
    chief.host.saves("worker/0", f"model.ckpt-{step}.index", b"index")
    chief.host.saves("worker/0", "checkpoint", f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode())
    (seen,) = observe(chief.context).containers()
    assert (unsaved(chief.context, seen) is not None) is is_lost


def test_the_newest_checkpoint_comes_again_if_it_was_saved_again_with_other_tensors(chief: Fixture) -> None:
    chief.saves(100)
    chief.saves(200)
    chief.gather()
    chief.saves(200)  # as a session does when it is created
    assert chief.gather() == []
    chief.saves(200, b"other")
    (seen,) = observe(chief.context).containers()
    assert unsaved(chief.context, seen) is not None
    assert chief.gather() == ["model.ckpt-200"]
    assert (chief.target / "model.ckpt-200.data-00000-of-00001").read_bytes() == b"other200"
    assert "model.ckpt-100.index" in chief.names()
    assert chief.gather() == []


class Forgetful(MemoryRuntime):
    """A host on which one index was removed since it was listed, if `removed` is set."""

    removed = ""

    def open(self, task: str, name: str) -> BinaryIO:
        if name == self.removed:
            raise HostError(self.host, f"no such file: {name}")
        return super().open(task, name)


class Unheld(Forgetful):
    """One that cannot hold files."""

    def hold(self, _task: str) -> Mapping[str, File]:
        return {}


def test_a_checkpoint_that_is_removed_while_it_is_compared_is_not_new(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, host := Forgetful("h1"))
    chief.saves(100)
    chief.saves(200)
    chief.gather()
    host.removed = "model.ckpt-100.index"
    chief.saves(100, b"anew")
    chief.host.saves("worker/0", "checkpoint", b'model_checkpoint_path: "model.ckpt-200"\n')
    assert chief.gather() == []


def test_the_newest_checkpoint_comes_without_an_older_one_that_cannot_be_read(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, host := Forgetful("h1"))
    chief.saves(100)
    chief.saves(200)
    host.removed = "model.ckpt-100.index"
    assert chief.gather() == ["model.ckpt-200"]
    assert host.calls == [], "nothing is held for it"


def test_checkpoints_that_count_epochs_are_gathered_beside_those_that_count_steps(chief: Fixture) -> None:
    def saves(prefix: str) -> None:
        chief.host.saves("worker/0", f"{prefix}.data-00000-of-00001", prefix.encode())
        chief.host.saves("worker/0", f"{prefix}.index", b"index")

    saves("cp-0003.ckpt")
    chief.saves(5000)
    assert chief.gather() == ["cp-0003.ckpt", "model.ckpt-5000"]
    saves("cp-0004.ckpt")
    (seen,) = observe(chief.context).containers()
    ungathered = unsaved(chief.context, seen)
    assert ungathered is not None
    assert ungathered.prefix == "cp-0004.ckpt", "the chief is not removed before"
    assert chief.gather() == ["cp-0004.ckpt"]
    assert chief.gather() == []
    assert chief.latest() == "model.ckpt-5000"


def test_another_training_of_the_same_cluster_moves_the_first_aside(chief: Fixture) -> None:
    chief.saves(200)
    chief.gather()
    before = {name: (chief.target / name).read_bytes() for name in chief.names()}
    chief.new_run("run-2")
    chief.host.saves("worker/0", "events.out.tfevents.1.h1", b"no checkpoint yet")
    chief.gather()
    assert chief.latest() == "model.ckpt-200", "an event file alone moves nobody"
    chief.saves(50)
    chief.gather()
    assert chief.latest() == "model.ckpt-50"
    aside = chief.target.with_name("linear.1")
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == before


def end(chief: Fixture, run: str, **files: bytes) -> None:
    """Have a chief of another run write files, and end."""
    chief.host.puts(Observed("worker/0", "h1", State.EXITED, {}, run=run, exit_code=1))
    chief.host.now += 1
    for name, content in files.items():
        chief.host.saves("worker/0", f"{name}.csv", content)


def test_what_a_run_without_a_model_wrote_comes_into_a_directory_beside_the_earlier_model(chief: Fixture) -> None:
    chief.saves(200)
    chief.gather()
    before = {name: (chief.target / name).read_bytes() for name in chief.names()}
    first, second = chief.target.with_name("linear.1"), chief.target.with_name("linear.2")
    for run, directory in (("run-2", first), ("run-3", second)):
        end(chief, run, loss=b"nan")
        (seen,) = observe(chief.context).containers()
        assert ungathered_files(chief.context, seen) == ["loss.csv"]
        report_gathered(chief.context, gather(chief.context, lambda _: {}))
        assert chief.report.notes[-1] == (
            f"gathered into {directory}: 1 file, 3 B; {chief.target} has the model of an earlier run, and keeps it"
        )
        assert ungathered_files(chief.context, seen) == []
        assert gather(chief.context, lambda _: {}).files == 0
    end(chief, "run-2", loss=b"nan", accuracy=b"0")
    assert gather(chief.context, lambda _: {}).directory == first
    assert {path.name for path in first.iterdir()} == {"loss.csv", "accuracy.csv", "manifest.json"}
    assert {path.name for path in second.iterdir()} == {"loss.csv", "manifest.json"}
    assert {name: (chief.target / name).read_bytes() for name in chief.names()} == before


def test_the_directory_beside_a_link_to_a_disk_is_on_that_disk(
    chief: Fixture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    there = tmp_path_factory.mktemp("disk") / "linear"
    there.mkdir()
    chief.target.symlink_to(there)
    chief.saves(200)
    chief.gather()
    chief.target.with_name("linear.1").mkdir()
    (chief.target.with_name("linear.1") / "thesis.tex").write_text("mine")
    end(chief, "run-2", loss=b"nan")
    assert gather(chief.context, lambda _: {}).files == 1
    beside = chief.target.with_name("linear.2")
    assert (beside.is_symlink(), beside.resolve()) == (True, there.with_name("linear.1"))
    assert (there.with_name("linear.1") / "loss.csv").read_bytes() == b"nan"
    assert gather(chief.context, lambda _: {}).files == 0


def test_a_gather_beside_an_earlier_model_stages_in_the_directory_that_it_places_into(tmp_path: Path) -> None:
    class Looking(MemoryRuntime):
        """A host that notes where copies are staged, each time a file of it is opened."""

        def __init__(self, host: str) -> None:
            super().__init__(host)
            self.staged_in: list[str] = []

        def open(self, task: str, name: str) -> BinaryIO:
            self.staged_in += [path.parent.name for path in tmp_path.glob("*/.part")]
            return super().open(task, name)

    chief = Fixture(tmp_path, host := Looking("h1"))
    chief.saves(200)
    chief.gather()
    end(chief, "run-2", loss=b"nan")
    host.staged_in.clear()
    assert gather(chief.context, lambda _: {}).files == 1
    assert host.staged_in == ["linear.1"], "a mounted gather directory is on another file system"
    assert not list(tmp_path.glob("*/.part"))


def test_an_empty_gather_directory_that_was_there_stays_and_one_that_was_made_goes(
    chief: Fixture, tmp_path: Path
) -> None:
    assert chief.gather() == []
    assert not chief.target.exists()
    (tmp_path / "disk").mkdir()
    chief.target.symlink_to("disk")
    assert chief.gather() == []
    assert chief.target.is_symlink()
    chief.target.unlink()
    chief.target.mkdir()
    assert chief.gather() == []
    assert chief.target.is_dir(), "it may be the root of a mounted disk"


def test_of_the_directories_that_a_run_was_set_aside_in_the_last_one_counts(chief: Fixture) -> None:
    chief.saves(300)
    chief.gather()
    chief.new_run("run-1")  # it trains anew in its run
    chief.saves(100, b"anew")
    chief.gather()
    chief.new_run("run-2")
    chief.saves(50)
    chief.gather()
    assert directory_of(chief.target, "run-2") == chief.target
    assert directory_of(chief.target, "run-1") == chief.target.with_name("linear.2")
    kept = gathered_of(chief.context, "run-1")
    assert kept is not None
    assert kept.step == 100


@pytest.mark.parametrize("cut", [False, True], ids=["removed", "cut short"])
def test_the_newest_checkpoint_comes_again_if_its_files_are_not_here_any_more(chief: Fixture, *, cut: bool) -> None:
    chief.saves(100)
    chief.saves(200)
    chief.gather()
    shard = chief.target / "model.ckpt-200.data-00000-of-00001"
    if cut:
        shard.write_bytes(b"cut")
    for path in chief.target.glob("model.ckpt-*"):
        if not cut:
            path.unlink()
    (seen,) = observe(chief.context).containers()
    lost = unsaved(chief.context, seen)
    assert lost is not None, "down does not remove it"
    assert lost.prefix == "model.ckpt-200"
    assert chief.gather() == ["model.ckpt-200"], "not the earlier one, which may have been removed on purpose"
    assert shard.read_bytes() == b"weights200"
    assert chief.latest() == "model.ckpt-200"
    assert unsaved(chief.context, seen) is None
    assert chief.gather() == []


def test_an_earlier_run_without_a_model_gives_way_to_any_file(chief: Fixture) -> None:
    chief.host.saves("worker/0", "loss.csv", b"1")
    assert gather(chief.context, lambda _: {}).files == 1
    chief.new_run("run-2")
    chief.host.now += 1
    chief.host.saves("worker/0", "loss.csv", b"2")
    assert gather(chief.context, lambda _: {}).directory == chief.target
    assert (chief.target / "loss.csv").read_bytes() == b"2"
    assert (chief.target.with_name("linear.1") / "loss.csv").read_bytes() == b"1"


def test_a_run_that_saved_nothing_has_no_newest_checkpoint_beside_an_earlier_run(chief: Fixture) -> None:
    chief.saves(400)
    chief.gather()
    chief.new_run("run-2")
    assert gather(chief.context, lambda _: {}).newest is None
    assert chief.latest() == "model.ckpt-400"


def test_a_target_that_is_a_link_to_a_disk_stays_one(chief: Fixture, tmp_path_factory: pytest.TempPathFactory) -> None:
    there = tmp_path_factory.mktemp("disk") / "linear"  # `tmp_path` is in memory where that is possible
    there.mkdir()
    chief.target.symlink_to(there)
    chief.saves(200)
    chief.gather()
    chief.new_run("run-2")
    chief.saves(50)
    assert chief.gather() == ["model.ckpt-50"]
    assert chief.target.is_symlink()
    assert chief.latest() == parse_state((there / "checkpoint").read_text())[0] == "model.ckpt-50"
    earlier = chief.target.with_name("linear.1")
    assert earlier.resolve() == there.with_name("linear.1")
    assert parse_state((earlier / "checkpoint").read_text()) == ["model.ckpt-200"]


def test_a_damaged_checkpoint_is_left_out_and_ends_in_an_error(chief: Fixture) -> None:
    chief.saves(100)
    chief.saves(200)
    verdicts = {"model.ckpt-100": Verification(3), "model.ckpt-200": Verification(0, "checksum does not match")}
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-200 is damaged: checksum does not match; the newest whole "
        r"one was gathered$",
    ):
        chief.gather(verdicts)
    assert chief.latest() == "model.ckpt-100"
    assert not any("200" in name for name in chief.names())


def test_files_of_somebody_else_are_not_written_over(chief: Fixture) -> None:
    chief.saves(100)
    chief.target.mkdir()
    for name in ("logs", "model.ckpt-1.index.part"):  # which no manifest goes before
        (chief.target / name).mkdir()
        assert read(chief.target) is None
    (chief.target / "thesis.tex").write_text("mine")
    with pytest.raises(
        GatherError, match=r"/linear holds files that no gather put there; move it away, or set `checkpoints\.to`$"
    ):
        chief.gather()
    assert chief.names() == {"thesis.tex"}


def test_a_target_behind_a_link_to_nothing_is_refused(chief: Fixture, tmp_path: Path) -> None:
    chief.saves(100)
    disk = tmp_path / "disk"
    for link, target in (("linear", chief.target), ("up", tmp_path / "up" / "linear")):
        (tmp_path / link).symlink_to(disk)
        with pytest.raises(GatherError) as raised:
            check_target(replace(chief.context, target=target))
        what = f"{tmp_path / link} is a link to {disk}, which is not there"
        assert str(raised.value) == f"{what}; mount its disk, or make the directory"
    disk.mkdir()
    assert chief.gather() == ["model.ckpt-100"]


def test_a_target_of_another_cluster_is_refused(chief: Fixture) -> None:
    chief.saves(100)
    chief.gather()
    manifest = chief.target / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"linear"', '"other"'))
    with pytest.raises(
        GatherError, match=r"/linear holds checkpoints of cluster other, not linear; set another `checkpoints\.to`$"
    ):
        chief.gather()


def test_a_directory_that_this_user_may_not_write_is_refused_before_a_training_that_saves(chief: Fixture) -> None:
    fix = "give this user access to it, or set another `checkpoints.to`"
    check_writable(chief.context)
    for directory in (chief.target.parent, chief.target):
        with forbidden(directory, 0o500), pytest.raises(GatherError) as raised:
            check_writable(chief.context)
        assert str(raised.value) == f"{chief.target}: this user may not write in {directory}; {fix}"
        with forbidden(directory, 0o500):
            check_writable(replace(chief.context, saves=False))
        chief.target.mkdir(exist_ok=True)
    assert not list(chief.target.iterdir())


def test_a_directory_that_cannot_give_way_to_another_training_is_reported_with_the_fix(chief: Fixture) -> None:
    chief.saves(400)
    chief.gather()
    chief.new_run("run-2")
    chief.saves(20)
    before = chief.names()
    what = f"{chief.target} holds an earlier run, and cannot be renamed: Permission denied"
    with forbidden(chief.target.parent, 0o500), pytest.raises(GatherError) as raised:
        chief.gather()
    assert str(raised.value) == f"{what}; set `checkpoints.to` to a directory below it, and gather again"
    assert before <= chief.names()
    assert chief.gather() == ["model.ckpt-20"], "nothing was lost, and nothing is in the way"


def test_what_a_program_put_beside_its_checkpoints_comes_too_and_leftovers_do_not(chief: Fixture) -> None:
    chief.saves(100)
    others = {
        "export/saved_model.pb", "events.out.tfevents.1.h1", "eval/events.out.tfevents.2.h1", "cpu_temp/a.csv", "room_temp",
    }  # fmt: skip
    for name in others:
        chief.host.saves("worker/0", name, b"x")
    for name in (
        "model.ckpt-7_temp/part-0",
        "cp.ckpt_temp/part-00000-of-00001.index",
        "replica-0_temp/x",
        "model.ckpt-7.data-00000-of-00001.tempstate12",
        "../../etc/passwd",
        "/abs",
    ):
        chief.host.saves("worker/0", name, b"evil")
    chief.gather()
    ours = {"checkpoint", "manifest.json", "model.ckpt-100.index", "model.ckpt-100.data-00000-of-00001"}
    assert chief.names() == ours | others
    assert not (chief.target.parent / "etc").exists()


def keeps_best(chief: Fixture, step: int, named: int) -> None:
    """What an evaluator leaves below the chief's directory, with a `checkpoint` file that names the step `named`."""
    chief.host.now += 1
    for end in ("index", "data-00000-of-00001"):
        chief.host.saves("worker/0", f"best/model.ckpt-{step}.{end}", f"{step} {end}".encode())
    chief.host.saves("worker/0", "best/checkpoint", f'model_checkpoint_path: "model.ckpt-{named}"\n'.encode())


def test_the_best_checkpoint_comes_whole_or_not_at_all(chief: Fixture) -> None:
    chief.saves(100)
    keeps_best(chief, 100, named=100)
    chief.gather()
    assert parse_state((chief.target / "best/checkpoint").read_text()) == ["model.ckpt-100"]
    keeps_best(chief, 200, named=300)
    chief.gather()
    assert parse_state((chief.target / "best/checkpoint").read_text()) == ["model.ckpt-100"], "it was being replaced"
    what = "1 of 1 folders with a `checkpoint` file could not be copied: best: "
    half = f"{what}its `checkpoint` file names no complete checkpoint there"
    assert chief.report.notes == [half]
    for state in (b"", b"model_checkpoint_path: ?"):
        chief.host.now += 1
        chief.host.saves("worker/0", "best/checkpoint", state)
        chief.gather()
    assert chief.report.notes == [half] * 3, "it was being written"
    keeps_best(chief, 300, named=300)
    chief.gather()
    assert parse_state((chief.target / "best/checkpoint").read_text()) == ["model.ckpt-300"]
    assert (chief.target / "best/model.ckpt-300.index").read_bytes() == b"300 index"


def test_a_damaged_checkpoint_in_a_folder_is_reported_and_replaces_nothing(chief: Fixture) -> None:
    damaged = {
        "model.ckpt-100": Verification(0, "tensor w: damaged"),
        "model.ckpt-200": Verification(0, "tensor w: damaged"),
    }
    keeps_best(chief, 100, named=100)
    chief.gather(damaged)
    assert chief.report.notes == ["best: model.ckpt-100 is damaged: tensor w: damaged; it was copied as it is"]
    assert "best/model.ckpt-100.index" in chief.names()
    keeps_best(chief, 200, named=200)
    chief.gather(damaged)
    what = "1 of 1 folders with a `checkpoint` file could not be copied: best: model.ckpt-200 is damaged: tensor w: damaged"
    assert chief.report.notes[1:] == [what]
    assert parse_state((chief.target / "best/checkpoint").read_text()) == ["model.ckpt-100"]
    chief.gather({})
    assert parse_state((chief.target / "best/checkpoint").read_text()) == ["model.ckpt-200"]


def test_the_best_checkpoint_is_named_without_the_directory_it_was_trained_in(chief: Fixture) -> None:
    chief.saves(100)
    keeps_best(chief, 100, named=100)
    named = [f'{key}: "/checkpoints/best/model.ckpt-{step}"\n' for key, step in
             (("model_checkpoint_path", 100), ("all_model_checkpoint_paths", 90))]  # fmt: skip
    chief.host.saves("worker/0", "best/checkpoint", "".join(named).encode())
    chief.gather()
    state = chief.target / "best" / "checkpoint"
    assert parse_state(state.read_text()) == ["model.ckpt-100", "model.ckpt-90"]
    manifest = json.loads((chief.target / "manifest.json").read_text())
    assert manifest["files"]["best/checkpoint"]["sha256"] == hashlib.sha256(state.read_bytes()).hexdigest()
    assert gather(chief.context, lambda _: {}).files == 0, "it has not changed"


def test_a_file_called_checkpoint_that_is_not_tensorflows_is_gathered_with_its_folder(chief: Fixture) -> None:
    chief.saves(100)
    for name in ("torch/checkpoint", "torch/optimizer.npz"):
        chief.host.saves("worker/0", name, b"PK\x03\x04\xff")
    chief.gather()
    assert {"torch/checkpoint", "torch/optimizer.npz"} <= chief.names()
    assert chief.report.notes == []


def test_files_that_only_end_like_those_of_a_checkpoint_are_gathered(chief: Fixture) -> None:
    own = ["embeddings.index", "eval.data-00000-of-00010", "eval.data-00001-of-00010"]
    chief.saves(100)
    for name in own:
        chief.host.saves("worker/0", name, name.encode())
    chief.gather()
    assert set(own) < chief.names()
    (seen,) = observe(chief.context).containers()
    assert not ungathered_files(chief.context, seen)


def test_a_checkpoint_that_lacks_files_is_reported_beside_one_of_another_name_with_a_higher_number(
    chief: Fixture,
) -> None:
    chief.host.saves("worker/0", "weights-900.data-00000-of-00001", b"weights")
    chief.host.saves("worker/0", "weights-900.index", b"index")
    chief.saves(120)
    del chief.host.places["worker/0"].files["model.ckpt-120.data-00000-of-00001"]
    assert chief.gather() == ["weights-900"]
    assert "model.ckpt-120 lacks" in " ".join(chief.report.notes)
    (seen,) = observe(chief.context).containers()
    ungathered = unsaved(chief.context, seen)
    assert ungathered is not None, "its container is not removed"
    assert ungathered.prefix == "model.ckpt-120"


def test_the_newest_checkpoint_of_each_name_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, host := Unheld("h1"))
    host.removed = "model.ckpt-100.index"
    chief.saves(100)
    host.saves("worker/0", "weights-900.data-00000-of-00001", b"weights")
    host.saves("worker/0", "weights-900.index", b"index")
    gathered = gather(chief.context, lambda _: {})
    assert [one.prefix for one in gathered.new] == ["weights-900"]
    assert not gathered.is_whole
    assert "checkpoint model.ckpt-100 could not be copied" in " ".join(chief.report.notes)


def test_progress_files_are_not_gathered(chief: Fixture) -> None:
    chief.saves(100)
    chief.host.saves("worker/0", "progress.json", b"{}")
    chief.gather()
    assert "progress.json" not in chief.names()


def test_an_event_file_that_has_grown_is_brought_again(chief: Fixture) -> None:
    chief.saves(100)
    chief.host.saves("worker/0", "events.out.tfevents.1.h1", b"one")
    chief.gather()
    chief.host.saves("worker/0", "events.out.tfevents.1.h1", b"one two")
    assert gather(chief.context, lambda _: {}).files == 1
    assert (chief.target / "events.out.tfevents.1.h1").read_bytes() == b"one two"


def keeps_best_without_step(host: MemoryRuntime, index: bytes, shard: bytes) -> None:
    """Have a program save `best/cp.ckpt` again, of which the `checkpoint` file does not change."""
    host.now += 1
    host.saves("worker/0", "best/cp.ckpt.data-00000-of-00001", shard)
    if index:
        host.saves("worker/0", "best/cp.ckpt.index", index)


def test_a_checkpoint_in_a_folder_comes_whole_if_only_its_shards_have_changed(chief: Fixture) -> None:
    keeps_best_without_step(chief.host, b"index one", b"one")
    chief.host.saves("worker/0", "best/checkpoint", b'model_checkpoint_path: "cp.ckpt"\n')
    chief.gather()
    keeps_best_without_step(chief.host, b"", b"two")  # its index comes next
    chief.host.saves("worker/0", "best/events.out.tfevents.1.h1", b"x")
    chief.gather({"cp.ckpt": Verification(0, "checksum does not match")})
    what = "could not be copied: best: cp.ckpt is damaged: checksum does not match"
    assert chief.report.notes == [f"1 of 1 folders with a `checkpoint` file {what}"]
    assert (chief.target / "best/cp.ckpt.data-00000-of-00001").read_bytes() == b"one"
    assert (chief.target / "best/events.out.tfevents.1.h1").read_bytes() == b"x", "it is no part of the checkpoint"
    keeps_best_without_step(chief.host, b"index two", b"two")
    chief.gather({"cp.ckpt": Verification(1)})
    assert (chief.target / "best/cp.ckpt.data-00000-of-00001").read_bytes() == b"two"
    assert (chief.target / "best/cp.ckpt.index").read_bytes() == b"index two"
    assert gather(chief.context, lambda _: {}).files == 0


def test_a_checkpoint_in_a_folder_that_is_saved_again_while_it_is_copied_replaces_nothing(tmp_path: Path) -> None:
    class Saving(MemoryRuntime):
        """A host whose program saves `best/cp.ckpt` again once its shard was read, if `saves_again`."""

        saves_again = False

        def open(self, task: str, name: str) -> BinaryIO:
            stream = super().open(task, name)
            if self.saves_again and ".data-" in name:
                keeps_best_without_step(self, b"index new", b"new")
            return stream

    chief = Fixture(tmp_path, host := Saving("h1"))
    keeps_best_without_step(chief.host, b"index old", b"old")
    chief.host.saves("worker/0", "best/checkpoint", b'model_checkpoint_path: "cp.ckpt"\n')
    chief.gather()
    host.saves_again = True
    keeps_best_without_step(chief.host, b"index mid", b"mid")
    chief.gather()
    what = "could not be copied: best: it was saved again while it was copied"
    assert chief.report.notes == [f"1 of 1 folders with a `checkpoint` file {what}"]
    assert (chief.target / "best/cp.ckpt.data-00000-of-00001").read_bytes() == b"old"
    assert (chief.target / "best/cp.ckpt.index").read_bytes() == b"index old"


def test_a_checkpoint_in_a_directory_below_that_the_state_file_names_comes_with_the_other_files(chief: Fixture) -> None:
    below = {f"sub/ckpt-9.{end}": end.encode() for end in ("index", "data-00000-of-00001")}
    for name, content in below.items():
        chief.host.saves("worker/0", name, content)
    chief.host.saves("worker/0", "checkpoint", b'model_checkpoint_path: "sub/ckpt-9"\n')
    (seen,) = observe(chief.context).containers()
    lost = unsaved(chief.context, seen)
    assert lost is not None, "down does not remove it"
    assert lost.prefix == "sub/ckpt-9"
    assert chief.gather() == []
    assert {name: (chief.target / name).read_bytes() for name in below} == below
    assert unsaved(chief.context, seen) is None
    chief.host.saves("worker/0", "ckpt-8.index", b"index")
    chief.host.saves("worker/0", "ckpt-8.data-00000-of-00001", b"weights")
    assert chief.gather() == ["ckpt-8"]
    assert chief.report.notes == []


class Vanishing(MemoryRuntime):
    """A chief that removes its oldest checkpoint while it is copied, as its saver does."""

    def open(self, task: str, name: str) -> BinaryIO:
        if name.startswith("model.ckpt-100."):
            self.places[task].files = {
                name: file for name, file in self.places[task].files.items() if "ckpt-100." not in name
            }
            raise HostError(self.host, f"no such file: {name}")
        return super().open(task, name)


def test_a_checkpoint_that_is_removed_meanwhile_is_passed_over(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, Vanishing("h1"))
    chief.saves(100)
    chief.saves(200)
    assert chief.gather() == ["model.ckpt-200"]
    assert chief.latest() == "model.ckpt-200"


def test_what_is_copied_again_after_a_removal_is_counted_once(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, Vanishing("h1"))
    for step in (100, 200, 300):
        chief.saves(step)
    gathered = gather(chief.context, lambda _: {})
    size = sum(path.stat().st_size for path in chief.target.glob("model.ckpt-*"))
    assert (gathered.files, gathered.size) == (4, size)


class Rotating(MemoryRuntime):
    """A chief that keeps one checkpoint, and saves the next whenever one is about to be read."""

    def __init__(self, host: str, *, can_hold: bool = True) -> None:
        super().__init__(host)
        self.step, self.reads, self.can_hold = 100, list[str](), can_hold

    def open(self, task: str, name: str) -> BinaryIO:
        self.reads.append(name)
        files, before = self.places[task].files, f"model.ckpt-{self.step}."
        if "ckpt-" in name:
            self.step += 100
            after = f"model.ckpt-{self.step}."
            self.places[task].files = {
                one.replace(before, after) if one.startswith(before) else one: data for one, data in files.items()
            }
            state = f'model_checkpoint_path: "{after[:-1]}"'.encode()
            self.places[task].files["checkpoint"] = state, 0.0
        return super().open(task, name)

    def hold(self, task: str) -> Mapping[str, File]:
        return super().hold(task) if self.can_hold else {}


def test_a_chief_that_removes_each_checkpoint_at_once_has_it_held_until_it_is_copied(tmp_path: Path) -> None:
    host = Rotating("h1")
    chief = Fixture(tmp_path, host)
    chief.saves(100)
    (gathered,) = chief.gather()
    assert gathered == chief.latest() != "model.ckpt-100"
    assert {f"{gathered}.index", f"{gathered}.data-00000-of-00001"} <= set(chief.names())
    assert host.calls.count("hold worker/0") == 1
    assert not any("held" in name for name in [*host.places["worker/0"].files, *chief.names()])


class Overwriting(MemoryRuntime):
    """A chief that saves `cp.ckpt` again while it is copied, `times` times, once its shard was read."""

    def __init__(self, host: str, times: int, *, can_hold: bool = True) -> None:
        super().__init__(host)
        self.left, self.can_hold = times, can_hold

    def hold(self, task: str) -> Mapping[str, File]:
        return super().hold(task) if self.can_hold else {}

    def save(self) -> None:
        """Save it with other tensors of the same size."""
        self.now += 1
        for name in ("cp.ckpt.data-00000-of-00001", "cp.ckpt.index"):
            self.saves("worker/0", name, f"{name} {self.left:03}".encode())

    def open(self, task: str, name: str) -> BinaryIO:
        stream = super().open(task, name)
        if self.left and name == "cp.ckpt.data-00000-of-00001":
            self.left -= 1
            self.save()
        return stream


@pytest.mark.parametrize("times", [0, 1, 2, 900])
def test_a_checkpoint_that_is_saved_again_while_it_is_copied_is_copied_again(tmp_path: Path, times: int) -> None:
    """Its shard would be of one save and its index of the next, and the whole one on the host be called damaged."""
    chief = Fixture(tmp_path, host := Overwriting("h1", times))
    host.save()
    assert chief.gather() == ["cp.ckpt"]
    contents = [(chief.target / name).read_text()[-3:] for name in ("cp.ckpt.data-00000-of-00001", "cp.ckpt.index")]
    assert len(set(contents)) == 1, "both are of one save"


def test_a_checkpoint_that_is_saved_again_during_each_copy_is_an_error(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, host := Overwriting("h1", 900, can_hold=False))
    host.save()
    with pytest.raises(GatherError, match=r"cp\.ckpt could not be copied: it was saved again while it was copied"):
        chief.gather()


def test_where_nothing_can_be_held_three_tries_are_made_and_the_cause_is_named(tmp_path: Path) -> None:
    host = Rotating("h1", can_hold=False)
    chief = Fixture(tmp_path, host)
    chief.saves(100)
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-700 could not be copied: h1: no such file: "
        r"/memory/h1/worker/0/model\.ckpt-700\.data-00000-of-00001; its program keeps too few: let it "
        r"keep more, or save less often$",
    ):
        chief.gather()
    assert sum("ckpt-" in name for name in host.reads) <= 3 * 4, "each try reads until the first that is gone"


def test_what_a_gather_that_was_cut_off_held_is_released_by_the_next(chief: Fixture) -> None:
    chief.saves(100)
    chief.host.hold("worker/0")
    assert any("held" in name for name in chief.host.places["worker/0"].files)
    assert chief.gather() == ["model.ckpt-100"]
    assert not any("held" in name for name in [*chief.host.places["worker/0"].files, *chief.names()])


def test_all_but_a_newest_checkpoint_that_cannot_be_read_is_gathered_before_the_error(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, host := Unheld("h1"))
    chief.saves(100)
    chief.saves(200)
    chief.host.saves("worker/0", "events.out.tfevents.1.h1", b"x")
    host.removed = "model.ckpt-200.index"
    error = r"^worker/0's checkpoint model\.ckpt-200 could not be copied: h1: no such file: model\.ckpt-200\.index$"
    for _ in range(2):  # the second one has nothing else to copy
        with pytest.raises(GatherError, match=error):
            chief.gather()
        assert chief.latest() == "model.ckpt-100"
        assert (chief.target / "events.out.tfevents.1.h1").read_bytes() == b"x"
        assert chief.report.notes == []
    host.removed = ""
    assert chief.gather() == ["model.ckpt-200"]


def test_an_earlier_model_stays_while_the_only_checkpoint_of_a_run_cannot_be_read(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, host := Unheld("h1"))
    chief.saves(100)
    chief.gather()
    end(chief, "run-2", loss=b"nan")
    chief.saves(20)
    host.removed = "model.ckpt-20.index"
    with pytest.raises(GatherError, match=r"model\.ckpt-20 could not be copied"):
        chief.gather()
    assert [path.name for path in tmp_path.iterdir()] == ["linear"], "it is set aside once there is another model"
    host.removed = ""
    assert chief.gather() == ["model.ckpt-20"]
    assert (chief.target / "loss.csv").read_bytes() == b"nan"


def test_a_file_of_the_host_that_fails_to_be_read_is_no_error_of_the_gather_directory(tmp_path: Path) -> None:
    class BadSector(io.RawIOBase):
        """A file on a disk with a bad sector."""

        def readinto(self, _buffer: Any) -> int:
            raise OSError(errno.EIO, "Input/output error")

    class Failing(MemoryRuntime):
        def open(self, task: str, name: str) -> BinaryIO:
            return cast(BinaryIO, BadSector()) if ".data-" in name else super().open(task, name)

    chief = Fixture(tmp_path, Failing("h1"))
    chief.saves(100)
    with pytest.raises(GatherError) as raised:
        chief.gather()
    what = "h1: model.ckpt-100.data-00000-of-00001 cannot be read: Input/output error"
    assert str(raised.value) == f"worker/0's checkpoint model.ckpt-100 could not be copied: {what}"


class Cut(MemoryRuntime):
    """A connection that ends in the middle of a file."""

    def open(self, task: str, name: str) -> BinaryIO:
        with super().open(task, name) as file:
            data = file.read()
        return io.BytesIO(data[:-1] if "data-" in name else data)


def test_a_file_that_arrives_short_never_counts(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, Cut("h1"))
    chief.saves(100)
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-100 could not be copied: h1: "
        r"model\.ckpt-100\.data-00000-of-00001 became shorter while it was copied$",
    ):
        chief.gather()
    assert not any("ckpt" in name for name in chief.names())


def test_a_full_disk_here_leaves_what_was_gathered_before(chief: Fixture) -> None:
    chief.saves(100)
    chief.gather()
    before = {name: (chief.target / name).read_bytes() for name in chief.names()}
    chief.saves(200, b"x" * 100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(GatherError, match=r"/linear: File too large; what was gathered before is untouched$"):
            chief.gather()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {name: (chief.target / name).read_bytes() for name in before} == before
    assert chief.gather() == ["model.ckpt-200"]


def test_an_output_that_was_closed_is_no_error_of_the_directory(chief: Fixture) -> None:
    def closed() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    chief.saves(100)
    chief.gather()
    chief.new_run("run-2")
    chief.saves(50)
    chief.report.on_note = closed
    with pytest.raises(BrokenPipeError):
        chief.gather()


def test_only_what_is_gathered_counts_as_saved(chief: Fixture) -> None:
    (seen,) = observe(chief.context).containers()

    def lost_with_it() -> str | None:
        ungathered = unsaved(chief.context, seen)
        return ungathered.prefix if ungathered else None

    assert lost_with_it() is None, "nothing was saved, so nothing can be lost"
    chief.saves(100)
    assert lost_with_it() == "model.ckpt-100"
    chief.gather()
    assert lost_with_it() is None
    chief.saves(200)
    assert lost_with_it() == "model.ckpt-200"


def test_what_was_gathered_and_set_aside_for_another_run_is_still_saved(chief: Fixture) -> None:
    chief.saves(100)
    (seen,) = observe(chief.context).containers()
    chief.gather()
    chief.new_run("run-2")
    chief.saves(50)
    chief.gather()
    chief.new_run("run-1")
    chief.saves(100)
    assert unsaved(chief.context, seen) is None, "it lies in linear.1"


def test_what_another_cluster_has_beside_it_is_not_of_this_one(chief: Fixture) -> None:
    chief.saves(100)
    (seen,) = observe(chief.context).containers()
    (beside := chief.target.with_name("linear.1")).mkdir()
    for cluster, saved in (("other", False), ("linear", True)):
        Manifest(cluster, "run-1", (GatheredCheckpoint("model.ckpt-100", 100),)).write(beside)
        assert bool(gathered_of(chief.context, "run-1")) is saved
        assert ungathered_files(chief.context, seen) == []


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_earlier_run_stays_in_its_place_unless_there_is_a_directory_for_the_next(
    chief: Fixture, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    chief.saves(100)
    chief.gather()
    chief.new_run("run-2")
    chief.saves(50)
    make = Path.mkdir

    def refuse(path: Path, *args: Any, **options: Any) -> None:
        if path == chief.target and not path.exists():
            raise error
        make(path, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", refuse)
        with pytest.raises((GatherError, KeyboardInterrupt)) as caught:
            chief.gather()
    fix = "make room there and gather again; what was gathered before is untouched"
    full = f"{chief.target}: No space left on device; {fix}"
    assert str(caught.value) == ("" if isinstance(error, KeyboardInterrupt) else full)
    assert chief.latest() == "model.ckpt-100"
    assert chief.gather() == ["model.ckpt-50"]


def test_a_checkpoint_without_a_step_is_brought_again_when_it_has_changed(chief: Fixture) -> None:
    def saves(content: bytes) -> None:
        chief.host.now += 1
        chief.host.saves("worker/0", "cp.ckpt.data-00000-of-00001", content)
        chief.host.saves("worker/0", "cp.ckpt.index", b"index")

    saves(b"one")
    assert chief.gather() == ["cp.ckpt"]
    assert chief.gather() == []
    saves(b"two")
    assert chief.gather() == ["cp.ckpt"]
    assert (chief.target / "cp.ckpt.data-00000-of-00001").read_bytes() == b"two"


def test_of_checkpoints_without_a_step_the_one_saved_last_is_the_newest(chief: Fixture) -> None:
    def saves(prefix: str) -> None:
        chief.host.now += 1
        chief.host.saves("worker/0", f"{prefix}.data-00000-of-00001", b"%f" % chief.host.now)
        chief.host.saves("worker/0", f"{prefix}.index", b"index")

    for prefix in ("best.ckpt", "last.ckpt"):
        saves(prefix)
    chief.gather()
    assert chief.latest() == "last.ckpt"
    saves("best.ckpt")
    chief.gather()
    assert chief.latest() == "best.ckpt"


class Killed(BaseException):
    """Stands for kill -9 at this point: nothing after it runs but what the next command does."""


class Deadly(MemoryRuntime):
    """A host whose n-th file is never read to its end, because the controller dies of it."""

    left = 0

    def open(self, task: str, name: str) -> BinaryIO:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return super().open(task, name)


@pytest.mark.parametrize("reads", range(4))
def test_a_gather_that_is_cut_off_anywhere_can_be_repeated(tmp_path: Path, reads: int) -> None:
    host = Deadly("h1")
    chief = Fixture(tmp_path, host)
    chief.saves(100)
    host.saves("worker/0", "events.out.tfevents.1.h1", b"read after the checkpoint was put in place")
    host.left = reads
    with pytest.raises(Killed):
        chief.gather()
    placed = reads == 3
    assert (chief.target / "checkpoint").exists() is placed, "nothing says that it is there before it is"
    host.left = 100
    assert chief.gather() == ([] if placed else ["model.ckpt-100"])
    assert chief.latest() == "model.ckpt-100"


def test_a_gather_of_many_files_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    host = Deadly("h1")
    chief = Fixture(tmp_path, host)
    chief.saves(100)
    for number in range(1050):
        host.saves("worker/0", f"many/{number:04}", b"%d" % number)
    host.left = 1040
    with pytest.raises(Killed):
        chief.gather()
    assert len(list((chief.target / "many").iterdir())) == 1000, "the first batch is in its place"
    host.left = 60
    assert chief.gather() == []
    assert {path.name: path.read_bytes() for path in (chief.target / "many").iterdir()} == {
        f"{number:04}": b"%d" % number for number in range(1050)
    }
    assert (gather(chief.context, lambda _: {}).files, (chief.target / ".part").exists()) == (0, False)


def test_files_that_could_not_be_copied_are_reported(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, Vanishing("h1"))
    for name in ("a.keras", "b.keras", "model.ckpt-100.notes"):
        chief.host.saves("worker/0", name, b"x")
    assert not gather(chief.context, lambda _: {}).is_whole
    assert chief.report.notes == [
        "1 of 3 files beside the checkpoints could not be copied: h1: no such file: model.ckpt-100.notes"
    ]
    assert {"a.keras", "b.keras"} <= chief.names()


class Unreadable(MemoryRuntime):
    """A host that does not send what lies below `best/` and `last/`."""

    def open(self, task: str, name: str) -> BinaryIO:
        if name.startswith(("best/", "last/")):
            raise HostError(self.host, f"{name} cannot be read")
        return super().open(task, name)


def test_a_best_checkpoint_that_could_not_be_copied_is_reported(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, Unreadable("h1"))
    chief.saves(100)
    keeps_best(chief, 90, named=90)
    assert chief.gather() == ["model.ckpt-100"]
    what = "could not be copied: best: h1: best/checkpoint cannot be read"
    assert chief.report.notes == [f"1 of 1 folders with a `checkpoint` file {what}"]
    chief.host.saves("worker/0", "last/checkpoint", b"x")
    chief.gather()
    assert chief.report.notes[1:] == [f"2 of 2 folders with a `checkpoint` file {what}"], "with the reason of the first"


def test_files_whose_place_is_taken_are_reported_and_all_others_are_gathered(chief: Fixture) -> None:
    chief.saves(100)
    chief.host.saves("worker/0", "best", b"a file")
    chief.gather()
    keeps_best(chief, 90, named=90)
    chief.host.saves("worker/0", "checkpoint/model.keras", b"a program may name a directory so")
    chief.host.saves("worker/0", "notes.txt", b"notes")
    chief.saves(200)
    assert chief.gather() == ["model.ckpt-200"]
    assert (chief.target / "notes.txt").read_bytes() == b"notes"
    assert chief.report.notes == [
        f"1 of 2 files beside the checkpoints could not be copied: {chief.target}/checkpoint is a file",
        f"1 of 1 folders with a `checkpoint` file could not be copied: best: {chief.target}/best is a file",
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("n" * 300, "cannot be stored on this machine: File name too long"),
        ("a/" * 1500 + "x", "lies below more than 100 directories"),
    ],
    ids=["too long", "too deep"],
)
def test_a_name_that_cannot_be_here_is_reported_and_all_others_are_gathered(
    chief: Fixture, name: str, reason: str
) -> None:
    chief.saves(100)
    chief.host.saves("worker/0", name, b"x")
    chief.host.saves("worker/0", "notes.txt", b"notes")
    gathered = gather(chief.context, lambda _: {})
    assert ([one.prefix for one in gathered.new], gathered.is_whole) == (["model.ckpt-100"], False)
    assert (chief.target / "notes.txt").read_bytes() == b"notes"
    what = "1 of 2 files beside the checkpoints could not be copied"
    assert chief.report.notes == [f"{what}: h1: {printable(name)} {reason}"]


class Lost(MemoryRuntime):
    """A host that is lost when files with `lost` in their names are read, each try of which takes a while."""

    lost, tries = "", 0

    def open(self, task: str, name: str) -> BinaryIO:
        if self.lost and self.lost in name:
            self.tries += 1
            raise Unreachable(self.host, "connection lost")
        return super().open(task, name)

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        return iter(())


def test_a_lost_host_is_not_tried_for_each_checkpoint(tmp_path: Path) -> None:
    host = Lost("h1")
    chief = Fixture(tmp_path, host)
    for step in range(100, 120):
        chief.saves(step)
    host.lost = "model.ckpt-"
    with pytest.raises(
        GatherError, match=r"^worker/0's checkpoint model\.ckpt-119 could not be copied: h1: connection lost$"
    ):
        chief.gather()
    assert host.tries == 3


def test_a_lost_host_ends_the_copy_of_folders_and_what_came_before_stays(tmp_path: Path) -> None:
    host = Lost("h1")
    chief = Fixture(tmp_path, host)
    chief.saves(100)
    for trial in range(20):
        chief.host.saves("worker/0", f"trial_{trial:02d}/checkpoint", b'model_checkpoint_path: "ckpt-1"\n')
    host.lost = "trial_"
    with pytest.raises(Unreachable, match="h1: connection lost"):
        chief.gather()
    assert host.tries == 1
    assert chief.latest() == "model.ckpt-100"


class Holes(MemoryRuntime):
    """A host with one sparse file of 256 MiB; `read` counts the bytes that were read of it."""

    size, read = 256 * MIB, 0

    def files(self, task: str) -> Mapping[str, File]:
        actual = super().files(task)
        return {name: File(self.size, 1.0) if name == "sparse.bin" else file for name, file in actual.items()}

    def open(self, task: str, name: str) -> BinaryIO:
        return cast(BinaryIO, Hole(self)) if name == "sparse.bin" else super().open(task, name)


class Hole(io.RawIOBase):
    """A file that begins with 3 MiB of data, the second of which is zeros, and has a hole up to its last bytes."""

    def __init__(self, host: Holes) -> None:
        self.host, self.at = host, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at += offset
        return self.at

    def hole(self) -> int:
        return max(0, self.host.size - 3 - self.at) if self.at >= 3 * MIB else 0

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        self.host.read += size
        begin, self.at = self.at, self.at + size
        last = b"end" if self.at == self.host.size else b""
        buffer[:] = bytes([begin // MIB != 1 and begin < 3 * MIB]) * (size - len(last)) + last
        return size


def test_of_a_sparse_file_the_holes_are_neither_read_nor_written(tmp_path: Path) -> None:
    host = Holes("h1")
    chief = Fixture(tmp_path, host)
    chief.saves(100)
    host.saves("worker/0", "sparse.bin", b"")
    chief.gather()
    brought = chief.target / "sparse.bin"
    status = brought.stat()
    assert status.st_size == host.size
    assert status.st_blocks * 512 <= 4 * MIB, "holes, and zeros that were sent, take no room"
    assert host.read <= 5 * MIB
    with brought.open("rb") as file:
        assert file.read(3 * MIB) == b"\1" * MIB + bytes(MIB) + b"\1" * MIB
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"\0end"


def verify_staged(prefixes: Sequence[Path]) -> Mapping[str, Verification]:
    """Assert that what is verified is complete and not yet where users look."""
    for prefix in prefixes:
        assert prefix.parent.name == ".part"
        assert Path(f"{prefix}.index").exists()
    return {prefix.name: Verification(1) for prefix in prefixes}


def test_a_checkpoint_is_verified_before_it_is_put_in_place(chief: Fixture) -> None:
    chief.saves(100)
    gathered = gather(chief.context, verify_staged)
    assert [saved.tensors for saved in gathered.new] == [1]
    assert not (chief.target / ".part").exists()


def test_a_second_gather_reads_only_the_tensors_of_new_checkpoints(chief: Fixture) -> None:
    read: list[str] = []

    def verify(prefixes: Sequence[Path]) -> Mapping[str, Verification]:
        read.extend(prefix.name for prefix in prefixes)
        return {}

    chief.saves(100)
    gather(chief.context, verify)
    gather(chief.context, verify)
    assert read == ["model.ckpt-100"]
    chief.saves(200)
    gather(chief.context, verify)
    assert read == ["model.ckpt-100", "model.ckpt-200"]


def test_what_a_gather_brought_is_reported_with_its_files_and_tensors(chief: Fixture) -> None:
    chief.saves(100)
    report_gathered(chief.context, gather(chief.context, lambda prefixes: {prefixes[-1].name: Verification(1)}))
    chief.saves(200)
    report_gathered(chief.context, gather(chief.context, lambda prefixes: {prefixes[-1].name: Verification(12)}))
    chief.saves(300)
    report_gathered(chief.context, gather(chief.context, lambda _: {}))
    report_gathered(chief.context, gather(chief.context, lambda _: {}))
    chief.host.saves("worker/0", "events.out.tfevents.1.h1", b"x")
    report_gathered(chief.context, gather(chief.context, lambda _: {}))
    chief.saves(400)
    chief.saves(500)
    report_gathered(chief.context, gather(chief.context, lambda prefixes: {prefixes[-1].name: Verification(1)}))
    notes = [note.replace(str(chief.target), "here") for note in chief.report.notes]
    unread = "its tensors were not read"
    assert notes == [
        "gathered into here: model.ckpt-100 (1 tensor read); 2 files, 33 B",
        "gathered into here: model.ckpt-200 (12 tensors read); 2 files, 33 B",
        f"gathered into here: model.ckpt-300 ({unread}); 2 files, 33 B",
        "nothing new to gather: here has model.ckpt-300",
        "gathered into here: 1 file, 1 B",
        "gathered into here: model.ckpt-500 (1 tensor read); 4 files, 66 B",
    ]


# --- the lines, in full --------------------------------------------------------------------------------------------------

REMEDY = "save with tfprov.runtime, or with a Saver(sharded=False) on the chief"
WHOLE_OF_9 = ("model.ckpt-9.index", "model.ckpt-9.data-00000-of-00001")


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((), "lacks model.ckpt-9.index, all its shards"),
        (("model.ckpt-9.index",), "lacks model.ckpt-9.data-?????-of-?????"),
        (("model.ckpt-9.data-00000-of-00001",), "lacks model.ckpt-9.index"),
        ((*WHOLE_OF_9, "model.ckpt-9.data-00001-of-00002"), "is torn: shards of 1 and of 2"),
        ((*WHOLE_OF_9, "model.ckpt-9.data-00003-of-00001"), "is torn: shard 3 of only 1"),
    ],
)
def test_a_fault_of_the_newest_checkpoint_is_reported_with_its_fix(
    chief: Fixture, there: Sequence[str], expected: str
) -> None:
    for name in there:
        chief.host.saves("worker/0", name, b"x")
    state = checkpoint_state("model.ckpt-9", ["model.ckpt-5", "model.ckpt-9"])
    chief.host.saves("worker/0", "checkpoint", state.encode())
    message = f"worker/0's checkpoint model.ckpt-9 {expected}; {REMEDY}"
    with pytest.raises(GatherError) as raised:
        chief.gather()
    assert str(raised.value) == message
    for name in ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"):
        chief.host.saves("worker/0", name, b"x")
    assert chief.gather() == ["model.ckpt-5"]
    assert chief.report.notes == [message]


def test_trainings_that_were_moved_aside_are_counted_and_reported(chief: Fixture) -> None:
    chief.saves(200)
    chief.gather()
    for number, step in ((1, 50), (2, 70)):
        chief.new_run(f"run-{number + 1}")
        chief.saves(step)
        chief.gather()
    assert chief.report.notes == [
        f"{chief.target} held an earlier run (step 200): it is now {chief.target}.1",
        f"{chief.target} held an earlier run (step 50): it is now {chief.target}.2",
    ]
    assert {path.name for path in chief.target.parent.iterdir()} == {"linear", "linear.1", "linear.2"}


def test_a_damaged_checkpoint_is_reported_with_what_was_gathered_instead(chief: Fixture) -> None:
    chief.saves(100)
    chief.saves(200)
    damaged = {"model.ckpt-200": Verification(0, "checksum does not match")}
    expected = "worker/0's checkpoint model.ckpt-200 is damaged: checksum does not match"
    with pytest.raises(GatherError) as raised:
        chief.gather(damaged)
    assert str(raised.value) == f"{expected}; the newest whole one was gathered"
    assert chief.report.notes == [expected]
    with pytest.raises(GatherError) as raised:
        chief.gather(damaged)
    assert str(raised.value) == f"{expected}; nothing was gathered"


def test_a_chief_that_is_not_there_has_nothing_to_gather(chief: Fixture) -> None:
    chief.saves(100)
    chief.gather()
    chief.host.places.clear()
    gathered = gather(chief.context, lambda _: {})
    assert (gathered.directory, gathered.new, gathered.files) == (chief.target, (), 0)
    assert gathered.newest is not None
    assert gathered.newest.step == 100
    assert chief.report.notes == ["nothing to gather: worker/0 is not there"]


def test_why_a_directory_is_not_gathered_into_is_reported_in_full(chief: Fixture) -> None:
    chief.saves(100)
    chief.gather()
    manifest = chief.target / "manifest.json"
    text = manifest.read_text()
    for content, expected in (
        (text.replace('"linear"', '"other"'), f"{chief.target} holds checkpoints of cluster other, not linear"),
        ("{", f"{manifest} cannot be read: Expecting property name enclosed in double quotes"),
        ('{"cluster": "linear", "run": "1", "checkpoints": [], "files": []}', f"{manifest} cannot be read: "),
        ("[" * 100_000, f"{manifest} cannot be read: "),
    ):
        manifest.write_text(content)
        with pytest.raises(GatherError) as raised:
            chief.gather()
        assert str(raised.value).startswith(expected)
        fix = "set another `checkpoints.to`" if "other" in expected else "move the directory away"
        assert str(raised.value).endswith(f"; {fix}")
    manifest.unlink()
    with pytest.raises(GatherError) as raised:
        chief.gather()
    what = f"{chief.target} holds files that no gather put there"
    assert str(raised.value) == f"{what}; move it away, or set `checkpoints.to`"
    shutil.rmtree(chief.target)
    chief.target.write_text("a file")
    with pytest.raises(GatherError, match=f"^{chief.target} is a file, or below one; set another `checkpoints.to`$"):
        chief.gather()


def test_a_manifest_stays_readable_for_later_versions_and_has_a_line_for_each_file(tmp_path: Path) -> None:
    saved = Manifest(
        "lab",
        "run-1",
        (GatheredCheckpoint("model.ckpt-5", 5, 7),),
        {"b": GatheredFile("ff", 1, 2.0), "a": GatheredFile("ee", 3, 4.5)},
        {"m.h5": "out/m.h5"},
    )
    saved.write(tmp_path)
    assert (
        (tmp_path / "manifest.json").read_text()
        == """\
{
 "cluster": "lab",
 "run": "run-1",
 "checkpoints": [
  {
   "prefix": "model.ckpt-5",
   "step": 5,
   "tensors": 7,
   "from_ps": false
  }
 ],
 "paths": {
  "m.h5": "out/m.h5"
 },
 "files": {
  "a": {"sha256": "ee", "size": 3, "modified": 4.5},
  "b": {"sha256": "ff", "size": 1, "modified": 2.0}
 }
}
"""
    )
    assert read(tmp_path) == saved


def test_a_checkpoint_is_newer_or_older_than_those_of_its_series() -> None:
    nothing, kept = Manifest("lab", "run-1"), Manifest("lab", "run-1", (GatheredCheckpoint("model.ckpt-5", 5),))
    rows = {
        "model.ckpt-4": (False, True), "model.ckpt-5": (False, False), "model.ckpt-6": (True, False),
        "other.ckpt-1": (True, False), "other": (True, False), "model.ckpt": (False, True),
    }  # fmt: skip
    assert {name: (kept.is_newer(name), kept.is_older(name)) for name in rows} == rows
    assert [(nothing.is_newer(name), nothing.is_older(name)) for name in rows] == [(True, False)] * len(rows)
    assert nothing.step < NO_STEP < kept.step == 5


def test_a_name_stays_below_its_directory_or_is_refused() -> None:
    names = {"a": True, "a/..b/.c": True} | dict.fromkeys(
        ("", "a//b", "/a", "a/", "./a", "a/../b", "..", "a\0b"), False
    )
    assert {name: stays_below(name) for name in names} == names


def test_a_file_that_becomes_shorter_is_reported_by_its_name(tmp_path: Path) -> None:
    chief = Fixture(tmp_path, Cut("h1"))
    chief.saves(100)
    with pytest.raises(GatherError) as raised:
        chief.gather()
    assert str(raised.value) == (
        "worker/0's checkpoint model.ckpt-100 could not be copied: "
        "h1: model.ckpt-100.data-00000-of-00001 became shorter while it was copied"
    )


def test_a_directory_that_an_interrupted_gather_left_is_recognized(tmp_path: Path) -> None:
    chief = Fixture(tmp_path)
    chief.saves(5)

    def interrupt(_prefixes: Sequence[Path]) -> Mapping[str, Verification]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(chief.context, interrupt)
    kept = read(chief.target)
    assert kept is not None
    assert (kept.run, kept.newest, kept.step) == ("run-1", None, NO_STEP - 1)
    gather(chief.context, verify_staged)
    kept = read(chief.target)
    assert kept is not None
    assert kept.step == 5


def test_a_manifest_that_may_not_be_read_is_one_line_with_the_fix(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text("{}")
    error = rf"^{manifest}: Permission denied; give this user access to it$"
    for path in (manifest, tmp_path):
        with forbidden(path), pytest.raises(GatherError, match=error):
            read(tmp_path)


def test_a_file_that_grows_is_copied_as_far_as_it_was_listed(tmp_path: Path) -> None:
    class Growing(MemoryRuntime):
        """Its programs write on between the listing of a file and its copy."""

        def open(self, task: str, name: str) -> BinaryIO:
            return io.BytesIO(super().open(task, name).read() + b"later" * 100_000)

    chief = Fixture(tmp_path, Growing("h1"))
    listed = b"events" * 50_000
    chief.host.saves("worker/0", "events.out.tfevents.1", listed)
    chief.gather()
    assert (chief.target / "events.out.tfevents.1").read_bytes() == listed
