"""Assign variables to ps, and record the placement in `placement.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfprov.atomic_write import replace
from tfprov.runtime.graph.hooks import Hook
from tfprov.runtime.lazy_tensorflow import graph_api

FILE = "placement.json"
PLACEMENTS = ("round_robin", "greedy")


class GreedyPlacement:
    """Puts each variable on the ps that holds the fewest bytes so far; the first of several.

    TensorFlow's round robin may put all large variables on one ps. Slots of an optimizer are placed with their variable.
    All tasks build the same variables in the same order, so all compute the same placement.
    """

    def __init__(self, tasks: int) -> None:
        self.bytes = [0] * tasks

    def __call__(self, operation: Any) -> int:
        """Return the index of the ps for the variable that `operation` creates."""
        lightest = self.bytes.index(min(self.bytes))
        self.bytes[lightest] += _variable_bytes(operation)
        return lightest


def ps_strategy_for(placement: str, tasks: int, greedy: list[GreedyPlacement]) -> GreedyPlacement | None:
    """Return the `ps_strategy` of a replica_device_setter; None is TensorFlow's own round robin.

    `greedy` holds the greedy one that goes on where a task builds its graph in several blocks. Raises ValueError for a
    placement that is not one of PLACEMENTS.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be {' or '.join(PLACEMENTS)}, not {placement!r}")
    if placement == "greedy" and not greedy:
        greedy.append(GreedyPlacement(tasks))
    return greedy[0] if placement == "greedy" else None


def _variable_bytes(operation: Any) -> int:
    """Return the bytes of a variable; a table has no shape and counts as 1, so that tables are spread as well."""
    try:
        shape, dtype = operation.get_attr("shape"), operation.get_attr("dtype")
    except ValueError:
        return 1
    return max(_shape_bytes(graph_api().TensorShape(shape), graph_api().as_dtype(dtype)), 1)


def _shape_bytes(shape: Any, dtype: Any) -> int:
    return int(shape.num_elements() or 0) * int(dtype.size) if shape.is_fully_defined() else 0


def describe(variable: Any, name: str, device: str) -> dict[str, Any]:
    """Return the entry of a variable: it has 0 bytes, and perhaps no shape, where its shape is not known in full."""
    return {
        "name": name,
        "device": device,
        "shape": variable.shape.as_list() if variable.shape.rank is not None else None,
        "bytes": _shape_bytes(variable.shape, variable.dtype.base_dtype),
    }


class PlacementFile(Hook):
    """Writes `placement.json` once the model is ready: name, device, shape and bytes of every variable.

    `default_device` is the device of those that the graph left open, in a training without a ps.
    """

    def __init__(self, directory: str, default_device: str) -> None:
        self.directory, self.default_device = directory, default_device
        self._variables: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Collect the variables of the graph."""
        self._variables = [self._describe(variable) for variable in graph_api().global_variables()]

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Write the file."""
        if "://" not in self.directory:
            text = json.dumps({"variables": self._variables}, indent=1) + "\n"
            replace(Path(self.directory) / FILE, text.encode())

    def _describe(self, variable: Any) -> dict[str, Any]:
        return describe(variable, variable.op.name, variable.device or self.default_device)
