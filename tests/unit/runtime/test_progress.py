"""The runtime without TensorFlow: progress, data shards, placement, the best checkpoint, task properties."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.waiting import until
from tfprov import runtime
from tfprov.formats.checkpoint import parse_state
from tfprov.runtime import join_cluster
from tfprov.runtime.eager.evaluator import keep_best, new_checkpoints
from tfprov.runtime.graph.task import shard_files
from tfprov.runtime.placement import GreedyPlacement, ps_strategy_for
from tfprov.runtime.progress import ProgressWriter, say
from tfprov.wiring import Wiring, WiringError, to_flags, to_names

FILES = [f"train-{number}" for number in (3, 1, 0, 2)]


def read_progress(folder: Path) -> dict[str, Any]:
    shard = json.loads((folder / "progress.json").read_text())
    assert isinstance(shard, dict)
    return shard


def save(folder: Path, step: int, content: bytes = b"data") -> Path:
    folder.mkdir(exist_ok=True)
    prefix = folder / f"model.ckpt-{step}"
    for suffix in ("data-00000-of-00001", "index", "meta"):
        prefix.with_name(f"{prefix.name}.{suffix}").write_bytes(content)
    return prefix


def test_say_writes_a_line_and_its_newline_at_once_without_a_buffer() -> None:
    program = f"from {say.__module__} import say; say('step 1 loss 2')"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # it keeps two writes apart
    with ours, theirs:
        subprocess.run([sys.executable, "-u", "-c", program], stdout=theirs.fileno(), check=True)
        assert ours.recv(100) == b"step 1 loss 2\n"


def test_a_new_training_has_progress_before_its_first_step_and_at_its_end(tmp_path: Path) -> None:
    reporter = ProgressWriter(str(tmp_path / "saved"), "worker/1", examples=64)
    reporter.begin(0)
    first = read_progress(tmp_path / "saved")
    assert abs(first.pop("at") - time.time()) < 60
    assert first == {
        "task": "worker/1",
        "step": 0,
        "steps": 0,
        "rate": None,
        "examples_rate": None,
        "resumed": None,
        "lost": None,
        "tensorflow": getattr(sys.modules.get("tensorflow"), "__version__", None),  # another test may have imported it
    }
    for step in (3, 5, 6):
        reporter.stepped(step)
    reporter.close()
    last = read_progress(tmp_path / "saved")
    assert (last["step"], last["steps"]) == (6, 3)
    assert last["rate"] > 0
    assert last["examples_rate"] == pytest.approx(64 * last["rate"], abs=0.1)


def test_progress_is_written_while_a_step_hangs(tmp_path: Path) -> None:
    reporter = ProgressWriter(str(tmp_path), "worker/0")
    reporter.begin(0)
    first = read_progress(tmp_path)["at"]
    until(lambda: read_progress(tmp_path)["at"] > first)
    reporter.close()
    assert read_progress(tmp_path)["rate"] == 0
    assert read_progress(tmp_path)["examples_rate"] is None


def test_the_chief_reports_the_steps_lost_with_a_ps(tmp_path: Path) -> None:
    reporter = ProgressWriter(str(tmp_path), "worker/0")
    reporter.begin(0)
    reporter.stepped(448)
    reporter.begin(401, restored=401)
    reporter.close()
    assert (read_progress(tmp_path)["resumed"], read_progress(tmp_path)["lost"]) == (401, 448)
    assert read_progress(tmp_path)["steps"] == 1


def test_a_restarted_chief_reads_its_previous_step_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"step": 448}')
    reporter = ProgressWriter(str(tmp_path), "worker/0")
    reporter.begin(401, restored=401)
    reporter.close()
    assert (read_progress(tmp_path)["resumed"], read_progress(tmp_path)["lost"]) == (401, 448)


@pytest.mark.parametrize("left", ['{"step": 400}', "{}", "[]", "no JSON", '{"step": "9999"}'])
def test_no_steps_are_lost_if_the_previous_step_is_smaller_or_unreadable(tmp_path: Path, left: str) -> None:
    (tmp_path / "progress.json").write_text(left)
    reporter = ProgressWriter(str(tmp_path), "worker/0")
    reporter.begin(401, restored=401)
    reporter.close()
    assert (read_progress(tmp_path)["resumed"], read_progress(tmp_path)["lost"]) == (401, None)


def test_a_new_training_reports_no_lost_steps_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"step": 9999}')
    reporter = ProgressWriter(str(tmp_path), "worker/1")
    reporter.begin(7)
    reporter.close()
    assert (read_progress(tmp_path)["resumed"], read_progress(tmp_path)["lost"]) == (None, None)


def test_a_worker_that_lost_its_session_reports_the_step_it_resumes_at(tmp_path: Path) -> None:
    reporter = ProgressWriter(str(tmp_path), "worker/1")
    reporter.begin(0)
    reporter.stepped(448)
    reporter.begin(403)
    reporter.close()
    assert (read_progress(tmp_path)["resumed"], read_progress(tmp_path)["lost"]) == (403, 448)


def test_a_directory_that_cannot_be_written_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved").write_text("a file")
    reporter = ProgressWriter(str(tmp_path / "saved"), "worker/0")
    reporter.begin(0)
    reporter.close()
    assert capsys.readouterr().err.count("worker/0: progress cannot be written") == 1


def test_progress_is_written_again_once_a_directory_that_could_not_be_written_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved").write_text("a file")
    reporter = ProgressWriter(str(tmp_path / "saved"), "worker/0")
    reporter.begin(0)
    reporter.write()
    (tmp_path / "saved").unlink()
    reporter.stepped(7)
    reporter.close()
    assert read_progress(tmp_path / "saved")["step"] == 7
    assert capsys.readouterr().err.count("worker/0: progress cannot be written") == 1


def test_a_remote_directory_gets_no_progress() -> None:
    reporter = ProgressWriter("gs://bucket/checkpoints", "worker/0")
    reporter.begin(0)
    reporter.close()
    assert not Path("gs:").exists()


@pytest.mark.parametrize(
    ("replica", "replicas", "by", "files", "every"),
    [
        (0, 1, "auto", ["train-0", "train-1", "train-2", "train-3"], 1),
        (0, 2, "auto", ["train-0", "train-2"], 1),
        (1, 2, "auto", ["train-1", "train-3"], 1),
        (1, 3, "auto", ["train-0", "train-1", "train-2", "train-3"], 3),
        (1, 3, "file", ["train-1"], 1),
        (1, 2, "index", ["train-0", "train-1", "train-2", "train-3"], 2),
        (4, 5, "auto", ["train-0", "train-1", "train-2", "train-3"], 5),
    ],
)
def test_each_replica_has_its_shard_of_the_data(
    replica: int, replicas: int, by: str, files: list[str], every: int
) -> None:
    shard = shard_files(FILES, replica, replicas, by)
    assert (list(shard.files), shard.every) == (files, every)
    assert shard.first == (replica if every > 1 else 0)


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("by", ["auto", "index"])
def test_the_shards_are_disjoint_and_cover_all_records(replicas: int, by: str) -> None:
    def records(number: int) -> list[tuple[str, int]]:
        mine = shard_files(FILES, number, replicas, by)
        return [(file, row) for file in mine.files for row in range(10)][mine.first :: mine.every]

    seen = [record for number in range(replicas) for record in records(number)]
    assert sorted(seen) == sorted((file, row) for file in FILES for row in range(10))


@pytest.mark.parametrize(("by", "what"), [("file", "4 files are not enough for 5 replicas"), ("hash", "not by 'hash'")])
def test_an_impossible_shard_is_refused(by: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        shard_files(FILES, 0, 5, by)


def test_a_shard_is_described_in_words() -> None:
    assert str(shard_files(FILES, 1, 2)) == "2 files"
    assert str(shard_files(FILES, 1, 3)) == "records 1, 4, … of 4 files"


def test_round_robin_is_tensorflows_own_and_unknown_placements_are_refused() -> None:
    begun: list[GreedyPlacement] = []
    assert ps_strategy_for("round_robin", 2, begun) is None
    first = ps_strategy_for("greedy", 2, begun)
    assert first is not None
    assert ps_strategy_for("greedy", 2, begun) is first, "what one block of the graph put there weighs in the next one"
    with pytest.raises(ValueError, match="round_robin or greedy, not 'random'"):
        ps_strategy_for("random", 2, [])


def test_operations_without_a_size_are_spread_as_well() -> None:
    def nothing(_name: str) -> None:
        raise ValueError("no such attribute")

    place = GreedyPlacement(2)
    assert [place(SimpleNamespace(get_attr=nothing)) for _ in range(4)] == [0, 1, 0, 1]


def test_new_checkpoints_come_in_order_until_the_last(tmp_path: Path) -> None:
    for step in (500, 0, 1000):
        save(tmp_path, step)
    (tmp_path / "model.ckpt-1500.index").write_bytes(b"torn")
    assert [step for _, step in new_checkpoints(str(tmp_path), 1000)] == [0, 500, 1000]


def test_a_checkpoint_that_is_saved_again_is_a_new_one(tmp_path: Path) -> None:
    shard = new_checkpoints(str(tmp_path), 1000, poll=0.01)
    prefix = save(tmp_path, 500)
    assert next(shard) == (prefix, 500)
    save(tmp_path, 500, b"again")
    os.utime(f"{prefix}.index", ns=(1, 1))
    assert next(shard) == (prefix, 500)
    save(tmp_path, 1001)
    assert [step for _, step in shard] == [1001]


def test_the_best_checkpoint_outlives_the_saver(tmp_path: Path) -> None:
    assert keep_best(save(tmp_path, 100, b"first"), 0.5)
    best = save(tmp_path, 200, b"second")
    assert keep_best(best, 0.9, "macro-F1")
    assert not keep_best(save(tmp_path, 300, b"third"), 0.9)
    assert not keep_best(save(tmp_path, 300, b"third"), float("nan"))
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    kept = tmp_path / "best"
    assert sorted(path.name for path in kept.iterdir()) == [
        "best.json",
        "checkpoint",
        "model.ckpt-200.data-00000-of-00001",
        "model.ckpt-200.index",
        "model.ckpt-200.meta",
    ]
    assert (kept / "model.ckpt-200.index").read_bytes() == b"second"
    assert parse_state((kept / "checkpoint").read_text()) == ["model.ckpt-200"]
    assert json.loads((kept / "best.json").read_text()) == {
        "checkpoint": "model.ckpt-200",
        "name": "macro-F1",
        "value": 0.9,
    }


def test_a_checkpoint_that_is_removed_while_it_is_measured_does_not_take_the_best_ones_place(tmp_path: Path) -> None:
    assert keep_best(save(tmp_path, 100), 0.5)
    kept = sorted(path.name for path in (tmp_path / "best").iterdir())
    removed = save(tmp_path, 200)
    removed.with_name(f"{removed.name}.index").unlink()
    assert not keep_best(removed, 0.9)
    for path in tmp_path.glob(f"{removed.name}.*"):
        path.unlink()
    assert not keep_best(removed, 0.9)
    assert json.loads((tmp_path / "best" / "best.json").read_text())["value"] == 0.5
    assert set(kept) <= {path.name for path in (tmp_path / "best").iterdir()}


def test_a_measure_may_be_a_number_of_any_kind(tmp_path: Path) -> None:
    half: Any = np.float32(0.5)
    assert keep_best(save(tmp_path, 100), half)
    assert keep_best(save(tmp_path, 200), 1)
    assert not keep_best(save(tmp_path, 300), half)


def test_a_best_json_without_a_value_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "best.json").write_text("{}")
    assert keep_best(save(tmp_path, 100), 0.1)


@pytest.mark.parametrize(
    ("wiring", "alone", "evaluator"),
    [
        (Wiring("worker", 0), True, False),
        (Wiring("worker", 0, {"worker": ("h:1",)}), True, False),
        (Wiring("worker", 0, {"ps": ("h:1",), "worker": ("h:2",)}), False, False),
        (Wiring("evaluator", 0), False, True),
        (Wiring("evaluator", 0, {"ps": ("h:1",), "worker": ("h:2",)}), False, True),
    ],
)
def test_only_an_evaluator_or_a_task_alone_evaluates(wiring: Wiring, alone: bool, evaluator: bool) -> None:
    task = runtime.Task(wiring, "checkpoints")
    assert (task.is_alone, task.is_evaluator) == (alone, evaluator)


def test_an_in_graph_client_is_one_replica_with_a_tower_for_each_worker() -> None:
    cluster = {"ps": ("h:1",), "chief": ("h:2",), "worker": ("h:3", "h:4", "h:5")}
    client = runtime.Task(Wiring("chief", 0, cluster), "checkpoints", in_graph=True)
    assert (client.replicas, client.towers) == (1, 3)
    with pytest.raises(ValueError, match="3 towers: there is no tower 3"):
        client.device(tower=3)
    assert runtime.Task(Wiring("chief", 0, cluster), "checkpoints").towers == 1
    assert runtime.Task(Wiring("worker", 0), "checkpoints", in_graph=True).towers == 1


@pytest.mark.parametrize("backups", [-1, 2, 3])
def test_synchronous_training_needs_a_gradient(backups: int) -> None:
    task = runtime.Task(Wiring("worker", 0, {"ps": ("h:1",), "worker": ("h:2", "h:3")}), "checkpoints")
    with pytest.raises(ValueError, match="backup_workers must be from 0 to 1 for 2 replicas"):
        task.synchronous(object(), backups)


def test_a_task_that_is_alone_keeps_its_optimizer() -> None:
    optimizer = object()
    assert runtime.Task(Wiring("worker", 0), "checkpoints").synchronous(optimizer) == (optimizer, [])


def test_flags_are_read_under_the_names_of_the_environment() -> None:
    wiring = Wiring("worker", 1, {"ps": ("h:1",), "worker": ("h:2", "h:3")})
    names = {"ps_hosts": "ps", "job_name": "job"}
    argv = to_flags(wiring, names)
    assert join_cluster.parse_wiring(argv, {"TFPROV_FLAGS": to_names(names)}) == wiring
    assert join_cluster.parse_wiring(argv, {"TFPROV_FLAGS": to_names({"ps_hosts": "servers"})}, names) == wiring
    with pytest.raises(WiringError, match="TFPROV_FLAGS"):
        join_cluster.parse_wiring(argv, {"TFPROV_FLAGS": "["})
