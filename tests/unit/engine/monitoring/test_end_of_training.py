"""The end of a training: who is cut short by the chief's end, who is waited for, and a chief that does not end."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.support.event_files import event
from tests.support.memory_lab import MemoryLab
from tfprov.engine.monitoring.chief_progress import STANDSTILL, Standstill, TotalSteps
from tfprov.engine.monitoring.ends import wait_for_ends
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.observe import observe
from tfprov.errors import HostError
from tfprov.formats.event_file import EventProgress
from tfprov.formats.tfrecord import write_record
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import Observation

LAB = """
all: {vars: {tfprov: {cluster: lab, command: [python], restart: never, STRATEGY}}}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}}, vars: {tfprov: {tasks_per_host: 3}}}
evaluator: {hosts: {h2: }}
"""


@dataclass
class Case:
    """`ends` and `evaluates` happen after the chief's end; `seconds` are what may pass, `notes` the lines about it."""

    ends: tuple[str, ...]
    seconds: float
    notes: list[str]
    settings: str = "env: {A: b}"
    evaluates: int = 100
    saved: str = "model.ckpt-200"


WAIT = "`end: {wait: 60}` would wait for that"
TRAINS = "worker/0 is done, and worker/2 (at step 1,816) still runs"
BEHIND = f"worker/0 is done, and evaluator/0 has not evaluated model.ckpt-200: it is at step 100; {WAIT}"
SILENT = "worker/0 is done, and evaluator/0 has written no event file that says it evaluated model.ckpt-200; "
CASES = {
    "all end a moment later": Case(("worker/1", "worker/2", "evaluator/0"), 1, []),
    "one goes on": Case(("worker/1", "evaluator/0"), 1, [f"{TRAINS}; {WAIT}"]),
    "one goes on for longer than allowed": Case(
        ("worker/1", "evaluator/0"), 20, [f"{TRAINS}, for longer than `end: {{wait: 20}}` allows"], "end: {wait: 20}"
    ),
    "workers only serve": Case((), 0, [], "strategy: in_graph"),
    "an evaluator is behind": Case(("worker/1", "worker/2"), 1, [BEHIND]),
    "an evaluator writes nothing": Case(("worker/1", "worker/2"), 1, [SILENT + WAIT], evaluates=0),
    "an evaluator has not evaluated the first step": Case(
        ("worker/1", "worker/2"), 1, [SILENT.replace("200", "0") + WAIT], evaluates=0, saved="model.ckpt-0"
    ),
    "what has no step is not evaluated": Case(("worker/1", "worker/2"), 1, [], evaluates=0, saved="best"),
    "an evaluator gets there": Case(("worker/1", "worker/2"), 1, [], "end: {wait: 600}", evaluates=200),
}


def saves(lab: MemoryLab, prefix: str = "model.ckpt-200") -> None:
    """The chief has saved a checkpoint, and worker 2 says how far it is."""
    for part in ("index", "data-00000-of-00001"):
        lab.hosts["h2"].saves("worker/0", f"{prefix}.{part}", b"x")
    expected = {"task": "worker/2", "step": 1816, "steps": 900, "at": 5.0}
    lab.hosts["h2"].saves("worker/2", "progress.json", json.dumps(expected).encode())


def evaluated(lab: MemoryLab, step: int) -> None:
    """The evaluator writes what it measured, beside the chief's checkpoints and its events."""
    for name, at in (
        ("eval/events.out.tfevents.1", step),
        ("eval/results.bin", 999),
        ("train/events.out.tfevents.1", 999),
    ):
        file = io.BytesIO()
        write_record(file, event(1.0, 0))
        write_record(file, event(2.0, at, {"accuracy": 0.5}))
        lab.hosts["h2"].saves("worker/0", name, file.getvalue())


