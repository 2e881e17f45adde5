"""`plan` and `up`: what is to be done, and doing it. With nothing to do, nothing is imported that does it."""

import json
from dataclasses import replace
from typing import Any

import click

from tfprov.cli.options import change_options, context_of, json_option, partial_option, resume_option
from tfprov.cli.output import Printer
from tfprov.cli.screening import json_screened
from tfprov.engine.context import Context
from tfprov.engine.events import Quiet
from tfprov.engine.observe import observe, plan
from tfprov.model.plan import Plan
from tfprov.model.state import Observation
from tfprov.planning.plan_text import NOTHING, summary
from tfprov.planning.reconcile import incomparable_secrets


@click.command("plan")
@json_option
@resume_option
@change_options
def plan_command(as_json: bool, **options: Any) -> None:
    """Nothing is changed. A task is restarted only where a field of it differs, and the field is named."""
    printer = Printer(live=False)
    context = context_of(options, printer, everywhere=True)
    if as_json:
        context = replace(context, report=Quiet())
        click.echo(json_screened(json.dumps(plan(context, observe(context)).to_json(), indent=2)))
    elif (todo := _todo(context, printer)) is not None:
        from tfprov.cli.play import tell_plan  # noqa: PLC0415  see above

        tell_plan(context, printer, *todo)
        _tell_taken(context, printer, *todo)


@click.command("up")
@partial_option
@resume_option
@change_options
def up_command(partial: bool, **options: Any) -> None:
    """A second run changes nothing. Tasks keep running after the command has ended.

    All or nothing: what was started is taken back when not all of it comes up, unless you say `--partial`.
    """
    with Printer() as printer:
        context = context_of(options, printer, everywhere=True)
        if (todo := _todo(context, printer)) is not None:
            from tfprov.cli.play import bring_up  # noqa: PLC0415  see above

            bring_up(context, printer, *todo, partial=partial)


def _tell_taken(context: Context, printer: Printer, todo: Plan, seen: Observation) -> None:
    """Name what others have that the starts of a plan would run into; a host that cannot be asked is passed over."""
    from tfprov.engine.observe import taken  # noqa: PLC0415  see above

    for error in taken(context, todo, seen, tolerant=True):
        printer.note(f"in the way: {error}")


def _todo(context: Context, printer: Printer) -> tuple[Plan, Observation] | None:
    """Return the plan and what it was made from; None, and a line that says so, when there is nothing to do."""
    seen = observe(context)
    if unknown := incomparable_secrets(context.wanted, seen):
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        what = (
            f"{unknown[0]}{more} cannot be compared: another controller started these tasks, or this one lost its key"
        )
        printer.note(f"{what}; after a secret has changed, `down` and `up` bring it to them")
    if found := plan(context, seen):
        return found, seen
    printer.note(f"{summary(context.cluster)}: {NOTHING}")
    return None
