"""Whether record files are whole, and what they hold: no record is decoded for it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tfprov.tfrecord.errors import DamagedFile
from tfprov.tfrecord.files import FileError, PathLike, expand
from tfprov.tfrecord.framing import MAX_RECORD_BYTES
from tfprov.tfrecord.reading import blocks


@dataclass(frozen=True)
class Verdict:
    """What a file holds: intact records before the first damage, their bytes of data, the smallest and the largest.

    `damage` is the message of the damage, and None for a whole file.
    """

    file: str
    records: int
    data_bytes: int
    smallest: int
    largest: int
    damage: str | None

    @property
    def whole(self) -> bool:
        """Whether every record is intact."""
        return self.damage is None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**asdict(self), "whole": self.whole}


def verify(
    path_or_paths: PathLike | Iterable[PathLike],
    compression: str | None = None,
    *,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> list[Verdict]:
    """Check the checksums of every record of every file.

    Damage is in the verdicts and raises nothing; so is a file that cannot be opened.
    """
    return [_verdict(file, compression, max_record_bytes) for file in expand(path_or_paths)]


def _verdict(file: str, compression: str | None, max_record_bytes: int) -> Verdict:
    damages: list[DamagedFile | FileError] = []
    records = total = largest = 0
    smallest: int | None = None
    try:
        for block in blocks([file], compression, max_record_bytes, damages.append):
            sizes = block.ends - block.starts
            records, total = records + len(sizes), total + int(sizes.sum())
            largest = max(largest, int(sizes.max()))
            smallest = int(np.min(sizes) if smallest is None else min(smallest, int(sizes.min())))
    except FileError as error:  # it cannot be opened; the other files are verified all the same
        damages.append(error)
    return Verdict(file, records, total, smallest or 0, largest, str(damages[0]) if damages else None)
