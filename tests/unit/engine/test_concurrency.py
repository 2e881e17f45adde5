"""The controller's clock jumps, as a laptop's does that wakes up: nothing is decided by it."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
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
    "cli/printing/json_events.py": "when an event was printed, for the program that reads it",
    "cli/runs/attach.py": "from when a deadline counts, where its begin is unknown",
    "cli/runs/detach.py": "from when a deadline counts, in another process, too",
    "cli/runs/supervise.py": "how much of a deadline has passed in another process",
    "cli/runs/commands.py": "how old a run is, which `prune` is asked for by date",
    "cli/runs/group.py": "how long ago something was",
    "cli/watch.py": "how long ago something was",
    "dashboard/pages.py": "how long ago something was",
    "engine/checkpoints/forecast.py": "how long ago something was",
    "engine/lock/holder.py": "since when a verb has the lock, for people",
    "engine/monitoring/looks.py": "since when a host is silent, for people",
    "engine/monitoring/task_progress.py": "what the clock of a host is compared with",
    "engine/run_ids.py": "the id of a run, for people, and to list the runs in order",
    "engine/concurrency.py": "the one place where it is read",
    "hosts/docker/logs.py": "the end of a log's range, which is a time of day",
    "hosts/process/task_log.py": "the end of a log's range, which is a time of day, and when a line was read",
    "history/ending.py": "when a run ended, for people",
    "history/recorder.py": "when an event came, for people",
    "history/session.py": "when a sample was taken, for people",
    "hosts/facts.py": "what the clock of a host is compared with",
    "hosts/process/supervisor.py": "a host's own times, which it compares with each other",
    "hosts/program_checks.py": "how long an import took, on the host",
    "notify/notifier.py": "when something happened, for people",
    "playbook/verbs.py": "how long tasks have run, for people",
    "runtime/mirror/loop.py": "a task's own time, for people",
    "runtime/progress.py": "a task's own time, for people",
}

READERS = frozenset({
    "time.time", "time.time_ns", "time.clock_gettime", "time.clock_gettime_ns",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    "email.utils.formatdate", "email.utils.localtime", "uuid.uuid1",
})  # fmt: skip
"""What returns the time of day, whether it is called or passed on."""
FORMATTERS = {"time.strftime": 1, "time.gmtime": 0, "time.localtime": 0, "time.ctime": 0, "time.asctime": 0}
"""What does so with at most this many arguments; more are a time of their own."""
IN_TEXT = re.compile(r"\btime\.time(?:_ns)?\b|\bdatetime\.now\b")
"""In the text of a program that hosts run."""
MAY_READ = re.compile(
    r"\bimport\s+(?:time|datetime|uuid)\b|\bfrom\s+(?:time|datetime|uuid|email)\b|\bwall\b|\btime\.time"
)
"""In the text of each file that reads it; the others need not be walked."""


def reads_time_of_day(nodes: Sequence[ast.AST]) -> bool:
    """Whether a file calls or passes on what returns the time of day, by any name that it imports this as."""
    names = dict(pair for node in nodes for pair in _imported(node))
    calls = {id(node.func): len(node.args) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and IN_TEXT.search(node.value):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "wall" and isinstance(node.ctx, ast.Load):
            return True  # of Clock
        name = _qualified(node, names)
        if name in READERS or (name in FORMATTERS and calls.get(id(node), 0) <= FORMATTERS[name]):
            return True
    return False


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, and what it stands for."""
    if isinstance(node, ast.Import):
        yield from ((one.asname, one.name) if one.asname else (one.name.partition(".")[0],) * 2 for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)


def _qualified(node: ast.AST, names: Mapping[str, str]) -> str:
    """Return the full name of what a name or `a.b` stands for; empty for what is not imported."""
    if isinstance(node, ast.Attribute):
        outer = _qualified(node.value, names)
        return f"{outer}.{node.attr}" if outer else ""
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize(
    ("program", "reads"),
    [
        ("import time\nbegan = time.time()", True),
        ("import time\ndef read(now=time.time): pass", True),
        ("import time as t\nread(t.time_ns)", True),
        ("from time import time\nread(time)", True),
        ("from time import time as now\nnow()", True),
        ("from datetime import UTC, datetime\ndatetime.now(UTC)", True),
        ("import datetime\ndatetime.datetime.utcnow()", True),
        ("from datetime import date\ndate.today()", True),
        ("import time\ntime.strftime('%H:%M')", True),
        ("import time\ntime.localtime()", True),
        ("read(context.clock.wall)", True),
        ("PROGRAM = 'import time; print(time.time())'", True),
        ("import time\ntime.monotonic()", False),
        ("import time\ntime.strftime('%H:%M', time.gmtime(seconds))", False),
        ("from datetime import datetime\ndatetime.fromisoformat(text).timestamp()", False),
        ("time = parse(text)\ntime.time()", False),
        ("self.wall = 5", False),
    ],
)
def test_every_way_to_read_the_time_of_day_is_seen(program: str, reads: bool) -> None:
    assert reads_time_of_day([*ast.walk(ast.parse(program))]) is reads
    assert not reads or MAY_READ.search(program)


@pytest.mark.lane("architecture")  # which has parsed each module
def test_no_decision_depends_on_the_time_of_day() -> None:
    paths = [path for path in (ROOT / "tfprov").rglob("*.py") if MAY_READ.search(path.read_text())]
    readers = {path.relative_to(ROOT / "tfprov").as_posix() for path in paths if reads_time_of_day(nodes(path))}
    assert readers - ALLOWED.keys() == set(), "use time.monotonic(), or Clock.now()"
    assert ALLOWED.keys() - readers == set(), "these read it no more"


def test_the_default_of_forks_grows_with_the_cores_and_never_exceeds_the_hosts() -> None:
    assert [default_forks(hosts, cores=2) for hosts in (0, 1, 4, 1000)] == [1, 1, 4, 32]
    assert [default_forks(1000, cores) for cores in (1, 4, 8, 64)] == [32, 64, 128, 128]
    assert 1 <= default_forks(1000) <= 128
