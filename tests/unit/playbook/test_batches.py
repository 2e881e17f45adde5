"""`serial:` and `max_fail_percentage:`: which hosts play together, and when failures stop a play."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.interrupts import press_ctrl_c
from tests.support.memory_cluster import make_context
from tests.support.memory_plays import MemoryPlays
from tfprov.engine.observe import observe
from tfprov.errors import HostError, InvalidInput, TaskFailed, TfprovError, Unreachable
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.playbook import BatchSize
from tfprov.model.state import HostState
from tfprov.model.yaml_node import Node
from tfprov.playbook.batches import is_exceeded, joined, read_percentage, read_serial, split
from tfprov.yamltext.load import parse

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], start_timeout: 2, restart: never}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: , h3: , h4: , h5: }}
"""
UP = "[start, wait: {for: serving}]"


@pytest.fixture
def plays(tmp_path: Path) -> MemoryPlays:
    return MemoryPlays(tmp_path, INVENTORY)


def fails(plays: MemoryPlays, text: str, **options: object) -> TfprovError:
    with pytest.raises(TfprovError) as caught:
        plays.play(text, **options)
    return caught.value


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], [10]),
        ([BatchSize(3)], [3, 3, 3, 1]),
        ([BatchSize(30, percent=True)], [3, 3, 3, 1]),
        ([BatchSize(1), BatchSize(5), BatchSize(10)], [1, 5, 4]),
        ([BatchSize(1), BatchSize(4)], [1, 4, 4, 1]),
        ([BatchSize(1, percent=True)], [1] * 10),
        ([BatchSize(25, percent=True)], [2] * 5),
        ([BatchSize(99, percent=True)], [9, 1]),
        ([BatchSize(100, percent=True)], [10]),
        ([BatchSize(1000)], [10]),
    ],
)
def test_hosts_are_split_as_ansible_splits_them(sizes: list[BatchSize], expected: list[int]) -> None:
    hosts = [f"h{n}" for n in range(10)]
    batches = list(split(hosts, sizes))
    assert [len(batch) for batch in batches] == expected
    assert [host for batch in batches for host in batch] == hosts
    assert list(split([], sizes)) == []


def outcome(read: Callable[[Node], object], text: str) -> object:
    """Return what is read of a YAML text, or why it is refused."""
    try:
        return read(parse(text, "book.yml"))
    except InvalidInput as error:
        return str(error)


NO_SIZE = 'is no batch size; write a number from 1, a share from "1%" to "100%", or a list of them'
NO_SHARE = "is no percentage; write a number from 0 to 100"


def test_a_batch_size_is_a_number_or_a_share_within_its_limits() -> None:
    rows: Mapping[str, object] = {
        "1": (BatchSize(1),), "999999999": (BatchSize(999999999),), "1%": (BatchSize(1, percent=True),),
        "100%": (BatchSize(100, percent=True),), "'2'": (BatchSize(2),),
        "[1, 50%]": (BatchSize(1), BatchSize(50, percent=True)),
        "[]": f"book.yml:1:1: error: `serial` is an empty list; {NO_SIZE.partition('; ')[2]}",
    }  # fmt: skip
    wrong = ("0", "0%", "101%", "1000000000", "-1", "1.0", "true", "null", "1 %", "a")
    expected = {**rows, **{text: f"book.yml:1:1: error: `serial: {text}` {NO_SIZE}" for text in wrong}}
    assert {text: outcome(lambda node: read_serial(node, lambda _: False), text) for text in expected} == expected


def test_a_share_that_may_fail_is_from_0_to_100() -> None:
    rows: Mapping[str, object] = {"0": 0.0, "100": 100.0, "100%": 100.0, "'33.5'": 33.5, "12.5": 12.5, "0.5%": 0.5}
    wrong = ("-1", "101", "100.1", "101%", "true", "a", "1000%", "null")
    refused = {text: f"book.yml:1:1: error: `max_fail_percentage: {text}` {NO_SHARE}" for text in wrong}
    assert {text: outcome(read_percentage, text) for text in (*rows, *refused)} == {**rows, **refused}


