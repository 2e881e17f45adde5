"""The variables of a TF2 program: found in whatever holds them, and `placement.json`, which says where each one is."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tfprov.files import replace
from tfprov.runtime.placement import FILE


def write_placement(directory: str, variables: Iterable[Any]) -> None:
    """Write which task holds which variable."""
    told = [
        {
            "name": str(variable.name).removesuffix(":0"),
            "device": task_of(variable.device),
            "shape": variable.shape.as_list(),
            "bytes": variable.shape.num_elements() * variable.dtype.size,
        }
        for variable in variables
    ]
    if "://" not in directory:
        replace(Path(directory, FILE), f"{json.dumps({'variables': told}, indent=1)}\n".encode())


def task_of(device: str) -> str:
    """Return `/job:ps/task:0` of TensorFlow's `/job:ps/replica:0/task:0/device:CPU:0`; empty for a local device."""
    parts = re.search(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", device or "")
    return f"/job:{parts[1]}/task:{parts[2]}" if parts else ""


def variables_of(thing: Any) -> Sequence[Any]:
    """Return TensorFlow's own variables in a module, a Keras model or optimizer, a collection, or a variable."""
    if isinstance(thing, dict):
        thing = list(thing.values())
    inner = thing if isinstance(thing, list | tuple) else getattr(thing, "variables", None)
    if inner is None:
        value = thing.value  # Keras' variables hold one of TensorFlow's; of these it is a method
        return [thing if callable(value) else value]
    return [variable for each in (inner() if callable(inner) else inner) for variable in variables_of(each)]
