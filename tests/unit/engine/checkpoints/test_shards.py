"""Checkpoints that the program's saver left with its ps: what is brought from there, and what is never taken for one."""

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.growth import check_growth
from tests.support.memory_cluster import make_context
from tests.support.scratch import directory_in_memory
from tests.support.split_training import INVENTORY, SplitTraining
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.checkpoints.shards import HeldCheckpointDir, explain_torn, survey
from tfprov.engine.checkpoints.ungathered import holders, savers, unsaved, unsaved_among
from tfprov.engine.observe import observe
from tfprov.errors import GatherError, HostError, TfprovError
from tfprov.formats.checkpoint import checkpoint_state, checkpoints
from tfprov.hosts.base import File, Prefix
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.playbook import Stop
from tfprov.model.state import HostState, Observed, State
from tfprov.playbook.steps import RUN

REMOVE = Stop(remove=True)


@pytest.fixture
def split(tmp_path: Path) -> SplitTraining:
    return SplitTraining(tmp_path).runs()


def held(split: SplitTraining) -> set[str]:
    """Return the tasks that must not be removed."""
    return {task for task, _ in unsaved_among(split.context, observe(split.context), lambda _: True)}


def torn(split: SplitTraining) -> str | None:
    return explain_torn(split.context, observe(split.context))


def test_six_thousand_named_checkpoints_are_looked_up_and_not_compared(split: SplitTraining) -> None:
    holder = next(one for one in observe(split.context).containers() if one.task == "worker/0")
    files = split.hosts[holder.host].places["worker/0"].files

    def surveys(count: int) -> None:
        names = [f"ckpt-{step}" for step in range(count)]
        files["checkpoint"] = (checkpoint_state(names[-1], names).encode(), 1.0)
        surveyed = survey(split.context, holder, lambda: observe(split.context))
        assert (len(surveyed.named), len(surveyed.whole)) == (count, 6_000)

    for step in range(6_000):
        files[f"ckpt-{step}.index"] = files[f"ckpt-{step}.data-00000-of-00001"] = (b"", 1.0)
    check_growth(lambda: surveys(40), lambda: surveys(6_000), below=2.5)  # each with each: 3.7


# --- brought from a ps -----------------------------------------------------------------------------------------------


def test_a_checkpoint_on_a_ps_is_gathered_from_there_and_reported(split: SplitTraining) -> None:
    split.saves(400)
    assert split.gather() == ["model.ckpt-400"]
    assert split.gathered() == {f"model.ckpt-400.{end}" for end in ("index", "meta", "data-00000-of-00001")}
    why = "the program's saver writes each ps's part on that ps's host"
    assert split.report.notes == [f"model.ckpt-400: its index and 1 shard came from ps/0 ({why})"]
    manifest = json.loads((split.target / "manifest.json").read_text())
    assert [saved["from_ps"] for saved in manifest["checkpoints"]] == [True]


def test_a_second_gather_of_it_copies_nothing(split: SplitTraining) -> None:
    split.saves(400, shards=3)
    split.gather()
    split.report.events.clear()
    assert split.gather() == []
    assert split.report.notes == []


def test_what_is_whole_with_the_chief_is_taken_from_the_chief_alone(split: SplitTraining) -> None:
    split.saves(400, content=b"of the ps")
    split.saves_whole(400, content=b"of the chief")
    split.gather()
    assert (split.target / "model.ckpt-400.data-00000-of-00001").read_bytes() == b"of the chief"
    assert json.loads((split.target / "manifest.json").read_text())["checkpoints"][0]["from_ps"] is False


def test_a_part_that_the_chief_has_is_never_mixed_with_those_of_a_ps(split: SplitTraining) -> None:
    split.saves(400)
    split.hosts["w0"].saves("worker/0", "model.ckpt-400.index", b"of another save")
    split.gather()
    assert (split.target / "model.ckpt-400.index").read_bytes() == b"weightsmodel.ckpt-400.index"


def test_two_ps_that_have_the_same_do_not_matter(split: SplitTraining) -> None:
    split.saves(400, "p0")
    split.saves(400, "p1")
    assert split.gather() == ["model.ckpt-400"]


