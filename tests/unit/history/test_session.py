"""Which verbs make a run, which go on with it, and how it ends: with the whole API, on hosts in memory."""

import errno
import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path, PosixPath
from typing import Self, cast

import pytest

import tfprov
from tests.support.clock import ManualClock
from tests.support.event_files import event
from tests.support.memory_cluster import ReadInventory, make_context
from tests.support.permissions import forbidden
from tests.support.reporters import RecordingReporter
from tests.support.run_history import record_run, scripted
from tests.support.user_directory import enter
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.errors import CombinedError, DeadlineExceeded, GatherError, HostError, Locked, TaskFailed, TfprovError
from tfprov.formats.tfrecord import write_record
from tfprov.history.ending import keep_beside_checkpoints
from tfprov.history.json_lines import Appender
from tfprov.history.reader import RunHistory, RunRecord
from tfprov.history.session import recording
from tfprov.history.summary import RunSummary
from tfprov.hosts.machine import Machine
from tfprov.hosts.memory import MemoryHosts
from tfprov.model.state import Observed, State
from tfprov.paths import clusters_directory
from tfprov.playbook import verbs
from tfprov.playbook.gathering import gather_newest
from tfprov.playbook.supervise import SupervisedRun, supervise

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
    enter(tmp_path, monkeypatch, INVENTORY)
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
    """Return the run that began last: ids of the same second have no order."""
    return max((RunHistory().load(one.run) for one in runs()), key=lambda record: record.summary.started)


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
    before = [*newest().events()]
    assert not cluster.up().changed
    assert [*newest().events()] == before
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


def test_a_chief_that_moves_begins_another_run(hosts: MemoryHosts, directory: Path) -> None:
    for workers in (("h2", "h3"), ("h3", "h2")):
        listed = ", ".join(f"{host}: {{ansible_connection: local}}" for host in workers)
        text = INVENTORY.replace('"h[2:3]": {ansible_connection: local}', listed)
        (directory / "inventory.yml").write_text(text)
        with tfprov.Cluster.load("inventory.yml", factory=hosts) as loaded:
            loaded.up()
    assert {one.run for one in runs()} >= {hosts["h3"].observe().containers[0].run}
    assert hosts["h3"].observe().containers[0].run != hosts["h1"].observe().containers[0].run


def test_what_a_new_chief_saves_is_gathered_although_a_worker_saved_more_steps_before(
    hosts: MemoryHosts, directory: Path
) -> None:
    text = INVENTORY.replace("checkpoints: none", "wiring: tf_config")
    chief = "  children:\n    chief: {hosts: {h4: {ansible_connection: local}}}\n"
    for host, task, step in (("h2", "worker/0", 2000), ("h4", "chief/0", 50)):
        (directory / "inventory.yml").write_text(text)
        with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {}) as loaded:
            loaded.up()
            for extension in ("data-00000-of-00001", "index"):
                hosts[host].saves(task, f"model.ckpt-{step}.{extension}", b"bytes")
            hosts[host].saves(task, "checkpoint", f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode())
        text = text.replace("  children:\n", chief)
    with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {}) as loaded:
        loaded.down()
    gathered = directory / "checkpoints"
    assert [path.name for path in gathered.glob("lab/*.index")] == ["model.ckpt-50.index"]
    assert [path.name for path in gathered.glob("lab.1/*.index")] == ["model.ckpt-2000.index"]


