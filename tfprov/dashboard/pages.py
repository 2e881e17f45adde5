"""The page's sections as HTML: summaries and records of runs to text. Every value is escaped by the templates."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from tfprov.errors import Usage
from tfprov.history import formats
from tfprov.history.compare import compare
from tfprov.history.drawing.line_chart import line_chart
from tfprov.history.reader import RunHistory, RunRecord
from tfprov.history.show import DAMAGE, curve_of
from tfprov.history.summary import DAMAGED, INTERRUPTED, LOST, RUNNING, UP, RunSummary

SHOWN_RUNS = 50
"""Runs on a page of the table."""
SHOWN_EVENTS = 40
SHOWN_LINES = 400
"""Lines of a log on the page: the last that match."""
_LONGEST = 2000
"""Characters of a line that are shown."""
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Of file names that are not UTF-8, and of escapes in JSON; a response cannot be encoded with them."""
GOOD, BAD = ("succeeded", RUNNING, UP), ("failed", "deadline", INTERRUPTED, LOST, DAMAGED)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("tfprov.dashboard"), autoescape=select_autoescape(default=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "number": formats.number, "span": formats.span, "stamp": formats.when, "quality": formats.quality,
        "setting": formats.setting, "ago": _ago, "tone": _tone,
    }  # fmt: skip
    environment.globals["steps"] = formats.steps
    return environment


def render(template: str, **values: Any) -> str:
    """Return a page or a section."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", _templates().get_template(template).render(**values))


@dataclass(frozen=True)
class LogQuery:
    """What of a run's logs is shown: one task, and lines that contain a text."""

    task: str = ""
    text: str = ""


def overview(history: RunHistory, page: int = 0) -> dict[str, str]:
    """Return the sections of the start page, by their id."""
    runs = list(reversed(history.summaries()))
    newest: dict[str, RunSummary] = {}
    for run in runs:
        newest.setdefault(run.cluster, run)
    part = runs[page * SHOWN_RUNS : (page + 1) * SHOWN_RUNS]
    return {
        "clusters": render("clusters.html", runs=list(newest.values())),
        "runs": render("runs.html", runs=part, page=page, pages=-(-len(runs) // SHOWN_RUNS), total=len(runs)),
    }


def run_page(record: RunRecord, query: LogQuery) -> dict[str, str]:
    """Return the sections of a run's page, by their id. Usage for a run whose files have been damaged."""
    with _damage_of(record):
        return _run_sections(record, query)


@contextmanager
def _damage_of(record: RunRecord) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise record.damaged(f"a field of run.json or end.json has another form: {error}") from None


def _run_sections(record: RunRecord, query: LogQuery) -> dict[str, str]:
    tasks, logged = record.tasks, record.logged_tasks
    shown = shown_task(record, logged, query)
    return {
        "summary": render("summary.html", run=record.summary, percent=_percent(record.summary)),
        "curves": curves([record]),
        "tasks": render("tasks.html", tasks=tasks, links=_web_tasks(record)),
        "events": render("events.html", events=_events(record)),
        "task": render("task_choice.html", tasks=logged, shown=shown),
        "log": render("log.html", lines=log_lines(record, shown, query.text), query=query, shown=shown),
    }


def curves(records: Sequence[RunRecord]) -> str:
    """Return the curves of loss and steps per second, over the steps."""
    losses = [curve_of(record, "loss") for record in records]
    rates = [curve_of(record, "rate") for record in records]
    return "".join(
        f"<figure><figcaption>{title}</figcaption>{line_chart(title, 'step', series)}</figure>"
        for title, series in (("Loss", losses), ("Steps per second", rates))
    )


def compare_page(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return the sections of a comparison, by their id. Usage for runs of which the files of one have been damaged."""
    try:
        return _compared(records)
    except DAMAGE as error:
        for record in records:
            with _damage_of(record):
                _compared([record])
        raise Usage(f"these runs cannot be compared: {error}", "choose others in the table of runs") from None


def _compared(records: Sequence[RunRecord]) -> dict[str, str]:
    comparison = compare(records)
    return {
        "figures": render("compared.html", comparison=comparison, figures=formats.figure_rows(comparison.figures)),
        "curves": curves(comparison.runs),
    }


def shown_task(record: RunRecord, tasks: Sequence[str], query: LogQuery) -> str:
    """Return which of the logged `tasks` is shown: the chosen one, else the chief, else any; empty without logs."""
    choices = [query.task, str(record.description.get("chief", "")), *tasks]
    return next((task for task in choices if task in tasks), "")


def log_lines(record: RunRecord, task: str, text: str) -> list[str]:
    """Return the last lines of a task's log that contain the text, whatever its case."""
    wanted = text.lower()
    kept: list[str] = []
    for line in record.log(task):
        if wanted in line.text.lower():
            kept.append(_visible(line.text[:_LONGEST]))
            if len(kept) > 2 * SHOWN_LINES:
                del kept[:-SHOWN_LINES]
    return kept[-SHOWN_LINES:]


def _visible(text: str) -> str:
    """Return a line without control characters, and without those that change the direction of what follows."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _events(record: RunRecord) -> list[dict[str, Any]]:
    shown_events = [event for event in record.events() if event.get("event") in ("incident", "note", "failed", "done")]
    return list(islice(reversed(shown_events), SHOWN_EVENTS))


def _percent(run: RunSummary) -> float | None:
    return 100 * run.last_step / run.steps if run.steps and run.last_step is not None else None


def _web_tasks(record: RunRecord) -> dict[str, str]:
    """Return how to open the tasks that have a page of their own: an address of this machine, or the verb."""
    links: dict[str, str] = {}
    for task in record.description.get("tasks", ()):
        role, address = str(task.get("role")), str(task.get("address") or "")
        if role in ("tensorboard", "serving", "notebook"):
            is_here = record.description.get("runtime") == "process"  # others are on the loopback of their host
            links[str(task.get("task"))] = f"http://{address}/" if is_here else f"tfprov {role}"
    return links


def _ago(at: float) -> str:
    return f"{formats.span(max(0.0, time.time() - at))} ago"


def _tone(outcome: str) -> str:
    return "good" if outcome in GOOD else "bad" if outcome in BAD else ""


def shell(title: str, body: str, sections: dict[str, str], stream: str = "", **values: Any) -> str:
    """Return a whole page: `body` is the template that places the sections."""
    placed = {name: Markup(html) for name, html in sections.items()}  # noqa: S704  rendered by templates that escape
    return render(body, title=title, stream=stream, sections=placed, **values)
