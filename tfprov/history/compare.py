"""Compares runs: the settings and versions that differ, and the final figures. Pure."""

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tfprov.history.reader import RunRecord

_VOLATILE = ("cluster",)
"""Settings that say nothing about a training."""


@dataclass(frozen=True)
class Difference:
    """A setting with its value in each of the runs, None where a run does not have it."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Figures:
    """The final figures of a run."""

    run: str
    outcome: str
    seconds: float | None
    step: int | None
    steps: int | None
    loss: float | None
    rate: float | None
    restarts: int
    went_back: int
    quality: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """What differs between `runs`, and their figures, in the order in which they were named."""

    runs: tuple[RunRecord, ...]
    differences: tuple[Difference, ...]
    figures: tuple[Figures, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return `runs compare --json`."""
        return {
            "runs": [record.summary.to_dict() for record in self.runs],
            "differences": {one.name: list(one.values) for one in self.differences},
            "figures": [{**vars(one), "quality": dict(one.quality)} for one in self.figures],
            "curves": [[[s.step, s.loss, s.at] for s in record.curve(500)] for record in self.runs],
        }


def compare(records: Sequence[RunRecord]) -> Comparison:
    """Compare two or more runs."""
    facts = [_facts(record.description) for record in records]
    names = dict.fromkeys(name for one in facts for name in one)
    rows = [Difference(name, tuple(one.get(name) for one in facts)) for name in names]
    different = [row for row in rows if len({repr(_comparable(value)) for value in row.values}) > 1]
    roles = {role for record in records for role in _mapping(record.description.get("settings"))}
    return Comparison(tuple(records), tuple(_merged(different, roles)), tuple(map(_figures, records)))


def _comparable(value: Any) -> Any:
    """Return a value for comparisons: a setting that an earlier version did not have is like one that is empty."""
    return None if value in ([], {}, "") else value


def _merged(rows: Sequence[Difference], roles: Collection[str]) -> Iterator[Difference]:
    """Yield the rows, and one row without a role in place of those that all of several roles have in common."""
    by_setting: dict[str, list[Difference]] = {}
    for row in rows:
        role, _, setting = row.name.partition(".")
        by_setting.setdefault(setting if role in roles else "", []).append(row)
    shared = {
        setting: group
        for setting, group in by_setting.items()
        if setting and len(group) == len(roles) > 1 and all(row.values == group[0].values for row in group)
    }
    for row in rows:
        setting = row.name.partition(".")[2]
        if row not in shared.get(setting, ()):
            yield row
        elif row is shared[setting][0]:
            yield Difference(setting, row.values)


def _figures(record: RunRecord) -> Figures:
    one = record.summary
    return Figures(
        one.run,
        one.outcome,
        one.duration,
        one.last_step,
        one.steps,
        one.loss,
        _mean_rate(record) or one.rate,
        one.restarts,
        one.went_back,
        one.quality,
    )


def _mean_rate(record: RunRecord) -> float | None:
    """Return the steps per second of the time in which the chief trained, without pauses; None if that is not known."""
    steps, seconds, starts = 0, 0.0, _starts(record)
    for _, samples in groupby(record.samples, key=lambda sample: bisect(starts, sample.at)):
        first, *others = samples
        if others and others[-1].step > first.step:
            steps, seconds = steps + others[-1].step - first.step, seconds + others[-1].at - first.at
    return steps / seconds if seconds > 0 else None


def _starts(record: RunRecord) -> list[float]:
    """Return when the chief was started, the first time and after each stop: it does not train before."""
    chief = record.description.get("chief")
    started = {"event": "done", "action": "start", "subject": chief}.items()
    events = (event for event in record.events() if started <= event.items())
    return sorted(event["at"] for event in events if isinstance(event.get("at"), int | float))


def _facts(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings and versions by dotted names; a setting that all hosts of a role share has no host in its name."""
    facts: dict[str, Any] = {}
    for role, hosts in _mapping(description.get("settings")).items():
        by_host = {host: dict(_flat(values)) for host, values in _mapping(hosts).items()}
        for name in dict.fromkeys(name for values in by_host.values() for name in values):
            values = [one.get(name) for one in by_host.values()]
            if all(value == values[0] for value in values):
                facts[f"{role}.{name}"] = values[0]
            else:
                facts |= {f"{role}.{name} on {host}": one.get(name) for host, one in by_host.items()}
    facts = {name: value for name, value in facts.items() if name.partition(".")[2] not in _VOLATILE}
    facts |= {f"version of {name}": value for name, value in _mapping(description.get("versions")).items()}
    for number, code in enumerate(_entries(description.get("code"))):
        which = f" {number + 1}" if number else ""
        git = _mapping(code.get("git"))
        facts |= {f"code{which}": code.get("digest"), f"commit{which}": git.get("commit")}
        facts[f"uncommitted changes{which}"] = git.get("dirty")
    for number, image in enumerate(_entries(description.get("images"))):
        facts[f"image{f' {number + 1}' if number else ''}"] = image.get("id") or image.get("name")
    return facts | {"hosts": description.get("hosts"), "tasks": len(_entries(description.get("tasks")))}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, below in value.items():
            yield from _flat(below, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
