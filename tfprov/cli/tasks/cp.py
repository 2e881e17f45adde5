"""The verb `cp`."""

import re
from typing import Any

import click

from tfprov.cli.options import STREAM, cluster_of, inventory_options
from tfprov.cli.output import Printer
from tfprov.cli.shells import values
from tfprov.errors import Usage

_TASK_PATH = re.compile(r"(?P<task>[a-z_]+/[0-9]+):(?P<path>.*)", re.ASCII | re.DOTALL)
_FIX = "for example `tfprov cp worker/0:/tmp/profile .` or `tfprov cp vocabulary.txt worker/0:`"


@click.command("cp")
@click.argument("source", shell_complete=values.task_paths)
@click.argument("target", shell_complete=values.task_paths)
@inventory_options
def cp_command(source: str, target: str, **options: Any) -> None:
    """One of both is TASK:PATH, such as `worker/0:log.txt`; a relative PATH begins at the task's working directory.

    A directory that exists gets the copy with its own name. A copy is complete, or not there. Links are left out.
    """
    if not (source and target):  # an unset variable of a script would be the working directory
        raise Usage("an empty text names no file", _FIX)
    if STREAM in (source, target):
        raise Usage("`-` is no file", "write `./-` for one of that name, or use `tfprov exec TASK -- cat PATH`")
    here, there = _TASK_PATH.fullmatch(source), _TASK_PATH.fullmatch(target)
    if (here is None) == (there is None):
        what = "neither path is of a task" if here is None else "both paths are of tasks"
        raise Usage(what, _FIX)
    with Printer() as printer:
        if here is not None:
            if not here["path"]:
                raise Usage(f"`{source}` names no file", _FIX)
            printer.awaiting(f"copying {source}")
            where = str(cluster_of(options, printer.handle, starts=False).copy_from(here["task"], here["path"], target))
        elif there is not None:
            printer.awaiting(f"copying {source}")
            copied = cluster_of(options, printer.handle, starts=False).copy_to(
                source, there["task"], there["path"] or "."
            )
            where = f"{there['task']}:{copied}"
        printer.awaiting("")
        printer.note(f"copied to {where}")
