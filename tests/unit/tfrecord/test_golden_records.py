"""Files that TensorFlow wrote are read with every value; tests/support/golden_records.py made them."""

from tests.support.golden_records import FOLDER, LISTS, VALUES
from tfprov import tfrecord


def test_files_of_tensorflow_are_read_with_every_value() -> None:
    for name in ("plain.tfrecord", "gzip.tfrecord.gz", "zlib.tfrecord.zlib"):
        assert tfrecord.read_table(FOLDER / name, columns=list(VALUES[0])).to_pylist() == VALUES, name


def test_sequence_examples_of_tensorflow_are_read_with_every_value() -> None:
    table = tfrecord.read_table(FOLDER / "sequence.tfrecord", record_type="SequenceExample")
    assert table.to_pylist() == LISTS