def looks(lab: MemoryLab, case: Case) -> Callable[[], Observation]:
    def look() -> Observation:
        for task in case.ends:
            lab.hosts["h2"].exits(task, 0)
        if case.evaluates:
            evaluated(lab, case.evaluates)
        return observe(lab.context)

    return look


def test_workers_that_run_on_after_the_chief_are_named_once() -> None:
    wrong = {}
    for name, case in CASES.items():
        text, in_graph = LAB.replace("STRATEGY", case.settings), "in_graph" in case.settings
        lab = MemoryLab("tf_config" if in_graph else "flags", f"{text}chief: {{hosts: {{h2: }}}}" if in_graph else text)
        if not in_graph:
            saves(lab, case.saved)
        lab.hosts["h2"].exits(lab.context.cluster.chief.name, 0)
        begin = lab.clock.now()
        wait_for_ends(lab.context, observe(lab.context), looks(lab, case))
        outcome = lab.clock.now() - begin, lab.report.notes
        if outcome != (case.seconds, case.notes):
            wrong[name] = outcome
    assert wrong == {}


def test_an_evaluator_is_not_named_where_nobody_knows_what_it_should_have_evaluated() -> None:
    class Removing(MemoryRuntime):
        """Its programs remove each file between the listing and the reading."""

        def tail(self, task: str, name: str, size: int) -> bytes:
            if not name.startswith("eval"):
                return super().tail(task, name, size)
            raise HostError("h2", f"{name} is not there")

    for state in ("nothing was saved", "the chief is gone", "files are removed"):
        lab = MemoryLab(text=LAB.replace("STRATEGY", "env: {A: b}"), hosts=[Removing("h2")])
        if state != "nothing was saved":
            saves(lab)
            evaluated(lab, 100)
        lab.hosts["h2"].exits("worker/0", 0)
        if state == "the chief is gone":
            del lab.hosts["h2"].places["worker/0"]
        for task in ("worker/1", "worker/2"):
            lab.hosts["h2"].exits(task, 0)
        wait_for_ends(lab.context, observe(lab.context), lambda lab=lab: observe(lab.context))  # type: ignore[misc]
        assert lab.report.notes == [], state


APART = """
all: {vars: {tfprov: {cluster: lab, command: [python], restart: never, "end": {wait: 600}}}}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}, h3: {ansible_host: 10.0.0.3}}}
evaluator: {hosts: {h2: }}
"""


def end_chief(lab: MemoryLab) -> None:
    for part in ("index", "data-00000-of-00001"):
        lab.hosts["h2"].saves("worker/0", f"model.ckpt-200.{part}", b"x")
    lab.hosts["h2"].exits("worker/0", 0)


def reconnect(lab: MemoryLab, host: str) -> None:
    lab.hosts[host].failure = None


@pytest.mark.parametrize(
    ("host", "lost_at", "worker_ends", "evaluation_ends"),
    [("h3", 5, 100, 5), ("h3", 10, 100, 7), ("h2", 10, 7, 100)],
    ids=["a worker's host when the chief ends", "a worker's host later", "the host of the chief and the evaluator"],
)
def test_a_lost_look_at_a_host_does_not_end_the_wait_for_its_tasks(
    host: str, lost_at: int, worker_ends: int, evaluation_ends: int
) -> None:
    lab = MemoryLab(text=APART)
    begin = lab.clock.time
    lab.clock.at(begin + 5, lambda: end_chief(lab))
    lab.clock.at(begin + lost_at, lambda: lab.cut(host))
    lab.clock.at(begin + lost_at + 1, lambda: reconnect(lab, host))
    lab.clock.at(begin + worker_ends, lambda: lab.hosts["h3"].exits("worker/1", 0))
    lab.clock.at(begin + evaluation_ends, lambda: evaluated(lab, 200))
    follow(lab.context, with_logs=False)
    assert lab.clock.time - begin == 100, "the last task was waited for, and nothing after it"
    assert lab.report.notes == []


