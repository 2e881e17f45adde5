"""`up --resume`: what a task finds when it starts, which run it is, and when nothing may be put anywhere."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_cluster import Runtimes, run_up
from tests.support.split_training import INVENTORY, SplitTraining
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.forecast import forecast
from tfprov.engine.checkpoints.resume import known_run
from tfprov.engine.execute import Outcome, current_run
from tfprov.engine.observe import observe, plan
from tfprov.errors import GatherError, HostError, TfprovError, Usage
from tfprov.formats.checkpoint import parse_state
from tfprov.model.plan import Plan
from tfprov.model.state import State

WHOLE = {"model.ckpt-400.index", "model.ckpt-400.meta", "model.ckpt-400.data-00000-of-00001"}
OF_PS = WHOLE - {"model.ckpt-400.meta"}


def gathered(directory: Path, saves: Callable[[SplitTraining], None] = lambda split: split.saves_whole(400)) -> None:
    """Leave behind what a training on other machines was gathered to, by a run called run-1."""
    before = SplitTraining(directory).runs()
    saves(before)
    before.gather()


def resumed(directory: Path, hosts: Runtimes | None = None) -> SplitTraining:
    """Return the same cluster, to be brought up with `--resume`; on new machines unless it has `hosts`."""
    split = SplitTraining(directory, hosts=hosts)
    split.context = replace(split.context, resume=True)
    return split


def started(split: SplitTraining) -> tuple[Plan, Outcome]:
    plan_and_outcome = run_up(split.context)
    plan_and_outcome[1].check()
    return plan_and_outcome


def names(split: SplitTraining, task: str) -> set[str]:
    """Return the names of what a task finds."""
    host = f"{task[0]}{task[-1]}"
    return set(split.hosts[host].files(task))


def calls(split: SplitTraining) -> list[str]:
    return [call for host in split.hosts.values() for call in host.calls]


# --- what is put where -------------------------------------------------------------------------------------------------


def test_the_chief_finds_the_checkpoint_and_a_state_file_that_names_it(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path)
    started(split)
    assert names(split, "worker/0") == WHOLE | {"checkpoint"}
    with split.hosts["w0"].open("worker/0", "checkpoint") as file:
        assert parse_state(file.read().decode()) == ["model.ckpt-400"]
    for name in WHOLE:
        with split.hosts["w0"].open("worker/0", name) as file:
            assert file.read() == (split.target / name).read_bytes()
    assert not names(split, "worker/1") | names(split, "ps/0") | names(split, "ps/1")


def test_every_ps_finds_its_parts_where_the_saver_had_left_them_with_one(tmp_path: Path) -> None:
    gathered(tmp_path, lambda split: split.saves(400))
    split = resumed(tmp_path)
    started(split)
    assert names(split, "worker/0") == WHOLE | {"checkpoint"}
    assert names(split, "ps/0") == names(split, "ps/1") == OF_PS
    assert names(split, "worker/1") == set()


def test_files_are_restored_to_a_chief_after_its_ps(tmp_path: Path) -> None:
    gathered(tmp_path, lambda split: split.saves(400))
    split = resumed(tmp_path)
    split.hosts["p0"].refuses["start ps/0"] = "will not"
    with pytest.raises(HostError, match=r"^p0: will not$"):
        started(split)
    assert "start worker/0" not in calls(split)
    assert "start worker/1" in calls(split)


def test_the_file_that_names_the_others_is_the_last(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path)
    started(split)
    prefix = "model.ckpt-400"
    restored = [f"{prefix}.data-00000-of-00001", f"{prefix}.index", f"{prefix}.meta", "checkpoint"]
    assert list(split.hosts["w0"].files("worker/0")) == restored


def test_without_the_option_nobody_finds_anything(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = SplitTraining(tmp_path)
    started(split)
    assert names(split, "worker/0") == set()


def test_a_manifest_of_an_earlier_version_can_be_resumed_from(tmp_path: Path) -> None:
    gathered(tmp_path)
    path = tmp_path / "split" / "manifest.json"
    data = json.loads(path.read_text())
    del data["checkpoints"][0]["from_ps"]
    path.write_text(json.dumps(data))
    split = resumed(tmp_path)
    started(split)
    assert names(split, "worker/0") == WHOLE | {"checkpoint"}


def test_the_newest_gathered_one_is_the_one(tmp_path: Path) -> None:
    def saves(split: SplitTraining) -> None:
        split.saves_whole(400)
        split.saves_whole(1200)

    gathered(tmp_path, saves)
    split = resumed(tmp_path)
    started(split)
    assert {name for name in names(split, "worker/0") if "400" in name} == set()


def test_a_checkpoint_without_a_step_is_restored(tmp_path: Path) -> None:
    def saves(split: SplitTraining) -> None:
        for name in ("cp.ckpt.data-00000-of-00001", "cp.ckpt.index"):
            split.hosts["w0"].saves("worker/0", name, b"gathered")

    gathered(tmp_path, saves)
    split = resumed(tmp_path)
    started(split)
    assert names(split, "worker/0") == {"cp.ckpt.data-00000-of-00001", "cp.ckpt.index", "checkpoint"}


def test_what_the_runtime_saved_is_restored_beside_weights_with_a_higher_number(tmp_path: Path) -> None:
    """A chief with `weights-900` alone would end: it is of another model."""

    def saves(split: SplitTraining) -> None:
        split.saves_whole(400)
        for name in ("weights-900.data-00000-of-00001", "weights-900.index"):
            split.hosts["w0"].saves("worker/0", name, b"weights")

    gathered(tmp_path, saves)
    split = resumed(tmp_path)
    started(split)
    weights = {"weights-900.data-00000-of-00001", "weights-900.index"}
    assert names(split, "worker/0") == WHOLE | weights | {"checkpoint"}


# --- the run -----------------------------------------------------------------------------------------------------------


def test_what_is_saved_later_joins_what_was_gathered_before(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path)
    started(split)
    assert {one.run for one in observe(split.context).containers()} == {"run-1"}
    split.saves_whole(800)
    assert split.gather() == ["model.ckpt-800"]
    assert {path.name for path in tmp_path.iterdir()} == {"split"}, "nothing was set aside"


def test_a_new_training_is_another_run(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = SplitTraining(tmp_path)
    started(split)
    (run,) = {one.run for one in observe(split.context).containers()}
    assert run != "run-1"


def test_a_chief_that_did_not_come_up_belongs_to_the_run_of_its_ps(tmp_path: Path) -> None:
    split = SplitTraining(tmp_path)
    split.hosts["w0"].refuses["start worker/0"] = "port 2222 is taken"
    run_up(split.context)
    first = {one.run for one in observe(split.context).containers()}
    split.hosts["w0"].refuses.clear()
    started(split)
    assert {one.run for one in observe(split.context).containers()} == first
    split.saves(400)
    assert split.gather() == ["model.ckpt-400"]


def test_a_chief_with_nothing_of_its_own_does_not_join_a_run_that_was_gathered(tmp_path: Path) -> None:
    gathered(tmp_path, lambda split: split.saves(400))
    split = SplitTraining(tmp_path).runs()
    split.hosts["w0"].stop("worker/0", 0)
    split.hosts["w0"].remove("worker/0")
    assert known_run(split.context, observe(split.context)) == ""
    assert current_run(split.context, observe(split.context)) not in ("", "run-1")
    split.runs(state=State.CREATED)
    never = split.hosts["w0"].places["worker/0"]
    never.observed = replace(never.observed, started_at=None, exit_code=None, finished_at=None)
    assert current_run(split.context, observe(split.context)) not in ("", "run-1"), "its start was cut off"
    gathered_run, never.observed = never.observed, replace(never.observed, run="run-9")
    assert known_run(split.context, observe(split.context)) == "run-9", "of which nothing was gathered"
    never.observed = replace(gathered_run, started_at=1.0)
    assert known_run(split.context, observe(split.context)) == "run-1", "it has run"
    never.observed = gathered_run
    never.files = dict.fromkeys(OF_PS, (b"x", 0.0))
    assert current_run(split.context, observe(split.context)) == "run-1"


# --- nothing is put ------------------------------------------------------------------------------------------------------


def there(directory: Path, step: int, run: str = "run-1", state: State = State.EXITED) -> SplitTraining:
    """Return a cluster that has ended, whose chief has checkpoints up to `step`; to be brought up with `--resume`."""
    split = resumed(directory).runs(run, state)
    split.saves_whole(100, content=b"its own")
    split.saves_whole(step, content=b"its own")
    return split


@pytest.mark.parametrize("step", [400, 800])
def test_a_chief_that_has_as_much_gets_nothing_and_that_is_reported(tmp_path: Path, step: int) -> None:
    gathered(tmp_path)
    split = there(tmp_path, step)
    started(split)
    assert split.report.notes == [f"worker/0 goes on from model.ckpt-{step}, which it has already"]
    with split.hosts["w0"].open("worker/0", f"model.ckpt-{step}.data-00000-of-00001") as file:
        assert file.read() == b"its own"


def test_a_chief_that_has_less_gets_the_newer_one_and_keeps_its_own(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = there(tmp_path, 200)
    started(split)
    assert names(split, "worker/0") > WHOLE
    with split.hosts["w0"].open("worker/0", "model.ckpt-200.data-00000-of-00001") as file:
        assert file.read() == b"its own"


def test_a_chief_of_another_training_goes_on_with_that(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = there(tmp_path, 50, run="run-2")
    started(split)
    assert "it has from another training" in split.report.notes[0]
    assert names(split, "worker/0") & WHOLE == set()
    assert {one.run for one in observe(split.context).containers()} == {"run-2"}


def test_a_chief_that_runs_is_left_alone(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path).runs()
    split.hosts["p1"].stop("ps/1", 0)
    started(split)
    assert split.report.notes == ["nothing to resume: worker/0 runs"]
    assert names(split, "worker/0") == set()


def test_what_a_cut_off_restore_left_is_put_anew(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path).runs(state=State.CREATED)
    for name in WHOLE:
        split.hosts["w0"].saves("worker/0", name, b"half")
    split.hosts["w0"].saves("worker/0", "checkpoint", b"")
    started(split)
    with split.hosts["w0"].open("worker/0", "model.ckpt-400.data-00000-of-00001") as file:
        assert file.read() == b"weights"


def test_what_lies_with_a_ps_and_was_gathered_is_put_where_the_chief_looks(tmp_path: Path) -> None:
    gathered(tmp_path, lambda split: split.saves(400))
    split = resumed(tmp_path).runs(state=State.EXITED)
    split.saves(400)
    started(split)
    assert names(split, "worker/0") == WHOLE | {"checkpoint"}


def test_what_lies_with_a_ps_and_is_newer_must_be_gathered_first(tmp_path: Path) -> None:
    gathered(tmp_path, lambda split: split.saves(400))
    split = resumed(tmp_path).runs(state=State.EXITED)
    split.saves(800)
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-800, which lies with a ps, is not gathered; run `tfprov "
        r"gather` first$",
    ):
        run_up(split.context)
    assert calls(split) == []


def test_a_ps_that_goes_on_running_must_have_its_parts(tmp_path: Path) -> None:
    gathered(tmp_path, lambda split: split.saves(400))
    split = resumed(tmp_path).runs()
    split.hosts["w0"].stop("worker/0", 0)
    split.hosts["w0"].remove("worker/0")
    split.hosts["w0"].calls.clear()
    with pytest.raises(Usage, match=r"ps/0 runs, and does not have the model.ckpt-400 of .*; run `tfprov down` first"):
        run_up(split.context)
    assert calls(split) == []
    for host in ("p0", "p1"):
        for name in OF_PS:
            split.hosts[host].saves(f"ps/{host[1:]}", name, (split.target / name).read_bytes())
    started(split)
    assert names(split, "worker/0") == WHOLE | {"checkpoint"}
    assert {one.run for one in observe(split.context).containers()} == {"run-1"}


# --- nothing to resume from ---------------------------------------------------------------------------------------------


def without_a_directory(target: Path) -> None:
    assert not target.exists()


def without_a_checkpoint(target: Path) -> None:
    target.mkdir()
    manifests.Manifest("split", "run-1").write(target)


@pytest.mark.parametrize("situation", [without_a_directory, without_a_checkpoint])
def test_nothing_gathered_is_an_error_before_anything_starts(tmp_path: Path, situation: Callable[[Path], None]) -> None:
    split = resumed(tmp_path)
    situation(split.target)
    seen = observe(split.context)
    for attempt in (lambda: run_up(split.context), lambda: forecast(split.context, plan(split.context, seen), seen)):
        with pytest.raises(
            Usage,
            match=r"^nothing to resume from: .*/split has no checkpoint; start without `--resume`, or set "
            r"`checkpoints\.to` to where one was gathered$",
        ):
            attempt()
    assert calls(split) == []


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def changed(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


DAMAGES: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "longer": (longer, "is damaged: it has {} bytes, and had {} when it was gathered"),
    "changed": (changed, "is damaged: it has another sha256 than when it was gathered"),
    "removed": (Path.unlink, "cannot be read: No such file or directory"),
}


@pytest.mark.parametrize(("damage", "what"), DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("end", ["index", "data-00000-of-00001", "meta"])
def test_a_damaged_file_is_an_error_before_anything_starts(
    tmp_path: Path, damage: Callable[[Path], None], what: str, end: str
) -> None:
    gathered(tmp_path)
    file = tmp_path / "split" / f"model.ckpt-400.{end}"
    size = file.stat().st_size
    damage(file)
    split = resumed(tmp_path)
    with pytest.raises(GatherError) as caught:
        run_up(split.context)
    why = what.format(size + 1, size)
    assert str(caught.value) == f"{file} {why}; put a copy of it back, or start without `--resume`"
    assert calls(split) == []


def test_a_directory_of_another_cluster_is_not_resumed_from(tmp_path: Path) -> None:
    gathered(tmp_path)
    path = tmp_path / "split" / "manifest.json"
    path.write_text(path.read_text().replace('"split"', '"other"'))
    with pytest.raises(
        GatherError, match=r"/split holds checkpoints of cluster other, not split; set another `checkpoints\.to`$"
    ):
        run_up(resumed(tmp_path).context)


def test_a_chief_with_its_own_checkpoint_needs_nothing_gathered(tmp_path: Path) -> None:
    split = there(tmp_path, 50)
    started(split)
    assert names(split, "worker/0") >= {"model.ckpt-50.index"}


# --- the lines before ----------------------------------------------------------------------------------------------------


def foretold(split: SplitTraining) -> str | None:
    seen = observe(split.context)
    return forecast(split.context, plan(split.context, seen), seen)


def test_the_forecast_of_new_machines(tmp_path: Path) -> None:
    assert foretold(SplitTraining(tmp_path)) is None
    gathered(tmp_path)
    anew = "the training starts anew: worker/0 is new on w0; `--resume` would go on from step 400"
    assert foretold(SplitTraining(tmp_path)) == anew
    assert foretold(resumed(tmp_path)) == "the training goes on from step 400 (gathered)"


def test_the_forecast_of_a_chief_that_moves_counts_what_is_gathered_on_the_way(tmp_path: Path) -> None:
    gathered(tmp_path)
    before = SplitTraining(tmp_path).runs()
    before.saves_whole(800)
    elsewhere = INVENTORY.replace("w0: , w1: ", "w9: , w1: ")
    split = SplitTraining(tmp_path, elsewhere, before.hosts)
    assert foretold(split) == "the training starts anew: worker/0 is new on w9; `--resume` would go on from step 800"
    split.context = replace(split.context, resume=True)
    assert foretold(split) == "the training goes on from step 800 (gathered)"


def test_the_forecast_of_a_chief_that_moves_leaves_out_what_an_earlier_run_has_gathered(tmp_path: Path) -> None:
    gathered(tmp_path)
    before = SplitTraining(tmp_path).runs("run-2")
    before.saves_whole(30)
    split = SplitTraining(tmp_path, INVENTORY.replace("w0: , w1: ", "w9: , w1: "), before.hosts)
    assert foretold(split) == "the training starts anew: worker/0 is new on w9; `--resume` would go on from step 30"
    split.context = replace(split.context, resume=True)
    assert foretold(split) == "the training goes on from step 30 (gathered)"


def test_the_forecast_of_a_chief_that_has_something_itself(tmp_path: Path) -> None:
    gathered(tmp_path)
    assert foretold(there(tmp_path, 800)) == "the training goes on from step 800"
    assert foretold(there(tmp_path, 200)) == "the training goes on from step 400 (gathered)"
    split = there(tmp_path, 200)
    split.context = replace(split.context, resume=False)
    assert foretold(split) == "the training goes on from step 200"
    empty = SplitTraining(tmp_path).runs(state=State.EXITED)
    anew = "the training starts anew: worker/0 has no checkpoint; `--resume` would go on from step 400"
    assert foretold(empty) == anew


def test_the_forecast_of_a_dead_chief_whose_ps_live_on(tmp_path: Path) -> None:
    split = there(tmp_path, 200, state=State.RUNNING)
    split.context = replace(split.context, resume=False)
    split.hosts["w0"].exits("worker/0", 137)
    assert foretold(split) == "the training goes on from step 200, or later with the model that its ps kept"
    split.hosts["p0"].exits("ps/0", 137)
    assert foretold(split) == "the training goes on from step 200"


def test_the_forecast_of_a_chief_whose_checkpoint_lies_with_a_ps(tmp_path: Path) -> None:
    split = SplitTraining(tmp_path).runs(state=State.EXITED)
    split.saves(400)
    expected = "worker/0 cannot go on by itself: its checkpoint model.ckpt-400 lies with ps/0; "
    assert foretold(split) == f"{expected}gathered, `--resume` would go on from step 400"
    split.gather()
    assert foretold(split) == f"{expected}`--resume` would go on from step 400"
    split.context = replace(split.context, resume=True)
    assert foretold(split) == "the training goes on from step 400 (gathered)"


def test_the_forecast_ends_early_where_the_start_would(tmp_path: Path) -> None:
    gathered(tmp_path)
    longer(tmp_path / "split" / "model.ckpt-400.index")
    with pytest.raises(
        TfprovError,
        match=r"/split/model\.ckpt-400\.index is damaged: it has 6 bytes, and had 5 when it was gathered; put "
        r"a copy of it back, or start without `--resume`$",
    ):
        foretold(resumed(tmp_path))


def test_a_chief_with_a_checkpoint_goes_on_with_its_run_though_that_was_gathered(tmp_path: Path) -> None:
    split = there(tmp_path, 400, run="run-0")
    split.gather()
    assert known_run(split.context, observe(split.context)) == "run-0"


def test_a_ps_that_starts_anew_does_not_say_which_run_it_is(tmp_path: Path) -> None:
    split = SplitTraining(tmp_path).runs("run-1")
    for task in ("worker/0", "worker/1"):
        split.hosts[f"w{task[-1]}"].exits(task, 1)
        split.hosts[f"w{task[-1]}"].remove(task)
    assert known_run(split.context, observe(split.context)) == "run-1"
    split.hosts["p1"].exits("ps/1", 1)
    assert known_run(split.context, observe(split.context)) == "run-1", "the other ps goes on running"
    seen = observe(split.context).containers()
    outdated = replace(next(one for one in seen if one.task == "ps/0"), spec={"command": "another"})
    split.hosts["p0"].puts(outdated)
    assert known_run(split.context, observe(split.context)) == ""


# --- the lines, in full --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (longer, "is damaged: it has 6 bytes, and had 5 when it was gathered"),
        (changed, "is damaged: it has another sha256 than when it was gathered"),
        (Path.unlink, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_gathered_file_is_reported_with_what_to_do(
    tmp_path: Path, damage: Callable[[Path], None], expected: str
) -> None:
    gathered(tmp_path)
    path = tmp_path / "split" / "model.ckpt-400.index"
    damage(path)
    with pytest.raises(GatherError) as raised:
        run_up(resumed(tmp_path).context)
    assert str(raised.value) == f"{path} {expected}; put a copy of it back, or start without `--resume`"


def test_checkpoints_in_folders_alone_are_named_as_what_is_not_resumed(tmp_path: Path) -> None:
    split = resumed(tmp_path)
    split.target.mkdir()
    names = ["backup/chief/ckpt-4.index", "train/ckpt-1.index", "export/5/variables/variables.index", "notes.index/a"]
    files = {name: manifests.GatheredFile("", 1, 1.0) for name in names}
    manifests.Manifest("split", "run-1", files=files).write(split.target)
    with pytest.raises(Usage) as raised:
        run_up(split.context)
    assert str(raised.value) == (
        f"nothing to resume from: {split.target} has checkpoints in backup/chief, train only, and `--resume` restores "
        "those of the checkpoint directory itself; let the program save there, or start without `--resume`"
    )


def test_why_nothing_can_be_resumed_is_reported_with_what_to_do(tmp_path: Path) -> None:
    split = resumed(tmp_path)
    with pytest.raises(Usage) as raised:
        run_up(split.context)
    assert str(raised.value) == (
        f"nothing to resume from: {split.target} has no checkpoint; "
        "start without `--resume`, or set `checkpoints.to` to where one was gathered"
    )
    gathered(tmp_path)
    manifest = split.target / "manifest.json"
    data = json.loads(manifest.read_text())
    del data["files"]["model.ckpt-400.index"]
    manifest.write_text(json.dumps(data))
    with pytest.raises(GatherError) as gone:
        run_up(split.context)
    assert str(gone.value) == f"{split.target}: its manifest does not have all files of model.ckpt-400"


def test_a_chief_of_another_training_continues_from_its_own_checkpoint(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path).runs("run-2", state=State.EXITED)
    split.saves_whole(100)
    started(split)
    assert split.report.notes == [
        f"worker/0 goes on from model.ckpt-100, which it has from another training than {split.target}"
    ]


def test_files_of_a_chief_whose_container_somebody_removed_are_not_replaced(tmp_path: Path) -> None:
    gathered(tmp_path)
    split = resumed(tmp_path)
    split.hosts["w0"].orphans["worker/0"] = "tfprov-split-worker-0-checkpoints"
    message = (
        "w0: the volume tfprov-split-worker-0-checkpoints has files of worker/0, whose container somebody removed; "
    )
    with pytest.raises(Usage, match=message):
        started(split)
    assert not any("worker" in call for call in calls(split))
    seen = observe(split.context)
    with pytest.raises(Usage, match=message):
        forecast(split.context, plan(split.context, seen), seen)
    anew = replace(split.context, resume=False)
    assert forecast(anew, plan(anew, seen), seen) == (
        "the training goes on from the files of worker/0 in the volume tfprov-split-worker-0-checkpoints, "
        "whose step is not known: somebody removed its container on w0"
    )
