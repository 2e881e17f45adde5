"""The pages and their stream of changes, as a Starlette application."""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tfprov.dashboard.pages import (
    LogQuery,
    compare_page,
    overview,
    run_page,
    shell,
)
from tfprov.errors import TfprovError, Usage
from tfprov.history.reader import RunHistory, RunRecord

INTERVAL = 1.0
"""Seconds between two looks at the files; a look that takes long is followed by ten times its length."""
_PING = 15.0
"""Seconds after which a stream without changes says that it is there."""
MOST_COMPARED = 12

Sections = Callable[[], dict[str, str]]


def application(history: RunHistory, stopping: asyncio.Event, interval: float = INTERVAL) -> Starlette:
    """Return the application; its responses are computed in threads, because they read files.

    Its streams end when `stopping` is set.
    """
    pages = _Pages(history, stopping, interval)
    static = StaticFiles(directory=Path(__file__).parent / "static")
    return Starlette(
        routes=[
            Route("/", pages.start),
            Route("/run", pages.run),
            Route("/compare", pages.compare),
            Route("/stream", pages.stream),
            Mount("/static", static),
        ],
        exception_handlers={TfprovError: _failed, 404: _missing},
    )


class _Pages:
    def __init__(self, history: RunHistory, stopping: asyncio.Event, interval: float) -> None:
        self._history, self._stopping, self._interval = history, stopping, interval

    def start(self, request: Request) -> Response:
        sections = self._sections("start", request.query_params)
        shown = sections()
        stream = _stream(shown, view="start", page=str(_page(request.query_params)))
        return HTMLResponse(shell("Clusters and runs", "overview.html", shown, stream))

    def run(self, request: Request) -> Response:
        record, query = self._record(request.query_params), _query(request.query_params)
        cluster, run, sections = record.directory.cluster, record.directory.id, run_page(record, query)
        stream = _stream(sections, view="run", cluster=cluster, run=run, task=query.task, q=query.text)
        page = shell(
            f"{run} of {cluster}",
            "run.html",
            sections,
            stream if record.end is None else "",
            run=record.summary,
            query=query,
            description=json.dumps(record.description, indent=1),
        )
        return HTMLResponse(page)

    def compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")
        if not 2 <= len(names) <= MOST_COMPARED:
            raise Usage("this compares two to twelve runs", "choose them in the table of runs")
        records = [self._history.load(name) for name in dict.fromkeys(names)]
        title = " and ".join(record.directory.id for record in records)
        return HTMLResponse(shell(title, "compare.html", compare_page(records)))

    async def stream(self, request: Request) -> Response:
        sections = self._sections(request.query_params.get("view", ""), request.query_params)
        shown = dict(pair.split(":", 1) for pair in request.query_params.getlist("shown") if ":" in pair)
        return StreamingResponse(self._changes(sections, shown), media_type="text/event-stream")

    def _sections(self, view: str, values: QueryParams) -> Sections:
        if view == "run":
            return lambda: run_page(self._record(values), _query(values))
        return lambda: overview(self._history, _page(values))

    def _record(self, values: QueryParams) -> RunRecord:
        return self._history.load(values.get("run", ""), values.get("cluster") or None)

    async def _changes(self, sections: Sections, shown: Mapping[str, str]) -> AsyncIterator[str]:
        """Yield the sections that differ from what is shown, as events, until the reader goes or the server stops."""
        sent = time.monotonic()
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                current = await anyio.to_thread.run_sync(sections)
            except TfprovError:  # the run was removed
                current = {}
            digests = _digests(current)
            if changed := {name: html for name, html in current.items() if shown.get(name) != digests[name]}:
                yield f"data: {json.dumps(changed)}\n\n"
                sent = time.monotonic()
            elif time.monotonic() - sent > _PING:
                yield ": nothing new\n\n"
                sent = time.monotonic()
            shown = {**shown, **digests}
            with anyio.move_on_after(max(self._interval, 10 * (time.monotonic() - began))):
                await self._stopping.wait()


def _stream(sections: Mapping[str, str], **values: str) -> str:
    """Return the address of the changes to sections that a page shows."""
    shown = [("shown", f"{name}:{digest}") for name, digest in _digests(sections).items()]
    return f"/stream?{urlencode([*values.items(), *shown])}"


def _digests(sections: Mapping[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(html.encode()).hexdigest()[:16] for name, html in sections.items()}


def _page(values: QueryParams) -> int:
    text = values.get("page", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _query(values: QueryParams) -> LogQuery:
    return LogQuery(values.get("task", ""), values.get("q", ""))


def _failed(_request: Request, error: Exception) -> Response:
    return HTMLResponse(shell("Not shown", "message.html", {}, text=str(error)), status_code=404)


def _missing(_request: Request, _error: Exception) -> Response:
    return HTMLResponse(
        shell("No such page", "message.html", {}, text="There is nothing at this address."), status_code=404
    )
