"""An `up` that moves the chief never removes the last copy of a checkpoint."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_cluster import MemoryStore, Runtimes, make_context
from tfprov.engine.checkpoints.manifest import GatheredCheckpoint, Manifest
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.observe import observe, plan
from tfprov.errors import GatherError, TfprovError
from tfprov.model.playbook import Stop
from tfprov.model.state import Observed, State
from tfprov.playbook.steps import RUN

LAB = """
all: {{vars: {{tfprov: {{cluster: lab, command: [python], wiring: {wiring}}}}}}}
ps: {{hosts: {{h1: }}}}
{groups}
"""
FIRST = "worker: {hosts: {h2: , h3: }}"


def test_a_training_whose_chief_has_finished_starts_no_worker_again() -> None:
    hosts: Runtimes = {}
    context = make_context(
        LAB.format(wiring="tf_config", groups="chief: {hosts: {h2: }}\nworker: {hosts: {h3: }}"), (), hosts
    )
    RUN["start"](context, None, False)
    hosts["h3"].loses("worker/0")
    assert [action.id for action in plan(context, observe(context)).actions] == ["start worker/0 on h3"]
    hosts["h2"].exits("chief/0", 0)
    assert plan(context, observe(context)).actions == ()


@pytest.mark.parametrize(
    ("wiring", "groups"),
    [
        ("flags", "worker: {hosts: {h3: , h2: }}"),
        ("flags", "worker: {hosts: {h3: }}"),
        ("tf_config", "chief: {hosts: {h2: }}\nworker: {hosts: {h3: }}"),
    ],
    ids=["the chief changes places", "its host leaves", "it gets another name"],
)
@pytest.mark.parametrize("verdict", [Verification(2), Verification(0, "damaged")], ids=["whole", "damaged"])
def test_a_checkpoint_that_was_not_gathered_outlives_every_move_of_its_chief(
    tmp_path: Path, wiring: str, groups: str, verdict: Verification
) -> None:
    hosts: Runtimes = {}
    store = MemoryStore()
    before = make_context(LAB.format(wiring="flags", groups=FIRST), (), hosts, store)
    RUN["start"](before, None, False)
    for name in ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"):
        hosts["h2"].saves("worker/0", name, b"weights")
    now = replace(
        make_context(LAB.format(wiring=wiring, groups=groups), (), hosts, store),
        target=tmp_path / "lab",
        verify=lambda prefixes: {prefix.name: verdict for prefix in prefixes},
    )
    with contextlib.suppress(TfprovError):
        RUN["start"](now, None, False)
    gathered = (tmp_path / "lab" / "model.ckpt-5.index").exists()
    assert gathered is (verdict.error is None)
    assert gathered or "model.ckpt-5.index" in hosts["h2"].files("worker/0")


@pytest.mark.parametrize(
    "earlier", [False, True], ids=["nothing gathered before", "beside the model of an earlier run"]
)
def test_files_that_are_no_checkpoint_are_gathered_before_their_chief_moves(tmp_path: Path, earlier: bool) -> None:
    hosts: Runtimes = {}
    store, target = MemoryStore(), tmp_path / "lab"
    before = make_context(LAB.format(wiring="flags", groups=FIRST), (), hosts, store)
    RUN["start"](before, None, False)
    hosts["h2"].saves("worker/0", "loss.csv", b"1")
    if earlier:
        target.mkdir()
        Manifest("lab", "run-0", (GatheredCheckpoint("model.ckpt-1", 1),)).write(target)
    moved = make_context(LAB.format(wiring="flags", groups="worker: {hosts: {h3: , h2: }}"), (), hosts, store)
    RUN["start"](replace(moved, target=target), None, False)
    assert "loss.csv" not in hosts["h3"].files("worker/0")
    assert ((tmp_path / "lab.1" if earlier else target) / "loss.csv").read_bytes() == b"1"


def test_a_chief_of_which_a_file_cannot_be_gathered_does_not_move(tmp_path: Path) -> None:
    hosts: Runtimes = {}
    store, target = MemoryStore(), tmp_path / "lab"
    before = make_context(LAB.format(wiring="flags", groups=FIRST), (), hosts, store)
    RUN["start"](before, None, False)
    hosts["h2"].saves("worker/0", "notes.txt", b"1")
    RUN["gather"](replace(before, target=target), None, False)
    hosts["h2"].saves("worker/0", "loss.csv", b"1")
    (target / "loss.csv").mkdir()
    moved = make_context(LAB.format(wiring="flags", groups="worker: {hosts: {h3: , h2: }}"), (), hosts, store)
    with pytest.raises(GatherError, match=r"^worker/0 on h2 was kept: loss\.csv is not gathered; run `tfprov gather`"):
        RUN["start"](replace(moved, target=target), None, False)
    assert "loss.csv" in hosts["h2"].files("worker/0")
    (target / "loss.csv").rmdir()
    RUN["start"](replace(moved, target=target), None, False)
    assert (target / "loss.csv").read_bytes() == b"1"


def test_what_a_task_writes_after_a_gather_that_succeeded_keeps_no_container(tmp_path: Path) -> None:
    hosts: Runtimes = {}
    context = make_context(LAB.format(wiring="flags", groups=FIRST), (), hosts)
    context = replace(context, target=tmp_path / "lab")
    RUN["start"](context, None, False)
    hosts["h2"].saves("worker/0", "loss.csv", b"1")
    RUN["gather"](context, None, False)
    hosts["h2"].saves("worker/0", "profile.txt", b"1")
    RUN["stop"](context, Stop(remove=True), False)
    assert not observe(context).containers()


def test_a_gather_that_fails_leaves_the_files_of_no_other_task_unprotected(tmp_path: Path) -> None:
    hosts: Runtimes = {}
    store = MemoryStore()
    before = make_context(LAB.format(wiring="flags", groups=FIRST), (), hosts, store)
    RUN["start"](before, None, False)
    run = observe(before).containers()[0].run
    hosts["h3"].puts(Observed("chief/0", "h3", State.RUNNING, {}, id="1", run=run))
    for name in ("loss.csv", "model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"):
        hosts["h2"].saves("worker/0", name, b"1")
        hosts["h3"].saves("chief/0", name, b"1")
    now = make_context(
        LAB.format(wiring="flags", groups="chief: {hosts: {h3: }}\nworker: {hosts: {h2: }}"), (), hosts, store
    )
    damaged = Verification(0, "damaged")
    failing = replace(
        now, target=tmp_path / "lab", verify=lambda prefixes: {prefix.name: damaged for prefix in prefixes}
    )
    with pytest.raises(GatherError):
        RUN["gather"](failing, None, False)
    assert failing.uncopied == {("worker/0", "h2"), ("chief/0", "h3")}
