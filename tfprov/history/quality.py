"""Curves and measures of quality in the event files that were gathered."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfprov.formats.event_file import EventScalar, scalars

_MOST = 8 * 1024 * 1024
"""Bytes of event files that are read: about two seconds of reading small records."""
_MEASURES = (
    "accuracy",
    "auc",
    "precision",
    "recall",
    "f1",
    "mse",
    "mae",
    "rmse",
    "perplexity",
    "error",
    "top_k",
    "iou",
)
"""Words in the tags of measures of quality, the one that is shown first."""
_POINTS = 2000
"""Points that are kept of a curve."""


@dataclass
class EventData:
    """Of all event files: the last value of each measure, by tag, and the loss by step with its time."""

    measures: dict[str, float] = field(default_factory=dict)
    loss: list[tuple[float, int, float]] = field(default_factory=list)


def read_event_data(directory: Path, since: float = 0.0) -> EventData:
    """Read the event files below `directory` that were written after `since`; damaged ones as far as they are whole."""
    data, left = EventData(), _MOST
    for path in _event_files(directory, since):
        if (size := path.stat().st_size) > left:
            continue
        left -= size
        below = path.parent.relative_to(directory).as_posix()
        losses, batches = list[tuple[float, int, float]](), list[tuple[float, int, float]]()
        for one in _readable(path):
            tag = one.tag if below == "." else f"{below}/{one.tag}"
            if is_measure(tag):
                data.measures[tag] = one.value
            elif one.tag in ("loss", "epoch_loss") or (one.tag.endswith("/loss") and below == "."):
                losses.append((one.wall_time, one.step, one.value))
            elif one.tag == "batch_loss":  # Keras counts batches here, and epochs for `epoch_loss` in the same file
                batches.append((one.wall_time, one.step, one.value))
        data.loss += batches or losses
    data.loss.sort()
    data.loss = data.loss[:: max(1, len(data.loss) // _POINTS)]
    return data


def _event_files(directory: Path, since: float) -> Iterator[Path]:
    files = [(path.stat().st_mtime, path) for path in directory.rglob("*.tfevents.*") if path.is_file()]
    yield from (path for modified, path in sorted(files) if modified >= since)


def _readable(path: Path) -> Iterator[EventScalar]:
    try:
        with path.open("rb") as file:
            yield from scalars(file)
    except (OSError, ValueError):  # what was read before the damage counts
        return


def is_measure(tag: str) -> bool:
    """Whether a tag names a measure of quality."""
    words = tag.lower().replace("-", "_").split("/")[-1]
    return any(measure in words.split("_") or words.endswith(measure) for measure in _MEASURES)


def headline(measures: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the measure for a table with one column: one of an evaluation before one of the training."""

    def rank(tag: str) -> tuple[bool, int, str]:
        lower = tag.lower()
        number = next((n for n, measure in enumerate(_MEASURES) if measure in lower), len(_MEASURES))
        return not ("eval" in lower or "val" in lower or "test" in lower), number, tag

    tag = min(measures, key=rank, default=None)
    return None if tag is None else (tag, measures[tag])
