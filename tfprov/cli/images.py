"""`tfprov image`: build, deliver, list and prune images."""

import json
from typing import Any

import click

from tfprov.cli.escape_sequences import json_screened
from tfprov.cli.options import change_options, cluster_of, json_option
from tfprov.cli.output import Printer, table
from tfprov.planning.plan_text import format_count, format_size

KEPT = 10
"""Images that `prune` keeps by default: enough for some clusters with the versions before."""


@click.group("image")
def image_command() -> None:
    """Images are built on the controller's engine, or where `image.build_on` says, and kept in an OCI layout."""


@image_command.command("build")
@change_options
def build_command(**options: Any) -> None:
    """Build the image with the code on top, unless the controller has it."""
    with Printer() as printer:
        cluster_of(options, printer.handle).images.build()


@image_command.command("deliver")
@change_options
def deliver_command(**options: Any) -> None:
    """Bring the image to every host that lacks it; nothing is started."""
    with Printer() as printer:
        cluster_of(options, printer.handle).images.deliver()


@image_command.command("list")
@click.option("--hosts", "with_hosts", is_flag=True, help="Also the images of this cluster on its hosts.")
@json_option
@change_options
def list_command(with_hosts: bool, as_json: bool, **options: Any) -> None:
    """What the controller keeps, and the bytes a host without any of it would be sent."""
    from tfprov.engine.cluster_images import stored_images  # noqa: PLC0415  it brings the docker SDK

    images = stored_images() + (cluster_of(options, Printer().handle).images.on_hosts() if with_hosts else [])
    if as_json:
        click.echo(json_screened(json.dumps([image.to_dict() for image in images], indent=2)))
    elif not images:
        click.echo("no images")
    else:
        sizes = ("-" if image.size is None else format_size(image.size) for image in images)
        rows = [(i.where, i.name, i.id[7:19], size, i.platform or "-") for i, size in zip(images, sizes, strict=True)]
        for line in table([("WHERE", "NAME", "ID", "SIZE", "PLATFORM"), *rows]):
            click.echo(line)


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
    from tfprov.engine.cluster_images import prune_stored  # noqa: PLC0415  it brings the docker SDK

    click.echo(f"controller: {format_size(prune_stored(keep))} freed")
    if with_hosts:
        for pruned in cluster_of(options, Printer().handle).images.prune():
            data = f", and {format_count(pruned.data, 'data set')}" if pruned.data else ""
            click.echo(f"{pruned.host}: {pruned.images} images removed{data}")
