import io
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.event_files import event, sized, varint
from tfprov.formats.event_file import EventProgress, EventScalar, last_scalars, last_step_drop, progress, scalars
from tfprov.formats.tfrecord import write_record

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOAT32 = st.floats(width=32)


def file_of(*events: bytes) -> io.BytesIO:
    stream = io.BytesIO()
    for data in (event(1, 0, rest=sized(3, b"brain.Event:2")), *events):
        write_record(stream, data)
    stream.seek(0)
    return stream


def read(*events: bytes) -> list[EventScalar]:
    return list(scalars(file_of(*events)))


@given(wall_time=st.floats(0, 1e10), step=INT64, values=st.dictionaries(st.text(), FLOAT32, max_size=4))
def test_every_scalar_put_in_comes_out(wall_time: float, step: int, values: dict[str, float]) -> None:
    logged = read(event(wall_time, step, values))

    assert [(scalar.wall_time, scalar.step, scalar.tag) for scalar in logged] == [
        (wall_time, step, tag) for tag in values
    ]
    assert repr([scalar.value for scalar in logged]) == repr(list(values.values()))


FLOAT, DOUBLE, INT32, STRING, INT = (b"\x08" + varint(dtype) for dtype in (1, 2, 3, 7, 9))
SHAPE_1 = sized(2, sized(2, b"\x08\x01"))
SHAPE_2 = sized(2, sized(2, b"\x08\x02"))
SHAPE_0 = sized(2, sized(2, b""))


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (FLOAT + sized(4, struct.pack("<f", 0.5)), 0.5),
        (DOUBLE + sized(4, struct.pack("<d", 0.1)), 0.1),
        (INT32 + sized(4, struct.pack("<i", -7)), -7.0),
        (INT + sized(4, struct.pack("<q", -7)), -7.0),
        (FLOAT + sized(5, struct.pack("<f", 0.5)), 0.5),
        (FLOAT + b"\x2d" + struct.pack("<f", 0.5), 0.5),
        (DOUBLE + sized(6, struct.pack("<d", 0.1)), 0.1),
        (INT32 + sized(7, varint(-7)), -7.0),
        (INT + b"\x50" + varint(-7), -7.0),
        (SHAPE_1 + FLOAT + sized(4, struct.pack("<f", 0.5)), 0.5),
        (FLOAT + sized(2, b""), 0.0),
        (FLOAT + sized(5, b""), 0.0),
        (INT, 0.0),
        (FLOAT + SHAPE_2 + sized(4, bytes(8)), None),
        (FLOAT + SHAPE_0, None),
        (FLOAT + sized(4, bytes(3)), None),
        (STRING + sized(8, b"text"), None),
        (b"", None),
    ],
)
def test_a_tensor_of_one_number_is_a_scalar(tensor: bytes, value: float | None) -> None:
    assert [scalar.value for scalar in read(event(1, 2, {"x": tensor}))] == ([] if value is None else [value])


def test_a_tag_that_is_not_utf8_is_read() -> None:
    value = sized(1, b"a\xff") + b"\x15" + struct.pack("<f", 3.0)
    assert read(event(1.5, 2, rest=sized(5, sized(1, value)))) == [EventScalar(1.5, 2, "a\ufffd", 3.0)]


def test_missing_fields_have_the_defaults_of_protobuf() -> None:
    assert read(sized(5, sized(1, b"\x15" + struct.pack("<f", 3.0)))) == [EventScalar(0.0, 0, "", 3.0)]


def test_unknown_fields_are_skipped() -> None:
    unknown = b"\xf8\x7f\x05" + b"\xf9\x7f" + bytes(8) + b"\xfd\x7f" + bytes(4) + sized(2047, b"later")

    assert read(event(1.5, 2, {"x": 3.0}, rest=unknown)) == [EventScalar(1.5, 2, "x", 3.0)]


@pytest.mark.parametrize(
    "message", [b"\x09\0", b"\x13", b"\x2a\x05a", b"\xff", b"\x10" + b"\xff" * 11, sized(5, b"\x0a")]
)
def test_a_record_that_is_no_event_is_an_error_to_scalars_and_nothing_to_progress(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"^the message ends inside a (?:field|number)$|^unknown wire type [347]$"):
        read(message)
    assert progress(file_of(event(1, 7, {}), message)) == EventProgress(7, 1.0, None, None)
    drop = [event(1, 9, {"x": 1.0}), message, event(2, 5, {"x": 1.0})]
    assert last_step_drop(file_of(*drop), since=0) == (9, 5)


