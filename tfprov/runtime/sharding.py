"""Which part of the data a replica trains on: so many of the files, or so many of their records.

By file, no replica opens a file of another one's; that is the cheaper way, and needs as many files for each of them. By
index, every replica reads all files and keeps every n-th record: any number of files will do, and each record is read
as often as there are replicas. tf.data's own auto-sharding knows both, but works for strategies of Keras alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SHARDS = ("auto", "file", "index")


@dataclass(frozen=True)
class Part:
    """What one replica reads: `files`, and of their records every `every`-th from `first` on."""

    files: tuple[str, ...]
    every: int = 1
    first: int = 0

    def __str__(self) -> str:
        """Such as `2 files` or `every 3rd record of 4 files, from the 2nd`."""
        files = f"{len(self.files)} file{'s' if len(self.files) > 1 else ''}"
        return files if self.every == 1 else f"records {self.first}, {self.first + self.every}, … of {files}"


def part(files: Sequence[str], replica: int, replicas: int, by: str = "auto") -> Part:
    """Return the part of `replica` (from 0) of `replicas`.

    `by` is `file`, `index`, or `auto`: by file where each replica gets equally many of them, else by index. All replicas
    must see the same files. Raises ValueError for another `by`, and by file for fewer files than replicas, because
    some would have nothing to read.
    """
    if by not in SHARDS:
        raise ValueError(f"shard by {', '.join(SHARDS)}, not by {by!r}")
    if by == "file" and len(files) < replicas:
        raise ValueError(
            f"{len(files)} files are not enough for {replicas} replicas: write more files or shard by index"
        )
    in_order = sorted(files)
    if by == "file" or (by == "auto" and len(files) % replicas == 0):
        return Part(tuple(in_order[replica::replicas]))
    return Part(tuple(in_order), replicas, replica)