def test_a_host_that_a_task_leaves_is_played_with_the_host_that_gets_it() -> None:
    batches = [("h1", "h2"), ("h3", "h4"), ("h5",)]
    assert joined(batches, {}) == batches
    assert joined(batches, {"h1": ["h3"], "h3": ["h5"]}) == [("h1", "h2", "h3", "h5"), ("h4",)]
    assert joined(batches, {"h5": ["h1"], "h2": ["h1", "gone"]}) == batches


def start_and_move(plays: MemoryPlays) -> None:
    """Start all tasks; then worker/0 and worker/1 change their hosts, and there is one host more."""
    plays.play(f"- {{hosts: all, tasks: {UP}}}")
    moved = INVENTORY.replace("{h2: , h3: , h4: , h5: }", "{h3: , h2: , h4: , h5: , h6: }")
    made = make_context(moved, (), plays.hosts)
    plays.context = replace(made, home=plays.context.home, target=plays.context.target, report=plays.report)


def test_a_limit_starts_no_task_that_still_runs_on_a_host_that_is_left_out(plays: MemoryPlays) -> None:
    start_and_move(plays)
    before = plays.running()
    whole = plays.context
    plays.context = whole.limited(["h1", "h3"])
    error = fails(plays, "- {hosts: all, tasks: [start]}")
    assert str(error).splitlines()[0] == (
        "h3: worker/0 still runs on h2, which is left out here, and would run twice; "
        "let the command change h2, too, or run it without --limit"
    )
    assert plays.running() == before
    plays.context = whole.limited(["h1", "h2", "h3"])
    plays.play(f"- {{hosts: all, tasks: {UP}}}")
    assert plays.running() == before


def test_a_task_that_moves_never_runs_twice(plays: MemoryPlays) -> None:
    start_and_move(plays)
    plays.hosts["h2"].silent.add("worker/1")
    fails(plays, f"- {{hosts: worker, serial: 1, tasks: {UP}}}")
    assert plays.report.notes[-1] == "the play stops before 3 hosts: h[4:6]"
    assert plays.running() == ["ps/0", "worker/2", "worker/3"]


def test_a_share_must_be_exceeded_not_reached_and_all_hosts_are_always_too_many() -> None:
    assert not is_exceeded(1, 4, 25)
    assert is_exceeded(2, 4, 25)
    assert is_exceeded(1, 4, 24.9)
    assert is_exceeded(1, 4, 0)
    assert not is_exceeded(3, 4, 100)
    assert is_exceeded(4, 4, 100)


def test_a_batch_plays_all_steps_before_the_next_begins(plays: MemoryPlays) -> None:
    plays.play("- {hosts: worker, serial: [1, '50%'], tasks: [command: one, command: two]}")
    assert plays.ran == [
        "one h2", "two h2", "one h3", "one h4", "two h3", "two h4", "one h5", "two h5"
    ]  # fmt: skip
    assert plays.report.notes == ["batch 1 of 3: h2", "batch 2 of 3: h[3:4]", "batch 3 of 3: h5"]


class CountedRuntime(MemoryRuntime):
    """Counts how often it is asked what runs on it."""

    asked = 0

    def observe(self) -> HostState:
        self.asked += 1
        return super().observe()


@pytest.mark.parametrize("tasks", [UP, "[command: one, command: two, deliver]"])
def test_a_batch_asks_its_own_hosts_and_that_of_the_chief(tmp_path: Path, tasks: str) -> None:
    hosts = [CountedRuntime(name) for name in ("h1", *(f"w{number}" for number in range(1, 21)))]
    plays = MemoryPlays(tmp_path, INVENTORY.replace("h2: , h3: , h4: , h5: ", "'w[1:20]': "), hosts)
    plays.play(f"- {{hosts: all, serial: 1, tasks: {tasks}}}")
    chief = plays.context.cluster.chief.host
    assert max(host.asked for host in hosts if host.host != chief) < 8  # 21 batches that ask all hosts ask more than 40
    assert next(host.asked for host in hosts if host.host == chief) > 20
    assert len(plays.running()) == (21 if tasks == UP else 0)


