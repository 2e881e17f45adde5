"""The verb `attach`: follows a recorded run from any terminal, and gives it a supervisor if it has lost its own."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import click

from tfprov.cli.options import cluster_option, named_runs, source_options, sources_of, vault_of
from tfprov.cli.output import Printer
from tfprov.cli.printing.json_events import JsonEvents, events_option
from tfprov.errors import INTERRUPTED, TfprovError, Usage
from tfprov.history.event_json import from_json, progress_from_json
from tfprov.history.json_lines import read_lines
from tfprov.history.log_store import LogTail
from tfprov.history.reader import RunHistory, RunRecord
from tfprov.history.run_dir import RunDir
from tfprov.supervision.launch import last_words, launch
from tfprov.supervision.order import SupervisorOrder

_POLL = 0.3
"""Seconds between two readings of the record, which is written twice a second."""
_LINES = 10
"""Lines of each task that are shown first."""


class Supervisor(Protocol):
    """The part of a Launched supervisor that `attach` needs."""

    @property
    def has_refused(self) -> bool:
        """See Launched."""

    def begin(self) -> None:
        """See Launched."""

    def wait(self) -> None:
        """See Launched."""


@click.command("attach")
@click.argument("run", callback=named_runs, required=False)
@events_option
@cluster_option
@source_options
def attach_command(run: str | None, as_json: bool, cluster: str | None, **options: Any) -> int:
    """RUN is the id of a run, or the beginning of one; by default the newest run that has not ended, or else the newest.

    Prints logs and progress as `run` does, and ends with its exit code. Ctrl-C leaves the run as it is. The options of the
    inventory are only for a run whose supervisor is gone, as after a restart of this machine: those of `run` are known, but
    for passwords.
    """
    history = RunHistory()
    with JsonEvents() if as_json else Printer() as printer:
        record = history.load(run or _newest(history, cluster), cluster)
        directory, launched = record.directory, None
        if record.end is None and not directory.is_followed:
            order = _order(directory, options)
            printer.note(_taking_over(directory, order))
            launched = _supervise(directory, order, options)
        try:
            _follow(printer, record)
        except KeyboardInterrupt:
            printer.note(f"\ndetached: {directory.id} goes on; `tfprov attach` follows it again, `tfprov down` ends it")
            if as_json:
                raise  # the last line has the exit code
            return INTERRUPTED
        ended = history.load(directory.id, directory.cluster)
        code = _exit_code(ended, launched)
        printer.result(ended.summary)
        if not as_json:
            print(f"run {directory.id} has ended: {ended.summary.outcome}", file=sys.stderr if code else sys.stdout)
    return code


def _newest(history: RunHistory, cluster: str | None) -> str:
    """Return the newest run that has not ended; empty if all have, or cannot be read."""
    over = ("lost", "damaged", "newer")
    summaries = history.summaries(cluster)
    return next((one.run for one in reversed(summaries) if one.ended is None and one.outcome not in over), "")


def _order(directory: RunDir, options: dict[str, Any]) -> SupervisorOrder:
    """Return the order of a run's last supervisor; without one, that of the options.

    `run` takes its cluster down at the end of the training, and so does whoever goes on with it. `up` does not.
    """
    if (stored := SupervisorOrder.stored(directory)) is not None:
        return stored
    is_of_run = any(
        (line.get("event"), line.get("verb")) == ("verb_started", "run") for line in read_lines(directory.events)
    )
    order = SupervisorOrder.of_options(options, sources_of(options), time.time())
    return replace(order, only_running=not is_of_run)


def _taking_over(directory: RunDir, order: SupervisorOrder) -> str:
    """Return what a new supervisor does, in one line."""
    if not order.only_running:
        return f"nobody follows {directory.id} any more: a new supervisor goes on with it"
    at_its_end = "gathers, and takes the cluster down at the end of the training"
    return f"nobody follows {directory.id}, which `up` began: a new supervisor {at_its_end}"


def _supervise(
    directory: RunDir,
    order: SupervisorOrder,
    options: dict[str, Any],
    start: Callable[[RunDir, SupervisorOrder], Supervisor] = launch,
) -> Supervisor:
    """Start a new supervisor with the order of the old one, the inventory of the options, and passwords of now."""
    if options["sources"]:
        order = replace(order, sources=tuple(map(_from_here, options["sources"])))
    if options["extra"]:
        extra = (f"@{_from_here(text[1:])}" if text.startswith("@") else text for text in options["extra"])
        order = replace(order, extra=tuple(extra), left_out=False)
    if order.left_out:
        raise Usage("variables of `-e` with names of secrets were not stored", "name them again: `tfprov attach -e …`")
    launched = start(directory, replace(order, secrets=_passwords(order, options)))
    launched.begin()
    launched.wait()
    return launched


def _from_here(source: str) -> str:
    """Return the path of a file of this working directory: the supervisor works in that of `run`."""
    return str(Path(source).absolute()) if Path(source).exists() else source


def _passwords(order: SupervisorOrder, options: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """Return the vault passwords of the options of now; those of files are read by the supervisor itself."""
    if not (options["ask_vault_pass"] or options["vault_ids"] or options["vault_files"]):
        return ()
    passwords = vault_of(options).passwords
    return tuple((source.vault_id, passwords.read(source)) for source in passwords.sources())


def _follow(printer: Printer | JsonEvents, record: RunRecord, sleep: Callable[[float], None] = time.sleep) -> None:
    """Print what is recorded until the run has ended, or nobody records it any more."""
    directory, (events, progress) = record.directory, record.follow()
    if isinstance(printer, Printer):
        printer.awaits("waiting for output")  # `attach` reads the record, and asks no host
    tail = LogTail(directory.logs, 0 if record.end is not None else _LINES)
    printer.align([*record.logged_tasks, *(str(task.get("task")) for task in record.description.get("tasks") or ())])
    events.new()
    for line in progress.new()[-1:]:
        if record.end is None and (event := progress_from_json(line)) is not None:
            printer.handle(event)
    for task, lines in tail.begin.items():
        for known in lines:
            printer.log(task, known.text)
    idle = False
    while True:
        ended = directory.end_file.exists() and not directory.is_followed
        for line in events.new():
            if (one := from_json(line)) is not None:
                printer.handle(one)
        for task, logged in tail.new():
            printer.log(task, logged.text)
        for line in progress.new():
            if (event := progress_from_json(line)) is not None:
                printer.handle(event)
        unfollowed = not directory.is_followed
        if ended or (unfollowed and idle):
            return
        idle = unfollowed
        sleep(_POLL)


def _exit_code(record: RunRecord, launched: Supervisor | None = None) -> int:
    """Return the exit code of a run that has ended; print its error. Raises TfprovError for one that has not.

    It is Usage, with the words of the supervisor that was `launched`, if that has refused to go on.
    """
    directory, end = record.directory, record.end
    if end is None:
        words = last_words(directory)
        if launched is not None and launched.has_refused:
            raise Usage(words.removeprefix("error: "))
        raise TfprovError(
            f"the process that followed {directory.id} has ended: {words}", "`tfprov attach` goes on with it"
        )
    if end.get("error"):
        click.echo(f"error: {end['error']}", err=True)
    return (record.summary.exit_code or 0) or int(record.summary.outcome not in ("succeeded", "stopped"))