def test_a_training_that_nobody_followed_has_the_logs_that_were_kept(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    cluster.up()
    hosts["h2"].prints("worker/0", *(f"step {n}" for n in range(5)))
    cluster.down()
    assert newest().summary.outcome == "stopped"
    assert [line.text for line in newest().log("worker/0")] == [f"step {n}" for n in range(5)]


def test_the_version_of_tensorflow_is_what_the_chief_reported(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    for reported, recorded in (("2.17.1-rc0", "2.17.1-rc0"), ("\x1b[31m", metadata.version("tensorflow-cpu"))):
        cluster.up()
        entry = {"task": "worker/0", "step": 5, "steps": 5, "at": 1.0, "tensorflow": reported}
        hosts["h2"].saves("worker/0", "progress.json", json.dumps(entry).encode())
        cluster.down()
        assert newest().end is not None
        assert newest().to_dict()["end"]["tensorflow"] == recorded


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


@pytest.mark.parametrize("left", [[], [Observed("ps/0", "h1", State.CREATED, {})]])
def test_down_ends_a_run_whose_controller_was_killed_before_its_first_task_ran(
    cluster: tfprov.Cluster, hosts: MemoryHosts, left: list[Observed]
) -> None:
    cluster.prepare()
    killed = record_run(clusters_directory() / "lab" / "runs", 1, iter([]))
    killed.events.write_text('{"event": "verb_started"}\n')
    for one in left:
        hosts["h1"].puts(one)
    assert [(one.run, one.outcome) for one in runs()] == [(killed.id, "interrupted")]
    cluster.down()
    assert [(one.run, one.outcome) for one in runs()] == [(killed.id, "stopped")]


def test_a_played_playbook_is_recorded(cluster: tfprov.Cluster) -> None:
    cluster.play("up")
    cluster.play("down")
    assert [(one.verb, one.outcome) for one in runs()] == [("play", "stopped")]
    cluster.play("down")
    assert len(runs()) == 1, "with nothing there, it makes no run"


def test_a_verb_on_machines_that_does_nothing_leaves_no_run_and_no_warning(directory: Path) -> None:
    report = RecordingReporter()
    made = make_context(INVENTORY)
    context = replace(made, history=directory / "runs", report=report, machines={"h1": cast("Machine", None)})
    with pytest.raises(Locked), recording(context, "run"):
        raise Locked("another run is changing this cluster")
    assert [*(directory / "runs").iterdir()] == []
    assert report.notes == []


def test_the_end_of_a_run_on_machines_changes_nothing_of_its_description(directory: Path) -> None:
    machines = {"h1": cast("Machine", None)}
    for verb, text in (("up", INVENTORY), ("down", INVENTORY.replace("train_steps: 100", "train_steps: 999"))):
        made = replace(make_context(text), home=directory, history=directory / "runs", machines=machines)
        with recording(made, verb, "20260101T000000Z-abcdef") as session:
            session.context.report.observed([Observed("worker/0", "h2", State.EXITED, {}, exit_code=0)])
    (one,) = (directory / "runs").iterdir()
    assert (one / "end.json").exists()
    assert json.loads((one / "run.json").read_text())["steps"] == 100


def test_a_verb_that_changes_nothing_leaves_no_directory_beside_the_checkpoints(
    cluster: tfprov.Cluster, directory: Path
) -> None:
    (directory / "book.yml").write_text("- {hosts: all, tasks: [command: clean]}")
    gathered = directory / "checkpoints" / "lab"
    gathered.mkdir(parents=True)
    cluster.play(str(directory / "book.yml"))
    assert list(gathered.iterdir()) == []


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


def test_a_run_beyond_its_deadline_is_gathered_taken_down_and_told_of(hosts: MemoryHosts, directory: Path) -> None:
    sent = directory / "sent"
    settings = f"deadline: 10m, notify: [{{command: [sh, -c, 'echo $TFPROV_EVENT $TFPROV_OUTCOME >> {sent}']}}]"
    (directory / "inventory.yml").write_text(INVENTORY.replace("checkpoints: none", f"checkpoints: none, {settings}"))
    clock = ManualClock()
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster:
        context = replace(cluster.prepare(), clock=clock)
        with pytest.raises(DeadlineExceeded) as caught:
            verbs.run(context, partial=False, discard=False)
    assert str(caught.value) == "the `deadline` of this run is over before worker/0 is done"
    assert caught.value.exit_code == 124
    assert 600 <= clock.now() < 700
    assert hosts["h2"].observe().containers == ()
    (one,) = runs()
    assert (one.outcome, one.exit_code) == ("deadline", 124)
    assert sent.read_text() == "failed deadline\n"


def test_a_run_whose_gather_failed_keeps_its_outcome_when_it_is_taken_down(hosts: MemoryHosts, directory: Path) -> None:
    sent, clock = directory / "sent", ManualClock()
    notify = f"notify: [{{command: [sh, -c, 'echo $TFPROV_EVENT $TFPROV_OUTCOME >> {sent}']}}]"
    text = INVENTORY.replace("checkpoints: none", f"deadline: 10m, {notify}")
    (directory / "inventory.yml").write_text(text)

    def save() -> None:
        for extension in ("data-00000-of-00001", "index", "meta"):
            hosts["h2"].saves("worker/0", f"model.ckpt-5.{extension}", b"bytes")

    def full(_prefixes: object) -> dict[str, Verification]:
        raise GatherError("No space left on device")

    clock.at(60, save)
    with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=full) as cluster:
        context = replace(cluster.prepare(), clock=clock)
        with pytest.raises(CombinedError):
            verbs.run(context, partial=False, discard=False)
    assert [one.task for one in hosts["h2"].observe().containers] == ["worker/0"], "it has what was not gathered"
    for _ in range(2):
        (one,) = runs()
        assert (one.outcome, one.exit_code) == ("deadline", 124)
        assert one.error.startswith("the `deadline` of this run is over before worker/0 is done")
        assert sent.read_text() == "failed deadline\n"
        with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {}) as cluster:
            cluster.down()
    assert hosts["h2"].observe().containers == ()