def test_an_older_one_with_a_ps_comes_too_and_only_the_newest_is_reported(split: SplitTraining) -> None:
    split.saves(400)
    split.saves(800)
    state = b'model_checkpoint_path: "model.ckpt-800"\nall_model_checkpoint_paths: "model.ckpt-400"\n'
    split.hosts["w0"].saves("worker/0", "checkpoint", state)
    assert split.gather() == ["model.ckpt-400", "model.ckpt-800"]
    assert len(split.report.notes) == 1


# --- not taken -------------------------------------------------------------------------------------------------------


def saved_by_another_run(split: SplitTraining) -> None:
    split.saves(400)
    files = split.hosts["p0"].places["ps/0"].files
    split.hosts["p0"].puts(replace(observe(split.context).hosts["p0"].containers[0], run="run-0"))
    split.hosts["p0"].places["ps/0"].files = files


def saved_by_a_worker(split: SplitTraining) -> None:
    split.names(400)
    for name in ("model.ckpt-400.index", "model.ckpt-400.data-00000-of-00001"):
        split.hosts["w1"].saves("worker/1", name, b"x")


def saved_in_a_folder(split: SplitTraining) -> None:
    split.names(400)
    for name in ("old/model.ckpt-400.index", "old/model.ckpt-400.data-00000-of-00001"):
        split.hosts["p0"].saves("ps/0", name, b"x")


def saved_without_an_index(split: SplitTraining) -> None:
    split.saves(400)
    del split.hosts["p0"].places["ps/0"].files["model.ckpt-400.index"]


@pytest.mark.parametrize(
    "situation", [saved_by_another_run, saved_by_a_worker, saved_in_a_folder, saved_without_an_index]
)
def test_what_is_not_the_chiefs_checkpoint_is_not_taken(
    split: SplitTraining, situation: Callable[[SplitTraining], None]
) -> None:
    situation(split)
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-400 lacks model\.ckpt-400\.index, all its shards; save with "
        r"tfprov\.runtime, or with a Saver\(sharded=False\) on the chief$",
    ):
        split.gather()
    assert not split.target.exists()


def test_two_ps_that_differ_are_reported_and_neither_is_taken_or_removed(split: SplitTraining) -> None:
    split.saves(400, "p0")
    split.saves(400, "p1", content=b"other weights")
    differ = r"ps/0 on p0 and ps/1 on p1 have different files called model.ckpt-400.data-00000-of-00001"
    with pytest.raises(GatherError, match=rf"model.ckpt-400 is not taken: {differ}; what there is of it stays"):
        split.gather()
    assert held(split) == {"worker/0", "ps/0", "ps/1"}


def test_parts_that_lie_with_two_ps_are_reported_and_not_taken_or_removed(split: SplitTraining) -> None:
    split.saves(400, "p0", shards=2)
    split.saves(400, "p1", shards=2)
    del split.hosts["p0"].places["ps/0"].files["model.ckpt-400.data-00001-of-00002"]
    del split.hosts["p1"].places["ps/1"].files["model.ckpt-400.data-00000-of-00002"]
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-400 is not taken: its parts lie apart, with ps/0 on p0 and "
        r"ps/1 on p1; what there is of it stays where it is$",
    ):
        split.gather()
    assert held(split) == {"worker/0", "ps/0", "ps/1"}


def test_an_older_whole_one_is_taken_and_the_doubtful_one_reported(split: SplitTraining) -> None:
    split.saves_whole(200)
    split.saves(400, "p0")
    split.saves(400, "p1", content=b"other weights")
    assert split.gather() == ["model.ckpt-200"]
    assert "model.ckpt-400 is not taken" in split.report.notes[0]
    assert held(split) == {"worker/0", "ps/0", "ps/1"}


class Gone(MemoryRuntime):
    """A host that went away."""

    def observe(self) -> HostState:
        raise HostError(self.host, "no route to host")


def test_shards_on_a_host_that_cannot_be_reached_keep_their_chief(tmp_path: Path) -> None:
    split = SplitTraining(tmp_path).runs()
    split.saves_whole(200)
    split.names(400)
    split.hosts["p0"] = Gone("p0")
    context = replace(split.context, tolerant=True)
    chief = next(one for one in observe(context).containers() if one.task == "worker/0")
    split.context = context
    split.gather()
    assert split.report.notes[-1].startswith(
        "worker/0's checkpoint model.ckpt-400 is not taken: it may lie with ps/0 on p0, which cannot be reached"
    )
    ungathered = unsaved(context, chief)
    assert ungathered is not None
    assert ungathered.prefix == "model.ckpt-400"


