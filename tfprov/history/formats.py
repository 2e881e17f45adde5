"""How values of runs are written, in a terminal and on pages; `-` for what is unknown. Pure."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfprov.errors import mask_secrets
from tfprov.history.compare import Figures
from tfprov.history.quality import headline
from tfprov.planning.plan_text import format_span


def when(at: float | None) -> str:
    """Return a time in the local time zone."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def span(seconds: float | None) -> str:
    """Return a time span in its two largest units."""
    return "-" if seconds is None else format_span(seconds)


def number(value: float | None) -> str:
    """Return a number in six digits at most."""
    return "-" if value is None else f"{value:.6g}"


def steps(step: int | None, of: int | None) -> str:
    """Return `1,000 of 2,000`, or what is known of it."""
    if step is None:
        return "-" if of is None else f"- of {of:,}"
    return f"{step:,}" if of is None or of == step else f"{step:,} of {of:,}"


def setting(value: Any) -> str:
    """Return a setting."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return mask_secrets(text)


def quality(measures: Mapping[str, float]) -> str:
    """Return the measure for a table with one column, with its name."""
    best = headline(measures)
    return "-" if best is None else f"{best[0]} {number(best[1])}"


def figure_rows(figures: Sequence[Figures]) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of the final figures, each with its name."""
    yield "outcome", [one.outcome for one in figures]
    yield "duration", [span(one.seconds) for one in figures]
    yield "steps", [steps(one.step, one.steps) for one in figures]
    yield "steps/s", [number(one.rate and round(one.rate, 2)) for one in figures]
    yield "loss", [number(one.loss) for one in figures]
    for tag in dict.fromkeys(tag for one in figures for tag in one.quality):
        yield tag, [number(one.quality.get(tag)) for one in figures]
    yield "restarts", [str(one.restarts) for one in figures]
    yield "went back", [str(one.went_back) for one in figures]
