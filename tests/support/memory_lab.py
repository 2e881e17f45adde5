"""A started cluster in memory, for tests of `wait` and of following a training."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_cluster import Runtimes, make_context, run_up
from tests.support.reporters import RecordingReporter
from tfprov.engine.context import Context
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.readiness import wait_serving
from tfprov.engine.monitoring.straggler_monitor import StragglerMonitor
from tfprov.errors import TaskFailed, Unreachable
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import Observation

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], wiring: WIRING, restart: never}}}
ps: {hosts: {h1: {ansible_host: 10.0.0.1}}, vars: {tfprov: {tasks_per_host: 2}}}
worker: {hosts: {h2: {ansible_host: 10.0.0.2}, h3: {ansible_host: 10.0.0.3}}, vars: {tfprov: {tasks_per_host: 2}}}
"""

AGAIN = INVENTORY.replace("restart: never", "restart: on-failure, max_restarts: 2")


class MemoryLab:
    """Two ps on h1, two workers on each of h2 and h3, all of them started. Looks ask `hosts` first, in their order."""

    def __init__(self, wiring: str = "flags", text: str = INVENTORY, hosts: Iterable[MemoryRuntime] = ()) -> None:
        self.hosts: Runtimes = {host.host: host for host in hosts}
        self.report = RecordingReporter()
        self.clock = ManualClock()
        made = make_context(text.replace("WIRING", wiring), (), self.hosts)
        self.context: Context = replace(made, report=self.report, clock=self.clock)
        run_up(self.context)[1].check()
        for host in self.hosts.values():
            host.now = 100.0  # what ends now has run for a while

    def fails(self, timeout: float = 2, context: Context | None = None) -> TaskFailed:
        with pytest.raises(TaskFailed) as caught:
            wait_serving(context or self.context, timeout)
        return caught.value

    def cut(self, host: str) -> None:
        self.hosts[host].failure = Unreachable(host, "no answer")


class ScriptedMonitor(StragglerMonitor):
    """Calls one of `steps` after each look at the tasks, so that the next look sees its effect."""

    def __init__(self, context: Context, *steps: Callable[[], None]) -> None:
        super().__init__(context)
        self._steps = list(steps)

    def look(self, seen: Observation) -> None:
        super().look(seen)
        if self._steps:
            self._steps.pop(0)()


def follow_with_steps(context: Context, *steps: Callable[[], None]) -> None:
    """Follow the training while `steps` happen."""
    follow(context, 60, with_logs=False, monitor=ScriptedMonitor(context, *steps))