# --- torn by the saver -----------------------------------------------------------------------------------------------

TORN = (
    "worker/0: the saver left its shards on ps/0 and ps/1 and could not merge them across hosts; "
    "save with tfprov.runtime, or with a Saver(sharded=False) on the chief"
)


def test_shards_that_could_not_be_merged_are_explained(split: SplitTraining) -> None:
    split.leaves_unmerged()
    assert torn(split) == TORN
    with pytest.raises(GatherError) as raised:
        split.gather()
    assert str(raised.value) == TORN
    assert not split.target.exists()


def test_the_newest_shards_that_could_not_be_merged_are_explained(split: SplitTraining) -> None:
    split.leaves_unmerged(0)
    for host in ("p0", "w1"):
        task = "ps/0" if host == "p0" else "worker/1"
        split.hosts[host].saves(task, "model.ckpt-7_temp/part-00000-of-00002.index", b"part")
    assert torn(split) == TORN, "one task alone has a part of step 7"
    split.hosts["p0"].saves("ps/0", "best_temp/part-00000-of-00002.index", b"part")
    split.hosts["p1"].saves("ps/1", "best_temp/part-00001-of-00002.index", b"part")
    assert torn(split) == TORN
    split.saves_whole(3)
    assert torn(split) is None, "all of these are older than what was saved whole"


def test_held_files_are_opened_below_their_folder_by_their_own_names(split: SplitTraining) -> None:
    class Asked(MemoryRuntime):
        """Notes the names that it is asked for at once."""

        names: Sequence[str] = ()

        def open_each(
            self, task: str, names: Collection[str], files: Mapping[str, File]
        ) -> Iterator[tuple[str, BinaryIO]]:
            self.names = [name for name in names if files[name].size == len(name)]
            return super().open_each(task, names, files)

    host = Asked("w0")
    host.puts(chief := replace(observe(split.context).containers()[0], task="worker/0", host="w0"))
    for name in ("a", "b"):
        host.saves("worker/0", f".tfprov-held/{name}", f".tfprov-held/{name}".encode())
    files = {name: File(14, 1.0) for name in ("a", "b")}
    held = HeldCheckpointDir(host, chief, files)
    assert {name: stream.read() for name, stream in held.open_each(["b", "a"])} == {
        "a": b".tfprov-held/a", "b": b".tfprov-held/b"
    }  # fmt: skip
    assert host.names == [".tfprov-held/b", ".tfprov-held/a"]
    assert held.open("a").read() == b".tfprov-held/a"
    rest = held.open_rest("a", Prefix(8, hashlib.sha256(b".tfprov-").hexdigest()))
    assert rest is not None
    assert rest.read() == b"held/a"


def test_an_older_tensorflows_name_for_the_folder_is_known_too(split: SplitTraining) -> None:
    for shard in range(2):
        name = f"model.ckpt-0_temp_3f2a9c01/part-{shard:05d}-of-00002.index"
        split.hosts[f"p{shard}"].saves(f"ps/{shard}", name, b"part")
    assert torn(split) == TORN


def test_a_save_that_was_killed_is_not_called_torn(split: SplitTraining) -> None:
    split.hosts["p0"].saves("ps/0", "model.ckpt-0_temp/part-00000-of-00001.index", b"part")
    assert torn(split) is None


def test_left_overs_of_a_program_that_was_mended_are_not_blamed(split: SplitTraining) -> None:
    split.leaves_unmerged()
    split.saves_whole(0)
    assert torn(split) is None, "it saved that step since"


def test_left_overs_from_before_the_ps_started_are_not_blamed(split: SplitTraining) -> None:
    split.leaves_unmerged()
    for host in ("p0", "p1"):
        place = split.hosts[host].places[f"ps/{host[1:]}"]
        place.observed = replace(place.observed, started_at=60.0)
    assert torn(split) is None


def test_the_error_of_an_ended_chief_names_the_ps_with_its_checkpoint(split: SplitTraining) -> None:
    split.saves(400)
    assert torn(split) is None, "nothing is wrong while it trains"
    split.hosts["w0"].exits("worker/0", 1)
    expected = "worker/0: its checkpoint model.ckpt-400 lies with ps/0, where it cannot restore it; gather it and start"
    assert str(torn(split)).startswith(expected)


