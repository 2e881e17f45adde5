"""A training of which no task makes a step: by the steps that tasks write, or by their processor time."""

import json
from collections.abc import Mapping
from dataclasses import replace

from tests.support.memory_lab import MemoryLab
from tfprov.engine.events import Incident
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.straggler_monitor import IDLE, STALLED, Stall, StragglerMonitor
from tfprov.engine.observe import observe
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.usage import Usage
from tfprov.model.incident import IncidentKind
from tfprov.model.state import HostState, Observation

HOST_OF = {"worker/0": "h2", "worker/1": "h2", "worker/2": "h3", "worker/3": "h3"}
STACKS = "stacks are in the logs of worker/0, worker/1, worker/2 and 1 more"
BY_STEPS = f"the training has made no step for 600 s; {STACKS}"
BY_CPU = f"the training has made no step for 600 s, in which no task has used its CPU; {STACKS}"


def stalls(*readings: tuple[float, object], tasks: Mapping[float, str] | None = None) -> list[tuple[float, float]]:
    """Return when a stall was reported, and for how long there was no step by then."""
    stall, names = Stall(), tasks or {}
    reported = [(at, stall.update(names.get(at, "as before"), steps, at)) for at, steps in readings]
    return [(at, idle) for at, idle in reported if idle]


def test_a_stall_is_reported_once_and_again_after_a_step() -> None:
    assert stalls((0, 1), (10, 2), (609.9, 2), (610, 2), (611, 2), (5000, 2)) == [(610, 600)]
    later = 3 * 700
    assert stalls((0, 1), (600, 1), (700, 2), (699 + later, 2), (700 + later, 2), (701 + later, 2)) == [
        (600, 600),
        (700 + later, later),
    ], "this training makes breaks of 700 s"


def test_a_training_may_take_three_times_its_longest_break() -> None:
    assert stalls((0, 1), (500, 2), (510, 3), (2009, 3), (2010, 3)) == [(2010, 1500)]


def test_after_a_restart_the_time_begins_anew_and_is_no_break() -> None:
    restarted = {500.0: "restarted", 1099.0: "restarted", 1100.0: "restarted"}
    assert stalls((0, 1), (500, 1), (1099, 1), (1100, 1), tasks=restarted) == [(1100, 600)]


def with_paused(seen: Observation, task: str) -> Observation:
    def of(state: HostState) -> HostState:
        return replace(
            state,
            containers=tuple(
                replace(one, unpause="docker unpause x" if one.task == task else "") for one in state.containers
            ),
        )

    return replace(seen, hosts={host: of(state) for host, state in seen.hosts.items()})


class Readings:
    """Looks at the tasks of a lab every ten seconds, as a verb that follows its training."""

    def __init__(self, lab: MemoryLab) -> None:
        self.lab, self.monitor = lab, StragglerMonitor(lab.context)

    def look(self, seconds: float = STALLED + 100, paused: str = "") -> None:
        for _ in range(int(seconds / 10)):
            self.lab.clock.sleep(10)
            seen = with_paused(observe(self.lab.context, tolerant=True), paused)
            self.monitor.look(seen)
            self.monitor.report_stall(seen, None)

    def steps(self, number: int) -> None:
        for task, host in HOST_OF.items():
            written = {"task": task, "step": number, "steps": number, "rate": 10.0, "at": self.lab.clock.time}
            self.lab.hosts[host].saves(task, "progress.json", json.dumps(written).encode())

    def uses(self, cpu: float | None, **others: float) -> None:
        for task, host in HOST_OF.items():
            if host in self.lab.hosts:
                self.lab.hosts[host].used[task] = Usage(cpu=others.get(task.replace("/", "_"), cpu))


def stalled(lab: MemoryLab) -> list[Incident]:
    return [one for one in lab.report.events if isinstance(one, Incident) and one.kind is IncidentKind.STALLED]


def test_tasks_that_wrote_steps_and_make_none_write_their_stacks_whatever_cpu_they_use() -> None:
    lab = MemoryLab()
    readings = Readings(lab)
    readings.uses(1.5)
    for number in range(1, 20):
        readings.steps(number)
        readings.look(10)
    assert stalled(lab) == []
    readings.look()
    assert stalled(lab) == [Incident(BY_STEPS, IncidentKind.STALLED, "worker/0", "h2")]
    signals = [call for host in lab.hosts.values() for call in host.calls if call.startswith("signal")]
    assert sorted(signals) == [f"signal {task} SIGUSR1" for task in HOST_OF], "the ps has none"
    readings.steps(20)
    readings.look(10)
    assert len(stalled(lab)) == 1


