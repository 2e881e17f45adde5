"""Which verbs make a run, which go on with it, and how it ends: with the whole API, on hosts in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tfprov
from tfprov.errors import HostError, TaskFailed, TfprovError
from tfprov.history.reader import RunHistory, RunRecord
from tfprov.history.summary import RunSummary
from tfprov.hosts.memory import MemoryHosts
from tfprov.model.state import Observed, State

INVENTORY = """\
all:
  vars:
    tfprov:
      {cluster: lab, restart: never, code: code, command: [python, linear.py], flags: {train_steps: 100},
       checkpoints: none, env: {API_TOKEN: nobody-sees-this}}
  children:
    ps: {hosts: {h1: {ansible_connection: local}}}
    worker: {hosts: {"h[2:3]": {ansible_connection: local}}}
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "linear.py").write_text("print('a program')\n")
    return tmp_path


@pytest.fixture
def hosts() -> MemoryHosts:
    return MemoryHosts()


@pytest.fixture
def cluster(hosts: MemoryHosts) -> Iterator[tfprov.Cluster]:
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as loaded:
        yield loaded


def runs() -> list[RunSummary]:
    return RunHistory().summaries()


def newest() -> RunRecord:
    return RunHistory().load("")


def test_verbs_that_change_nothing_make_no_run(cluster: tfprov.Cluster) -> None:
    cluster.plan()
    cluster.down()
    cluster.play("up", check=True)
    assert runs() == []


def test_up_begins_a_run_and_down_ends_it(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    (one,) = runs()
    assert (one.outcome, one.verb, one.tasks, one.steps) == ("up", "up", 3, 100)
    assert hosts["h2"].observe().containers[0].run == one.run
    assert not cluster.up().changed
    assert len([*newest().events()]) == len([*newest().events()])
    hosts["h2"].prints("worker/0", "step 1", "step 2")
    hosts["h2"].exits("worker/0", 0)
    cluster.wait()
    cluster.down()
    (ended,) = runs()
    assert (ended.run, ended.outcome, ended.exit_code) == (one.run, "succeeded", 0)
    assert {name: task["state"] for name, task in newest().tasks.items()} == {
        "ps/0": "stopped",
        "worker/0": "exited",
        "worker/1": "stopped",
    }
    verbs = [event["verb"] for event in newest().events() if event["event"] == "verb_started"]
    assert verbs == ["up", "wait", "down"]
    cluster.up()
    assert [summary.outcome for summary in runs()] == ["succeeded", "up"]


def test_a_training_that_nobody_followed_has_the_logs_that_were_kept(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    cluster.up()
    hosts["h2"].prints("worker/0", *(f"step {n}" for n in range(5)))
    cluster.down()
    assert newest().summary.outcome == "stopped"
    assert [line.text for line in newest().log("worker/0")] == [f"step {n}" for n in range(5)]


def test_a_start_that_fails_is_a_failed_run_with_its_error(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.prepare()
    hosts["h3"].refuses["start worker/1"] = "its disk is full"
    with pytest.raises(HostError):
        cluster.up()
    (one,) = runs()
    assert (one.outcome, one.exit_code, one.error) == ("failed", 1, "h3: its disk is full")
    with pytest.raises(TfprovError):
        cluster.run()
    assert [summary.outcome for summary in runs()] == ["failed", "failed"]


def test_a_chief_that_fails_ends_its_run_with_its_exit_code(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    hosts["h2"].exits("worker/0", 7)
    with pytest.raises(TaskFailed):
        cluster.wait()
    assert runs()[0].outcome == "up"
    cluster.down()
    (one,) = runs()
    assert (one.outcome, newest().tasks["worker/0"]["exit_code"]) == ("failed", 7)


def test_a_container_of_an_earlier_version_gets_a_record_when_it_is_taken_down(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    cluster.prepare()
    run = "20250101T000000Z-abcdef"
    hosts["h2"].puts(Observed("worker/0", "h2", State.RUNNING, {}, run=run, started_at=1.0))
    cluster.down()
    assert [(one.run, one.outcome) for one in runs()] == [(run, "stopped")]


def test_a_played_playbook_is_recorded(cluster: tfprov.Cluster) -> None:
    cluster.play("up")
    cluster.play("down")
    assert [(one.verb, one.outcome) for one in runs()] == [("play", "stopped")]
    cluster.play("down")
    assert len(runs()) == 1, "with nothing there, it makes no run"


def test_no_secret_is_recorded(cluster: tfprov.Cluster, directory: Path) -> None:
    cluster.up()
    cluster.down()
    for path in (directory / "home").rglob("*"):
        assert path.is_dir() or b"nobody-sees-this" not in path.read_bytes(), path


def test_the_record_is_copied_beside_the_checkpoints(
    cluster: tfprov.Cluster, hosts: MemoryHosts, directory: Path
) -> None:
    cluster.up()
    hosts["h2"].saves("worker/0", "notes.txt", b"text")
    hosts["h2"].exits("worker/0", 0)
    cluster.down()
    kept = directory / "checkpoints" / "lab" / "logs" / newest().directory.id
    assert {"run.json", "end.json", "progress.jsonl"} <= {path.name for path in kept.iterdir()}
