"""What verbs say and do at their edges, on hosts in memory: nothing there, nothing to do, or something in the way."""

import io
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tests.support.event_files import event
from tests.support.memory_cluster import Runtimes, make_context, run_up
from tests.support.reporters import RecordingReporter
from tests.support.split_training import INVENTORY, SplitTraining
from tfprov.engine.assemble import Options as HostOptions
from tfprov.engine.assemble import assemble
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.forecast import forecast
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.checkpoints.resume import known_run, resuming
from tfprov.engine.checkpoints.shards import explain_torn
from tfprov.engine.checkpoints.ungathered import unsaved
from tfprov.engine.context import Context, Definition, KeptContext
from tfprov.engine.events import Callback, Event, Incident, Quiet, TaskChanged
from tfprov.engine.host_registry import HostRegistry
from tfprov.engine.monitoring.chief_progress import read_progress, tail_of
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.readiness import wait_serving
from tfprov.engine.monitoring.status import status
from tfprov.engine.observe import observe, plan
from tfprov.errors import GatherError, HostError, Position, TaskFailed, Unreachable, Usage
from tfprov.formats.tfrecord import write_record
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import ActionKind
from tfprov.model.playbook import Command, Stop
from tfprov.model.state import (
    Observation,
    Observed,
    State,
    dataset_artifact,
    dataset_key,
    describe_exit,
    undelivered_image,
)
from tfprov.model.yaml_node import (
    EncryptedValue,
    Items,
    Mapping,
    Scalar,
    decrypt_values,
    mark_secret,
    plain,
    plain_masked,
    wrap,
)
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play
from tfprov.playbook.steps import RUN
from tfprov.settings.connection import ConnectionSettings
from tfprov.wiring import STRATEGY_VARIABLE


