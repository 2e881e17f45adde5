"""Playbooks on hosts in memory, whose commands are noted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.support.memory_cluster import make_context
from tests.support.reporters import RecordingReporter
from tfprov.engine.context import Context
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.observe import observe
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import State
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play


class MemoryPlays:
    """Hosts on which the command `fail` fails, `fail h2` on h2 alone, and `interrupt` is Ctrl-C; `ran` has all commands.

    The hosts of the inventory that are not among `hosts` are made.
    """

    def __init__(self, directory: Path, inventory: str, hosts: Iterable[MemoryRuntime] = ()) -> None:
        self.hosts = {host.host: host for host in hosts}
        self.report = RecordingReporter()
        made = make_context(inventory, (), self.hosts)
        self.context: Context = replace(made, home=directory, target=directory / "lab", report=self.report)
        self.ran: list[str] = []
        self.lock: ClusterLock | None = None
        self.book = directory / "book.yml"
        for name, host in self.hosts.items():
            host.answer = lambda argv, name=name: self.answer(name, argv)  # type: ignore[misc]

    def answer(self, host: str, argv: Sequence[str]) -> tuple[int, str]:
        self.ran.append(f"{argv[0]} {host}")
        if argv[0] == "interrupt":
            raise KeyboardInterrupt
        return (1 if argv[0] == "fail" and host in (argv[1:] or [host]) else 0), ""

    def play(self, text: str, **options: object) -> None:
        self.book.write_text(text)
        play(self.context, read_playbook(self.book), PlayOptions(**options), self.lock)  # type: ignore[arg-type]

    def running(self) -> list[str]:
        """The tasks that run."""
        return sorted(
            one.task for one in observe(self.context, tolerant=True).containers() if one.state is State.RUNNING
        )