def test_a_run_that_goes_on_with_a_chief_that_was_left_behind_has_its_end(hosts: MemoryHosts, directory: Path) -> None:
    (directory / "inventory.yml").write_text(INVENTORY.replace("checkpoints: none, ", ""))
    with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {}) as cluster:
        cluster.up()
        hosts["h2"].saves("worker/0", "model.ckpt-5.index", b"bytes")
        hosts["h2"].saves("worker/0", "model.ckpt-5.data-00000-of-00001", b"bytes")
        hosts["h2"].exits("worker/0", 3)
        (directory / "checkpoints").touch()
        with pytest.raises(TfprovError):
            cluster.down()
        (one,) = runs()
        assert one.outcome == "failed"
        (directory / "checkpoints").unlink()
        clock = ManualClock()
        clock.at(60, lambda: hosts["h2"].exits("worker/0", 0))
        verbs.run(replace(cluster.prepare(), clock=clock), partial=False, discard=False)
    (one,) = runs()
    assert (one.outcome, one.exit_code) == ("succeeded", 0)


def test_a_run_whose_cluster_another_machine_took_down_is_stopped(hosts: MemoryHosts) -> None:
    def taken_down() -> None:
        for host in hosts.values():
            host.places.clear()

    clock = ManualClock()
    clock.at(60, taken_down)
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster, pytest.raises(TfprovError, match="taken down"):
        verbs.run(replace(cluster.prepare(), clock=clock), partial=False, discard=False)
    (one,) = runs()
    assert (one.outcome, one.exit_code) == ("stopped", 1)


def test_a_verb_that_another_one_has_locked_out_ends_no_run(hosts: MemoryHosts) -> None:
    clock = ManualClock()
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster:
        context = replace(cluster.prepare(), clock=clock)
        other = ClusterLock(context, "up")
        with other, pytest.raises(Locked):
            verbs.up(context, partial=False)
        assert runs() == []

        def ends() -> None:
            other.take()
            hosts["h2"].exits("worker/0", 0)

        clock.at(60, ends)
        with pytest.raises(Locked):
            verbs.run(context, partial=False, discard=False)
        (one,) = runs()
        assert (one.outcome, one.ended) == ("up", None)
        other.free()
        cluster.down()
    (one,) = runs()
    assert one.outcome == "succeeded"


def test_a_run_that_is_gone_on_with_has_what_is_left_of_its_time(hosts: MemoryHosts, directory: Path) -> None:
    (directory / "inventory.yml").write_text(INVENTORY.replace("checkpoints: none", "checkpoints: none, deadline: 1h"))
    clock = ManualClock()
    clock.sleep(100)
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster:
        context = replace(cluster.prepare(), clock=clock)
        assert verbs.with_deadline(context, 600).deadline == clock.now() + 3000


