"""What is promised of every way of training: the cases of test_strategies.py, and the table of docs/strategies.md.

The table is made from the same cases that the tests run, so it can promise nothing that no test looks at: as processes in
each run of the suite, and in Docker, but for two, in `make matrix`, which records the day in tests/matrix.json.

    python -m tests.strategies       # writes the table into docs/strategies.md
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT
from tfprov.atomic_write import replace

PAGE = ROOT / "docs" / "strategies.md"
RECORD = Path(__file__).with_name("matrix.json")
"""By the name of a case: when it last survived on hosts of its own."""
ALWAYS = ("digits-async", "all-reduce")
"""The cases that run in Docker with every run of the suite: one with a ps, one without."""
BEGIN, END = "<!-- strategies: python -m tests.strategies -->", "<!-- end of strategies -->"

KINDS = ("worker", "ps", "chief")
"""What is killed, in this order."""

QUALITY = 0.93
"""The macro-F1 on images that nobody trained with."""


@dataclass(frozen=True)
class Case:
    """A way of training: its inventory, who is killed of each kind, and why there is nobody where there is none."""

    label: str
    inventory: str
    victims: dict[str, str]
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Such as `digits-async`."""
        return self.inventory.removesuffix(".yml")

    @property
    def chief(self) -> str:
        """The task that saves."""
        return self.victims["chief"]


_BETWEEN = {"worker": "worker/1", "ps": "ps/0", "chief": "worker/0"}
_LED = {"worker": "worker/1", "ps": "ps/0", "chief": "chief/0"}
CASES = (
    Case("`between_graph`, asynchronous", "digits-async.yml", _BETWEEN),
    Case("`between_graph`, synchronous", "digits-sync.yml", _BETWEEN),
    Case("`in_graph`", "in-graph.yml", _LED),
    Case("`parameter_server`", "parameter-server.yml", _LED),
    Case(
        "`multi_worker_mirrored`",
        "all-reduce.yml",
        {"worker": "worker/1", "chief": "worker/0"},
        {"ps": "has no ps: MultiWorkerMirroredStrategy keeps every variable on every worker"},
    ),
    Case(
        "`single`",
        "single.yml",
        {"chief": "worker/0"},
        {"worker": "has one task", "ps": "has one task"},
    ),
)


def table() -> str:
    """Return the table, as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    heads = [f"{kind} killed" for kind in KINDS]
    yield "| strategy | where | trains to quality | checkpoint whole on the chief | " + " | ".join(heads) + " |"
    yield "|---|---|---|---|" + "---|" * len(heads)
    notes: list[str] = []
    days = json.loads(RECORD.read_text())
    for case in CASES:
        hosts = f"Docker, a host each ({days[case.name]})" if case.name in days else None
        for where in filter(None, ("processes", hosts)):
            cells = ["yes", "yes", *(_cell(case, kind, notes) for kind in KINDS)]
            yield f"| {case.label} | {where} | " + " | ".join(cells) + " |"
    for number, note in enumerate(notes, 1):
        yield ""
        yield f"<sup>{number}</sup> {note}."


def _cell(case: Case, kind: str, notes: list[str]) -> str:
    if kind in case.victims:
        return "goes on"
    note = f"{case.label} {case.reasons[kind]}"
    if note not in notes:
        notes.append(note)
    return f"none<sup>{notes.index(note) + 1}</sup>"


def replaced(page: str) -> str:
    """Return docs/strategies.md with the table as it is now."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended):
        raise ValueError(f"docs/strategies.md has no {BEGIN!r} … {END!r}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    replace(PAGE, replaced(PAGE.read_text()).encode())
