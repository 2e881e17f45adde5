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
