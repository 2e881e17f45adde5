"""The last lines of a training: what was trained, how long it took, where it is, and what to do next. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from tfprov.planning.plan_text import format_span
from tfprov.results import RunResult


def closing_lines(result: RunResult, sources: Sequence[str] = ()) -> Iterator[str]:
    """Yield them; `next:` has the commands that a user needs now. `sources` are those of the option `-i`."""
    step = f", to step {result.newest.step:,}" if result.newest is not None else ""
    where = f": {result.newest.path}" if result.newest is not None else ""
    yield f"{result.cluster} trained for {format_span(result.seconds)}{step}{where}"
    run = result.run.rpartition("-")[2]
    show = [f"`tfprov runs show {run}` shows the run"] if run else []
    inventory = "".join(f" -i {shlex.quote(source)}" for source in sources)
    resume = [f"`tfprov run --resume{inventory}` trains on from here"] if result.newest is not None else []
    if commands := [*show, *resume]:
        yield f"next: {', '.join(commands)}"
