"""JSON lines as a source, and values as JSON has them."""

import base64
import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from tfprov.errors import one_line
from tfprov.tfrecord.converting.source import Looked, Source, chosen, size_of, text_file
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.files import FileError, opened

_LINES = 4096


def plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes in base64, and floats, times and decimals, which it does not have, as text."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):  # a map has pairs
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)


def json_source(files: Sequence[str], columns: list[str] | None, looked: Looked) -> Source:
    """Return files with an object in each line, whose types a first pass over all lines finds."""
    schema, rows, size = pa.schema([]), 0, 0
    for file in files:
        with opened(file) as stream:
            size += size_of(stream)
        for line, objects in _objects(file):
            schema = _with_types(schema, objects, file, line)
            rows += len(objects)
            looked(rows)
    schema = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in schema])
    names = chosen(schema.names, columns)
    fields = pa.schema([schema.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            for line, objects in _objects(file):
                try:
                    yield pa.RecordBatch.from_pylist(objects, fields)
                except (pa.ArrowException, OverflowError) as error:  # an integer that no float is
                    where = f"{one_line(file)}: lines {line} to {line + len(objects) - 1}"
                    raise SchemaError(f"{where}: {one_line(str(error))[:160]}", "write it as text") from error

    return Source(fields, rows, 2 * size, batches)


def _with_types(schema: pa.Schema, objects: list[dict[str, Any]], file: str, line: int) -> pa.Schema:
    """Return a schema that fits these objects, too."""
    where = f"{one_line(file)}: lines {line} to {line + len(objects) - 1}"
    own = []
    for name in dict.fromkeys(name for each in objects for name in each):
        try:
            own.append((name, pa.array([each.get(name) for each in objects]).type))
        except OverflowError:
            raise SchemaError(
                f"{where}: `{one_line(name)}` has a number of more than 64 bits", "write it as text"
            ) from None
        except pa.ArrowException as error:
            what = f"{where}: `{one_line(name)}` has values of several types: {one_line(str(error))[:120]}"
            raise SchemaError(what, "write all of them in one type") from error
    try:
        return pa.unify_schemas([schema, pa.schema(own)], promote_options="permissive")
    except pa.ArrowTypeError as error:
        what = f"{where}: other types than the lines before: {one_line(str(error))[:160]}"
        raise SchemaError(what, "write all of them in one type") from error


def _objects(file: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the number of the first line and the objects of some lines at a time."""
    with text_file(file) as stream:
        first = 1
        while lines := list(islice(stream, _LINES)):
            numbered = [(first + number, text) for number, text in enumerate(lines) if text.strip()]
            if numbered:
                yield numbered[0][0], [_object(file, number, text) for number, text in numbered]
            first += len(lines)


def _object(file: str, line: int, text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
        if b"\\ud" in text.lower():  # one half of a surrogate pair is no text
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FileError(f"{one_line(file)}: line {line}: it is no JSON: {one_line(str(error))[:120]}") from error
    if not isinstance(value, dict):
        raise FileError(f"{one_line(file)}: line {line}: it is no object", "write one object in each line")
    return value
