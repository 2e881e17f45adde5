"""The controller's clock jumps, as a laptop's does that wakes up: nothing is decided by it."""

import ast
import re
from dataclasses import replace
from itertools import cycle

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_lab import AGAIN, MemoryLab, follow_with_steps
from tests.support.paths import ROOT
from tests.support.source_tree import nodes
from tfprov.engine.concurrency import default_forks

YEAR = 365 * 86_400.0


class Jumping(ManualClock):
    """The time of day is a year ahead, or behind, at every look; the time that passes is as ever."""

    def __init__(self) -> None:
        super().__init__()
        self._jumps = cycle((YEAR, -YEAR, 0.0))

    def wall(self) -> float:
        return self.time + next(self._jumps)


def test_a_training_is_followed_to_its_end_while_the_clock_jumps() -> None:
    message = []
    for clock in (ManualClock(), Jumping()):
        lab = MemoryLab(text=AGAIN)

        def fall(lab: MemoryLab = lab) -> None:
            lab.hosts["h2"].exits("worker/1", 137)

        def end(lab: MemoryLab = lab) -> None:
            lab.hosts["h2"].exits("worker/0", 0)

        follow_with_steps(replace(lab.context, clock=clock), fall, end)
        message.append(lab.report.notes)
    assert message[0] == message[1]
    assert "worker/1 ended with exit code 137 and was started again (1 of 2)" in message[0]


ALLOWED = {
    "cli/runs/attach.py": "from when a deadline counts, where its begin is unknown",
    "cli/runs/detach.py": "from when a deadline counts, in another process, too",
    "cli/runs/supervise.py": "how much of a deadline has passed in another process",
    "cli/runs/commands.py": "how old a run is, which `prune` is asked for by date",
    "cli/runs/group.py": "how long ago something was",
    "cli/watch.py": "how long ago something was",
    "dashboard/pages.py": "how long ago something was",
    "engine/checkpoints/forecast.py": "how long ago something was",
    "engine/run_ids.py": "the id of a run, for people, and to list the runs in order",
    "engine/concurrency.py": "the one place where it is read",
    "hosts/docker/logs.py": "the end of a log's range, which is a time of day",
    "hosts/process/task_log.py": "the end of a log's range, which is a time of day, and when a line was read",
    "history/ending.py": "when a run ended, for people",
    "history/session.py": "when a sample was taken, for people",
    "hosts/process/supervisor.py": "a host's own times, which it compares with each other",
    "hosts/program_checks.py": "how long an import took, on the host",
    "playbook/verbs.py": "how long tasks have run, for people",
    "runtime/mirror/loop.py": "a task's own time, for people",
    "runtime/progress.py": "a task's own time, for people",
}


@pytest.mark.lane("architecture")  # which has parsed each module
def test_no_decision_depends_on_the_time_of_day() -> None:
    readers = set()
    for path in (ROOT / "tfprov").rglob("*.py"):
        for node in nodes(path) if re.search(r"\.\s*(time|time_ns|wall)\s*\(", path.read_text()) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value
                name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
                if (name, node.func.attr) in (("time", "time"), ("clock", "wall"), ("time", "time_ns")):
                    readers.add(path.relative_to(ROOT / "tfprov").as_posix())
    assert readers - set(ALLOWED) == set(), "use time.monotonic(), or Clock.now()"


def test_the_default_of_forks_grows_with_the_cores_and_never_exceeds_the_hosts() -> None:
    assert [default_forks(hosts, cores=2) for hosts in (0, 1, 4, 1000)] == [1, 1, 4, 32]
    assert [default_forks(1000, cores) for cores in (1, 4, 8, 64)] == [32, 64, 128, 128]
    assert 1 <= default_forks(1000) <= 128
