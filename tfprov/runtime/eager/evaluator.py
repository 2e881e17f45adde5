"""Evaluate every new checkpoint of the chief and keep the best one, until the training ends."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov.atomic_write import replace
from tfprov.formats.checkpoint import checkpoint_state, checkpoints
from tfprov.runtime.lazy_tensorflow import graph_api, tensorflow
from tfprov.runtime.progress import say
from tfprov.runtime.signals import Signals, die

POLL = 1.0
"""Seconds between two searches for a new checkpoint."""

Measure = typing.Callable[[Any], typing.Mapping[str, float]]
"""Computes named values in a session that holds the variables of a checkpoint."""


def evaluate(
    build: Callable[[], Measure], directory: str, train_steps: int, best: str | None = None
) -> dict[str, float]:
    """Measure each whole checkpoint of `directory`, the oldest first, until that of `train_steps`; return the last result.

    `build` makes the graph of the model, without its optimizer, and returns the measuring function. Each result is printed,
    `step 448 macro-F1 0.9512`, and written to an event file in `directory`/eval. The checkpoint with the highest `best`
    so far is kept in `directory`/best, where no saver removes it. Signals end the task at once: nothing would be lost. A
    remote directory (`gs://…`) ends it as well, with code 1.
    """
    v1 = graph_api()
    with v1.Graph().as_default() as graph:
        measure, saver = build(), v1.train.Saver(sharded=False)

    def measure_checkpoint(prefix: Path) -> Mapping[str, float]:
        with v1.Session(graph=graph) as session:
            saver.restore(session, str(prefix))
            return measure(session)

    return _evaluate_checkpoints(measure_checkpoint, directory, train_steps, best)


def evaluate_objects(
    objects: Mapping[str, Any],
    measure: Callable[[], Mapping[str, float]],
    directory: str,
    train_steps: int,
    best: str | None = None,
) -> dict[str, float]:
    """Evaluate a TF2 program as `evaluate` does; each checkpoint is restored into `objects`, some of those it saves."""
    checkpoint = tensorflow().train.Checkpoint(**objects)

    def measure_checkpoint(prefix: Path) -> Mapping[str, float]:
        checkpoint.restore(str(prefix)).assert_existing_objects_matched().expect_partial()
        return measure()

    return _evaluate_checkpoints(measure_checkpoint, directory, train_steps, best)


def _evaluate_checkpoints(
    measure_checkpoint: Callable[[Path], Mapping[str, float]], directory: str, train_steps: int, best: str | None
) -> dict[str, float]:
    if "://" in directory:
        die(f"{directory} is not on a disk: only checkpoints that are can be evaluated")
    v1 = graph_api()
    with Signals().handled():
        with v1.Graph().as_default():  # FileWriter refuses eager execution, but needs nothing in its graph
            writer = v1.summary.FileWriter(str(Path(directory) / "eval"))
        result: dict[str, float] = {}
        for prefix, step in new_checkpoints(directory, train_steps):
            if measures := _measure_unless_removed(measure_checkpoint, prefix):
                result = measures
                _report(writer, step, result)
                if best:
                    keep_best(prefix, result[best], best)
        writer.close()
    return result


def new_checkpoints(directory: str, train_steps: int, poll: float = POLL) -> Iterator[tuple[Path, int]]:
    """Yield (prefix, step) of every whole checkpoint, also later ones, up to that of `train_steps`.

    A training that went back saves a step a second time: that counts as a new checkpoint.
    """
    yielded: set[tuple[Path, int]] = set()
    while True:
        over = False
        for prefix, step in _whole_checkpoints(Path(directory)):
            try:
                written = prefix.with_name(f"{prefix.name}.index").stat().st_mtime_ns
            except FileNotFoundError:  # the saver keeps the newest few and has just removed this one
                continue
            over = over or step >= train_steps
            if (prefix, written) not in yielded:
                yielded.add((prefix, written))
                yield prefix, step
        if over:
            return
        time.sleep(poll)


def _whole_checkpoints(folder: Path) -> list[tuple[Path, int]]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:  # the chief has not saved yet
        return []
    whole = [(folder / each.prefix, each.step) for each in checkpoints(names) if each.whole]
    return sorted(whole, key=lambda each: each[1])


def _measure_unless_removed(
    measure_checkpoint: Callable[[Path], Mapping[str, float]], prefix: Path
) -> dict[str, float] | None:
    """Return None for a checkpoint that was removed, or saved anew, while it was read."""
    try:
        return dict(measure_checkpoint(prefix))
    except (tensorflow().errors.OpError, ValueError, AssertionError):
        if any(whole == prefix for whole, _ in _whole_checkpoints(prefix.parent)):
            raise
        return None


def _report(writer: Any, step: int, result: Mapping[str, float]) -> None:
    summary = graph_api().Summary()
    for name, value in result.items():
        summary.value.add(tag=name, simple_value=value)
    writer.add_summary(summary, step)
    writer.flush()
    say(" ".join((f"step {step}", *(f"{name} {value:.4f}" for name, value in result.items()))))


def keep_best(prefix: Path, value: float, name: str = "value") -> bool:
    """Keep the checkpoint in `best` beside it if `value` is higher than that of the one there; return whether it is.

    `best/best.json` names it with its value, and is written last, so that it never names missing files.
    """
    folder, value = prefix.parent / "best", float(value)  # numbers of NumPy are no JSON
    before = _read_best(folder)
    if math.isnan(value) or (before and before["value"] >= value):  # NaN is below and above nothing
        return False
    folder.mkdir(exist_ok=True)
    try:
        for path in prefix.parent.glob(f"{prefix.name}.*"):
            _link(path, folder / path.name)
    except FileNotFoundError:  # the saver removes it at this moment
        return False
    if not any(
        kept == folder / prefix.name for kept, _ in _whole_checkpoints(folder)
    ):  # it has removed it, or some of it
        return False  # the next better one removes the rest
    replace(folder / "checkpoint", checkpoint_state(prefix.name, [prefix.name]).encode())
    replace(folder / "best.json", json.dumps({"checkpoint": prefix.name, "name": name, "value": value}).encode())
    for path in folder.glob("*.*"):
        if path.name != "best.json" and not path.name.startswith(f"{prefix.name}."):
            path.unlink()
    sys.stderr.write(f"tfprov: best so far: {prefix.name} with {name} {value:.4f}\n")
    return True


def _read_best(folder: Path) -> dict[str, Any] | None:
    try:
        best = json.loads((folder / "best.json").read_text("utf-8"))
        return best if isinstance(best["value"], float) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _link(source: Path, target: Path) -> None:
    """Link `source` to `target`, or copy it: a saver replaces files and never writes into them, so a link is enough."""
    beside = target.with_name(f".{target.name}.part")
    beside.unlink(missing_ok=True)
    try:
        os.link(source, beside)
    except OSError:
        shutil.copy2(source, beside)
    beside.replace(target)
