import os
from pathlib import Path

import pytest

from tests.support.event_files import event
from tfprov.formats.tfrecord import write_record
from tfprov.history.quality import read_event_data

EPOCHS = [(12, 0, {"epoch_loss": 8.5, "epoch_accuracy": 0.5}), (15, 1, {"epoch_loss": 6.5, "epoch_accuracy": 0.6})]
BATCHES = [(11, 2, {"batch_loss": 8.0}), (14, 4, {"batch_loss": 6.0})]


@pytest.mark.parametrize(
    ("events", "curve"),
    [(EPOCHS, [(0, 8.5), (1, 6.5)]), ([*EPOCHS, *BATCHES], [(2, 8.0), (4, 6.0)])],
    ids=["epochs", "epochs between batches"],
)
def test_the_curve_of_a_file_of_keras_has_steps_of_one_kind(
    tmp_path: Path, events: list[tuple[float, int, dict[str, float]]], curve: list[tuple[int, float]]
) -> None:
    (tmp_path / "train").mkdir()
    with (tmp_path / "train" / "events.out.tfevents.1.h1").open("wb") as file:
        for one in sorted(events, key=lambda one: one[0]):
            write_record(file, event(*one))
    data = read_event_data(tmp_path)
    assert [(step, loss) for _, step, loss in data.loss] == curve
    assert data.measures == {"train/epoch_accuracy": pytest.approx(0.6)}


def write_events(path: Path, *events: tuple[float, int, dict[str, float]], modified: float = 1_000.0) -> int:
    """Write an event file, and return its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for one in events:
            write_record(file, event(*one))
    os.utime(path, (modified, modified))
    return path.stat().st_size


def test_losses_of_an_evaluation_are_no_part_of_the_curve(tmp_path: Path) -> None:
    write_events(tmp_path / "x.tfevents.1", (1, 10, {"loss": 3.0}), (3, 20, {"loss": 2.0, "val/loss": 9.0}))
    write_events(tmp_path / "eval_all" / "x.tfevents.1", (4, 20, {"loss": 8.0, "accuracy": 0.5}))
    write_events(tmp_path / "validation" / "x.tfevents.1", (5, 1, {"epoch_loss": 7.0}))
    write_events(tmp_path / "interval" / "x.tfevents.1", (6, 30, {"loss": 1.0}))
    data = read_event_data(tmp_path)
    assert [(step, loss) for _, step, loss in data.loss] == [(10, 3.0), (20, 2.0), (30, 1.0)]
    assert data.measures == {"eval_all/accuracy": 0.5}


def test_epochs_of_one_file_are_not_mixed_into_the_batches_of_another(tmp_path: Path) -> None:
    write_events(tmp_path / "a" / "x.tfevents.1", *EPOCHS)
    write_events(tmp_path / "b" / "x.tfevents.1", *BATCHES)
    assert [(step, loss) for _, step, loss in read_event_data(tmp_path).loss] == [(2, 8.0), (4, 6.0)]


def test_the_newest_event_files_are_read_first_and_the_end_of_a_large_one(tmp_path: Path) -> None:
    losses = [(float(step), step, {"loss": float(step)}) for step in range(300)]
    size = write_events(tmp_path / "x.tfevents.1", *losses[:100], modified=1_000.0)
    write_events(tmp_path / "x.tfevents.2", *losses[100:], modified=3_000.0)
    small = write_events(tmp_path / "eval" / "x.tfevents.1", (1, 7, {"auc": 0.75}), modified=2_000.0)
    data = read_event_data(tmp_path, most=size)
    steps = [step for _, step, _ in data.loss]
    assert data.measures == {"eval/auc": 0.75}
    assert steps[-1] == 299
    newest = [step for step in steps if step >= 100]
    assert newest == [*range(newest[0], 300)]
    assert len(newest) >= 40, "half of the bytes at least"
    whole = read_event_data(tmp_path, most=4 * size + small)
    assert [step for _, step, _ in whole.loss] == [*range(300)]
    assert read_event_data(tmp_path / "eval", most=small).measures == {"auc": 0.75}
