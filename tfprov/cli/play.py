"""Verbs that play playbooks, and `gather`."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tfprov.cli.options import (
    change_options,
    context_of,
    exit_code_of_training,
    inventory_options,
    partial_option,
    resume_option,
)
from tfprov.cli.output import Printer
from tfprov.cli.screening import write_document
from tfprov.engine.checkpoints.forecast import forecast
from tfprov.engine.checkpoints.gather import check_target, gather
from tfprov.engine.checkpoints.model_files import bring, check_path, nothing_saved
from tfprov.engine.context import Context
from tfprov.engine.lock.lock import Lock
from tfprov.engine.observe import locate, missing, observe, plan
from tfprov.engine.programs import refuse_start
from tfprov.errors import Usage, combine_errors
from tfprov.model.plan import Plan
from tfprov.model.state import Observation
from tfprov.paths import shipped_directory
from tfprov.planning.plan_text import NOTHING, plan_lines, summary
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.run import Options, play
from tfprov.playbook.steps import clean, tell, tell_brought, tell_lost

_discard_option = click.option(
    "--discard", is_flag=True, help="Do not gather: remove checkpoints that were not brought back."
)


@click.command("run")
@_discard_option
@partial_option
@resume_option
@change_options
def run_command(partial: bool, discard: bool, **options: Any) -> None:
    """Ctrl-C takes the cluster down too, after the chief has saved."""
    with Printer() as printer:
        context = context_of(options, printer, everywhere=True)
        check_target(context)
        seen = observe(context)
        found = plan(context, seen)
        refuse_start(context, found)
        tell_plan(context, printer, found, seen)
        with exit_code_of_training():
            play_ours(context, printer, Options("run", partial=partial, discard=discard))


@click.command("down")
@_discard_option
@change_options
def down_command(discard: bool, **options: Any) -> None:
    """What holds a checkpoint that could not be gathered is stopped, but kept; so is what cannot be reached."""
    with Printer() as printer:
        context = replace(context_of(options, printer, everywhere=True), tolerant=True)
        seen = observe(context)
        if not seen.containers():
            _clean(context, seen)
            if lost := missing(context):
                raise combine_errors(lost)
            printer.note(f"{NOTHING}: {context.cluster.name} is not there")
            return
        play_ours(context, printer, Options("down", discard=discard))


def _clean(context: Context, seen: Observation) -> None:
    """Remove what was brought to hosts on which nothing runs: data that an inventory wanted before it was edited."""
    if seen.hosts:
        with Lock(context, "down", tolerant=True):
            errors = clean(context, seen)
        if errors:
            raise combine_errors(errors)


@click.command("gather")
@click.option("--path", metavar="PATH", help="Bring this file or directory of the chief instead, as it is.")
@inventory_options
def gather_command(path: str | None, **options: Any) -> None:
    """A second gather copies nothing. Nothing that was gathered is ever replaced by something older.

    PATH is for a program that saves elsewhere than in TFPROV_CHECKPOINT_DIR. A relative one counts from the chief's working
    directory; in a container it may be anywhere.
    """
    with Printer() as printer:
        if path is not None:
            check_path(path)
        context = context_of(options, printer)
        locate(context, context.cluster.chief.name)
        if path is not None:
            with Lock(context, "gather", tolerant=True):
                tell_brought(context, bring(context, path))
            return
        with Lock(context, "gather", tolerant=True):
            seen = observe(context, tolerant=True)
            gathered = gather(context, context.verify, seen)
            tell(context, gathered)
            if (chief := context.chief(seen)) is not None:
                tell_lost(context, chief, seen)
            if gathered.newest is None:
                printer.note(f"{context.cluster.chief.name} has not saved a checkpoint yet")
                if (nothing := nothing_saved(context, seen)) is not None and nothing.elsewhere:
                    printer.note(nothing.hint())


@click.command("play")
@click.argument("playbook")
@click.option("--show", is_flag=True, help="Print the playbook instead of playing it.")
@click.option("-C", "--check", is_flag=True, help="Say what each step would do, and change nothing.")
@click.option("-t", "--tags", multiple=True, help="Only plays and steps with one of these tags.")
@partial_option
@resume_option
@change_options
def play_command(playbook: str, show: bool, check: bool, tags: Sequence[str], partial: bool, **options: Any) -> None:
    """PLAYBOOK is a file, or the name of one that ships with tfprov: up, run, down."""
    path = _playbook(playbook)
    plays = read_playbook(path)
    if show:
        write_document(path.read_text(), sys.stdout)
        return
    wanted = frozenset(tag for group in tags for tag in group.split(","))
    known = frozenset(tag for one in plays for tag in one.tags.union(*(step.tags for step in one.steps)))
    if wanted and not wanted & known:
        what = f"nothing in {playbook} has the tag `{', '.join(sorted(wanted))}`"
        raise Usage(what, f"its tags are {', '.join(sorted(known))}" if known else "it has no tags at all")
    with Printer() as printer:
        context = context_of(options, printer)
        printer.align([container.task.name for container in context.wanted])
        play(context, plays, Options(f"play {playbook}", wanted, check, partial=partial))


def _playbook(name: str) -> Path:
    ours = shipped_directory("playbooks") / f"{name}.yml"
    if Path(name).is_file() or not ours.is_file():
        if not Path(name).exists():
            known = ", ".join(sorted(path.stem for path in shipped_directory("playbooks").glob("*.yml")))
            raise Usage(f"no playbook `{name}`", f"give a file, or one of {known}")
        return Path(name)
    return ours


def bring_up(context: Context, printer: Printer, found: Plan, seen: Observation, *, partial: bool) -> None:
    """Say what `up` does, and do it."""
    check_target(context)
    refuse_start(context, found)
    tell_plan(context, printer, found, seen)
    play_ours(context, printer, Options("up", partial=partial))


def tell_plan(context: Context, printer: Printer, found: Plan, seen: Observation) -> None:
    """Say what will be done, why, and what becomes of the training."""
    if not found:
        printer.note(f"{summary(context.cluster)}: {NOTHING}")
        return
    printer.note(summary(context.cluster))
    for line in plan_lines(found, context.wanted):
        printer.note(f"  {line}")
    if (consequence := forecast(context, found, seen)) is not None:
        printer.note(consequence)


def play_ours(context: Context, printer: Printer, options: Options) -> None:
    """Play the playbook that is called as the verb."""
    printer.align([container.task.name for container in context.wanted])
    play(context, read_playbook(shipped_directory("playbooks") / f"{options.verb}.yml"), options)