class ProgressReporter(RecordingReporter):
    """Records the steps of the chief, too."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def progress(self, progress: Any, steps: int | None) -> None:
        self.steps.append(progress.step)


@pytest.fixture
def split(tmp_path: Path) -> SplitTraining:
    made = SplitTraining(tmp_path)
    made.report = ProgressReporter()
    made.context = replace(made.context, report=made.report, home=tmp_path)
    return made


def played(split: SplitTraining, text: str, **options: Any) -> list[str]:
    book = split.target.parent / "book.yml"
    book.write_text(text)
    play(split.context, read_playbook(book), PlayOptions(**options))
    return split.report.notes


# --- states --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (None, "ended"), (0, "exited with code 0"), (3, "exited with code 3"), (129, "killed by SIGHUP (exit code 129)"),
        (137, "killed by SIGKILL (exit code 137)"), (143, "killed by SIGTERM (exit code 143)"),
        (139, "killed by SIGSEGV (exit code 139)"), (140, "exited with code 140"),
        (130, "killed by SIGINT (exit code 130)"), (131, "killed by SIGQUIT (exit code 131)"),
        (134, "killed by SIGABRT (exit code 134)"),
    ],
)  # fmt: skip
def test_an_exit_code_in_words(code: int | None, text: str) -> None:
    assert describe_exit(code) == text


ONE = Observed("worker/0", "h1", State.EXITED, {})


@pytest.mark.parametrize(
    ("changes", "ending", "finished"),
    [
        ({"exit_code": 0}, "exited with code 0", True),
        ({"exit_code": 0, "stopped": True}, "stopped", False),
        ({"exit_code": 2}, "exited with code 2", False),
        *(
            ({"exit_code": code, "error": "no program"}, "could not start: no program", False)
            for code in (126, 127, 128)
        ),
        *(({"exit_code": code, "error": "its disk is full"}, "its disk is full", False) for code in (125, 129)),
        ({"state": State.LOST}, "gone without an exit code", False),
        ({"state": State.LOST, "error": "no program"}, "gone without an exit code", False),
        ({"state": State.CREATED}, "created but never started", False),
        ({"state": State.RUNNING, "exit_code": 0}, "exited with code 0", False),
    ],
)
def test_how_a_container_ended(changes: dict[str, Any], ending: str, finished: bool) -> None:
    actual = replace(ONE, **changes)
    assert (actual.ending, actual.finished) == (ending, finished)


def test_the_strategy_and_the_data_set_of_a_task_are_read_from_any_label() -> None:
    specs: dict[str, tuple[Any, str, str | None]] = {
        "nothing": ({}, "", None),
        "a default": ({"wiring": {"style": "flags"}, "data": {"path": "/d"}}, "", None),
        "both": ({"wiring": {"strategy": "in_graph"}, "data": {"fetch": "3f2a"}}, "in_graph", "data:3f2a"),
        "a label of others": ({"wiring": "x", "data": "y"}, "", None),
    }
    read = {name: (replace(ONE, spec=spec).strategy, dataset_artifact(spec)) for name, (spec, *_) in specs.items()}
    assert read == {name: (strategy, data) for name, (_, strategy, data) in specs.items()}
    assert dataset_key("data:3f2a") == "3f2a"
    assert undelivered_image("tfprov/lab:0123456789abcdef") == (
        "the image 0123456789ab is not the one that was delivered"
    )


def test_every_state_of_a_task_has_its_row(split: SplitTraining) -> None:
    states: dict[str, dict[str, Any]] = {
        "ps/0": {"state": State.RUNNING, "started_at": 10.0, "id": "7", "restarts": 1},
        "ps/1": {"state": State.RUNNING, "restarting": True, "last_exit": 3, "restarts": 2},
        "worker/0": {"exit_code": 0},
        "worker/1": {"exit_code": 2},
    }
    for container in split.context.wanted:
        task = container.task
        split.hosts[task.host].puts(replace(ONE, task=task.name, **states[task.name]))
    split.hosts["w1"].puts(replace(ONE, task="worker/9", stopped=True))
    rows = {row.task: row for row in status(split.context, now=25.0).rows}
    assert {name: (row.state, row.detail, row.uptime, row.id) for name, row in rows.items()} == {
        "ps/0": ("running", "", 15.0, "7"),
        "ps/1": ("restarting", "ended with exit code 3", None, ""),
        "worker/0": ("finished", "", None, ""),
        "worker/1": ("failed", "exited with code 2", None, ""),
        "worker/9": ("stopped", rows["worker/9"].detail, None, ""),
    }
    split.hosts["p0"].failure = Unreachable("p0", "no answer")
    rows = {row.task: row for row in status(split.context, now=25.0).rows}
    assert (rows["ps/0"].state, rows["ps/0"].address) == ("unreachable", "p0:2222")


def test_the_container_of_a_task_is_looked_for_on_all_hosts(split: SplitTraining) -> None:
    seen = observe(split.runs().context)
    container = seen.find("ps/1")
    assert container is not None
    assert (container.task, container.host) == ("ps/1", "p1")
    assert seen.find("ps/2") is None
    assert Observation({}).find("ps/1") is None


# --- steps ---------------------------------------------------------------------------------------------------------------


def test_a_check_says_what_each_step_would_do(split: SplitTraining) -> None:
    steps = ["start: ", "wait: {for: serving}", "wait: {for: done}", "gather: ", "stop: ", "command: echo a b"]
    notes = played(split, f"- {{hosts: all, tasks: [{', '.join(steps)}]}}", check=True)
    assert [note for note in notes if not note.startswith("start: would start")] == [
        "wait: would wait until serving",
        "wait: would wait until done",
        "gather: would gather the chief's new checkpoints",
        "stop: nothing to do",
        "command: would run echo a b",
    ]
    assert sum(note.startswith("start: would start") for note in notes) == 4
    split.runs()
    split.report.events.clear()
    notes = played(split, "- {hosts: all, tasks: [stop: {tasks: worker}]}", check=True)
    assert [" ".join(note.split()) for note in notes] == [
        "stop: would stop worker/0 on w0 (taking the cluster down)",
        "stop: would stop worker/1 on w1 (taking the cluster down)",
    ]
    assert all(host.calls == [] for host in split.hosts.values())


def test_what_a_command_prints_is_reported_with_its_host_and_a_failure_ends_it(split: SplitTraining) -> None:
    def answer(argv: Sequence[str]) -> tuple[int, str]:
        return (3, "one\ntwo\n") if argv[0] == "fail" else (0, "three")

    for host in ("p0", "p1"):
        split.hosts[host].answer = answer
    RUN["command"](split.context.limited(["p1"]), Command(argv=["echo"]), False)
    assert isinstance(split.report, ProgressReporter)
    assert split.report.lines == [("p1", "three")]
    with pytest.raises(HostError, match="p0: `fail` ended with exit code 3"):
        RUN["command"](split.context, Command(argv=["fail"]), False)
    assert split.report.lines == [("p1", "three"), ("p0", "one"), ("p0", "two")]


def test_a_gather_without_a_chief_says_so_and_a_discard_gathers_nothing(split: SplitTraining) -> None:
    RUN["gather"](split.context, None, False)
    assert split.report.notes == ["nothing to gather: worker/0 is not there"]
    gathered = gather(split.context, lambda _: {})
    assert (gathered.newest, gathered.new, gathered.files) == (None, (), 0)
    assert split.report.notes == ["nothing to gather: worker/0 is not there"] * 2
    split.runs().saves_whole(400)
    RUN["gather"](split.context, None, True)
    assert not split.target.exists()


def test_a_task_that_is_not_there_is_not_waited_for(split: SplitTraining) -> None:
    with pytest.raises(TaskFailed, match=r"^ps/0: is not there on p0; start it with `tfprov up`"):
        wait_serving(split.context, 5.0)


def test_a_training_that_is_not_done_in_time_is_reported(split: SplitTraining) -> None:
    with pytest.raises(TaskFailed, match=r"^worker/0: is not done after 0\.01 s$"):
        follow(split.runs().context, 0.01)


# --- checkpoints ---------------------------------------------------------------------------------------------------------


def test_every_run_before_is_set_aside_under_a_number_of_its_own(split: SplitTraining) -> None:
    for number in range(4):
        split.runs(f"run-{number}").saves_whole(400 + number)
        split.gather()
    aside = sorted(path.name for path in split.target.parent.glob("split*") if path.is_dir())
    assert len(aside) == 4
    runs = {path.name: actual.run for name in aside if (actual := manifests.read(path := split.target.with_name(name)))}
    assert sorted(runs.values()) == ["run-0", "run-1", "run-2", "run-3"]
    assert runs["split"] == "run-3"


def test_a_manifest_that_cannot_be_read_saves_nothing(split: SplitTraining) -> None:
    split.runs().saves_whole(400)
    split.gather()
    chief = split.context.chief(observe(split.context))
    assert chief is not None
    assert unsaved(split.context, chief) is None
    path = split.target / "manifest.json"
    path.write_text("[")
    with pytest.raises(
        GatherError,
        match=r"/split/manifest\.json cannot be read: .*; move the directory away$",
    ):
        manifests.read(split.target)
    ungathered = unsaved(split.context, chief)
    assert ungathered is not None
    assert ungathered.prefix == "model.ckpt-400"


def restarted(split: SplitTraining, **changes: Any) -> tuple[Context, Observation]:
    """Return the context of a cluster whose command was changed, and what is seen of the one before."""
    text = INVENTORY.replace("textbook.py", "other.py")
    context = replace(make_context(text, (), split.hosts), target=split.target, report=split.report, **changes)
    return context, observe(context)


def test_the_forecast_of_a_chief_that_is_stopped_and_saves_once_more(split: SplitTraining) -> None:
    split.runs().saves_whole(400)
    context, seen = restarted(split)
    assert forecast(context, plan(context, seen), seen) == (
        "the training goes on from step 400, or later if it saves when stopped"
    )
    ps = plan(context, seen).only(lambda action: action.subject.startswith("ps/"))
    assert forecast(context, ps, seen) == "the training goes on from step 400"
    assert forecast(context, ps.only(lambda action: action.kind == ActionKind.STOP), seen) is None


def test_the_forecast_of_a_chief_that_runs_and_has_not_saved_yet(split: SplitTraining) -> None:
    split.runs()
    context, seen = restarted(split)
    anew = "the training starts anew: worker/0 has no checkpoint"
    assert forecast(context, plan(context, seen), seen) == f"{anew}, unless it saves when stopped"
    ps = plan(context, seen).only(lambda action: action.subject.startswith("ps/"))
    assert forecast(context, ps, seen) == anew
    assert forecast(replace(context, saves=False), ps, seen) is None


def test_a_gathered_checkpoint_that_cannot_be_read_is_in_the_way_of_a_resume_only(split: SplitTraining) -> None:
    split.runs().saves_whole(400)
    split.gather()
    (split.target / "manifest.json").write_text("[")
    context, seen = restarted(split)
    assert forecast(context, plan(context, seen), seen) == (
        "the training goes on from step 400, or later if it saves when stopped"
    )
    context, seen = restarted(split, resume=True)
    with pytest.raises(
        GatherError,
        match=r"/split/manifest\.json cannot be read: .*; move the directory away$",
    ):
        forecast(context, plan(context, seen), seen)


def test_there_is_no_progress_without_a_chief_or_its_host(split: SplitTraining) -> None:
    seen = observe(split.context)
    assert read_progress(split.context, seen) is None
    seen = observe(split.runs().context)
    assert read_progress(split.context, seen) is None
    split.hosts["w0"].saves("worker/0", "events.out.tfevents.1.w0", b"")
    assert read_progress(split.context, seen) is None
    split.hosts["w0"].failure = HostError("w0", "its engine does not answer")
    assert read_progress(split.context, seen) is None


def test_only_the_end_of_a_file_is_fetched(split: SplitTraining) -> None:
    split.runs()
    split.hosts["w0"].saves("worker/0", "log", bytes(range(200)))
    with tail_of(split.hosts["w0"], "worker/0", "log", 200) as file:
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        assert file.seek(-10, io.SEEK_END) == 190
        assert file.read(4) == bytes(range(190, 194))
        assert file.seek(2, io.SEEK_CUR) == 196
        assert file.read(100) == bytes(range(196, 200))
        assert file.read(1) == b""
        assert (file.seek(500), file.read(1)) == (500, b"")
        assert file.seek(-500, io.SEEK_CUR) == 0
        assert file.read(3) == bytes(range(3))
    split.hosts["w0"].saves("worker/0", "log", bytes(range(100)))  # it became shorter since it was listed
    with tail_of(split.hosts["w0"], "worker/0", "log", 200) as file:
        assert file.read(300) == bytes(range(100))


# --- preparing -----------------------------------------------------------------------------------------------------------


def test_another_runtime_while_there_are_tasks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    path = Path("inventory.yml")
    path.write_text("all: {vars: {tfprov: {cluster: lab, command: [python]}}}\nworker: {hosts: {localhost: }}\n")
    context = assemble(Definition.load(path), Quiet())
    assert set(context.runtimes) == {"localhost"}
    (context.home / "hosts" / "gone" / "tasks" / "worker-0").mkdir(parents=True)
    context = assemble(Definition.load(path), Quiet(), HostOptions(forks=3))
    assert (set(context.runtimes), set(context.left)) == ({"localhost", "gone"}, {"gone"})
    assert (context.forks, context.hosts) == (3, None)
    assert assemble(Definition.load(path), Quiet(), HostOptions(limit="worker")).hosts == frozenset({"localhost"})
    image = path.read_text().replace("command:", "image: {name: 'x:1'}, command:")
    path.write_text(image)
    with pytest.raises(Usage) as raised:
        assemble(Definition.load(path), Quiet())
    expected = "cluster lab still has tasks under `runtime: process`; take it down with `runtime: process` first"
    assert str(raised.value) == expected
    rmtree(context.home / "hosts")
    way = ConnectionSettings("gone", Position("here"), "10.0.0.11", None, None, local=False)
    HostRegistry(context.home).add({"gone": way})
    path.write_text(image.replace("image: {name: 'x:1'}, ", ""))
    with pytest.raises(Usage) as raised:
        assemble(Definition.load(path), Quiet())
    assert str(raised.value) == expected.replace("process", "docker")
    with pytest.raises(Usage, match=r"^`--limit worker:!all` leaves no host; use `all`, a group or a host$"):
        assemble(Definition.load(path), Quiet(), HostOptions(limit="worker:!all"))


def test_states_of_tasks_are_events_where_they_have_changed() -> None:
    received: list[Event] = []
    reporter = Callback(received.append)
    one = Observed("worker/0", "h1", State.RUNNING, {}, id="1")
    reporter.observed([one, replace(one, task="worker/1")])
    assert received == [TaskChanged(one), TaskChanged(replace(one, task="worker/1"))]
    changes: list[dict[str, Any]] = [
        {"id": "2"}, {"restarts": 1}, {"restarting": True}, {"unpause": "x"}, {"exit_code": 1}, {"stopped": True},
        {"gave_up": True}, {"state": State.EXITED}, {"host": "h2"},
    ]  # fmt: skip
    for change in changes:
        received.clear()
        one = replace(one, **change)
        reporter.observed([one, replace(one, started_at=9.0, last_words="x")])
        assert received == [TaskChanged(one)], change


def test_states_that_two_threads_report_keep_their_order() -> None:
    received: list[Event] = []
    running = Observed("worker/0", "h1", State.RUNNING, {}, id="1")
    ended = replace(running, state=State.EXITED, exit_code=0)
    threads: list[threading.Thread] = []

    def receive(event: Event) -> None:
        if not threads:
            threads.append(threading.Thread(target=reporter.observed, args=([ended],)))
            threads[0].start()
            threads[0].join(0.1)
        received.append(event)

    reporter = Callback(receive)
    reporter.observed([running])
    threads[0].join()
    assert received == [TaskChanged(running), TaskChanged(ended)]
    received.clear()
    reporter.incident(IncidentKind.STRAGGLER, "it stands still")
    assert received == [Incident("it stands still", IncidentKind.STRAGGLER, "", "", {})]


# --- nodes ---------------------------------------------------------------------------------------------------------------


def test_computed_values_are_nodes_at_one_place_and_secrets_stay_hidden() -> None:
    at = Position("-e")
    data = {"a": [1, "x", None, (True,)], 2: {}}
    node = wrap(data, at)
    assert isinstance(node, Mapping)
    assert plain(node) == {"a": [1, "x", None, [True]], "2": {}}
    assert isinstance(node.entries["a"], Items)
    assert node.entries["a"].items[0] == Scalar(1, at, "1", quoted=True)
    assert (node.at, node.keys["2"].data, node.key_at("2")) == (at, 2, at)
    assert plain_masked(node) == plain(node)
    assert decrypt_values(
        Items((Scalar(EncryptedValue("x", lambda text, _: text * 2), at), Scalar(1, at)), at)
    ) == Items((Scalar("xx", at, quoted=True, literal=True, secret=True), Scalar(1, at)), at)
    secret = mark_secret(node)
    assert plain(secret) == plain(node)
    assert isinstance(secret, Mapping)
    assert isinstance(secret.entries["a"], Items)
    assert secret.entries["a"].items[1] == Scalar("x", at, "", quoted=True, secret=True)
    hidden = plain_masked(secret)
    assert hidden["a"][0] == hidden["a"][3][0] != 1
    assert "x" not in str(hidden)


def test_a_lost_host_is_named_where_a_task_may_be(split: SplitTraining) -> None:
    split.runs()
    split.hosts["w0"].failure = Unreachable("w0", "no answer")
    seen = observe(split.context, tolerant=True)
    with pytest.raises(Unreachable, match="w0: no answer"):
        split.context.runtime_of("worker/0", seen)
    with pytest.raises(
        Usage, match=r"^no task `worker/9` in cluster split; its tasks are ps/0, ps/1, worker/0, worker/1$"
    ):
        split.context.runtime_of("worker/9", seen)
    runtime, container = split.context.runtime_of("ps/1", seen)
    assert isinstance(runtime, MemoryRuntime)
    assert (runtime.host, container.task) == ("p1", "ps/1")


def test_a_state_whose_report_was_interrupted_is_reported_again() -> None:
    received: list[Event] = []
    one = Observed("worker/0", "h1", State.EXITED, {}, id="1")

    def receive(event: Event) -> None:
        received.append(event)
        if len(received) == 1:
            raise KeyboardInterrupt

    reporter = Callback(receive)
    with pytest.raises(KeyboardInterrupt):
        reporter.observed([one])
    reporter.observed([one])
    reporter.observed([one])
    assert received == [TaskChanged(one), TaskChanged(one)]


def test_a_kept_context_is_assembled_anew_for_another_start(split: SplitTraining) -> None:
    asked: list[tuple[bool | None, bool]] = []

    def assemble(connect: bool | None, starts: bool) -> Context:
        asked.append((connect, starts))
        return replace(split.context, is_whole=starts, new_run=str(len(asked)))

    kept = KeptContext(assemble)
    assert not kept.use().is_whole
    assert kept.use(starts=True).new_run == "2"
    assert kept.use(starts=True).new_run == "2"
    assert kept.use(connect=True).new_run == "2"
    kept.close()
    kept.use(connect=None)
    assert asked == [(False, False), (False, True), (False, True), (None, False)]


def test_hosts_in_memory_start_what_is_planned(split: SplitTraining) -> None:
    hosts: Runtimes = split.hosts
    _, outcome = run_up(split.context)
    outcome.check()
    assert {name: host.calls for name, host in hosts.items()} == {
        "p0": ["start ps/0"], "p1": ["start ps/1"], "w0": ["start worker/0"], "w1": ["start worker/1"],
    }  # fmt: skip


def test_the_forecast_of_a_dead_chief_counts_on_the_ps_that_run_on_untouched(split: SplitTraining) -> None:
    split.runs().saves_whole(400)
    split.hosts["w0"].exits("worker/0", 1)
    goes_on = "the training goes on from step 400"
    kept = f"{goes_on}, or later with the model that its ps kept"
    seen = observe(split.context)
    assert forecast(split.context, plan(split.context, seen), seen) == kept
    env = {STRATEGY_VARIABLE: "parameter_server"}
    alone = replace(split.context, wanted=tuple(replace(one, env=env) for one in split.context.wanted))
    assert forecast(alone, plan(split.context, seen), seen) == goes_on
    touched = restarted(split)[0]
    assert forecast(touched, plan(touched, seen), seen) == goes_on, "all ps are started anew"
    split.hosts["p1"].exits("ps/1", 1)
    seen = observe(split.context)
    assert forecast(split.context, plan(split.context, seen), seen) == goes_on


class Closed(MemoryRuntime):
    """A host that says what runs there, and not what its tasks have saved."""

    def files(self, task: str) -> Any:
        raise HostError(self.host, "its disk does not answer")


def test_nothing_is_removed_whose_checkpoints_cannot_be_looked_at(tmp_path: Path) -> None:
    hosts: Runtimes = {"w0": Closed("w0")}
    split = SplitTraining(tmp_path, hosts=hosts).runs(state=State.EXITED)
    with pytest.raises(HostError, match="w0: its disk does not answer"):
        RUN["stop"](split.context, Stop(remove=True), False)
    assert all(host.calls == [] for host in hosts.values())
    RUN["stop"](split.context, Stop(remove=True), True)
    assert [container for host in hosts.values() for container in host.observe().containers] == []


@pytest.mark.parametrize("saver", ["chief/0", "worker/0"])
def test_a_chief_does_not_join_the_run_of_ps_with_another_saver(split: SplitTraining, saver: str) -> None:
    split.runs("run-1")
    for number in range(2):
        split.hosts[f"w{number}"].exits(f"worker/{number}", 1)
        split.hosts[f"w{number}"].remove(f"worker/{number}")
    assert known_run(split.context, observe(split.context)) == "run-1"
    split.hosts["w1"].puts(replace(ONE, task=saver, run="run-1"))
    assert known_run(split.context, observe(split.context)) == ""
    split.hosts["w1"].puts(replace(ONE, task=saver, run="run-0"))
    assert known_run(split.context, observe(split.context)) == "run-1"


def test_what_lies_with_a_ps_is_to_be_gathered_before_a_resume(split: SplitTraining) -> None:
    split.runs(state=State.EXITED).saves(800)
    context = replace(split.context, resume=True)
    with pytest.raises(GatherError) as raised:
        resuming(context, observe(context))
    expected = "worker/0's checkpoint model.ckpt-800, which lies with a ps, is not gathered; run `tfprov gather` first"
    assert str(raised.value) == expected
    for host in split.hosts.values():
        host.places.clear()
    split.runs(state=State.EXITED)
    for name in ("best.index", "best.data-00000-of-00001"):
        split.hosts["p0"].saves("ps/0", name, b"x")
    split.hosts["w0"].saves("worker/0", "checkpoint", b'model_checkpoint_path: "best"\n')
    with pytest.raises(GatherError) as raised:
        resuming(context, observe(context))
    assert str(raised.value) == expected.replace("model.ckpt-800", "best"), "also without a step"


def test_the_forecast_of_a_chief_that_is_new_on_its_host(split: SplitTraining) -> None:
    split.runs()
    moved = INVENTORY.replace("w0: , w1: ", "w9: , w1: ")
    context = replace(make_context(moved, (), split.hosts), target=split.target, report=split.report)
    seen = observe(context)
    assert forecast(context, plan(context, seen), seen) is None, "nothing was trained that could be lost"
    written = io.BytesIO()
    write_record(written, event(0.5, 0))
    write_record(written, event(1.0, 30, {"loss": 0.5}))
    split.hosts["w0"].saves("worker/0", "events.out.tfevents.1", written.getvalue())
    seen = observe(context)
    anew = "the training starts anew: worker/0 is new on w9 (it is at 30)"
    assert forecast(context, plan(context, seen), seen) == anew
    del split.hosts["w0"].places["worker/0"].files["events.out.tfevents.1"]
    for name in ("index", "data-00000-of-00001"):
        split.hosts["w0"].saves("worker/0", f"best.{name}", b"x")
    seen = observe(context)
    goes_on = "the training starts anew: worker/0 is new on w9; `--resume` would go on from"
    assert forecast(context, plan(context, seen), seen) == f"{goes_on} its checkpoint", "it has no step"
    split.saves_whole(400)
    seen = observe(context)
    assert forecast(context, plan(context, seen), seen) == (
        "the training starts anew: worker/0 is new on w9; `--resume` would go on from step 400"
    )
    resumes = replace(context, resume=True)
    assert forecast(resumes, plan(resumes, seen), seen) == "the training goes on from step 400 (gathered)"


def test_an_ungathered_checkpoint_is_kept_and_reported_with_both_fixes(split: SplitTraining) -> None:
    split.runs(state=State.EXITED).saves_whole(400)
    with pytest.raises(GatherError) as raised:
        RUN["stop"](split.context, Stop(remove=True), False)
    assert str(raised.value) == (
        "worker/0 on w0 was kept: its checkpoint model.ckpt-400 is not gathered; "
        "run `tfprov gather`, or remove it for good with `tfprov down --discard`"
    )
    assert [one.task for one in observe(split.context).containers()] == ["worker/0"]
    RUN["stop"](split.context, Stop(remove=True), True)
    assert list(observe(split.context).containers()) == []


def test_a_moved_task_is_located_on_its_assigned_host_before_others(split: SplitTraining) -> None:
    split.runs()
    assert split.context.container("worker/9") is None
    wanted = split.context.container("worker/1")
    assert wanted is not None
    assert wanted.task.name == "worker/1"
    split.hosts["p0"].puts(replace(ONE, task="worker/1"))
    split.hosts["p1"].puts(replace(ONE, task="worker/9"))
    seen = observe(split.context)
    containers = {task: split.context.observed(task, seen) for task in ("worker/1", "worker/9", "worker/8")}
    assert {task: one and one.host for task, one in containers.items()} == {
        "worker/1": "w1", "worker/9": "p1", "worker/8": None,
    }  # fmt: skip


def test_the_error_of_a_chief_whose_checkpoint_is_on_a_ps_has_both_fixes(split: SplitTraining) -> None:
    split.runs(state=State.EXITED).saves(400)
    context = split.context
    chief = context.chief(observe(context))
    assert chief is not None
    assert explain_torn(context, observe(context)) == (
        "worker/0: its checkpoint model.ckpt-400 lies with ps/0, where it cannot restore it; gather it and start with "
        "`--resume`, or save with tfprov.runtime, or with a Saver(sharded=False) on the chief"
    )
