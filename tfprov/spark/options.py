"""Options of the data source, in the names of Spark, of TensorFlow's connector and of its fork."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tfprov.errors import printable
from tfprov.tfrecord.column_types import EXAMPLE, record_type_of
from tfprov.tfrecord.compression import AUTO, codec_of
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.files import SCHEME
from tfprov.tfrecord.framing import MAX_RECORD_BYTES
from tfprov.tfrecord.inference import CONNECTOR

_HADOOP_CODECS = {
    "gzipcodec": "gzip",
    "passthroughcodec": "none",
    "defaultcodec": "zlib",
    "deflatecodec": "zlib",
}
"""Hadoop's classes by their last name, in lower case."""
LOCALITIES = ("distributed", "local")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


@dataclass(frozen=True)
class Options:
    """The options of a read or a write. `paths` are absolute, or have a scheme; `compression` is as in tfprov.tfrecord."""

    paths: tuple[str, ...]
    record_type: str
    compression: str
    rules: str
    sample_records: int | None
    salvage: bool
    max_record_bytes: int
    recursive: bool
    base_path: str | None
    infer_partition_types: bool
    partition_by: tuple[str, ...]
    dynamic_overwrite: bool
    local: bool
    max_files: int | None
    max_file_age: float

    @property
    def path(self) -> str:
        """The one path to write to."""
        if len(self.paths) != 1:
            raise SchemaError(f"a write needs one path, not {len(self.paths)}", "use .save(path)")
        return self.paths[0]


def parse(options: Mapping[str, str]) -> Options:
    """Return options as Spark passes them, whose names are in any case; raises SchemaError for a value that is wrong."""
    values = {name.lower(): value for name, value in options.items()}
    return Options(
        paths=tuple(absolute(path) for path in _paths(values)),
        record_type=record_type_of(values.get("recordtype", EXAMPLE)),
        compression=_compression(values),
        rules=values.get("rules", CONNECTOR),
        sample_records=_integer(values, "samplerecords"),
        salvage=_boolean(values, "salvage", default=False),
        max_record_bytes=_integer(values, "maxrecordbytes") or MAX_RECORD_BYTES,
        recursive=_boolean(values, "recursivefilelookup", default=False),
        base_path=absolute(values["basepath"]) if "basepath" in values else None,
        infer_partition_types=_boolean(values, "partitioncolumntypeinference", default=True),
        partition_by=tuple(_list(values, "partitionby")),
        dynamic_overwrite=_one_of(values, "partitionoverwritemode", ("static", "dynamic")) == "dynamic",
        local=_one_of(values, "writelocality", LOCALITIES) == "local",
        max_files=_integer(values, "maxfilespertrigger"),
        max_file_age=_seconds(values.get("maxfileage", "7d")),
    )


def absolute(path: str) -> str:
    """Return a path that is the same in every process: local ones absolute, without the scheme `file`."""
    if path.lower().startswith("file:"):
        path = "/" + path[len("file:") :].lstrip("/")
    return path if SCHEME.match(path) else os.path.abspath(path)  # noqa: PTH100  resolve() follows links


def _paths(values: Mapping[str, str]) -> list[str]:
    several = _list(values, "paths")
    return [*([values["path"]] if values.get("path") else []), *several]


def _list(values: Mapping[str, str], name: str) -> list[str]:
    text = values.get(name, "")
    if not text.startswith("["):
        return [text] if text else []
    try:
        items = json.loads(text)
    except ValueError:
        items = None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise SchemaError(
            f"option {name}: `{printable(text)}` is not a list of names", 'use a JSON list, as ["a", "b"]'
        )
    return items


def _compression(values: Mapping[str, str]) -> str:
    """Return the compression that `codec` or `compression` names: a class of Hadoop's, a short name, or none at all."""
    name = values.get("codec") or values.get("compression")
    if name is None:
        return AUTO
    return hadoop_codec(name)


def hadoop_codec(name: str) -> str:
    """Return tfprov's name for a codec that is named as in Hadoop or Spark; raises SchemaError."""
    last = name.strip().rpartition(".")[2].lower()
    if last == AUTO:
        return AUTO
    known = _HADOOP_CODECS.get(last)
    try:
        return known or codec_of("", last)
    except SchemaError:
        fix = "use none, gzip, zlib, org.apache.hadoop.io.compress.GzipCodec or DefaultCodec: TensorFlow reads no other"
        raise SchemaError(f"TFRecord files have no codec `{printable(name)}`", fix) from None


def _integer(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise SchemaError(f"option {name}: `{printable(text)}` is not a number above 0")
    return int(text)


def _boolean(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = values.get(name, str(default)).lower()
    if text not in _TRUE + _FALSE:
        raise SchemaError(f"option {name}: `{printable(text)}` is not true or false")
    return text in _TRUE


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = values.get(name, choices[0]).lower()
    if text not in choices:
        raise SchemaError(f"option {name}: unknown value `{printable(text)}`", f"use {' or '.join(choices)}")
    return text


def _seconds(text: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in units or not number.isdigit():
        raise SchemaError(f"option maxfileage: `{printable(text)}` is not a duration", "use one such as 12h or 7d")
    return float(number) * units[unit]