def test_the_end_of_a_run_that_a_full_disk_keeps_from_being_recorded_is_notified(
    hosts: MemoryHosts, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: Appender, _record: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sent, clock = directory / "sent", ManualClock()
    settings = f"deadline: 10m, notify: [{{command: [sh, -c, 'echo $TFPROV_EVENT $TFPROV_OUTCOME >> {sent}']}}]"
    (directory / "inventory.yml").write_text(INVENTORY.replace("checkpoints: none", f"checkpoints: none, {settings}"))
    clock.at(60, lambda: monkeypatch.setattr(Appender, "append", full))
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster, pytest.raises(DeadlineExceeded):
        verbs.run(replace(cluster.prepare(), clock=clock), partial=False, discard=False)
    assert sent.read_text() == "failed deadline\n"


class CtrlC(ManualClock):
    """Ctrl-C comes when the record of the run is made complete: at its logs, or at the time of its end."""

    def __init__(self) -> None:
        super().__init__()
        self.comes, self.error = False, KeyboardInterrupt()

    def interrupt(self) -> None:
        if self.comes:
            self.comes = False
            raise self.error

    def wall(self) -> float:
        self.interrupt()
        return super().wall()

    def logs(self, path: Path) -> Path:
        """Return `path` as one at whose next use Ctrl-C comes."""
        ctrl_c = self

        class Logs(PosixPath):
            def __truediv__(self, name: str | os.PathLike[str]) -> Self:
                ctrl_c.interrupt()
                return super().__truediv__(name)

        return Logs(path)


@pytest.mark.parametrize("at_logs", [True, False])
@pytest.mark.parametrize("error", [None, TaskFailed("worker/0", "exited with code 7", code=7)])
def test_ctrl_c_while_the_record_is_completed_leaves_a_run_with_its_end_and_notification(
    directory: Path, at_logs: bool, error: TaskFailed | None
) -> None:
    sent, clock = directory / "sent", CtrlC()
    notify = f"notify: [{{command: [sh, -c, 'echo $TFPROV_EVENT $TFPROV_OUTCOME >> {sent}']}}]"
    read = ReadInventory.of(INVENTORY.replace("checkpoints: none", f"checkpoints: none, {notify}"))
    logs = clock.logs(directory / "logs") if at_logs else None
    made = replace(make_context(read), roles=tuple(read.roles), clock=clock, logs=logs, home=directory)
    context, code = replace(made, history=directory / "runs"), error.code if error else 0

    def run() -> None:
        with recording(context, "run") as session:
            session.context.report.observed([Observed("worker/0", "h2", State.EXITED, {}, exit_code=code)])
            clock.comes = True
            if error:
                raise error

    with pytest.raises((TaskFailed, KeyboardInterrupt)) as caught:
        run()
    assert caught.value is (error or clock.error)
    assert not clock.comes, "it came"
    (one,) = (directory / "runs").iterdir()
    end = json.loads((one / "end.json").read_text())
    assert (end["outcome"], end["exit_code"]) == (("failed", 7) if error else ("succeeded", 0))
    assert sent.read_text() == ("failed failed\n" if error else "ended succeeded\n")


def test_checkpoints_are_gathered_while_the_training_goes_on(hosts: MemoryHosts, directory: Path) -> None:
    text = INVENTORY.replace("checkpoints: none", "checkpoints: {every: 2m}, deadline: 10m")
    (directory / "inventory.yml").write_text(text)
    clock = ManualClock()
    gathered = directory / "checkpoints" / "lab"
    seen: list[list[str]] = []

    def save(step: int) -> None:
        for extension in ("data-00000-of-00001", "index", "meta"):
            hosts["h2"].saves("worker/0", f"model.ckpt-{step}.{extension}", b"bytes")
        hosts["h2"].saves("worker/0", "checkpoint", f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode())

    for minutes in (1, 5):
        clock.at(60.0 * minutes, lambda minutes=minutes: save(minutes))  # type: ignore[misc]
        clock.at(60.0 * minutes + 80, lambda: seen.append(sorted(path.name for path in gathered.glob("*.index"))))
    loaded = tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {})
    with loaded as cluster, pytest.raises(DeadlineExceeded):
        verbs.run(replace(cluster.prepare(), clock=clock), partial=False, discard=False)
    assert seen == [["model.ckpt-1.index"], ["model.ckpt-1.index", "model.ckpt-5.index"]]


