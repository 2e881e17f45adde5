"""`run --detach`, and what happens to a run whose terminal is closed: its supervisor goes on with it."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tfprov.cli.options import sources_of
from tfprov.errors import HUNG_UP, HangUp, TfprovError

if TYPE_CHECKING:
    from tfprov.api import Cluster
    from tfprov.engine.events import Event
    from tfprov.history.run_dir import RunDir
    from tfprov.supervision.launch import Launched
    from tfprov.supervision.order import SupervisorOrder

detach_option = click.option(
    "-d",
    "--detach",
    is_flag=True,
    help="Return once every task serves; a supervisor on this machine follows, gathers and takes the cluster down.",
)


class RunHandover:
    """Hands a run over to a supervisor, with the `options` of the command line.

    `handle` takes the events on their way to `printed`, to know the run's id. `start` starts the supervisor; for tests.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        printed: "Callable[[Event], None]",
        start: "Callable[[RunDir, SupervisorOrder], Launched] | None" = None,
    ) -> None:
        self._options, self._printed, self._start = options, printed, start
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

    def detach(self, cluster: "Cluster") -> str:
        """Start a supervisor for the cluster, which is up; return the id of its run."""
        launched = self._launch(cluster, self.run or cluster.status().run)
        launched.begin()
        launched.wait()
        return launched.directory.id

    def hang_up(self, cluster: "Cluster", left: HangUp) -> bool | None:
        """Start a supervisor that begins when this process has ended; return whether there is one.

        Return None where nothing was begun. A cluster that was being taken down is not started again.
        """
        from tfprov.playbook.run import LeftRun  # noqa: PLC0415

        recorded, drains = (left.run, left.drains) if isinstance(left, LeftRun) else ("", False)
        if not self.run and not (recorded and _directory(cluster, recorded).path.is_dir()):
            return None
        with suppress(TfprovError, OSError):
            may_start = not (drains or self._is_up)
            self._launch(cluster, self.run or recorded, may_start=may_start, drain=drains)
            return True
        return False

    def _launch(self, cluster: "Cluster", run: str, *, may_start: bool = False, drain: bool = False) -> "Launched":
        from dataclasses import replace  # noqa: PLC0415

        from tfprov.supervision.launch import launch  # noqa: PLC0415
        from tfprov.supervision.order import SupervisorOrder  # noqa: PLC0415

        directory = _directory(cluster, run)
        if directory.is_supervised:
            raise TfprovError(f"{run} has a supervisor already", "`tfprov attach` follows it")
        order = SupervisorOrder.of_options(self._options, sources_of(dict(self._options)), self._begun)
        vault = cluster.definition.vault
        secrets = vault.secrets if vault is not None else ()
        return (self._start or launch)(directory, replace(order, may_start=may_start, drain=drain, secrets=secrets))


def _directory(cluster: "Cluster", run: str) -> "RunDir":
    from tfprov.history.run_dir import RunDir  # noqa: PLC0415
    from tfprov.paths import runs_directory  # noqa: PLC0415

    return RunDir(runs_directory(cluster.definition.home) / run)


def detached_text(run: str) -> str:
    """Return what is printed when a run goes on without the terminal."""
    return (
        f"run {run} goes on in the background\n"
        f"  tfprov attach {run[-6:]}   follows it; Ctrl-C leaves it running\n"
        "  tfprov status          shows its tasks\n"
        "  tfprov down            gathers, and ends it"
    )


def nothing_begun() -> TfprovError:
    """Return the error for a terminal that was closed before `run` had begun anything."""
    error = TfprovError("the terminal was closed before anything was started", "run it again")
    error.exit_code = HUNG_UP
    return error
