"""`tfprov import`: a file of another engine becomes an inventory."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprov.cli.escape_sequences import write_document
from tfprov.cli.options import STREAM, OutputPath, named_file
from tfprov.cli.shells import values
from tfprov.errors import InvalidInput, Position, Problem, Usage

if TYPE_CHECKING:
    from tfprov.importing.emit import TargetHost


@click.command("import")
@click.argument("file", callback=named_file, shell_complete=values.files)
@click.option("-o", "--output", type=OutputPath(stdout=True), help="Write it there; default, and `-`: to stdout.")
@click.option("--hosts", metavar="NAMES", help="For these machines, as SSH names them: `trainer@node1,node2:2200`.")
@click.option("-v", "--verbose", count=True, help="-vv shows where an internal error comes from.")
def import_command(file: str, output: Path | None, hosts: str | None, verbose: int) -> None:
    """FILE is a Compose file, a TFJob, or Kubernetes objects that run one task each; `-` is the standard input.

    What cannot be carried over is listed with its line. Nothing in the file is run, no other file is read, and secrets
    are not copied. A file that exists is never overwritten.
    """
    from tfprov.importing.convert import convert  # noqa: PLC0415
    from tfprov.yamltext.load import MAX_BYTES, read_bytes  # noqa: PLC0415  the others need none of it

    _refuse_existing(output)
    machines = _machines(hosts)
    if file == STREAM:
        data, home = sys.stdin.buffer.read(MAX_BYTES + 1), Path()
    else:
        data, home = read_bytes(Path(file), Position(file), fix="check the path"), Path(file).parent
    converted = convert(data, "(standard input)" if file == STREAM else file, home, machines)
    for note in converted.notes:
        click.echo(str(note), err=True)
    if output is None:
        write_document(converted.text, sys.stdout)
        return
    _create(output, converted.text)
    count = len(converted.notes)
    remark = f"; {count} thing{'s' * (count > 1)} not carried over, listed above" if count else ""
    click.echo(f"wrote {output}{remark}")
    click.echo(f"next: tfprov plan -i {output}")


def _machines(hosts: str | None) -> "list[TargetHost]":
    from tfprov.importing.emit import TargetHost  # noqa: PLC0415
    from tfprov.inventory.host_names import read_machines  # noqa: PLC0415

    machines = [TargetHost(one.name, one.user, one.port) for one in read_machines(hosts or "")]
    if hosts is not None and not machines:
        raise Usage("`--hosts` names no machine", "for example `--hosts trainer@node1,trainer@node2`")
    return machines


def _refuse_existing(path: Path | None) -> None:
    if path is not None and (path.exists() or path.is_symlink()):
        raise Usage(f"{path} exists already", "choose another file")


def _create(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:  # a second try must not meet a part of the file
                path.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InvalidInput(
            [
                Problem(
                    Position(str(path)),
                    f"cannot be written: {(error.strerror or str(error)).lower()}",
                    "choose another file",
                )
            ]
        ) from None