def test_nothing_is_explained_where_nothing_is_known(split: SplitTraining) -> None:
    assert torn(split) is None
    split.hosts["w0"].stop("worker/0", 0)
    split.hosts["w0"].remove("worker/0")
    assert torn(split) is None


# --- nothing is removed that holds a part ------------------------------------------------------------------------------


def test_the_ps_with_the_shards_is_held_as_long_as_they_are_not_gathered(split: SplitTraining) -> None:
    split.saves(400)
    assert held(split) == {"worker/0", "ps/0"}
    split.gather()
    assert held(split) == set()
    split.saves(800, "p1")
    assert held(split) == {"worker/0", "ps/1"}


def test_down_keeps_both_and_says_so(split: SplitTraining) -> None:
    split.saves(400)
    with pytest.raises(TfprovError) as raised:
        RUN["stop"](split.context, REMOVE, False)
    assert "worker/0 on w0 was kept: its checkpoint model.ckpt-400 is not gathered" in str(raised.value)
    left = {one.task: one.state for one in observe(split.context).containers()}
    assert left == {"worker/0": State.EXITED, "ps/0": State.EXITED}
    assert split.gather() == ["model.ckpt-400"]
    RUN["stop"](split.context, REMOVE, False)
    assert observe(split.context).containers() == []


def test_to_remove_only_the_ps_is_not_done_either(split: SplitTraining) -> None:
    split.saves(400)
    with pytest.raises(
        TfprovError,
        match=r"^ps/0 on p0 was kept: its checkpoint model\.ckpt-400 is not gathered; run `tfprov gather`, or "
        r"remove it for good with `tfprov down --discard`$",
    ):
        RUN["stop"](split.context, Stop(tasks="ps", remove=True), False)
    assert "model.ckpt-400.index" in split.hosts["p0"].files("ps/0")


def test_a_ps_that_moves_is_gathered_from_before_it_goes(tmp_path: Path) -> None:
    split = SplitTraining(tmp_path).runs()
    split.saves(400, "p0")
    split.saves(400, "p1", content=b"other weights")
    moved = make_context(INVENTORY.replace("p0: , p1: ", "p9: , p1: "), (), split.hosts)
    with pytest.raises(
        GatherError,
        match=r"^worker/0's checkpoint model\.ckpt-400 is not taken: ps/0 on p0 and ps/1 on p1 have different "
        r"files called model\.ckpt-400\.data-00000-of-00001; what there is of it stays where it is$",
    ):
        RUN["start"](replace(moved, target=split.target), None, False)
    assert split.hosts["p0"].calls == ["stop ps/0"]
    assert [one.task for one in savers(moved, observe(moved), {("ps/0", "p0")})] == ["worker/0"]


def test_the_shards_of_a_chief_that_is_gone_are_kept_and_gathered(split: SplitTraining) -> None:
    split.saves(400)
    split.hosts["w0"].stop("worker/0", 0)
    split.hosts["w0"].remove("worker/0")
    assert held(split) == {"ps/0"}
    assert [one.task for one in holders(split.context, observe(split.context))] == ["ps/0"]
    gather(split.context, lambda _: {}, source=split.hosts["p0"].observe().containers[0])
    assert "model.ckpt-400.index" in split.gathered()
    assert json.loads((split.target / "manifest.json").read_text())["checkpoints"][0]["from_ps"] is True
    assert held(split) == set()


# --- laws --------------------------------------------------------------------------------------------------------------

PREFIX = "model.ckpt-5"
PLACES = {"chief": ("w0", "worker/0"), "ps0": ("p0", "ps/0"), "ps1": ("p1", "ps/1")}
NAMES = [
    *(f"{PREFIX}.{end}" for end in ("index", "meta", "data-00000-of-00001", "data-00000-of-00002")),
    *(f"{PREFIX}.{end}" for end in ("data-00001-of-00002", "data-00002-of-00002")),
    f"{PREFIX}_temp/part-00000-of-00002.index",
    f"{PREFIX}_temp/part-00001-of-00002.index",
]
LAYOUTS = st.dictionaries(
    st.tuples(st.sampled_from(sorted(PLACES)), st.sampled_from(NAMES)), st.integers(1, 2), max_size=12
)
"""By (place, name): how many times its own name a file holds, so that two can differ in size."""


