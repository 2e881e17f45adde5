"""Runs in words, for the command line and pages: cells of tables and lines. Pure."""

from collections.abc import Iterator
from typing import Any, Literal

from tfprov.history import formats
from tfprov.history.compare import Comparison
from tfprov.history.drawing.curves import Curve
from tfprov.history.drawing.text_plot import text_plot
from tfprov.history.reader import RunRecord
from tfprov.history.summary import RunSummary
from tfprov.planning.plan_text import format_count

DAMAGE = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError, OSError)
"""What a field of another form raises where a record is shown; OSError is of a time that the system cannot show."""

_LONGEST = 40
"""Characters of a value in a table."""


def curve_of(record: RunRecord, name: Literal["loss", "rate"] = "loss") -> Curve:
    """Return the loss of a run, or its steps per second, by its step."""
    values = ((sample.step, getattr(sample, name)) for sample in record.samples)
    return Curve(record.directory.id, tuple((float(step), value) for step, value in values if value is not None))


HEAD = ("RUN", "CLUSTER", "STARTED", "TOOK", "STEPS", "LOSS", "QUALITY", "OUTCOME")


def row(summary: RunSummary, now: float) -> tuple[str, ...]:
    """Return the cells of a run in the table; a run that goes on has taken until `now`."""
    open_ended = summary.duration is None and summary.outcome in ("running", "up")
    took = now - summary.started if open_ended else summary.duration
    outcome = summary.outcome
    if summary.outcome == "failed" and summary.exit_code:
        outcome = f"failed ({summary.exit_code})"
    if summary.outcome == "running" and summary.supervised:
        outcome = "running (detached)"
    return (
        summary.run,
        summary.cluster,
        formats.when(summary.started),
        formats.span(took),
        formats.steps(summary.last_step, summary.steps),
        formats.number(summary.loss),
        formats.quality(summary.quality),
        outcome,
    )


def show_lines(record: RunRecord, now: float) -> Iterator[str]:
    """Yield what `runs show` prints, but for the table of its tasks."""
    one, description = record.summary, record.description
    for name, cell in zip(HEAD, row(one, now), strict=True):
        if cell != "-":
            yield f"{name.lower() + ':':<12} {cell}"
    if one.error:
        yield f"{'error:':<12} {one.error}"
    used = {"tensorflow": record.end["tensorflow"]} if record.end is not None and record.end.get("tensorflow") else {}
    versions = {name: value for name, value in {**dict(description.get("versions") or {}), **used}.items() if value}
    yield f"{'versions:':<12} {', '.join(f'{name} {value}' for name, value in versions.items())}"
    for code in description.get("code") or ():
        yield f"{'code:':<12} {_code(code)}"
    for image in description.get("images") or ():
        yield f"{'image:':<12} {image.get('name')} ({image.get('id') or 'not delivered'})"
    if record.end is not None and (saved := record.end.get("checkpoint")):
        yield f"{'checkpoint:':<12} {saved['directory']}/{saved['prefix']}"
    yield f"{'files:':<12} {record.directory.path}"
    counts = [(one.restarts, "restart"), (one.went_back, "time that steps were lost")]
    if trouble := [format_count(number, noun) for number, noun in counts if number]:
        yield f"{'trouble:':<12} {', '.join(trouble)}"
    for tag, value in sorted(one.quality.items()):
        yield f"  {tag}: {formats.number(value)}"
    if curve := curve_of(record):
        yield from ("", "loss by step", *text_plot([curve])) if curve.points else ()


def _code(code: dict[str, Any]) -> str:
    git = code.get("git") or {}
    commit = (
        f", commit {str(git['commit'])[:12]}{' with uncommitted changes' if git.get('dirty') else ''}" if git else ""
    )
    return f"{code.get('directory')} ({str(code.get('digest', '')).removeprefix('sha256:')[:12]}{commit})"


def comparison_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield the rows of `runs compare`: the head, what differs, and the figures."""
    yield ("", *(figures.run for figures in comparison.figures))
    for one in comparison.differences:
        yield (one.name, *(_short(formats.setting(value)) for value in one.values))
    for name, cells in formats.figure_rows(comparison.figures):
        yield (name, *cells)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
