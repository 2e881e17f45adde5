"""Curves and measures of quality in the event files that were gathered."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfprov.formats.event_file import EventScalar, last_scalars, scalars

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
_EVALUATION = re.compile(r"eval|(?<![a-z])val(id|idation)?(?![a-z])", re.IGNORECASE)
"""In the name of a directory, or before the last slash of a tag: what is below is of an evaluation."""
_POINTS = 2000
"""Points that are kept of a curve."""


@dataclass
class EventData:
    """Of all event files: the last value of each measure, by tag, and the loss by step with its time."""

    measures: dict[str, float] = field(default_factory=dict)
    loss: list[tuple[float, int, float]] = field(default_factory=list)


def read_event_data(directory: Path, since: float = 0.0, most: int = _MOST) -> EventData:
    """Read the event files below `directory` that were written after `since`; damaged ones as far as they are whole.

    About `most` bytes are read, those of the newest files first, and of a larger file those at its end. Losses of an
    evaluation are no part of the curve, and epochs are its steps only where nothing counts otherwise.
    """
    data, epochs = EventData(), list[tuple[float, int, float]]()
    for path, size in _shares(directory, since, most):
        below = path.parent.relative_to(directory).as_posix()
        for one in _readable(path, size):
            tag = one.tag if below == "." else f"{below}/{one.tag}"
            point = (one.wall_time, one.step, one.value)
            if is_measure(tag):
                data.measures[tag] = one.value
            elif _EVALUATION.search(tag.rpartition("/")[0]):
                continue
            elif one.tag == "epoch_loss":  # Keras counts epochs here, and batches for `batch_loss`
                epochs.append(point)
            elif one.tag in ("loss", "batch_loss") or (one.tag.endswith("/loss") and below == "."):
                data.loss.append(point)
    data.loss = sorted(data.loss or epochs)
    data.loss = data.loss[:: max(1, len(data.loss) // _POINTS)]
    return data


def _shares(directory: Path, since: float, most: int) -> list[tuple[Path, int]]:
    """Return the files to read, the oldest first, and how many bytes of the end of each.

    A file that does not fit leaves half of what is left to older ones, such as those of an evaluation.
    """
    present = [(path, path.stat()) for path in directory.rglob("*.tfevents.*") if path.is_file()]
    files = sorted((stat.st_mtime, path, stat.st_size) for path, stat in present if stat.st_mtime >= since)
    left, shares = most, dict[Path, int]()
    for _, path, size in reversed(files):
        shares[path] = size if size <= left else left // 2
        left -= shares[path]
    for _, path, size in reversed(files):  # what the older ones did not need
        more = min(size - shares[path], left)
        shares[path] += more
        left -= more
    return [(path, shares[path]) for _, path, _ in files if shares[path]]


def _readable(path: Path, size: int) -> Iterator[EventScalar]:
    try:
        with path.open("rb") as file:
            yield from scalars(file) if size >= path.stat().st_size else last_scalars(file, size)
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