def test_a_stall_whose_stacks_are_taken_after_the_end_of_the_training_is_not_reported() -> None:
    class Slow(MemoryRuntime):
        def signal(self, task: str, name: str) -> bool:
            readings.monitor.close()  # the training ends before the answer
            return super().signal(task, name)

    lab = MemoryLab(hosts=[Slow("h2")])
    readings = Readings(lab)
    readings.uses(0.0)
    readings.look()
    assert "signal worker/0 SIGUSR1" in lab.hosts["h2"].calls
    assert stalled(lab) == []


def test_before_any_step_it_is_the_cpu_that_counts() -> None:
    lab = MemoryLab()
    readings = Readings(lab)
    readings.uses(IDLE)
    readings.look()
    readings.uses(0.0, worker_3=0.5)
    readings.look()
    readings.uses(None)
    readings.look()
    for host in lab.hosts.values():
        host.used.clear()
    readings.look()
    assert stalled(lab) == [], "one of them computes, or it is not known"
    readings.uses(IDLE / 2)
    readings.look(660)
    assert [one.text for one in stalled(lab)] == [BY_CPU]


def test_processor_time_is_read_once_a_minute_and_of_hosts_with_tasks_that_train() -> None:
    class Counting(MemoryRuntime):
        reads = 0

        def usage(self) -> Mapping[str, Usage]:
            self.reads += 1
            return super().usage()

    hosts = [Counting(name) for name in ("h1", "h2", "h3")]
    lab = MemoryLab(hosts=hosts)
    readings = Readings(lab)
    counts = []
    for _ in range(13):
        readings.look(10)
        counts.append([host.reads for host in hosts])
    assert counts == [[0, number, number] for number in (1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3)]
    assert not readings.monitor.reads("worker/0")
    readings.steps(1)
    readings.look(600)
    assert [host.reads for host in hosts] == [0, 3, 3], "who writes steps needs no other measure"
    assert readings.monitor.reads("worker/0")


def test_steps_of_zero_are_none_and_a_paused_task_is_reported_elsewhere() -> None:
    lab = MemoryLab()
    readings = Readings(lab)
    readings.steps(0)
    readings.uses(1.0)
    readings.look()
    assert stalled(lab) == []
    readings.uses(0.0)
    readings.look(650)
    assert len(stalled(lab)) == 1
    paused = MemoryLab()
    readings = Readings(paused)
    readings.uses(0.0)
    readings.look(paused="worker/0")
    assert stalled(paused) == []


def test_one_task_alone_and_what_is_known_of_its_stacks() -> None:
    for refuses, handled in ((False, set[str]()), (True, {"SIGUSR1"})):
        lab = MemoryLab(
            text="all: {vars: {tfprov: {cluster: a, command: [x], strategy: single}}}\nworker: {hosts: {h2: }}"
        )
        lab.hosts["h2"].handled = handled
        if refuses:
            lab.hosts["h2"].refuses["signal worker/0 SIGUSR1"] = "no"
        readings = Readings(lab)
        readings.uses(0.0)
        readings.look(700)
        (one,) = stalled(lab)
        text, _, remark = one.text.partition("; ")
        assert text == "worker/0 has made no step for 600 s, in which no task has used its CPU"
        assert remark == "no program handles SIGUSR1, so that `tfprov logs` has no stacks"


def test_a_followed_training_that_stalls_is_reported_and_one_that_does_not_end_has_its_own_line() -> None:
    lab = MemoryLab()
    for host in lab.hosts.values():
        host.used = {task: Usage(cpu=0.0) for task in HOST_OF}
    lab.clock.at(900, lambda: lab.hosts["h2"].exits("worker/0", 0))
    follow(lab.context, with_logs=False)
    assert [one.text for one in stalled(lab)] == [BY_CPU]
    alone = MemoryLab()
    for host in alone.hosts.values():
        host.used = {task: Usage(cpu=0.0) for task in HOST_OF}
    for task in ("worker/1", "worker/2", "worker/3"):
        alone.hosts[HOST_OF[task]].exits(task, 0)
    alone.clock.at(900, lambda: alone.hosts["h2"].exits("worker/0", 0))
    follow(alone.context, with_logs=False)
    assert stalled(alone) == []
    assert "worker/0 is the last of the workers that runs for 30 s" in alone.report.notes[-1]