def test_a_gather_says_what_the_chief_has_trained_since_it_saved(hosts: MemoryHosts, directory: Path) -> None:
    (directory / "inventory.yml").write_text(INVENTORY.replace("checkpoints: none", "checkpoints: {every: 10m}"))
    with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {}) as cluster:
        cluster.up()
        for extension in ("data-00000-of-00001", "index", "meta"):
            hosts["h2"].saves("worker/0", f"model.ckpt-16.{extension}", b"bytes")
        content = io.BytesIO()
        for step in (1, 40):
            write_record(content, event(float(step), step, {"loss": 0.5}))
        hosts["h2"].saves("worker/0", "events.out.tfevents.1", content.getvalue())
        report = RecordingReporter()
        gather_newest(replace(cluster.prepare(), report=report))
    assert "worker/0 is at step 40 and has saved nothing since model.ckpt-16" in report.notes


def test_the_quality_of_a_run_without_a_model_is_not_that_of_the_model_before(
    hosts: MemoryHosts, directory: Path
) -> None:
    (directory / "inventory.yml").write_text(INVENTORY.replace("checkpoints: none", "checkpoints: {every: 10m}"))
    seen = []
    for accuracy, model in ((0.75, "final.keras"), (0.25, "")):
        with tfprov.Cluster.load("inventory.yml", factory=hosts, verify=lambda _prefixes: {}) as cluster:
            cluster.up()
            content = io.BytesIO()
            write_record(content, event(1.0, 1, {"accuracy": accuracy}))
            hosts["h2"].saves("worker/0", "events.out.tfevents.1", content.getvalue())
            if model:
                hosts["h2"].saves("worker/0", model, b"model")
            cluster.down()
        seen.append((newest().end or {})["quality"])
    assert seen == [{"accuracy": 0.75}, {"accuracy": 0.25}]
    assert {path.name for path in (directory / "checkpoints").glob("lab*")} == {"lab", "lab.1"}


def test_a_webhook_of_the_inventory_is_neither_recorded_nor_printed(hosts: MemoryHosts, directory: Path) -> None:
    url = "http://127.0.0.1:9/services/T0000/B000/secret-of-the-hook"
    text = INVENTORY.replace("checkpoints: none", f"checkpoints: none, notify: [{{url: '{url}', events: [straggler]}}]")
    (directory / "inventory.yml").write_text(text)
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster:
        cluster.up()
        cluster.down()
    for path in [*(directory / "home").rglob("*"), *(directory / "checkpoints").rglob("*")]:
        assert path.is_dir() or b"secret-of-the-hook" not in path.read_bytes(), path


@pytest.mark.parametrize("may_start", [False, True])
def test_a_supervisor_starts_nothing_of_a_run_that_was_taken_down(
    cluster: tfprov.Cluster, hosts: MemoryHosts, may_start: bool
) -> None:
    cluster.up()
    run = newest().directory.id
    cluster.down()
    with pytest.raises(TfprovError, match=f"run {run} was taken down; `tfprov run` begins another one"):
        supervise(cluster.prepare(), run, SupervisedRun(may_start=may_start))
    assert hosts["h2"].observe().containers == ()


def test_a_supervisor_starts_what_was_lost_and_not_what_others_are_taking_down(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    cluster.up()
    run = newest().directory.id
    clock = ManualClock()
    clock.at(10.0, lambda: hosts["h2"].exits("worker/0", 0))
    hosts["h3"].places.clear()  # `down` in another terminal
    supervise(replace(cluster.prepare(), clock=clock), run, SupervisedRun())
    assert "start worker/1" not in hosts["h3"].calls[hosts["h3"].calls.index("start worker/1") + 1 :]
    assert (newest().directory.id, newest().summary.outcome) == (run, "succeeded")

    cluster.up()
    run, clock = newest().directory.id, ManualClock()
    hosts["h2"].loses("worker/0")  # with a restart of the controller
    clock.at(10.0, lambda: hosts["h2"].exits("worker/0", 7))
    with pytest.raises(TaskFailed):
        supervise(replace(cluster.prepare(), clock=clock), run, SupervisedRun())
    assert hosts["h2"].calls.count("start worker/0") == 3
    assert (newest().directory.id, newest().summary.outcome) == (run, "failed")


def test_a_record_that_may_not_be_read_fails_no_verb(tmp_path: Path) -> None:
    run = record_run(tmp_path / "runs", 1, scripted(1))
    context = replace(make_context(INVENTORY), target=tmp_path, logs=tmp_path / "logs")
    with forbidden(run.path):
        keep_beside_checkpoints(context, run)
    keep_beside_checkpoints(context, run)
    assert (tmp_path / "logs" / run.id / "run.json").is_file()
