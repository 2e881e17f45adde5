"""A directory of images, with a directory for each class: DIRECTORY/CLASS/FILE.

The bytes of the files are the values, as they are: images are not decoded. Height and width come from the headers of PNG,
JPEG, GIF and BMP files; they are null for others.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tfprov.errors import one_line
from tfprov.tfrecord.converting.formats import IMAGE_EXTENSIONS
from tfprov.tfrecord.converting.source import BATCH_BYTES, ROWS, Looked, Source, chosen
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.files import FileError, as_file_error

IMAGE, LABEL, TEXT = "image", "label", "text"
SCHEMA = pa.schema(
    [(IMAGE, pa.binary()), (LABEL, pa.int64()), (TEXT, pa.string()), ("height", pa.int64()), ("width", pa.int64())]
)
"""The columns: the file's bytes, the number of the class in the order of names, its name, and the size in pixels."""
_MAGIC = ((b"\x89PNG", ".png"), (b"\xff\xd8", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"), (b"RIFF", ".webp"))
_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""Markers of JPEG between those of frames."""


def image_source(directories: Sequence[str], columns: list[str] | None, looked: Looked) -> Source:
    """Return the images of directories; other files are left out. Classes of the same name are one class."""
    files = [(each.parent.name, each) for directory in directories for each in _images(directory)]
    if not files:
        raise FileError(f"{one_line(directories[0])}: there are no images", "it needs a directory for each class")
    labels = {name: label for label, name in enumerate(sorted({name for name, _ in files}))}
    names = chosen(SCHEMA.names, columns)
    fields = pa.schema([SCHEMA.field(name) for name in names])
    looked(len(files))

    def batches() -> Iterator[pa.RecordBatch]:
        rows: list[tuple[object, ...]] = []
        size = 0
        for name, file in files:
            data = _read(file)
            rows.append((data, labels[name], name, *(image_size(data) or (None, None))))
            size += len(data)
            if size >= BATCH_BYTES or len(rows) == ROWS:
                yield _batch(rows, fields)
                rows, size = [], 0
        if rows:
            yield _batch(rows, fields)

    return Source(fields, len(files), sum(_size(file) for _, file in files), batches)


def _images(directory: str) -> Iterator[Path]:
    if not Path(directory).is_dir():
        raise FileError(f"{one_line(directory)}: it is no directory", "name one with a directory for each class")
    for folder in sorted(each for each in Path(directory).iterdir() if each.is_dir() and each.name[0] not in "._"):
        images = (file for file in folder.iterdir() if file.suffix.lower() in IMAGE_EXTENSIONS)
        yield from sorted(file for file in images if file.name[0] != ".")  # macOS keeps `._cat.jpg` beside `cat.jpg`


def _size(file: Path) -> int:
    with as_file_error(str(file)):
        return file.stat().st_size


def _read(file: Path) -> bytes:
    with as_file_error(str(file)):
        return file.read_bytes()


def _batch(rows: Sequence[tuple[object, ...]], fields: pa.Schema) -> pa.RecordBatch:
    values = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
    return pa.RecordBatch.from_arrays([pa.array(values[f.name], f.type) for f in fields], schema=fields)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return height and width by the header of a PNG, JPEG, GIF or BMP file; None for anything else."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack_from(">II", data, 16)
        elif data.startswith((b"GIF87a", b"GIF89a")):
            width, height = struct.unpack_from("<HH", data, 6)
        elif data.startswith(b"BM"):
            width, height = struct.unpack_from("<ii", data, 18)
        else:
            return _jpeg_size(data) if data.startswith(b"\xff\xd8") else None
    except struct.error:
        return None
    return abs(height), width


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return height, width
        else:
            position += 2 + struct.unpack_from(">H", data, position + 2)[0]
    return None


class ImageSink:
    """Writes images into a directory for each class: CLASS/0000017.png, by the number of the row."""

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self._directory, self._row = directory, 0
        for name, usable in ((IMAGE, (pa.binary(), pa.large_binary())), (self._class(schema), None)):
            if name not in schema.names:
                raise SchemaError(
                    f"there is no {column_label(name)}", f"images need the columns {IMAGE} and {TEXT} or {LABEL}"
                )
            if usable and schema.field(name).type not in usable:
                what = f"{column_label(name)} has the type {schema.field(name).type}, and images are binary"
                raise SchemaError(what, "name the column with the files' bytes `image`")
        self._label = self._class(schema)

    @staticmethod
    def _class(schema: pa.Schema) -> str:
        return TEXT if TEXT in schema.names else LABEL

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        for image, label in zip(batch.column(IMAGE), batch.column(self._label), strict=True):
            data, name = image.as_py(), str(label.as_py())
            if data is None or label.as_py() is None or name in ("", ".", "..") or "/" in name or "\0" in name:
                raise SchemaError(f"row {self._row}: it has no image, or no class that can be a directory's name")
            extension = next((end for magic, end in _MAGIC if data.startswith(magic)), ".bin")
            folder = self._directory / name
            with as_file_error(f"row {self._row}, class `{name[:60]}`"):  # a name may be too long for a directory
                folder.mkdir(exist_ok=True)
                (folder / f"{self._row:07}{extension}").write_bytes(data)
            self._row += 1

    def finish(self) -> None:
        """Nothing is left to write."""
