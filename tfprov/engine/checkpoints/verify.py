"""Reads every tensor of a gathered checkpoint, without TensorFlow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprov.formats.sstable import CheckpointError
from tfprov.formats.tensor_bundle import verify as read_tensors


@dataclass(frozen=True)
class Verification:
    """The number of tensors of a checkpoint, or the `error`, in one line, if they cannot all be read."""

    tensors: int
    error: str | None = None


Verify = Callable[[Sequence[Path]], Mapping[str, Verification]]
"""Returns the verification of each prefix by its last part, as `verify` does."""


def verify(prefixes: Sequence[Path]) -> Mapping[str, Verification]:
    """Verify checkpoints, by the last part of each prefix.

    Damage to the data shows only when the tensors are read: the names and sizes of the files can be right (measured).
    """
    return {prefix.name: _verified(prefix) for prefix in prefixes}


def _verified(prefix: Path) -> Verification:
    import google_crc32c  # noqa: PLC0415  loaded once there is a checkpoint

    try:
        return Verification(read_tensors(prefix, google_crc32c.extend))
    except CheckpointError as error:
        return Verification(0, str(error))
    except OSError as error:
        return Verification(0, f"{Path(error.filename or prefix).name}: {error.strerror}")
