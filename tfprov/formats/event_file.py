"""The numbers in a TensorBoard event file, read without TensorFlow.

An event file is a TFRecord file of `Event` messages (TensorFlow's event.proto, summary.proto and tensor.proto). Only
the fields of numbers are decoded; everything else is skipped. `scalars` reads a whole file, `progress` only its tail.
Standard library only, because tasks use it too.
"""

import io
import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

from tfprov.formats.protobuf import fields, signed, varint
from tfprov.formats.tfrecord import last_records, read_records, verify_body


@dataclass(frozen=True)
class EventScalar:
    """One number a program logged; `wall_time` is in seconds since 1970."""

    wall_time: float
    step: int
    tag: str
    value: float


@dataclass(frozen=True)
class EventProgress:
    """The progress of a training in the last records of an event file; `wall_time` is in seconds since 1970."""

    step: int
    wall_time: float
    steps_per_second: float | None
    loss: float | None

    def seconds_left(self, steps: int | None) -> float | None:
        """Return the seconds until `steps` are done at the current rate; None if that is unknown, or they are done."""
        rate = self.steps_per_second
        return (steps - self.step) / rate if steps and rate and 0 < self.step < steps else None


@dataclass(frozen=True)
class _Event:
    """An event of a step; other events, a version or a graph, always have step 0."""

    wall_time: float
    step: int
    values: tuple[tuple[str, float], ...]


def scalars(stream: BinaryIO) -> Iterator[EventScalar]:
    """Yield the scalars of an event file of TensorFlow 1 or 2, in the order of the file.

    A file that ends inside a record is still being written: the scalars before it are yielded. Raises ValueError for a
    damaged record, and for a record that is not an event. Reads every byte: 4-5 MB/s (about 100,000 scalars a
    second) where the records are small, 65 MB/s where they are of 10 KB.
    """
    for event in filter(None, map(_event, read_records(stream, live=True))):
        for tag, value in event.values:
            yield EventScalar(event.wall_time, event.step, tag, value)


def last_scalars(stream: BinaryIO, max_bytes: int) -> Iterator[EventScalar]:
    """Yield the scalars in the last `max_bytes` of an event file, in the order of the file; damaged data is skipped.

    `stream` must be seekable. A damaged length ends the file.
    """
    start = max(0, stream.seek(0, io.SEEK_END) - max_bytes)
    stream.seek(start)
    data = stream.read(max_bytes)
    for body in last_records(data, max_bytes, aligned=start == 0):
        if (event := _readable_event(data[body])) is not None:
            for tag, value in event.values:
                yield EventScalar(event.wall_time, event.step, tag, value)


# --- progress: the tail of the file ---------------------------------------------------------------------------------

_RATE = "global_step/sec"
# Bytes read from the end: more only while a value is missing and there were fewer than _RECENT records, and the last
# size, for files that end in a huge graph or image, only while there is no step at all.
_TAILS = tuple(1 << bits for bits in (16, 18, 21, 24, 27))
_RECENT = 1024


def progress(stream: BinaryIO, max_bytes: int = _TAILS[-1]) -> EventProgress | None:
    """Return the progress in the last records of an event file, or None if they have no step.

    `stream` must be seekable. The last record wins even if its step is lower: a run that lost its ps goes back to its
    last checkpoint. Where Keras has written both batches and epochs, batches are the steps. `steps_per_second` is the
    program's own `global_step/sec`, else computed from the last two different steps; `loss` is the last scalar whose
    tag is `loss`, `epoch_loss` or ends in `/loss`. Damaged data is skipped; a damaged length ends the file.

    Takes 4-15 ms for a file of any size, and 0.2 s if large records (10 KB) have no loss: then 16 MiB are read for it.
    Reads at most the last 1,024 records or 128 MiB, or `max_bytes` if that is less.
    """
    size = stream.seek(0, io.SEEK_END)
    latest = None
    for tail in (tail for tail in _TAILS if tail <= max(max_bytes, _TAILS[0])):
        start = max(0, size - tail)
        stream.seek(start)
        data = stream.read(size - start)
        records = last_records(data, _RECENT, aligned=start == 0)
        latest = _latest(filter(None, (_readable_event(data[body]) for body in reversed(records))))
        if start == 0 or (latest and (_is_complete(latest) or len(records) == _RECENT or tail == _TAILS[-2])):
            break
    return latest


def last_step_drop(stream: BinaryIO, since: float, max_bytes: int = _TAILS[0]) -> tuple[int, int] | None:
    """Return the last step followed by a lower one, and the lower one, if that was written after `since`; else None.

    `since` is in seconds since 1970, and `stream` is as for `progress`. TensorFlow writes its events in blocks: the last
    event alone misses a drop that the training has caught up with.
    """
    size = stream.seek(0, io.SEEK_END)
    start = max(0, size - max_bytes)
    stream.seek(start)
    data = stream.read(size - start)
    records = last_records(data, max_bytes, aligned=start == 0)
    events = [event for body in records if (event := _readable_event(data[body])) is not None and event.values]
    pairs = itertools.pairwise(_of_one_scale(events))
    drops = [(a.step, b.step) for a, b in pairs if b.step < a.step and b.wall_time > since]
    return drops[-1] if drops else None


def _is_complete(progress: EventProgress) -> bool:
    return progress.loss is not None and progress.steps_per_second is not None