def test_later_batches_know_what_earlier_ones_have_started(plays: MemoryPlays) -> None:
    plays.play(f"- {{hosts: all, serial: 1, tasks: {UP}}}")
    assert len({one.run for one in observe(plays.context).containers()}) == 1
    plays.report.notes.clear()
    plays.play(f"- {{hosts: all, serial: 1, tasks: {UP}}}")
    assert all(host.calls == [f"start {next(iter(host.places))}"] for host in plays.hosts.values())


def test_a_play_without_a_chosen_step_has_no_batches(plays: MemoryPlays) -> None:
    text = "- {hosts: worker, serial: 1, tasks: [command: one]}\n- {hosts: h1, tags: [b], tasks: [command: two]}"
    plays.play(text, tags=frozenset({"b"}))
    assert (plays.ran, plays.report.notes) == (["two h1"], [])


def test_a_failure_stops_the_play_before_the_later_batches(plays: MemoryPlays) -> None:
    error = fails(plays, "- {hosts: worker, serial: 2, tasks: [command: fail h3, command: two]}")
    assert str(error).startswith("h3: `fail` ended with exit code 1")
    assert plays.ran == ["fail h2", "fail h3"]
    assert plays.report.notes[-1] == "the play stops before 2 hosts: h[4:5]"


def test_a_start_is_taken_back_in_its_batch_alone(plays: MemoryPlays) -> None:
    plays.hosts["h5"].refuses["start worker/3"] = "its disk is full"
    error = fails(plays, f"- {{hosts: all, serial: [3, 2], tasks: {UP}}}")
    assert str(error) == "h5: its disk is full"
    assert plays.running() == ["ps/0", "worker/0", "worker/1"]
    assert "nothing was left half-started: stopped worker/2" in plays.report.notes


def test_a_batch_that_does_not_serve_stops_the_play(plays: MemoryPlays) -> None:
    plays.hosts["h2"].silent.add("worker/0")
    error = fails(plays, f"- {{hosts: all, serial: 2, tasks: {UP}}}")
    assert isinstance(error, TaskFailed)
    assert plays.running() == []
    assert all(not plays.hosts[name].calls for name in ("h3", "h4", "h5"))


def test_hosts_that_fail_are_left_out_while_they_are_few(plays: MemoryPlays) -> None:
    error = fails(
        plays,
        "- {hosts: worker, serial: 2, max_fail_percentage: 50, tasks: [command: fail h3, command: two]}\n"
        "- {hosts: all, tasks: [command: last]}\n- {hosts: ps:h3, always: true, tasks: [command: clean]}",
    )
    assert isinstance(error, HostError)
    assert error.host == "h3"
    assert plays.ran == [
        "fail h2", "fail h3", "two h2", "fail h4", "fail h5", "two h4", "two h5",
        "last h1", "last h2", "last h4", "last h5", "clean h1", "clean h3",
    ]  # fmt: skip


@pytest.mark.parametrize("percentage", ["49.5", "0", "'49%'"])
def test_more_failures_than_allowed_stop_the_play_after_the_step(plays: MemoryPlays, percentage: str) -> None:
    book = f"- {{hosts: worker, serial: 2, max_fail_percentage: {percentage}, tasks: [command: fail h2, command: two]}}"
    fails(plays, book)
    assert plays.ran == ["fail h2", "fail h3"]
    allowed = percentage.strip("'%")
    assert f"1 of 2 hosts failed, and max_fail_percentage is {allowed}: h2" in plays.report.notes


def test_each_batch_is_counted_by_itself_and_a_batch_that_fails_whole_stops_the_play(plays: MemoryPlays) -> None:
    fails(plays, "- {hosts: worker, serial: 2, max_fail_percentage: 50, tasks: [command: fail h2 h4 h5]}")
    assert plays.ran == ["fail h2", "fail h3", "fail h4", "fail h5"]
    plays.ran.clear()
    fails(plays, "- {hosts: worker, serial: 1, max_fail_percentage: 100, tasks: [command: fail h2]}")
    assert plays.ran == ["fail h2"]


