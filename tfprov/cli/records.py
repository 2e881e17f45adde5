"""`tfprov records`: show and verify TFRecord files."""

import base64
import json
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import click

from tfprov.cli.options import json_option
from tfprov.cli.output import table
from tfprov.cli.screening import json_screened
from tfprov.errors import TfprovError, one_line
from tfprov.planning.plan_text import format_count, format_size
from tfprov.tfrecord.errors import DamagedFile
from tfprov.tfrecord.extra import load

_ROWS = 1024
Command = Callable[..., None]


@click.group("records")
def records_command() -> None:
    """Files are paths, directories, patterns, or URLs such as `s3://bucket/train/`."""


def file_options(command: Command) -> Command:
    """Add the files, and how they are read."""
    for option in (
        click.argument("files", nargs=-1, required=True),
        click.option(
            "--compression", default="auto", show_default=True, help="auto (by extension), none, gzip or zlib."
        ),
    ):
        command = option(command)
    return command


def decode_options(command: Command) -> Command:
    """Add how records are decoded."""
    for option in (
        click.option("--record-type", default="Example", show_default=True, help="Or SequenceExample, or ByteArray."),
        click.option("--rules", default="connector", show_default=True, help="Of inference: connector or linkedin."),
        click.option("--salvage", is_flag=True, help="Go on without the rest of a damaged file."),
    ):
        command = option(command)
    return file_options(command)


columns_option = click.option("--columns", help="Names with commas between; only these are decoded.")


@records_command.command("cat")
@columns_option
@decode_options
def cat_command(**options: Any) -> None:
    """Print every record as a line of JSON."""
    for line in _lines(**options):
        click.echo(line)


@records_command.command("head")
@click.option("-n", "count", type=click.IntRange(min=0), default=10, show_default=True, help="Records to print.")
@columns_option
@decode_options
def head_command(count: int, **options: Any) -> None:
    """Print the first records as lines of JSON."""
    for line in islice(_lines(**options), count):
        click.echo(line)


@records_command.command("schema")
@json_option
@decode_options
def schema_command(as_json: bool, files: tuple[str, ...], salvage: bool, **options: Any) -> None:
    """Print the columns of all records and their types."""
    schema = load("reading").infer_schema(list(files), salvage=_dropped if salvage else False, **options)
    if as_json:
        click.echo(json_screened(json.dumps({field.name: str(field.type) for field in schema}, indent=2)))
        return
    for line in table([("COLUMN", "TYPE"), *((one_line(field.name), str(field.type)) for field in schema)]):
        click.echo(line)


@records_command.command("verify")
@json_option
@file_options
def verify_command(as_json: bool, files: tuple[str, ...], compression: str) -> None:
    """Check the checksums of every record; exit code 1 if a file is damaged."""
    verdicts = load("verdicts").verify(list(files), compression)
    if as_json:
        click.echo(json_screened(json.dumps([verdict.to_dict() for verdict in verdicts], indent=2)))
    else:
        for verdict in verdicts:
            size = f"{format_count(verdict.records, 'record')}, {format_size(verdict.data_bytes)}"
            click.echo(f"{one_line(verdict.file)}: {'whole' if verdict.whole else 'damaged'}, {size}")
    if damaged := [verdict for verdict in verdicts if not verdict.whole]:
        raise TfprovError("\n".join(str(verdict.damage) for verdict in damaged))


@records_command.command("stats")
@json_option
@columns_option
@decode_options
def stats_command(as_json: bool, **options: Any) -> None:
    """Print, for every column, its type, how many values are missing, and the range of numbers."""
    statistics = load("statistics").Statistics()
    for batch in _batches(**options):
        statistics.add(batch)
    if as_json:
        click.echo(json_screened(json.dumps(statistics.to_dict(), indent=2)))
        return
    click.echo(format_count(statistics.records, "record"))
    rows = [
        (
            one_line(name),
            each["type"],
            *("-" if each[key] is None else str(each[key]) for key in ("missing", "min", "max")),
        )
        for name, each in statistics.to_dict()["columns"].items()
    ]
    for line in table([("COLUMN", "TYPE", "MISSING", "MIN", "MAX"), *rows]):
        click.echo(line)


def _batches(files: tuple[str, ...], columns: str | None, salvage: bool, **options: Any) -> Iterator[Any]:
    names = columns.split(",") if columns is not None else None
    yield from load("reading").read(
        list(files), columns=names, salvage=_dropped if salvage else False, batch_rows=_ROWS, **options
    )


def _lines(**options: Any) -> Iterator[str]:
    for batch in _batches(**options):
        for row in batch.to_pylist():
            yield json_screened(json.dumps(_plain(row), ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes in base64, and floats that JSON does not have as text."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _dropped(damage: DamagedFile) -> None:
    click.echo(f"warning: dropped this record and the rest of the file: {damage}", err=True)
