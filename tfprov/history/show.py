"""Runs in words, for the command line and pages: cells of tables and lines. Pure."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tfprov.errors import mask_secrets
from tfprov.history.compare import Comparison, Figures
from tfprov.history.drawing.curves import Curve
from tfprov.history.drawing.text_plot import text_plot
from tfprov.history.reader import RunRecord
from tfprov.history.summary import RunSummary
from tfprov.planning.plan_text import format_count

_LONGEST = 40
"""Characters of a value in a table."""


class Formats:
    """How values are printed."""

    @staticmethod
    def when(at: float | None) -> str:
        """Return a time in the local time zone."""
        return "-" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))

    @staticmethod
    def span(seconds: float | None) -> str:
        """Return a time span in its two largest units."""
        if seconds is None:
            return "-"
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        if days:
            return f"{days}d {hours}h"
        return f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s" if minutes else f"{rest}s"

    @staticmethod
    def number(value: float | None) -> str:
        """Return a number in six digits at most."""
        return "-" if value is None else f"{value:.6g}"

    @staticmethod
    def steps(step: int | None, steps: int | None) -> str:
        """Return `1,000 of 2,000`, or what is known of it."""
        if step is None:
            return "-" if steps is None else f"- of {steps:,}"
        return f"{step:,}" if steps is None or steps == step else f"{step:,} of {steps:,}"

    @staticmethod
    def value(value: Any) -> str:
        """Return a setting."""
        if value is None:
            return "-"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return mask_secrets(text)

    @staticmethod
    def figures(figures: Sequence[Figures]) -> Iterator[tuple[str, list[str]]]:
        """Yield the rows of the final figures, each with its name."""
        yield "outcome", [one.outcome for one in figures]
        yield "duration", [Formats.span(one.seconds) for one in figures]
        yield "steps", [Formats.steps(one.step, one.steps) for one in figures]
        yield "steps/s", [Formats.number(one.rate and round(one.rate, 2)) for one in figures]
        yield "loss", [Formats.number(one.loss) for one in figures]
        for tag in dict.fromkeys(tag for one in figures for tag in one.quality):
            yield tag, [Formats.number(one.quality.get(tag)) for one in figures]
        yield "restarts", [str(one.restarts) for one in figures]
        yield "went back", [str(one.went_back) for one in figures]


def curve_of(record: RunRecord, points: int = 500) -> Curve:
    """Return the loss of a run by its step."""
    samples = [sample for sample in record.samples if sample.loss is not None]
    every = max(1, -(-len(samples) // points))
    chosen = samples[::every] + (samples[-1:] if samples and (len(samples) - 1) % every else [])
    return Curve(record.directory.id, tuple((float(one.step), one.loss or 0.0) for one in chosen))


HEAD = ("RUN", "CLUSTER", "STARTED", "TOOK", "STEPS", "LOSS", "QUALITY", "OUTCOME")


def row(summary: RunSummary, quality: str, now: float) -> tuple[str, ...]:
    """Return the cells of a run in the table; `quality` is its headline, and a run that goes on has taken until `now`."""
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
        Formats.when(summary.started),
        Formats.span(took),
        Formats.steps(summary.last_step, summary.steps),
        Formats.number(summary.loss),
        quality,
        outcome,
    )


def show_lines(record: RunRecord, quality: str, now: float) -> Iterator[str]:
    """Yield what `runs show` prints, but for the table of its tasks."""
    one, description = record.summary, record.description
    for name, cell in zip(HEAD, row(one, quality, now), strict=True):
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
    if told := [format_count(number, noun) for number, noun in counts if number]:
        yield f"{'trouble:':<12} {', '.join(told)}"
    for tag, value in sorted(one.quality.items()):
        yield f"  {tag}: {Formats.number(value)}"
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
        yield (one.name, *(_short(Formats.value(value)) for value in one.values))
    for name, cells in Formats.figures(comparison.figures):
        yield (name, *cells)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
