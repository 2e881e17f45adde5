"""Handwritten digits as TFRecords: pairs of them for multi-label programs, single ones for mnist.py.

    python digits_data.py DIR        # run it where you prepare data

writes into DIR, the same bytes every time; no digit of a test file is in a training file:

    train-00000-of-00004.tfrecord …  6000 images of 8x16 with two digits side by side: `image_raw` (a byte a pixel) and
    test.tfrecord                    `labels` (ten int64, 1 for each digit that is in it); 1000 in test.tfrecord
    train.tfrecords                  1437 images of 8x8 with one digit: `image_raw`, and `label` (one int64)
    validation.tfrecords             360 of them

digits.npz holds the 1797 images, `images` [1797, 8, 8] from 0 to 16, and their `labels` [1797]: the test part of "Optical
Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998, UCI Machine Learning Repository,
doi:10.24432/C50P49), under the Creative Commons Attribution 4.0 licence (CC BY 4.0); unchanged but for its format.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

FILES, TRAIN, TEST, SEED = 4, 6000, 1000, 20161203


def pair(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Read a record of two digits: an image [8, 16, 1] from 0 to 1, and its ten labels; or a batch of records, faster."""
    features = {"image_raw": tf.io.FixedLenFeature([], tf.string), "labels": tf.io.FixedLenFeature([10], tf.int64)}
    fields = tf.io.parse_example(record, features)
    pixels = tf.reshape(
        tf.io.decode_raw(fields["image_raw"], tf.uint8), [-1, 8, 16, 1] if record.shape.rank else [8, 16, 1]
    )
    return tf.cast(pixels, tf.float32) / 255.0, tf.cast(fields["labels"], tf.float32)


def score(labels: Any, logits: Any) -> dict[str, float]:
    """Return the macro-F1 and the accuracy of every label, for arrays [images, 10]; a logit above 0 is a yes."""
    truth, predicted = np.asarray(labels) > 0.5, np.asarray(logits) > 0
    hits, wrong = (truth & predicted).sum(0), (truth != predicted).sum(0)
    f1 = 2 * hits / np.maximum(2 * hits + wrong, 1)
    accuracy = (truth == predicted).mean(0)
    return {"macro-F1": float(f1.mean())} | {f"accuracy/{label}": float(accuracy[label]) for label in range(10)}


def _write(path: Path, images: Any, name: str, labels: Iterable[Any]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for image, label in zip(images, labels):
            raw = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()]))
            numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=np.atleast_1d(label)))
            example = tf.train.Example(features=tf.train.Features(feature={"image_raw": raw, name: numbers}))
            writer.write(example.SerializeToString())


def main(directory: Path) -> None:
    """Write the files."""
    random = np.random.default_rng(SEED)
    with np.load(Path(__file__).with_name("digits.npz")) as digits:
        images, targets = digits["images"] * np.uint8(15), digits["labels"]
    order = random.permutation(len(targets))
    parts = {"train": order[:-360], "test": order[-360:]}
    directory.mkdir(parents=True, exist_ok=True)
    for part, name in (("train", "train.tfrecords"), ("test", "validation.tfrecords")):
        _write(directory / name, images[parts[part]], "label", targets[parts[part]])
    for part, names, size in (
        ("train", [f"train-{number:05}-of-{FILES:05}.tfrecord" for number in range(FILES)], TRAIN // FILES),
        ("test", ["test.tfrecord"], TEST),
    ):
        for name in names:
            two = random.choice(parts[part], [size, 2])
            labels = np.eye(10, dtype=np.int64)[targets[two]].max(1)
            _write(directory / name, np.concatenate([images[two[:, 0]], images[two[:, 1]]], axis=2), "labels", labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
