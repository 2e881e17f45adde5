"""Which format a path has: by its extension, or by name."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from tfprov.errors import one_line, printable
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.files import FileError, PathLike, expand

TFRECORD, PARQUET, CSV, JSON, NUMPY, IMAGES = "tfrecord", "parquet", "csv", "json", "numpy", "images"
FORMATS = (TFRECORD, PARQUET, CSV, JSON, NUMPY, IMAGES)
EXTENSIONS = {TFRECORD: ".tfrecord", PARQUET: ".parquet", CSV: ".csv", JSON: ".jsonl", NUMPY: ".npz"}
"""The extension of the files of a sharded output."""
_BY_EXTENSION = {
    ".tfrecord": TFRECORD,
    ".tfrecords": TFRECORD,
    ".tfrec": TFRECORD,
    ".records": TFRECORD,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".csv": CSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".npy": NUMPY,
    ".npz": NUMPY,
}
_COMPRESSED = re.compile(r"\.(gz|gzip|zlib|zz|deflate)$", re.IGNORECASE)
_SHARD = re.compile(r"-\d+-of-\d+$")
IMAGE_EXTENSIONS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")


def format_named(name: str) -> str:
    """Return a format by its name in any case; raises SchemaError."""
    if name.lower() not in FORMATS:
        raise SchemaError(f"unknown format `{printable(name)}`", f"use {', '.join(FORMATS)}")
    return name.lower()


def format_of(path: str, option: str) -> str:
    """Return the format of a file by its extension, TFRecord for names without any; `option` names it instead."""
    name = _COMPRESSED.sub("", path.rstrip("/").rpartition("/")[2])
    extension = Path(_SHARD.sub("", name)).suffix.lower()
    if extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    if extension:
        raise SchemaError(
            f"{one_line(path)}: the extension names no format", f"name one with {option}, such as {option} csv"
        )
    return TFRECORD


def source_files(paths: PathLike | Iterable[PathLike], name: str | None) -> tuple[str, list[str]]:
    """Return the format of sources and their files; for images the directories."""
    several = [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not several:
        raise FileError("there is no source", "name a file or a directory")
    if name == IMAGES or (name is None and all(_has_images(path) for path in several)):
        return IMAGES, several
    files = expand(several)
    if name is not None:
        return name, files
    formats = {format_of(file, "--from"): file for file in reversed(files)}
    if len(formats) > 1:
        examples = " and ".join(one_line(file) for file in list(formats.values())[:2])
        raise SchemaError(
            f"the sources have several formats: {examples}", "convert them one by one, or name one with --from"
        )
    return next(iter(formats)), files


def _has_images(path: str) -> bool:
    """Whether a path is a directory without files that has a directory with images."""
    if not Path(path).is_dir():
        return False
    entries = [each for each in Path(path).iterdir() if each.name[0] not in "._"]
    if any(each.is_file() for each in entries):
        return False
    return any(file.suffix.lower() in IMAGE_EXTENSIONS for each in entries if each.is_dir() for file in each.iterdir())