def test_the_failures_of_several_steps_of_a_batch_add_up(plays: MemoryPlays) -> None:
    fails(
        plays, "- {hosts: worker, max_fail_percentage: 25, tasks: [command: fail h2, command: fail h3, command: three]}"
    )
    assert plays.ran == ["fail h2", "fail h3", "fail h4", "fail h5", "fail h3", "fail h4", "fail h5"]


def test_tasks_that_do_not_start_or_serve_are_taken_back_and_the_others_stay(plays: MemoryPlays) -> None:
    plays.hosts["h3"].refuses["start worker/1"] = "its disk is full"
    plays.hosts["h4"].silent.add("worker/2")
    error = fails(plays, f"- {{hosts: all, max_fail_percentage: 40, tasks: {UP}}}")
    assert "h3: its disk is full" in str(error)
    assert "worker/2: does not serve" in str(error)
    assert plays.running() == ["ps/0", "worker/0", "worker/3"]


def test_a_command_that_fails_takes_back_what_its_batch_or_its_host_has_started(plays: MemoryPlays) -> None:
    fails(plays, "- {hosts: worker, serial: 2, tasks: [start, wait: {for: serving}, command: fail h5]}")
    assert plays.running() == ["worker/0", "worker/1"]
    fails(plays, "- {hosts: worker, serial: 2, max_fail_percentage: 50, tasks: [start, command: fail h4 h2]}")
    assert plays.running() == ["worker/0", "worker/1", "worker/3"], "h2 was started before this play"


def test_what_has_trained_is_not_taken_back(plays: MemoryPlays) -> None:
    def ends(_argv: Sequence[str]) -> tuple[int, str]:
        plays.hosts["h2"].exits("worker/0", 0)
        return 0, ""

    plays.hosts["h2"].answer = ends
    steps = "[start, command: train, wait: {for: done}, command: fail h3, stop: {tasks: ps}]"
    plays.hosts["h1"].refuses["stop ps/0"] = "it hangs"
    fails(plays, f"- {{hosts: all, max_fail_percentage: 50, tasks: {steps}}}")
    assert plays.running() == ["ps/0", "worker/1", "worker/2", "worker/3"]
    assert "worker/0" in plays.hosts["h2"].places


def test_a_stop_that_fails_takes_nothing_back(plays: MemoryPlays) -> None:
    plays.hosts["h3"].refuses["stop worker/1"] = "it hangs"
    fails(plays, "- {hosts: worker, serial: 2, tasks: [start, stop: {tasks: worker/1}]}")
    assert plays.running() == ["worker/0", "worker/1"]


def test_a_command_that_fails_in_a_play_without_batches_takes_nothing_back(plays: MemoryPlays) -> None:
    fails(plays, "- {hosts: worker, tasks: [start, command: fail h2]}")
    assert plays.running() == ["worker/0", "worker/1", "worker/2", "worker/3"]


def test_too_many_that_do_not_serve_take_the_whole_batch_back(plays: MemoryPlays) -> None:
    plays.hosts["h3"].silent.add("worker/1")
    plays.hosts["h4"].silent.add("worker/2")
    fails(plays, f"- {{hosts: all, max_fail_percentage: 20, tasks: {UP}}}")
    assert plays.running() == []


def test_hosts_out_of_reach_count_as_failed(plays: MemoryPlays) -> None:
    plays.hosts["h5"].failure = Unreachable("h5", "no answer")
    error = fails(plays, "- {hosts: all, max_fail_percentage: 20, tasks: [start, wait, command: one]}")
    assert isinstance(error, Unreachable)
    assert plays.running() == ["ps/0", "worker/0", "worker/1", "worker/2"]
    assert plays.ran == ["one h1", "one h2", "one h3", "one h4"]
    plays.hosts["h4"].silent.add("worker/2")
    plays.hosts["h4"].exits("worker/2", 1)
    fails(plays, f"- {{hosts: all, max_fail_percentage: 20, tasks: {UP}}}")
    assert plays.running() == ["ps/0", "worker/0", "worker/1"]


