"""The history of real runs with processes of this machine: a killed controller, verbs that go on, a failed run."""

import json
import os
import re
import signal

import pytest

from tests.support.history_program import INVENTORY, directories, logged, runs, shown, write_program
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import LONG, until


def test_a_killed_run_is_readable_and_goes_on_with_the_next_verbs(local_cluster: LocalCluster) -> None:
    write_program(local_cluster)
    process = local_cluster.start("run", fresh=True)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "step 29" in line:
            break
    until(lambda: runs(local_cluster)[0]["last_step"] == 29, "the last step is recorded", of=process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(LONG)
    (one,) = runs(local_cluster)
    assert (one["outcome"], one["last_step"], one["steps"], one["supervised"]) == ("interrupted", 29, 30, False)
    assert one["loss"] == pytest.approx(10.0 / 30)
    record = shown(local_cluster)
    assert record["tasks"]["worker/0"]["state"] == "running"
    assert record["description"]["versions"]["tfprov"]
    assert record["description"]["settings"]["worker"]["localhost"]["env"]["HF_TOKEN"] == "******"
    (directory,) = directories(local_cluster).glob("2*")
    assert all(b"a-token-that" not in path.read_bytes() for path in directory.rglob("*") if path.is_file())

    (local_cluster.directory / "go").touch()
    assert local_cluster("wait").endswith("worker/0 is done\n")
    assert runs(local_cluster)[0]["outcome"] == "up"
    local_cluster("down")
    (one,) = runs(local_cluster)
    assert (one["run"], one["outcome"], one["exit_code"]) == (directory.name, "succeeded", 0)
    assert one["quality"] == {"eval_accuracy": 0.28999999165534973}
    text = local_cluster("runs", "show", directory.name[:12])
    assert re.search(r"^worker/0 +localhost +exited +0 +0 ", text, re.MULTILINE)
    assert "loss by step" in text
    kept = local_cluster.directory / "checkpoints" / "history"
    assert json.loads((kept / "manifest.json").read_text())["run"] == directory.name
    beside = kept / "logs" / directory.name
    assert json.loads((beside / "end.json").read_text())["outcome"] == "succeeded"
    assert logged(directory) == [f"step {n}" for n in range(30)]


def test_runs_are_compared_and_removed_after_one_failed_and_one_was_left_alone(local_cluster: LocalCluster) -> None:
    write_program(local_cluster, 6)
    (local_cluster.directory / "go").touch()
    failing = INVENTORY.replace("train.py]", '-c, "import sys; sys.exit(7)"]')
    local_cluster.write(failing.replace("DIRECTORY", str(local_cluster.directory)))
    local_cluster("run", code=7)
    local_cluster.write(INVENTORY.replace("DIRECTORY", str(local_cluster.directory)).replace("steps: 30", "steps: 6"))
    local_cluster("up")
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "finished", "it is done, and nobody followed it")
    local_cluster("down")
    failed, left = runs(local_cluster)
    assert (failed["outcome"], failed["exit_code"], left["outcome"]) == ("failed", 7, "succeeded")
    assert left["last_step"] == 5, "from the event file"
    assert len(json.loads(local_cluster("runs", "show", "--json"))["curve"]) == 6
    assert logged(directories(local_cluster) / left["run"]) == [f"step {n}" for n in range(6)], "from the kept logs"
    table = local_cluster("runs", "compare", failed["run"], left["run"], "--html", "page.html")
    assert re.search(r"^worker.flags.train_steps +30 +6$", table, re.MULTILINE)
    assert re.search(r"^outcome +failed +succeeded$", table, re.MULTILINE)
    assert "<polyline" in (local_cluster.directory / "page.html").read_text()
    assert "error: no run `nothing`; the closest are" in local_cluster("runs", "show", "nothing", code=2)
    assert local_cluster("runs", "prune", "--keep", "1") == f"removed {failed['run']} of history\n"
    assert local_cluster("runs", "rm", left["run"][-6:]) == f"removed {left['run']} of history\n"
    assert local_cluster("runs") == "no runs yet: `tfprov run` and `tfprov up` begin one\n"
