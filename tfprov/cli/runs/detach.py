"""`run --detach`, and what happens to a run whose terminal is closed: its supervisor goes on with it."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tfprov.cli.options import sources_of
from tfprov.errors import TfprovError

if TYPE_CHECKING:
    from tfprov.api import Cluster
    from tfprov.engine.events import Event

detach_option = click.option(
    "-d",
    "--detach",
    is_flag=True,
    help="Return once every task serves; a supervisor on this machine follows, gathers and takes the cluster down.",
)


class RunHandover:
    """Hands a run over to a supervisor. `handle` takes the events on their way to `printed`, to know the run's id."""

    def __init__(self, options: Mapping[str, Any], printed: "Callable[[Event], None]") -> None:
        self._options, self._printed = options, printed
        self._begun = time.time()
        self.run = ""
        self._is_up = False

    def handle(self, event: "Event") -> None:
        """Pass an event on."""
        from tfprov.engine.events import Awaiting, RunStarted  # noqa: PLC0415
        from tfprov.engine.monitoring.follow import FIRST_STEP  # noqa: PLC0415

        if isinstance(event, RunStarted):
            self.run = event.run
        self._is_up = self._is_up or (isinstance(event, Awaiting) and event.what.startswith(FIRST_STEP))
        self._printed(event)

    def detach(self, cluster: "Cluster", *, discard: bool) -> str:
        """Start a supervisor for the cluster, which is up; return the id of its run."""
        launched = self._launch(cluster, self.run or cluster.status().run, discard=discard, may_start=False)
        launched.begin()
        launched.wait()
        return launched.directory.id

    def hang_up(self, cluster: "Cluster", *, discard: bool) -> bool:
        """Start a supervisor that begins when this process has ended; return whether there is one."""
        if not self.run:
            return False
        with suppress(TfprovError, OSError):
            self._launch(cluster, self.run, discard=discard, may_start=not self._is_up)
            return True
        return False

    def _launch(self, cluster: "Cluster", run: str, *, discard: bool, may_start: bool) -> "Launched":
        from dataclasses import replace  # noqa: PLC0415

        from tfprov.history.run_dir import RunDir  # noqa: PLC0415
        from tfprov.paths import runs_directory  # noqa: PLC0415
        from tfprov.supervision.launch import launch  # noqa: PLC0415
        from tfprov.supervision.order import SupervisorOrder  # noqa: PLC0415

        directory = RunDir(runs_directory(cluster.definition.home) / run)
        if directory.is_supervised:
            raise TfprovError(f"{run} has a supervisor already", "`tfprov attach` follows it")
        order = SupervisorOrder.of_options(self._options, sources_of(dict(self._options)), self._begun)
        vault = cluster.definition.vault
        secrets = vault.secrets if vault is not None else ()
        return launch(directory, replace(order, discard=discard, may_start=may_start, secrets=secrets))


if TYPE_CHECKING:
    from tfprov.supervision.launch import Launched


def detached_text(run: str) -> str:
    """Return what is printed when a run goes on without the terminal."""
    return (
        f"run {run} goes on in the background\n"
        f"  tfprov attach {run[-6:]}   follows it; Ctrl-C leaves it running\n"
        "  tfprov status          shows its tasks\n"
        "  tfprov down            gathers, and ends it"
    )
