"""Options that several verbs share, with Ansible's letters, and the way from them to a Context."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from tfprov.cli.output import Printer
from tfprov.engine.context import DEFAULT_FORKS, Context
from tfprov.engine.prepare import Wishes, prepare
from tfprov.errors import TaskFailed

F = TypeVar("F", bound=Callable[..., Any])


def inventory_options(command: F) -> F:
    """Add `-i`, `-e`, `-v` and `--accept-new`."""
    for option in (
        click.option("--accept-new", is_flag=True, help="Trust the keys of hosts that known_hosts does not have yet."),
        click.option("-v", "--verbose", count=True, help="Say more; -vv shows where an internal error comes from."),
        click.option("-e", "--extra-vars", "extra", multiple=True, metavar="VARS", help="key=value, YAML, or @FILE."),
        click.option(
            "-i",
            "--inventory",
            envvar="TFPROV_INVENTORY",
            default="inventory.yml",
            show_default="$TFPROV_INVENTORY, else inventory.yml",
            metavar="FILE",
            help="The inventory.",
        ),
    ):
        command = option(command)
    return command


def change_options(command: F) -> F:
    """Add what verbs that touch hosts take besides: `-l` and `-f`."""
    command = click.option(
        "-f", "--forks", type=click.IntRange(1, 1000), default=DEFAULT_FORKS, help="Hosts worked on at a time."
    )(command)
    command = click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts.")(command)
    return inventory_options(command)


@contextmanager
def exit_code_of_training() -> Iterator[None]:
    """End with the exit code of the training instead of tfprov's own 1."""
    try:
        yield
    except TaskFailed as error:
        error.exit_code = error.code
        raise


json_option = click.option("--json", "as_json", is_flag=True, help="Print data for programs.")
resume_option = click.option(
    "--resume", is_flag=True, help="A training that starts goes on from the newest gathered checkpoint."
)
partial_option = click.option("--partial", is_flag=True, help="Keep what did start when something else did not.")


def context_of(options: dict[str, Any], report: Printer | None = None, *, everywhere: bool = False) -> Context:
    """Return the context that a verb's options describe; `everywhere` for a verb that needs every host."""
    if not options["inventory"].strip():
        raise click.UsageError("`-i` names no file; for example `-i inventory.yml`")
    wishes = Wishes(
        limit=options.get("limit"),
        forks=options.get("forks") or DEFAULT_FORKS,
        accept_new=bool(options.get("accept_new")),
        resume=bool(options.get("resume")),
        everywhere=everywhere,
    )
    context = prepare(Path(options["inventory"]), options["extra"], report or Printer(), wishes)
    click.get_current_context().call_on_close(context.close)
    gc.freeze()
    gc.enable()
    return context
