"""Read every tensor of a checkpoint: the only way to know that its bytes are those that were written.

    python -m tfprov.runtime.verify PREFIX...

prints one JSON object a prefix, `{"prefix": …, "tensors": n, "bytes": n, "error": null}`, and ends with 0 when all are
whole, else with 1. TensorFlow keeps a CRC32C of the index's blocks and of every tensor and compares it when the tensor
is read; listing the names, which is what most tools do, reads the index alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tfprov.runtime.lazy_tensorflow import graph_api


def verify(prefix: str) -> dict[str, Any]:
    """Return what was read of `prefix`: `tensors` and their `bytes` in memory, and the first `error` in one line.

    Sharded data, partitioned variables and object-based checkpoints (with their strings) are read alike; one tensor is
    in memory at a time.
    """
    result: dict[str, Any] = {"prefix": prefix, "tensors": 0, "bytes": 0, "error": None}
    try:
        _read(prefix, result)
    except Exception as error:  # whatever a damaged file makes TensorFlow or numpy say
        result["error"] = _one_line(error)
    return result


def _read(prefix: str, result: dict[str, Any]) -> None:
    reader = graph_api().train.load_checkpoint(prefix)
    for name in sorted(reader.get_variable_to_shape_map()):
        result["bytes"] += _size(reader.get_tensor(name))
        result["tensors"] += 1


def _size(value: Any) -> int:
    """A scalar string comes as bytes, a tensor of strings as an array of objects."""
    if isinstance(value, bytes):
        return len(value)
    return sum(map(_size, value.flat)) if value.dtype.hasobject else int(value.nbytes)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def main(argv: Sequence[str] | None = None) -> int:
    """Verify the prefixes of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tfprov.runtime.verify", description="Read every tensor.")
    parser.add_argument("prefix", nargs="+", help="such as checkpoints/model.ckpt-448")
    # Read by TensorFlow as it is imported: stderr is for what goes wrong, and a GPU would only be in the way.
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", TF_ENABLE_ONEDNN_OPTS="0")
    results = []
    for prefix in parser.parse_args(argv).prefix:
        results.append(verify(prefix))
        print(json.dumps(results[-1]), flush=True)
    return 1 if any(result["error"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
