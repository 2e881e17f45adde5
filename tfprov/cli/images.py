"""`tfprov image`: the pieces of delivery on their own."""

import json
import time
from collections.abc import Mapping
from typing import Any

import click

from tfprov.cli.options import change_options, context_of, json_option
from tfprov.cli.output import Printer, table
from tfprov.cli.screening import json_screened
from tfprov.engine.context import Context
from tfprov.engine.execute import execute
from tfprov.engine.lock.lock import Lock
from tfprov.engine.observe import observe
from tfprov.errors import Usage
from tfprov.images.oci_layout import Layout
from tfprov.model.plan import ActionKind
from tfprov.paths import cache_home
from tfprov.planning.plan_text import NOTHING, format_count, format_size
from tfprov.planning.reconcile import describe_artifact, plan_deliveries

KEPT = 10
"""Images that `prune` keeps when nothing else is said: enough for some clusters with the versions before."""


@click.group("image")
def image_command() -> None:
    """Images are built on the controller's engine, or where `image.build_on` says, and kept in an OCI layout."""


@image_command.command("build")
@change_options
def build_command(**options: Any) -> None:
    """Build the image with the code on top, unless that was done already."""
    with Printer() as printer:
        context = _docked(options, printer)
        for name, artifact in context.artifacts.items():
            if artifact.ready:
                printer.note(f"{describe_artifact(name)} is there")
            else:
                begin = time.monotonic()
                artifact.build()
                printer.note(f"{describe_artifact(name)} built in {time.monotonic() - begin:.1f} s")


@image_command.command("deliver")
@change_options
def deliver_command(**options: Any) -> None:
    """Bring the image to every host that lacks it; nothing is started."""
    with Printer() as printer:
        context = _docked(options, printer)
        plan = plan_deliveries(context.cluster.name, context.wanted, observe(context))
        part = plan.only(
            lambda a: a.kind == ActionKind.BUILD or (a.kind == ActionKind.DELIVER and context.allows(a.host))
        )
        if not any(action.kind == ActionKind.DELIVER for action in part.actions):
            printer.note(f"{NOTHING}: the image is on every host")
            return
        with Lock(context, "image deliver"):
            context.remember()
            execute(context, part, "").check()


@image_command.command("list")
@click.option("--hosts", "with_hosts", is_flag=True, help="Also the images of this cluster on its hosts.")
@json_option
@change_options
def list_command(with_hosts: bool, as_json: bool, **options: Any) -> None:
    """What the controller keeps, and the bytes a host without any of it would be sent."""
    rows = [
        {"where": "controller", "name": name, "id": image.id, "size": image.size, "platform": image.platform}
        for name, image in _layout().images().items()
    ]
    if with_hosts:
        rows += _on_hosts(_docked(options, Printer()))
    if as_json:
        click.echo(json_screened(json.dumps(rows, indent=2)))
    elif not rows:
        click.echo("no images")
    else:
        head = ("WHERE", "NAME", "ID", "SIZE", "PLATFORM")
        cells = [(r["where"], r["name"], str(r["id"])[7:19], _size(r), r["platform"] or "-") for r in rows]
        for line in table([head, *((str(a), str(b), c, d, str(e)) for a, b, c, d, e in cells)]):
            click.echo(line)


def _on_hosts(context: Context) -> list[dict[str, Any]]:
    from tfprov.images.push import present  # noqa: PLC0415  it brings the docker SDK

    rows: list[dict[str, Any]] = []
    repository = f"tfprov/{context.cluster.name}"
    for host, machine in context.machines.items():
        if context.allows(host):
            there = present(machine.engine, repository)
            rows += [
                {"where": host, "name": f"{repository}:{tag}", "id": found, "size": None, "platform": None}
                for tag, found in there.items()
            ]
    return rows


def _size(row: Mapping[str, Any]) -> str:
    return "-" if row["size"] is None else format_size(row["size"])


@image_command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), default=KEPT, show_default=True, help="Images used last that stay.")
@click.option(
    "--hosts",
    "with_hosts",
    is_flag=True,
    help="Also on the hosts of this cluster: all that no task uses, fetched data too.",
)
@change_options
def prune_command(keep: int, with_hosts: bool, **options: Any) -> None:
    """Nothing is lost that cannot be made, or fetched, again; what another run is using right now stays."""
    freed = _layout().prune(keep)
    click.echo(f"controller: {format_size(freed)} freed")
    if with_hosts:
        from tfprov.images.push import forget, present  # noqa: PLC0415  it brings the docker SDK

        context = _docked(options, Printer())
        repository = f"tfprov/{context.cluster.name}"
        for host, machine in context.machines.items():
            if context.allows(host):
                before = len(present(machine.engine, repository))
                forget(machine.engine, repository, 0)
                after = len(present(machine.engine, repository))
                sets = context.runtimes[host].tidy(()) if host in context.runtimes else 0
                data = f", and {format_count(sets, 'data set')}" if sets else ""
                click.echo(f"{host}: {before - after} images removed{data}")


def _layout() -> Layout:
    return Layout(cache_home() / "images")


def _docked(options: dict[str, Any], printer: Printer) -> Context:
    context = context_of(options, printer)
    if not context.machines:
        raise Usage("this cluster has no image: its tasks are processes", "give an `image` under `tfprov:`")
    return context