def test_a_damaged_record_is_an_error_to_scalars() -> None:
    content = file_of(event(1, 2, {"x": 3.0})).getvalue()
    with pytest.raises(ValueError, match=r"^the data does not match its checksum in the record at byte 40$"):
        list(scalars(io.BytesIO(content[:-1] + b"\0")))


def test_a_file_cut_anywhere_gives_the_scalars_before_the_cut() -> None:
    events = [event(step, step, {"loss": 1 / step, "x": float(step)}) for step in range(1, 4)]
    content = file_of(*events).getvalue()
    ends = [len(file_of(*events[:count]).getvalue()) for count in range(1, 4)]
    for cut in range(len(content) + 1):
        whole = sum(end <= cut for end in ends)
        assert list(scalars(io.BytesIO(content[:cut]))) == read(*events[:whole])
        assert progress(io.BytesIO(content[:cut])) == progress(file_of(*events[:whole]))


def test_the_scalars_in_the_last_bytes_of_a_file_begin_with_its_first_whole_record() -> None:
    events = [event(step, step, {"loss": float(step)}) for step in range(1, 50)]
    content = file_of(*events).getvalue()
    record = len(file_of(events[0]).getvalue()) - len(file_of().getvalue())
    for size in (0, 1, record - 1, record, 3 * record + 5, len(content), len(content) + 1):
        count = min(size // record, 49)
        assert list(last_scalars(io.BytesIO(content), size)) == read(*events)[49 - count :]


def test_progress_comes_from_the_last_records() -> None:
    stream = file_of(
        event(100, 10, {"loss": 3.0}),
        event(110, 30, {"global_step/sec": 2.5}),
        event(120, 40, {"train/loss": 2.0, "accuracy": 0.5}),
        event(121, 41, rest=sized(7, b"\x08\x03")),
    )

    assert progress(stream) == EventProgress(step=41, wall_time=121.0, steps_per_second=2.5, loss=2.0)


def test_without_a_rate_the_last_two_steps_give_it() -> None:
    stream = file_of(
        event(50, 1, {"loss": 9.0}),
        event(100, 10, {"loss": 3.0}),
        event(101, 10, {"x": 3.0}),
        event(105, 30, {"x": 1.0}),
        event(106, 30, {"epoch_loss": 2.0}),
    )

    assert progress(stream) == EventProgress(step=30, wall_time=106.0, steps_per_second=4.0, loss=2.0)


def test_the_last_record_wins_when_a_lost_ps_sets_training_back() -> None:
    back = [event(100, 448, {"loss": 1.0}), event(117, 401, {"loss": 1.5})]

    assert progress(file_of(*back)) == EventProgress(401, 117.0, None, 1.5)
    assert progress(file_of(*back, event(118, 411, {}))) == EventProgress(411, 118.0, 10.0, 1.5)
    assert progress(file_of(*back, event(117, 411, {}))) == EventProgress(411, 117.0, None, 1.5)


def test_epochs_between_batches_as_keras_writes_them_are_no_steps() -> None:
    graph = event(1, 0, rest=sized(5, b""))
    first = [event(10, 1, {"batch_loss": 9}), event(11, 2, {"batch_loss": 8}), event(12, 0, {"epoch_loss": 8.5})]
    second = [event(13, 3, {"batch_loss": 7}), event(14, 4, {"batch_loss": 6}), event(15, 1, {"epoch_loss": 6.5})]
    iterations = event(15, 4, {"evaluation_loss_vs_iterations": 3})
    stream = file_of(graph, *first, *second)
    assert progress(stream) == EventProgress(step=4, wall_time=14, steps_per_second=1, loss=6.5)
    assert progress(file_of(first[0], first[2])) == EventProgress(step=1, wall_time=10, steps_per_second=None, loss=8.5)
    late = event(12, 5, {"epoch_loss": 8.5})
    assert progress(file_of(first[0], late)) == EventProgress(step=5, wall_time=12, steps_per_second=2, loss=8.5)
    assert last_step_drop(stream, since=0) is None
    assert last_step_drop(file_of(*second, *first), since=0) == (4, 1)
    epochs = file_of(graph, first[2], second[2], iterations)
    assert progress(epochs) == EventProgress(step=1, wall_time=15, steps_per_second=1 / 3, loss=6.5)
    assert last_step_drop(epochs, since=0) is None
    assert last_step_drop(file_of(second[2], iterations, first[2]), since=0) == (1, 0)


def test_a_graph_written_at_a_restart_is_no_step() -> None:
    graph = event(200, 0, rest=sized(4, b"graph"))

    assert progress(file_of(graph)) is None
    assert progress(file_of(event(100, 448, {"loss": 1.0}), graph)) == EventProgress(448, 100.0, None, 1.0)


@pytest.mark.parametrize("tag", ["loss_scale", "lossy", "my_loss", "accuracy"])
def test_other_tags_are_no_loss(tag: str) -> None:
    assert progress(file_of(event(1, 1, {tag: 1.0}))) == EventProgress(1, 1.0, None, None)


def test_a_loss_that_is_not_a_number_is_returned() -> None:
    latest = progress(file_of(event(1, 1, {"loss": math.nan})))

    assert latest
    assert latest.loss is not None
    assert math.isnan(latest.loss)


@pytest.mark.parametrize(
    ("step", "rate", "steps", "left"),
    [
        (10, 2.0, 30, 10.0), (1, 2.0, 2, 0.5), (0, 2.0, 30, None), (30, 2.0, 30, None), (31, 2.0, 30, None),
        (10, None, 30, None), (10, 0.0, 30, None), (10, 2.0, None, None), (-1, 2.0, 30, None),
    ],
)  # fmt: skip
def test_the_time_that_is_left_at_the_current_rate(
    step: int, rate: float | None, steps: int, left: float | None
) -> None:
    assert EventProgress(step, 1.0, rate, None).seconds_left(steps) == left


def test_an_empty_file_has_no_progress() -> None:
    assert progress(io.BytesIO()) is None
    assert progress(file_of()) is None


class Counting(io.BytesIO):
    """A file that counts the bytes it was asked for."""

    total = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.total += len(data)
        return data


def test_of_a_large_file_only_the_tail_is_read() -> None:
    events = [event(step, step, {"loss": 1 / step, "a/long/tag": 0.0}) for step in range(1, 10_000)]
    stream = Counting(file_of(*events).getvalue())

    assert progress(stream) == EventProgress(9_999, 9_999.0, 1.0, struct.unpack("<f", struct.pack("<f", 1 / 9_999))[0])
    assert stream.total < len(stream.getvalue()) / 4


TAIL = 1 << 16
"""Bytes that are read from the end of a file at first."""


@pytest.mark.parametrize(
    ("number", "size", "tag", "limit", "reads_all"),
    [
        (1500, 16, "x", None, False),
        (200, 300, "x", None, True),
        (200, 300, "x", 1, False),
        (200, 300, "loss", None, False),
    ],
    ids=["more records than are looked at", "fewer", "a limit", "a loss"],
)
def test_all_of_a_file_is_read_only_while_a_value_is_missing(
    number: int, size: int, tag: str, limit: int | None, reads_all: bool
) -> None:
    events = (event(step, step, {tag: 1.0}, rest=sized(200, b"x" * size)) for step in range(1, number + 1))
    stream = Counting(file_of(*events).getvalue())
    latest = progress(stream) if limit is None else progress(stream, limit)
    assert latest == EventProgress(number, number, 1.0, 1.0 if tag == "loss" else None)
    assert stream.total == TAIL + len(stream.getvalue()) * reads_all


@pytest.mark.parametrize(("number", "reads_all"), [(1023, True), (1024, False)])
def test_after_1024_records_no_more_is_read(number: int, reads_all: bool) -> None:
    first = event(1, 1, {}, rest=sized(200, b"x" * 100_000))
    stream = Counting(file_of(first, *[event(step, step, {}) for step in range(2, number + 2)]).getvalue())
    assert progress(stream) == EventProgress(number + 1, number + 1, 1.0, None)
    assert stream.total == TAIL + len(stream.getvalue()) * reads_all


def test_where_there_is_no_step_more_and_more_is_read() -> None:
    stream = Counting(b"\xff" * ((1 << 21) + 1))
    assert progress(stream) is None
    assert stream.total == (1 << 16) + (1 << 18) + (1 << 21) + (1 << 21) + 1


def test_a_drop_before_the_last_64_kib_is_not_looked_for() -> None:
    drop = [event(1, 9, {"loss": 1.0}), event(2, 5, {"loss": 1.0})]
    assert last_step_drop(file_of(*drop), since=0) == (9, 5)
    later = event(3, 6, {"loss": 1.0}, rest=sized(200, b"x" * TAIL))
    assert last_step_drop(file_of(*drop, later), since=0) is None


@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_a_huge_last_record_does_not_hide_the_steps_before_it(size: int) -> None:
    image = event(3, 3, {}, rest=sized(200, bytes(size)))
    before = [event(step, step, {"loss": 0.5}) for step in (1, 2)]

    assert progress(file_of(*before, image)) == EventProgress(3, 3.0, 1.0, 0.5)


def test_damage_in_the_middle_of_a_large_file_does_not_hide_its_end() -> None:
    content = bytearray(file_of(*(event(step, step, {"loss": 0.5}) for step in range(1, 9000))).getvalue())
    content[1000:1100] = bytes(100)

    assert progress(io.BytesIO(content)) == EventProgress(8999, 8999.0, 1.0, 0.5)


@given(st.binary())
def test_garbage_has_no_progress(garbage: bytes) -> None:
    assert progress(io.BytesIO(garbage)) is None


@given(messages=st.lists(st.binary(max_size=30)), garbage=st.binary())
def test_well_framed_garbage_is_no_error_to_progress(messages: list[bytes], garbage: bytes) -> None:
    progress(io.BytesIO(file_of(*messages).getvalue() + garbage))


@given(st.integers(0, 8 * 300 - 1))
def test_a_flipped_bit_is_no_error_to_progress(bit: int) -> None:
    content = bytearray(file_of(*(event(step, step, {"loss": 0.5}) for step in range(1, 8))).getvalue())
    content[bit // 8] ^= 1 << bit % 8
    latest = progress(io.BytesIO(content))

    assert latest is None or (latest.step in range(1, 8) and latest.loss == 0.5)


def test_zeros_at_the_end_as_after_a_lost_disk_are_no_error() -> None:
    events = [event(step, step, {"loss": 0.5}) for step in (1, 2)]

    assert progress(io.BytesIO(file_of(*events).getvalue() + bytes(5000))) == EventProgress(2, 2.0, 1.0, 0.5)


@pytest.fixture(scope="module")
def tensorboard() -> Any:
    return pytest.importorskip("tensorboard.compat.proto.event_pb2")


@given(values=st.dictionaries(st.text(min_size=1), FLOAT32, max_size=4), step=INT64)
def test_tensorboards_messages_are_read(tensorboard: Any, values: dict[str, float], step: int) -> None:
    theirs = tensorboard.Event(wall_time=1.5, step=step)
    for tag, value in values.items():
        theirs.summary.value.add(tag=tag, simple_value=value, node_name="node")
        theirs.summary.value.add(tag=tag, tensor={"dtype": 1, "float_val": [value]}, metadata={"display_name": "x"})

    assert repr([scalar.value for scalar in read(theirs.SerializeToString())]) == repr(
        [value for value in values.values() for _ in range(2)]
    )


def test_the_last_of_several_drops_counts_and_only_one_since_a_time() -> None:
    steps = [(100, 50), (110, 20), (120, 70), (130, 71), (140, 40), (150, 90)]
    events = [event(when, step, {"loss": 1.0}) for when, step in steps]
    assert last_step_drop(file_of(*events), since=0) == (71, 40)
    assert last_step_drop(file_of(*events[:-2]), since=0) == (50, 20)
    assert last_step_drop(file_of(*events[:-2]), since=110) is None
    assert last_step_drop(file_of(*events), since=139.9) == (71, 40)
    assert last_step_drop(file_of(*events[2:4]), since=0) is None
    assert last_step_drop(file_of(), since=0) is None
