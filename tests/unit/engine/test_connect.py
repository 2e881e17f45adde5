"""Hosts that cannot be reached: the lines about them, what goes on without them, and what does not."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.memory_cluster import Runtimes, make_context, run_up
from tests.support.reporters import RecordingReporter, texts
from tfprov.engine.connect import prepare_connections, ssh_target
from tfprov.engine.context import Context
from tfprov.engine.host_registry import HostRegistry
from tfprov.engine.monitoring.looks import HostAnswers, Looks
from tfprov.engine.monitoring.status import status
from tfprov.engine.observe import locate, observe, plan
from tfprov.errors import (
    CombinedError,
    GatherError,
    HostError,
    Position,
    TaskFailed,
    TfprovError,
    Unreachable,
    Usage,
    combine_errors,
)
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.openssh import openssh_command
from tfprov.model.playbook import Play, Stop
from tfprov.model.state import HostState, Observed, State
from tfprov.paths import shipped_directory
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play
from tfprov.playbook.steps import RUN
from tfprov.settings.connection import ConnectionSettings
from tfprov.settings.resolve import resolve

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], code: ./code, restart: never}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: , h3: }}
"""


class MemoryLab:
    """A ps on h1 and workers on h2 and h3, of which some may be cut off."""

    def __init__(self, directory: Path) -> None:
        self.hosts: Runtimes = {}
        self.report = RecordingReporter()
        self.context = self.read(INVENTORY, directory)

    def read(self, text: str, directory: Path) -> Context:
        made = make_context(text, (), self.hosts)
        left = frozenset(self.hosts) - {task.host for task in made.cluster.tasks}
        return replace(made, home=directory, target=directory / "lab", report=self.report, left=left)

    def cut(self, *hosts: str) -> None:
        for host in hosts:
            self.hosts[host].failure = Unreachable(host, "no answer from 10.0.0.9:22", "is it switched on?")

    def heal(self) -> None:
        for host in self.hosts.values():
            host.failure = None

    def verb(self, name: str, context: Context | None = None) -> None:
        context = replace(context or self.context, unresponsive={})  # every command begins anew
        play(context, read_playbook(shipped_directory("playbooks") / f"{name}.yml"), PlayOptions(name))

    def calls(self) -> list[str]:
        return [call for host in self.hosts.values() for call in host.calls]

    def running(self) -> list[str]:
        seen = observe(self.context, tolerant=True).containers()
        return [container.task for container in seen if container.state is State.RUNNING]


@pytest.fixture
def memory_lab(tmp_path: Path) -> MemoryLab:
    return MemoryLab(tmp_path)


# --- several errors --------------------------------------------------------------------------------------------------

DEAD = HostError("h1", "its engine does not answer")
AWAY = Unreachable("h2", "no answer")


@pytest.mark.parametrize(
    ("errors", "text", "code"),
    [
        ([AWAY], "h2: no answer", 4),
        ([DEAD, AWAY], "h1: its engine does not answer\nh2: no answer", 4),
        ([DEAD, GatherError("torn")], "h1: its engine does not answer\ntorn", 1),
        ([DEAD, Usage("what?")], "h1: its engine does not answer\nwhat?", 2),
        ([DEAD, DEAD, HostError("h1", "its engine does not answer")], "h1: its engine does not answer", 1),
        ([AWAY, Unreachable("h2", "connection lost"), Unreachable("h3", "x")], "h2: no answer\nh3: x", 4),
        ([CombinedError([AWAY, DEAD]), GatherError("torn")], "h2: no answer\nh1: its engine does not answer\ntorn", 4),
    ],
    ids=["one", "two", "no host is lost", "highest code", "the same twice", "one line per lost host", "nested"],
)
def test_several_errors_are_one(errors: list[TfprovError], text: str, code: int) -> None:
    error = combine_errors(errors)
    assert (str(error), error.exit_code) == (text, code)
    assert isinstance(error, CombinedError) == ("\n" in text)


def test_every_host_that_does_not_answer_is_named_and_nothing_is_started_anywhere(memory_lab: MemoryLab) -> None:
    memory_lab.cut("h1", "h3")
    with pytest.raises(CombinedError) as caught:
        memory_lab.verb("up")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["h1", "h3"]
    assert caught.value.exit_code == 4
    assert memory_lab.calls() == []


