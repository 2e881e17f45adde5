"""tf.train.Example and SequenceExample as protobuf's own messages, to bring irregular records into one form.

Protobuf (upb, its library in C) reads a message by all its rules and writes it again: lists are packed, parts of one
message are merged, keys stand before values, and there are no unknown fields. A record in that form is regular, so that
it is decoded in lock-step like the others.

The classes are built at run time, in a pool of their own where they do not meet TensorFlow's. Maps are repeated entries,
which they are on the wire: upb drops an entry of a map that has an unknown field. Keys are bytes, so that a key that is
not UTF-8 and that nobody asked for is no reason to refuse a record.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_PACKAGE = "tfprov.tfrecord"
_Field: Any = descriptor_pb2.FieldDescriptorProto


@cache
def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="tfprov/tfrecord/example.proto", package=_PACKAGE, syntax="proto2")
    for name, value in (
        ("BytesList", _Field.TYPE_BYTES),
        ("FloatList", _Field.TYPE_FLOAT),
        ("Int64List", _Field.TYPE_INT64),
    ):
        field = file.message_type.add(name=name).field.add(
            name="value", number=1, type=value, label=_Field.LABEL_REPEATED
        )
        field.options.packed = value != _Field.TYPE_BYTES
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("BytesList", "FloatList", "Int64List"), 1):
        _add(feature, name, number, name).oneof_index = 0
    _add(file.message_type.add(name="FeatureList"), "feature", 1, "Feature").label = _Field.LABEL_REPEATED
    _add_map(file.message_type.add(name="Features"), "Feature")
    _add_map(file.message_type.add(name="FeatureLists"), "FeatureList")
    _add(file.message_type.add(name="Example"), "features", 1, "Features")
    sequence = file.message_type.add(name="SequenceExample")
    _add(sequence, "context", 1, "Features")
    _add(sequence, "feature_lists", 2, "FeatureLists")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add(message: Any, name: str, number: int, of: str) -> Any:
    return message.field.add(
        name=name, number=number, type=_Field.TYPE_MESSAGE, type_name=f".{_PACKAGE}.{of}", label=_Field.LABEL_OPTIONAL
    )


def _add_map(message: Any, of: str) -> None:
    entry = message.nested_type.add(name="Entry")
    entry.field.add(name="key", number=1, type=_Field.TYPE_BYTES, label=_Field.LABEL_OPTIONAL)
    _add(entry, "value", 2, of)
    _add(message, "entry", 1, f"{message.name}.Entry").label = _Field.LABEL_REPEATED


def in_one_form(data: bytes, record_type: str) -> bytes | None:
    """Return an Example or a SequenceExample as protobuf writes it; None for one that protobuf refuses."""
    try:
        message = _message(record_type).FromString(data)
    except DecodeError:
        return None
    message.DiscardUnknownFields()
    result: bytes = message.SerializeToString()
    return result