def test_a_host_that_stays_away_costs_no_more_than_the_wait_and_is_reported() -> None:
    lab = MemoryLab(text=APART)
    begin = lab.clock.time
    lab.clock.at(begin + 5, lambda: end_chief(lab))
    lab.clock.at(begin + 5, lambda: lab.cut("h3"))
    lab.clock.at(begin + 9, lambda: evaluated(lab, 200))
    follow(lab.context, with_logs=False)
    assert lab.clock.time - begin == 605
    assert lab.report.notes[-1] == "worker/0 is done, and h3 does not answer: worker/1 may not be done"


def test_a_host_that_is_lost_after_its_tasks_have_ended_is_not_waited_for() -> None:
    lab = MemoryLab(text=APART)
    begin = lab.clock.time
    lab.clock.at(begin + 3, lambda: lab.hosts["h3"].exits("worker/1", 0))
    lab.clock.at(begin + 5, lambda: lab.cut("h3"))
    lab.clock.at(begin + 5, lambda: end_chief(lab))
    lab.clock.at(begin + 5, lambda: evaluated(lab, 200))
    follow(lab.context, with_logs=False)
    assert lab.clock.time - begin == 5


def test_a_host_that_was_never_observed_is_waited_for_unless_it_is_outside_of_the_limit() -> None:
    lab = MemoryLab(text=APART)
    end_chief(lab)
    whole = observe(lab.context)
    unseen = replace(whole, hosts={"h2": whole.hosts["h2"]})
    evaluated(lab, 200)
    begin = lab.clock.time
    wait_for_ends(lab.context.limited({"h2"}), unseen, lambda: unseen, whole.hosts)
    assert lab.clock.time == begin
    wait_for_ends(lab.context, unseen, lambda: unseen)
    assert lab.clock.time - begin == 600
    assert lab.report.notes == ["worker/0 is done, and h3 does not answer: worker/1 may not be done"]


def test_a_number_of_steps_after_which_the_training_goes_on_is_not_its_total() -> None:
    rows = [
        # the steps that are read one after another, the flag, the number of workers, the total by the last of them
        ((34, 35, 36), 35, 1, 35),
        ((34, 35, 37), 35, 1, None),
        ((100, 102), 35, 2, 35),
        ((100, 103), 35, 2, None),
        ((100, 103, 10), 35, 2, None),
        ((10, 30), 35, 1, 35),
        ((10, 100), None, 1, None),
    ]
    for steps, flag, workers, expected in rows:
        total = TotalSteps()
        assert [total.update(step, flag, workers) for step in steps][-1] == expected, (steps, flag)
    assert total.update(104, 2000, 1) == 2000, "the chief was started with another number"
    assert [total.update(step, 50, 1) for step in (60, 60, 70)] == [50, 50, None]


def test_a_chief_that_does_not_end_after_its_last_step_is_named_once() -> None:
    before, last = (EventProgress(step, 0.0, None, None) for step in (1990, 2000))
    hang = "for 30 s and has not ended: a thread or a child of its program may still run"
    rows = [
        # what it has reached, of how many steps, whether the others are done, after how many seconds: what is told
        (before, 2000, False, STANDSTILL, ""),
        (last, 2000, False, STANDSTILL - 1, ""),
        (last, 2000, False, STANDSTILL, f"is at its last step, 2,000, {hang}"),
        (before, None, False, STANDSTILL, ""),
        (before, None, True, STANDSTILL, f"makes no step, with all other workers done, {hang}"),
        (None, None, True, STANDSTILL, f"is the last of the workers that runs {hang}"),
        (None, 2000, False, STANDSTILL, ""),
    ]
    for reached, steps, others, seconds, message in rows:
        standstill = Standstill()
        actual = [standstill.update(reached, steps, others_done=others, now=100.0 + after) for after in (0, seconds)]
        assert actual == ["", message]
        if message:
            assert standstill.update(reached, steps, others_done=others, now=200.0) == ""