def test_all_actions_that_fail_are_reported_in_the_order_of_the_plan(memory_lab: MemoryLab) -> None:
    for host in ("h2", "h1", "h3"):
        digest = next(iter(memory_lab.context.artifacts))
        memory_lab.hosts[host].refuses[f"deliver {digest}"] = "no room"
    _, outcome = run_up(memory_lab.context)
    with pytest.raises(CombinedError) as caught:
        outcome.check()
    assert str(caught.value) == "h1: no room\nh2: no room\nh3: no room"


def test_a_delivery_that_fails_on_one_host_starts_nothing_anywhere(memory_lab: MemoryLab) -> None:
    digest = next(iter(memory_lab.context.artifacts))
    memory_lab.hosts["h3"].refuses[f"deliver {digest}"] = "no room"
    with pytest.raises(HostError, match="h3: no room"):
        memory_lab.verb("up")
    assert not any(call.startswith("start") for call in memory_lab.calls())


# --- what goes on without them ---------------------------------------------------------------------------------------


def test_status_shows_what_it_knows_and_names_the_host_it_does_not(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")
    memory_lab.cut("h3")
    report = status(memory_lab.context, time.time())
    assert {row.task: row.state for row in report.rows} == {
        "ps/0": "running",
        "worker/0": "running",
        "worker/1": "unreachable",
    }
    assert {host: str(error) for host, error in report.unreachable.items()} == {
        "h3": "h3: no answer from 10.0.0.9:22; is it switched on?"
    }
    assert json.loads(json.dumps(report.to_dict()))["unreachable"] == {
        "h3": "no answer from 10.0.0.9:22; is it switched on?"
    }
    outside = status(memory_lab.context.limited(["h1", "h2"]), time.time())
    assert not outside.unreachable
    assert [row.task for row in outside.rows] == ["ps/0", "worker/0"]


def test_down_takes_down_what_it_can_reach_and_names_the_rest(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")
    memory_lab.cut("h3")
    with pytest.raises(Unreachable, match=r"^h3: no answer from 10\.0\.0\.9:22; is it switched on\?$"):
        memory_lab.verb("down")
    memory_lab.heal()
    assert memory_lab.running() == ["worker/1"]
    memory_lab.verb("down")
    assert memory_lab.running() == []


def test_down_asks_a_lost_host_once_because_each_try_costs_its_time_limit(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")
    requests = []

    class Counted(MemoryRuntime):
        def observe(self) -> HostState:
            requests.append(self.host)
            raise Unreachable(self.host, "no answer")

    context = replace(memory_lab.context, runtimes={**memory_lab.hosts, "h3": Counted("h3")})
    with pytest.raises(Unreachable):
        memory_lab.verb("down", context)
    assert requests == ["h3"]


def test_a_host_that_is_lost_while_the_cluster_is_taken_down_keeps_no_other_up(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")

    class Leaving(MemoryRuntime):
        """Answers until it is asked to stop something."""

        def stop(self, task: str, grace: float) -> None:
            self.failure = Unreachable(self.host, "connection lost")
            super().stop(task, grace)

    leaving = Leaving("h3")
    leaving.places = memory_lab.hosts["h3"].places
    memory_lab.hosts["h3"] = leaving
    with pytest.raises(Unreachable, match="h3: connection lost"):
        memory_lab.verb("down", replace(memory_lab.context, runtimes=memory_lab.hosts))
    memory_lab.heal()
    assert memory_lab.running() == ["worker/1"]


def test_without_the_chief_down_says_what_it_did_not_gather(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")
    memory_lab.cut("h2")
    with pytest.raises(Unreachable, match=r"^h2: no answer from 10\.0\.0\.9:22; is it switched on\?$"):
        memory_lab.verb("down")
    assert "nothing to gather: h2 with worker/0 cannot be reached" in memory_lab.report.notes


@pytest.mark.parametrize("name", ["up", "run"])
def test_no_task_starts_while_a_host_is_silent(memory_lab: MemoryLab, name: str) -> None:
    memory_lab.cut("h2")
    with pytest.raises(Unreachable):
        memory_lab.verb(name)
    with pytest.raises(Unreachable):
        plan(memory_lab.context, observe(memory_lab.context, tolerant=True))
    assert not any(call.startswith("start") for call in memory_lab.calls())


def test_a_task_is_located_without_observing_the_other_hosts(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")
    memory_lab.cut("h1", "h3")
    assert locate(memory_lab.context, "worker/0")[1].host == "h2"
    with pytest.raises(Unreachable, match=r"^h3: no answer from 10\.0\.0\.9:22; is it switched on\?$"):
        locate(memory_lab.context, "worker/1")


def test_a_task_that_is_nowhere_is_not_there_unless_nobody_can_know(memory_lab: MemoryLab) -> None:
    with pytest.raises(Usage, match=r"^worker/0 is not there; start it with `tfprov up`$"):
        locate(memory_lab.context, "worker/0")
    memory_lab.cut("h1")
    with pytest.raises(Usage, match=r"^worker/0 is not there; start it with `tfprov up`$"):
        locate(memory_lab.context, "worker/0")
    with pytest.raises(Usage, match=r"^no task `worker/7` in cluster lab; its tasks are ps/0, worker/0, worker/1$"):
        locate(memory_lab.context, "worker/7")


# --- hosts that left, and hosts that are left out --------------------------------------------------------------------

SMALLER = INVENTORY.replace("h2: , h3: ", "h2: ")


@pytest.mark.parametrize("name", ["up", "down"])
def test_a_lost_host_that_left_the_inventory_is_a_note_and_reported_once(
    memory_lab: MemoryLab, tmp_path: Path, name: str
) -> None:
    memory_lab.verb("up")
    now = memory_lab.read(SMALLER, tmp_path)
    assert now.left == {"h3"}
    memory_lab.cut("h3")
    memory_lab.verb(name, now)
    notes = [note for note in memory_lab.report.notes if note.startswith("h3")]
    why = "no answer from 10.0.0.9:22; is it switched on?"
    assert notes == [f"h3 left the inventory and cannot be reached: what runs there stays ({why})"]
    assert memory_lab.running() == (["ps/0", "worker/0"] if name == "up" else [])


def test_a_host_that_left_and_can_be_reached_is_cleaned_up(memory_lab: MemoryLab, tmp_path: Path) -> None:
    memory_lab.verb("up")
    memory_lab.verb("down", memory_lab.read(SMALLER, tmp_path))
    assert memory_lab.running() == []


def test_a_renamed_host_keeps_its_tasks(memory_lab: MemoryLab, tmp_path: Path) -> None:
    memory_lab.verb("up")
    before = len(memory_lab.calls())
    memory_lab.hosts["new"] = renamed("new", memory_lab.hosts["h2"])
    now = memory_lab.read(INVENTORY.replace("h2: ", "new: {ansible_host: h2}"), tmp_path)
    assert now.left == {"h2"}
    assert not plan(now, observe(now)).actions
    memory_lab.verb("up", now)
    assert len(memory_lab.calls()) == before
    assert [one.host for one in observe(now).containers() if one.task == "worker/0"] == ["new"]
    looks = Looks(now)
    try:
        assert set(looks.look()[0].hosts) == {"new", "h1", "h3"}
    finally:
        looks.close()


def test_a_host_that_left_under_two_names_is_observed_once(memory_lab: MemoryLab, tmp_path: Path) -> None:
    memory_lab.verb("up")
    memory_lab.hosts["again"] = renamed("again", memory_lab.hosts["h3"])
    assert set(observe(memory_lab.read(SMALLER, tmp_path)).hosts) == {"h1", "h2", "h3"}


def renamed(name: str, machine: MemoryRuntime) -> MemoryRuntime:
    """Return a host that is the same machine as another."""
    alias = MemoryRuntime(name)
    alias.places, alias.codes = machine.places, machine.codes
    under = machine.observe

    def observed() -> HostState:
        state = under()
        return replace(state, host=name, containers=tuple(replace(one, host=name) for one in state.containers))

    alias.observe = observed  # type: ignore[method-assign]
    return alias


def way(name: str, address: str, port: int | None = None, *, local: bool = False) -> ConnectionSettings:
    """Return connection settings of a host."""
    return ConnectionSettings(name, Position("here"), address, port, None, local=local)


@pytest.mark.parametrize(
    ("record", "former"),
    [
        ([way("h2", "10.0.0.2")], []),
        ([way("h2", "10.0.0.2", 22)], []),
        ([way("h2", "10.0.0.9")], ["h2 (10.0.0.9)"]),
        ([way("h2", "10.0.0.2", 2022)], ["h2 (10.0.0.2:2022)"]),
        ([way("h2", "h2", local=True)], ["h2 (this machine)"]),
        ([way("h2", "10.0.0.3"), way("h3", "10.0.0.2")], []),  # two hosts that changed their names
        ([way("h9", "10.0.0.9")], []),
    ],
)
def test_a_name_of_another_machine_still_reaches_the_first_one(
    tmp_path: Path, record: list[ConnectionSettings], former: list[str]
) -> None:
    text = "all: {vars: {tfprov: {cluster: lab, image: {name: train}, command: [python]}}}\nps: {hosts: {h1: }}\n"
    text += "worker: {hosts: {h2: {ansible_host: 10.0.0.2}, h3: {ansible_host: 10.0.0.3}}}\n"
    inventory = make_context(text).inventory
    HostRegistry(tmp_path).add({one.host: one for one in record})
    ways = prepare_connections(inventory, resolve(inventory), tmp_path, accept_new=False)
    assert list(ways.former) == former
    assert ways.left == {*former, *(one.host for one in record if one.host == "h9")}
    assert {name: one.address for name, one in ways.settings.items()}.keys() >= {"h1", "h2", "h3", *former}
    assert ways.present["h2"].address == "10.0.0.2"


def test_where_a_host_was_before_is_recorded_until_nothing_is_left_there(memory_lab: MemoryLab, tmp_path: Path) -> None:
    old, silent = "h2 (10.0.0.9)", "h3 (10.0.0.9)"
    memory_lab.hosts |= {old: MemoryRuntime(old), silent: MemoryRuntime(silent)}
    memory_lab.hosts[old].puts(Observed("worker/7", old, State.RUNNING, {}, id="7"))
    memory_lab.cut(silent)
    ways = {host: way(host, "10.0.0.2") for host in ("h1", "h2", "h3")}
    record = HostRegistry(tmp_path)
    record.add({"h2": way("h2", "10.0.0.9"), "h3": way("h3", "10.0.0.9")})
    former = {name: way(name, "10.0.0.9") for name in (old, silent)}
    context = replace(memory_lab.read(INVENTORY, tmp_path), registry=record, connections=ways, former=former)
    observe(context)
    context.remember()
    assert set(record.read()) == {"h1", "h2", "h3", old}, "who does not answer is reported, and forgotten"
    memory_lab.verb("up", context)
    assert set(record.read()) == {"h1", "h2", "h3"}
    assert memory_lab.hosts[old].observe().containers == ()


def test_a_host_that_is_left_out_may_be_lost(memory_lab: MemoryLab) -> None:
    memory_lab.cut("h3")
    memory_lab.verb("up", memory_lab.context.limited(["h1", "h2"]))
    assert memory_lab.running() == ["ps/0", "worker/0"]
    assert [note for note in memory_lab.report.notes if note.startswith("h3")] == [
        "h3 is left out and cannot be reached: no answer from 10.0.0.9:22; is it switched on?"
    ]
    memory_lab.verb("down", memory_lab.context.limited(["h1", "h2"]))
    assert memory_lab.running() == []


def test_a_host_that_is_left_out_may_have_no_engine(memory_lab: MemoryLab) -> None:
    memory_lab.hosts["h3"].failure = HostError("h3", "its engine does not run")
    memory_lab.verb("up", memory_lab.context.limited(["h1", "h2"]))
    assert [note for note in memory_lab.report.notes if note.startswith("h3")] == [
        "h3 is left out and does not say what runs on it: its engine does not run"
    ]


def test_the_host_of_the_chief_is_needed_even_where_it_is_left_out(memory_lab: MemoryLab) -> None:
    memory_lab.cut("h2")
    with pytest.raises(Unreachable, match=r"^h2: no answer from 10\.0\.0\.9:22; is it switched on\?$"):
        memory_lab.verb("up", memory_lab.context.limited(["h1", "h3"]))
    assert memory_lab.calls() == []


def test_a_command_passes_over_what_left(memory_lab: MemoryLab, tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    book.write_text("- {hosts: all, tasks: [command: date]}")
    memory_lab.cut("h3")
    play(memory_lab.read(SMALLER, tmp_path), read_playbook(book), PlayOptions())
    with pytest.raises(Unreachable, match=r"^h3: no answer from 10\.0\.0\.9:22; is it switched on\?$"):
        play(memory_lab.context, read_playbook(book), PlayOptions())


# --- which error is the last word ------------------------------------------------------------------------------------


def test_how_the_training_ended_comes_before_what_goes_wrong_behind_it(memory_lab: MemoryLab) -> None:
    memory_lab.verb("up")
    memory_lab.hosts["h2"].exits("worker/0", 7)
    memory_lab.hosts["h3"].refuses["stop worker/1"] = "will not"
    with pytest.raises(TaskFailed, match="worker/0: exited with code 7"):
        play(
            memory_lab.context,
            [*_wait_done(), *read_playbook(shipped_directory("playbooks") / "down.yml")],
            PlayOptions("run"),
        )
    assert "h3: will not" in memory_lab.report.notes


def _wait_done() -> list[Play]:
    return [one for one in read_playbook(shipped_directory("playbooks") / "run.yml") if one.name == "train"]


# --- silence, over time ----------------------------------------------------------------------------------------------


def test_a_silent_host_is_reported_once_and_once_more_when_it_is_back() -> None:
    answers = HostAnswers()
    away = {"h2": Unreachable("h2", "no answer")}
    message: list[list[str]] = [
        texts(answers.update({"h1": 1}, away, 0.0)),
        texts(answers.update({"h1": 1}, away, 10.0)),
        texts(answers.update({"h1": 1}, away, 20.0)),
        texts(answers.update({"h1": 1, "h2": 1}, {}, 30.0)),
        texts(answers.update({"h1": 1, "h2": 1}, {}, 40.0)),
    ]
    assert [len(notes) for notes in message] == [0, 1, 0, 1, 0]
    assert message[1][0].startswith("h2 cannot be reached since ")
    assert message[1][0].endswith(": no answer")
    assert message[3] == ["h2 is back after 30 s"]


def test_a_connection_that_is_made_anew_at_once_is_not_worth_a_word() -> None:
    answers = HostAnswers()
    assert answers.update({}, {"h2": Unreachable("h2", "connection lost")}, 0.0) == []
    assert answers.seconds("h2", 5.0) == 5.0
    assert answers.update({"h2": 1}, {}, 1.0) == []
    assert answers.seconds("h2", 5.0) == 0.0


def test_a_host_whose_engine_does_not_answer_is_reported_as_that() -> None:
    answers = HostAnswers()
    dead: Callable[[], dict[str, HostError]] = lambda: {"h2": HostError("h2", "its engine is not running")}  # noqa: E731
    answers.update({}, dead(), 0.0)
    assert "h2 does not say what runs on it since" in answers.update({}, dead(), 1.0)[0].text


def moved(memory_lab: MemoryLab, *hosts: str) -> Context:
    """Have worker/0, which belongs on h2, on some hosts."""
    for host in hosts:
        memory_lab.hosts[host].puts(Observed("worker/0", host, State.EXITED, {}, run=f"run of {host}"))
    return memory_lab.context


@pytest.mark.parametrize(
    ("there", "host"), [(["h2"], "h2"), (["h1", "h2", "h3"], "h2"), (["h1", "h3"], "h1"), ([], None)]
)
def test_a_task_is_seen_where_it_belongs_or_else_where_it_is(
    memory_lab: MemoryLab, there: list[str], host: str | None
) -> None:
    context = moved(memory_lab, *there)
    container = context.observed("worker/0", observe(context))
    assert (container.host if container is not None else None) == host


def test_a_task_that_nobody_wants_is_seen_where_it_is(memory_lab: MemoryLab) -> None:
    memory_lab.hosts["h3"].puts(Observed("evaluator/0", "h3", State.RUNNING, {}))
    container = memory_lab.context.observed("evaluator/0", observe(memory_lab.context))
    assert container is not None
    assert container.host == "h3"


def recorded(memory_lab: MemoryLab, directory: Path, *others: str) -> Context:
    """Return a context whose hosts, and some others that left the inventory, are noted in its record."""
    for host in others:
        memory_lab.hosts[host] = MemoryRuntime(host)
    ways = {
        host: ConnectionSettings(host, Position("here"), host, None, None, local=False) for host in memory_lab.hosts
    }
    record = HostRegistry(directory)
    record.add({host: ways[host] for host in others})
    return replace(memory_lab.read(INVENTORY, directory), registry=record, connections=ways)


def test_a_host_is_forgotten_when_nothing_is_left_on_it_after_a_start_and_not_before(
    memory_lab: MemoryLab, tmp_path: Path
) -> None:
    context = recorded(memory_lab, tmp_path, "h8", "h9")
    memory_lab.hosts["h8"].puts(Observed("worker/7", "h8", State.EXITED, {}, exit_code=0, run="run-0"))
    assert context.registry is not None
    RUN["build"](context, None, False)
    assert set(context.registry.read()) == {"h8", "h9"}, "nothing is brought to a host by a build"
    RUN["deliver"](context, None, False)
    assert set(context.registry.read()) == {"h1", "h2", "h3", "h8", "h9"}
    RUN["start"](context, None, False)
    assert set(context.registry.read()) == {"h1", "h2", "h3"}


def test_hosts_are_observed_again_after_a_start_only_after_a_removal(memory_lab: MemoryLab, tmp_path: Path) -> None:
    context = recorded(memory_lab, tmp_path)
    RUN["build"](context, None, False)
    RUN["deliver"](context, None, False)
    seen, requests = observe(context), []

    def observed(host: MemoryRuntime) -> HostState:
        requests.append(host.host)
        return MemoryRuntime.observe(host)

    for host in memory_lab.hosts.values():
        host.observe = partial(observed, host)  # type: ignore[method-assign]
    RUN["start"](replace(context, seen=seen), None, False)
    assert memory_lab.running() == ["ps/0", "worker/0", "worker/1"]
    assert sorted(requests) == ["h1", "h2", "h3"], "by the line above, and by nobody else"


@pytest.mark.parametrize("config", [None, Path("/dev/null")])
def test_ssh_reads_the_users_configuration_unless_the_inventory_names_another(
    memory_lab: MemoryLab, config: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/trainer")
    HostRegistry(tmp_path).add(
        {"h9": ConnectionSettings("h9", Position("here"), "h9", None, None, local=False, ssh_config=config)}
    )
    ways = prepare_connections(
        memory_lab.context.inventory, resolve(memory_lab.context.inventory), tmp_path, accept_new=False
    )
    target = ways.ssh["h9"].target
    assert (target.ssh_config, target.user_config) == (config, Path("/home/trainer/.ssh/config"))
    assert target.system_config == Path("/etc/ssh/ssh_config")
    assert ("-F" in openssh_command(target)) == (config is not None), "OpenSSH reads both files itself, but not with -F"


@pytest.mark.parametrize(
    ("tasks", "hosts", "stopped"),
    [
        ("all", None, ["ps/0", "worker/0", "worker/1"]),
        ("worker", None, ["worker/0", "worker/1"]),
        ("worker", ["h1", "h3"], ["worker/1"]),
        ("worker/1", None, ["worker/1"]),
        ("chief", None, ["worker/0"]),
        ("chief", ["h3"], []),
        ("ps", ["h2"], []),
    ],
)
def test_only_what_is_named_is_stopped_and_only_on_hosts_that_may_be_changed(
    memory_lab: MemoryLab, tasks: str, hosts: list[str] | None, stopped: list[str]
) -> None:
    run_up(memory_lab.context)
    context = memory_lab.context if hosts is None else memory_lab.context.limited(hosts)
    RUN["stop"](context, Stop(tasks=tasks), False)
    assert [call.removeprefix("stop ") for call in memory_lab.calls() if call.startswith("stop")] == stopped


@pytest.mark.parametrize(
    ("inventory", "verb", "accepts"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_the_client_of_a_host_has_all_settings_of_its_connection(*, inventory: bool, verb: bool, accepts: bool) -> None:
    """An unknown host key is accepted if the inventory says so, or the option of the verb."""
    settings = ConnectionSettings(
        "h2", Position("here"), "10.0.0.2", 2022, "me", local=False, key_files=(Path("key"),), password="secret",
        become=True, timeout=7.0, proxy_jump="gate", proxy_command="nc %h %p", ssh_config=Path("config"),
        known_hosts=(Path("known"),), accept_new=inventory, identities_only=True, authentications=("publickey",),
        host_key_algorithms="ssh-ed25519", address_family="inet6",
    )  # fmt: skip
    assert ssh_target(settings, accept_new=verb) == SSHTarget(
        "h2", "10.0.0.2", 2022, "me", (Path("key"),), "secret",
        become=True, connect_timeout=7.0, proxy_jump="gate", proxy_command="nc %h %p", ssh_config=Path("config"),
        user_config=Path("~/.ssh/config").expanduser(), system_config=Path("/etc/ssh/ssh_config"),
        known_hosts=(Path("known"),), accept_new=accepts, identities_only=True, authentications=("publickey",),
        host_key_algorithms="ssh-ed25519", address_family="inet6",
    )  # fmt: skip
