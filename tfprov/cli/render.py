"""`tfprov render`: the same cluster, written for another engine such as Kubernetes."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfprov.cli.escape_sequences import write_document
from tfprov.cli.options import OutputPath, source_options, sources_of, vault_of, warn
from tfprov.cli.shells import values
from tfprov.errors import TfprovError, Usage, combine_errors

if TYPE_CHECKING:
    from tfprov.render.target import Target


@click.command("render")
@click.argument("target", required=False, shell_complete=values.targets)
@click.option("--list", "lists", is_flag=True, help="Show all targets; with TARGET, all its options for --set.")
@click.option(
    "--template",
    "template_dir",
    type=OutputPath(),
    metavar="DIR",
    help="Use the templates in DIR instead of those of the same names.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=values.target_settings,
    help="An option of the target.",
)
@click.option(
    "-o", "--output", type=OutputPath(stdout=True), metavar="FILE|DIR", help="Where to; default, and `-`: stdout."
)
@source_options
def render_command(
    target: str | None,
    lists: bool,
    template_dir: Path | None,
    settings: tuple[str, ...],
    output: Path | None,
    **options: Any,
) -> None:
    """Writes the cluster of the inventory for TARGET, with nothing to edit. No host is contacted."""
    from tfprov.api import Cluster  # noqa: PLC0415  `--help` needs none of it
    from tfprov.render.options import parse_settings  # noqa: PLC0415
    from tfprov.render.render import options_of  # noqa: PLC0415
    from tfprov.render.target import TARGETS, find_target  # noqa: PLC0415

    if lists:
        _list([find_target(name) for name in ([target] if target else TARGETS)], whole=target is not None)
        return
    if target is None:
        raise Usage("`tfprov render` needs a target", f"it is one of {', '.join(TARGETS)}")
    chosen = find_target(target)  # raises for an unknown target before the inventory is read
    errors: list[TfprovError] = []
    try:
        parse_settings(chosen.name, options_of(chosen), settings)
    except TfprovError as error:
        errors.append(error)
    try:
        cluster = Cluster.load(
            *sources_of(options),
            extra=options["extra"],
            vault=vault_of(options),
            lookup_dirs=options["lookup_dirs"],
            on_warning=warn,
        )
    except TfprovError as error:
        raise combine_errors([*errors, error]) from None
    if errors:
        raise errors[0]
    _show(cluster.render(target, settings, template_dir=template_dir).files, output, sources_of(options))


def _show(files: Mapping[str, str], output: Path | None, sources: Sequence[str]) -> None:
    if output is None:
        if len(files) > 1:
            raise Usage(f"there are {len(files)} files: {', '.join(files)}", "give a directory with `-o DIR`")
        for text in files.values():
            write_document(text, sys.stdout)
        return
    from tfprov.render.output import write  # noqa: PLC0415

    for path in write(files, output, keep=[Path(source) for source in sources]):
        click.echo(f"wrote {path}", err=True)


def _list(targets: "list[Target]", *, whole: bool) -> None:
    from tfprov.render.render import options_of  # noqa: PLC0415

    width = max(len(target.name) for target in targets)
    for target in targets:
        click.echo(f"{target.name:{width}}  {target.title}")
        for option in options_of(target).values() if whole else ():
            text = str(option.default).lower() if isinstance(option.default, bool) else option.default
            default = "" if text in ("", (), {}) else f" (default: {text})"
            click.echo(f"  {option.name:18} {option.help}{default}")