def _readable_event(body: bytes) -> _Event | None:
    data = verify_body(body)
    try:
        return None if data is None else _event(data)
    except ValueError:
        return None


def _latest(events: Iterable[_Event]) -> EventProgress | None:
    """Fold events, the newest first, into where training stands."""
    loss = rate = None
    every, batches, epochs = list[_Event](), list[_Event](), list[_Event]()
    for event in events:
        for marks in (every, epochs if _counts_epochs(event) else batches if _counts_batches(event) else every):
            if not marks or (len(marks) == 1 and event.step != marks[0].step):
                marks.append(event)
        for tag, value in reversed(event.values):
            rate = value if rate is None and tag == _RATE else rate
            loss = value if loss is None and _is_loss(tag) else loss
        if rate is not None and loss is not None:
            break
    if epochs and not (batches and batches[0].step <= epochs[0].step):
        every = batches or epochs
    newest, before = [*every, None, None][:2]
    if newest is None:
        return None
    return EventProgress(newest.step, newest.wall_time, _speed(before, newest) if rate is None else rate, loss)


def _counts_epochs(event: _Event) -> bool:
    """Whether the step of an event is an epoch, as the TensorBoard callback of Keras writes it."""
    return bool(event.values) and all(tag.startswith("epoch_") for tag, _ in event.values)


def _counts_batches(event: _Event) -> bool:
    return any(not tag.startswith(("epoch_", "evaluation_")) for tag, _ in event.values)


def _of_one_scale(events: Sequence[_Event]) -> Sequence[_Event]:
    """Leave out the epochs between batches, and between epochs what counts otherwise."""
    if not any(map(_counts_epochs, events)):
        return events
    return [*filter(_counts_batches, events)] or [*filter(_counts_epochs, events)]


def _is_loss(tag: str) -> bool:
    return tag in ("loss", "epoch_loss") or tag.endswith("/loss")


def _speed(before: _Event | None, newest: _Event) -> float | None:
    """Return the steps per second between two events; None if the step or the time does not grow."""
    if before is None or before.step > newest.step or not newest.wall_time > before.wall_time:
        return None
    return (newest.step - before.step) / (newest.wall_time - before.wall_time)


# --- the messages ---------------------------------------------------------------------------------------------------

# How a field's value is written, in the low three bits of its key.
_VARINT, _BYTES = 0, 2
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")

# TensorProto: dtype -> how tensor_content holds one number, and the field that holds it otherwise (types.proto).
_NUMBERS = {
    1: (_FLOAT, 5),
    2: (_DOUBLE, 6),
    3: (struct.Struct("<i"), 7),
    9: (struct.Struct("<q"), 10),
}


def _event(data: bytes) -> _Event | None:
    """Parse an Event; None if it belongs to no step. Raises ValueError for invalid bytes."""
    wall_time, step, summary, has_step = 0.0, 0, b"", False
    for key, number, content in fields(data):
        match key >> 3, key & 7:
            case 1, 1:
                (wall_time,) = _DOUBLE.unpack(content)
            case 2, 0:
                step = signed(number)
            case 5, 2:
                summary, has_step = content, True
            case 7, 2:  # session_log: a checkpoint was saved
                has_step = True
    return _Event(wall_time, step, tuple(_values(summary))) if has_step else None


def _values(summary: bytes) -> Iterator[tuple[str, float]]:
    """Yield (tag, number) for the scalar values of a Summary."""
    for key, _, content in fields(summary):
        if key == 1 << 3 | _BYTES:
            tag, value = _value(content)
            if value is not None:
                yield tag, value


def _value(data: bytes) -> tuple[str, float | None]:
    tag, value = "", None
    for key, _, content in fields(data):
        match key >> 3, key & 7:
            case 1, 2:
                tag = content.decode("utf-8", "replace")
            case 2, 5:
                (value,) = _FLOAT.unpack(content)
            case 8, 2:
                value = _number(content)
    return tag, value


def _number(tensor: bytes) -> float | None:
    """Parse a TensorProto of one number of a type in _NUMBERS; None for any other tensor.

    TensorFlow fills up a tensor with fewer values than its shape with zeros.
    """
    by_number = {key >> 3: (number, content) for key, number, content in fields(tensor)}
    (dtype, _), (_, shape), (_, content) = (by_number.get(field, (0, b"")) for field in (1, 2, 4))
    if dtype not in _NUMBERS or _elements(shape) != 1:
        return None
    form, listed = _NUMBERS[dtype]
    if content:
        return _first(form, content) if len(content) == form.size else None
    return _listed(form, *by_number.get(listed, (0, b"")))


def _listed(form: struct.Struct, number: int, content: bytes) -> float:
    """Parse the first value of a repeated field, packed or not: floats have a fixed width, integers are varints."""
    if form in (_FLOAT, _DOUBLE):
        return _first(form, content) if len(content) >= form.size else 0.0
    return float(signed(varint(content, 0)[0] if content else number))


def _first(form: struct.Struct, content: bytes) -> float:
    (number,) = form.unpack_from(content)
    return float(number)


def _elements(shape: bytes) -> int:
    """Return the product of the dimensions in a TensorShapeProto; a scalar has none."""
    return prod(
        next((number for key, number, _ in fields(content) if key == 1 << 3 | _VARINT), 0)
        for key, _, content in fields(shape)
        if key == 2 << 3 | _BYTES
    )
