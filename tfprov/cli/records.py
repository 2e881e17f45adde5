"""`tfprov records`: show, verify and convert TFRecord files."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import click

from tfprov.cli.escape_sequences import Screened, json_screened
from tfprov.cli.options import STREAM, json_option
from tfprov.cli.output import table
from tfprov.cli.printing.live_line import LiveLine
from tfprov.cli.shells import values
from tfprov.errors import TfprovError, Usage, one_line
from tfprov.planning.plan_text import format_count, format_size, format_span
from tfprov.tfrecord.errors import DamagedFile
from tfprov.tfrecord.extra import load

_ROWS = 1024
_REDRAW = 0.2
"""Seconds between two redraws of the live line."""
Command = Callable[..., None]


@click.group("records")
def records_command() -> None:
    """Files are paths, directories, patterns, or URLs such as `s3://bucket/train/`."""


def file_options(command: Command) -> Command:
    """Add the files, and how they are read."""
    for option in (
        click.argument("files", nargs=-1, required=True, shell_complete=values.files),
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
    for line in islice(_lines(**options), min(count, sys.maxsize)):
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
    verdicts = load("inspection.verdicts").verify(list(files), compression)
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
    statistics = load("inspection.statistics").Statistics()
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


@records_command.command("index")
@click.argument("files", nargs=-1, required=True, shell_complete=values.files)
@click.option("--every", type=click.IntRange(min=1), default=1, show_default=True, help="Index every so many records.")
def index_command(files: tuple[str, ...], every: int) -> None:
    """Write _NAME.idx beside each file NAME: where its records begin, by which Hadoop splits it."""
    for indexed in load("record_index").write_index(list(files), every=every):
        count = f"{format_count(indexed.records, 'record')}, {format_count(indexed.entries, 'line')}"
        click.echo(f"{one_line(indexed.index)}: {count}")


@records_command.command("convert")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=values.files)
@click.argument("destination")
@click.option("--from", "source_format", metavar="FORMAT", help="Of the sources; without it, by their extension.")
@click.option("--to", "destination_format", metavar="FORMAT", help="Of the destination: tfrecord, parquet, csv, ...")
@click.option("--shards", type=click.IntRange(1, 99999), help="Write that many files into the directory DESTINATION.")
@click.option("--shuffle", is_flag=True, help="Put the records into random order.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random order.")
@click.option("--compression", help="Of the destination, such as gzip; without it, by the extension.")
@click.option("--record-type", default="Example", show_default=True, help="Or SequenceExample, or ByteArray.")
@click.option("--columns", help="Names with commas between; only these are converted.")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
@click.option("--salvage", is_flag=True, help="Go on without the rest of a damaged record file.")
def convert_command(sources: tuple[str, ...], columns: str | None, salvage: bool, **options: Any) -> None:
    """Convert between TFRecord, Parquet, CSV, JSON lines, NumPy files and directories of images.

    Formats: tfrecord, parquet, csv, json, numpy, images. A directory of images has a directory for each class.
    """
    if options["destination"] == STREAM:
        raise Usage("`-` is no file", "`tfprov records cat` prints records; write `./-` for a file of that name")
    names = columns.split(",") if columns is not None else None
    with _live_progress() as progress:
        convert = load("converting.convert").convert
        done = convert(sources, columns=names, salvage=_dropped if salvage else False, progress=progress, **options)
    click.echo(
        f"wrote {format_count(len(done.files), 'file')}, {done.records:,} record{'' if done.records == 1 else 's'}"
    )


@contextmanager
def _live_progress() -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Yield a function that shows progress on the last line of a terminal; None for standard error that is none."""
    raw = sys.stderr.raw if isinstance(sys.stderr, Screened) else sys.stderr
    if not raw.isatty():
        yield None
        return
    line = LiveLine(raw, lambda: os.get_terminal_size(raw.fileno()).columns)
    meter = RowMeter(time.monotonic)

    def show(what: str, done: int, count: int | None) -> None:
        if (text := meter.text(what, done, count)) is not None:
            line.show(text)

    try:
        yield show
    finally:
        line.show("")


class RowMeter:
    """The text of a line with the rows done, their rate and the time left, at most some times in a second."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._what, self._begin, self._shown = "", 0.0, float("-inf")

    def text(self, what: str, done: int, count: int | None) -> str | None:
        """Return the line; None if the last one is new enough."""
        now = self._now()
        if what != self._what:
            self._what, self._begin, self._shown = what, now, float("-inf")
        if now - self._shown < _REDRAW:
            return None
        self._shown = now
        parts = [f"{what} {done:,}" + (f" of {count:,} records" if count else " records")]
        if count:
            parts.append(f"{100 * done // count}%")
        if (seconds := now - self._begin) >= 1 and done:
            parts.append(f"{done / seconds:,.0f} records/s")
            if count:
                parts.append(f"ETA {format_span((count - done) * seconds / done)}")
        return " · ".join(parts)


def _batches(files: tuple[str, ...], columns: str | None, salvage: bool, **options: Any) -> Iterator[Any]:
    names = columns.split(",") if columns is not None else None
    yield from load("reading").read(
        list(files), columns=names, salvage=_dropped if salvage else False, batch_rows=_ROWS, **options
    )


def _lines(**options: Any) -> Iterator[str]:
    plain = load("converting.json_lines").plain
    for batch in _batches(**options):
        for row in batch.to_pylist():
            yield json_screened(json.dumps(plain(row), ensure_ascii=False))


def _dropped(damage: DamagedFile) -> None:
    click.echo(f"warning: dropped this record and the rest of the file: {damage}", err=True)
