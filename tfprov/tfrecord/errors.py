"""Errors of record files: each names the file, the byte and the number of the record."""

from tfprov.errors import TfprovError, one_line, printable

SALVAGE = "restore the file, or pass salvage=True (`--salvage`) to read the records before it"


class RecordFileError(TfprovError):
    """A record that is damaged, or does not fit the schema. `offset` is in bytes of the uncompressed data.

    `record` is the number of the record in its file, from 0. `reason` is the message without the place, `fix` its advice.
    """

    def __init__(self, file: str, offset: int, record: int, what: str, fix: str = SALVAGE) -> None:
        self.file, self.offset, self.record, self.reason, self.fix = file, offset, record, what, fix
        super().__init__(f"{one_line(file)}: record {record} at byte {offset}: {what}", fix)


class DamagedFile(RecordFileError):
    """A file whose records end here: cut, a wrong checksum, or compressed data that cannot be read."""


class InvalidRecord(RecordFileError):
    """A record with correct checksums that is not the protobuf message it should be, or does not fit the schema."""


class SchemaError(TfprovError):
    """A schema, an option or a table that record files cannot have."""


def column_label(name: str) -> str:
    """Return a column's name for a message."""
    return f"column `{printable(name)}`"