def laid_out(directory: Path, layout: dict[tuple[str, str], int], named: bool) -> SplitTraining:
    split = SplitTraining(directory).runs()
    for (place, name), times in layout.items():
        host, task = PLACES[place]
        split.hosts[host].saves(task, name, f"{place} ".encode() * times)
    if named:
        split.hosts["w0"].saves("worker/0", "checkpoint", f'model_checkpoint_path: "{PREFIX}"\n'.encode())
    return split


def whole_at(layout: dict[tuple[str, str], int]) -> set[str]:
    """Return the places that have all of a checkpoint."""
    return {
        place
        for place in PLACES
        if any(checkpoint.whole for checkpoint in checkpoints(name for at, name in layout if at == place))
    }


@examples(150)
@given(LAYOUTS, st.booleans())
def test_what_is_called_gathered_is_whole_and_of_one_place(layout: dict[tuple[str, str], int], named: bool) -> None:
    with tempfile.TemporaryDirectory(dir=directory_in_memory()) as folder:
        split = laid_out(Path(folder), layout, named)
        try:
            new = split.gather()
        except GatherError:
            new = []
        names = split.gathered()
        assert {checkpoint.prefix: checkpoint.whole for checkpoint in checkpoints(names)} == dict.fromkeys(new, True)
        parts = {name for name in names if not name.endswith(".meta")}
        assert len({(split.target / name).read_bytes().split()[0] for name in parts}) <= 1
        if "chief" in whole_at(layout):
            assert new == [PREFIX]


@examples(150)
@given(LAYOUTS, st.booleans())
def test_what_may_be_a_checkpoint_is_gathered_or_kept(layout: dict[tuple[str, str], int], gathers: bool) -> None:
    with tempfile.TemporaryDirectory(dir=directory_in_memory()) as folder:
        split = laid_out(Path(folder), layout, named=True)
        if gathers:
            with contextlib.suppress(GatherError):
                split.gather()
        with contextlib.suppress(TfprovError):
            RUN["stop"](split.context, REMOVE, False)
        left = {(place, name) for place, (host, task) in PLACES.items() for name in split.hosts[host].files(task)}
        whole = whole_at(layout)
        needed = {(at, name) for at, name in layout if at in (whole & {"chief"} or whole) and "_temp" not in name}
        safe = any(checkpoint.whole for checkpoint in checkpoints(split.gathered()))
        assert safe or needed <= left


def test_the_present_chief_is_gathered_from_once_and_last(split: SplitTraining) -> None:
    split.saves_whole(400)
    former = Observed("chief/0", "p1", State.EXITED, {}, run="run-0")
    split.hosts["p1"].puts(former)
    split.hosts["p1"].saves("chief/0", "model.ckpt-9.index", b"index")
    split.hosts["p1"].saves("chief/0", "model.ckpt-9.data-00000-of-00001", b"weights")
    assert [one.task for one in holders(split.context, observe(split.context))] == ["chief/0", "worker/0"]


@pytest.mark.parametrize(("later", "blamed"), [(1.0, True), (1.5, False)])
def test_a_part_counts_from_the_second_in_which_its_task_started(
    split: SplitTraining, later: float, blamed: bool
) -> None:
    # Times of files are whole seconds: one of the second in which the task started may have been written after it.
    split.leaves_unmerged()
    for host in ("p0", "p1"):
        [ps] = split.hosts[host].observe().containers
        files = {name: split.hosts[host].open(ps.task, name).read() for name in split.hosts[host].files(ps.task)}
        split.hosts[host].puts(replace(ps, started_at=later))
        for name, data in files.items():
            split.hosts[host].saves(ps.task, name, data)
    assert (torn(split) is not None) == blamed


def test_a_part_counts_where_nobody_knows_when_its_task_started(split: SplitTraining) -> None:
    for host in ("p0", "p1"):
        split.hosts[host].puts(replace(split.hosts[host].observe().containers[0], started_at=None))
    split.leaves_unmerged()
    assert torn(split) is not None


def test_a_chief_that_saved_nothing_names_nothing(split: SplitTraining) -> None:
    seen = observe(split.context)
    chief = split.context.chief(seen)
    assert chief is not None
    assert survey(split.context, chief, lambda: seen).named == ()