def test_a_command_runs_on_the_others_when_the_host_of_the_chief_is_out_of_reach(plays: MemoryPlays) -> None:
    plays.hosts["h2"].failure = Unreachable("h2", "no answer")
    for _ in range(2):
        error = fails(plays, "- {hosts: worker, max_fail_percentage: 25, tasks: [command: one, command: fail h9]}")
        assert str(error) == "h2: no answer"
    assert plays.ran == ["one h3", "one h4", "one h5", "fail h3", "fail h4", "fail h5"] * 2


def test_a_host_that_answers_again_before_its_batch_is_there_for_the_plays_to_the_end(plays: MemoryPlays) -> None:
    plays.hosts["h5"].failure = Unreachable("h5", "no answer")

    def answer(argv: Sequence[str]) -> tuple[int, str]:
        plays.hosts["h5"].failure = None
        return plays.answer("h2", argv)

    plays.hosts["h2"].answer = answer
    plays.play(
        "- {hosts: worker, serial: 2, tasks: [start, command: one]}\n"
        "- {hosts: all, always: true, tasks: [stop: {remove: true}]}",
        discard=True,
    )
    assert plays.running() == []


def test_an_error_that_is_about_no_host_stops_the_play_however_many_may_fail(tmp_path: Path) -> None:
    class Odd(MemoryRuntime):
        """The disk of the controller is full when it starts its first task."""

        def start(self, *arguments: object) -> None:
            if not self.calls:
                self.calls.append("start")
                raise TfprovError("this machine's disk is full", "make room")
            super().start(*arguments)  # type: ignore[arg-type]

    plays = MemoryPlays(tmp_path, INVENTORY, [Odd("h3")])
    error = fails(plays, "- {hosts: worker, serial: 2, max_fail_percentage: 100, tasks: [start]}")
    assert str(error) == "this machine's disk is full; make room"
    assert not plays.hosts["h4"].calls


def test_ctrl_c_stops_all_batches(plays: MemoryPlays) -> None:
    with pytest.raises(KeyboardInterrupt):
        plays.play("- {hosts: worker, serial: 1, max_fail_percentage: 100, tasks: [command: interrupt]}")
    assert plays.ran == ["interrupt h2"]


def test_ctrl_c_while_a_failed_host_is_taken_back_stops_the_play(
    plays: MemoryPlays, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_task: str, _grace: float) -> None:
        press_ctrl_c(plays.report)

    plays.hosts["h3"].silent.add("worker/1")
    monkeypatch.setattr(plays.hosts["h3"], "stop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        plays.play(f"- {{hosts: worker, serial: 2, max_fail_percentage: 50, tasks: {UP}}}")
    assert plays.report.notes.count("interrupted: Ctrl-C again leaves at once") == 1
    assert all(not plays.hosts[name].calls for name in ("h4", "h5"))


def test_a_check_shows_the_batches_and_changes_nothing(plays: MemoryPlays) -> None:
    plays.play("- {hosts: worker, serial: '50%', tasks: [start]}", check=True)
    assert [note.split()[0] for note in plays.report.notes] == ["batch", "start:", "start:"] * 2
    assert all(host.calls == [] for host in plays.hosts.values())


def test_a_check_names_what_would_be_built_once_for_all_batches(tmp_path: Path) -> None:
    plays = MemoryPlays(tmp_path, INVENTORY.replace("command:", "code: src, command:"))
    plays.play("- {hosts: worker, serial: '50%', tasks: [build, deliver]}", check=True)
    notes = [note for note in plays.report.notes if note.startswith("build:")]
    assert len(notes) == 2
    assert notes[0].split()[:4] == ["build:", "would", "build", "code"]
    assert notes[1] == "build: nothing to do"
    assert sum(note.startswith("deliver: would deliver") for note in plays.report.notes) == 4


def test_an_always_play_goes_through_all_its_batches(plays: MemoryPlays) -> None:
    fails(plays, "- {hosts: worker, serial: 3, always: true, tasks: [command: fail h2, command: two]}")
    assert plays.ran == ["fail h2", "two h2", "two h3", "two h4", "fail h5", "two h5"]
