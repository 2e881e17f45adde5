"""Which ps holds which variable: how they are spread, and `placement.json`, which says where each of them went."""

import json
from pathlib import Path
from typing import Any

from tfprov.atomic_write import replace
from tfprov.runtime.graph.hooks import Hook
from tfprov.runtime.lazy_tensorflow import graph_api

FILE = "placement.json"
PLACEMENTS = ("round_robin", "greedy")


class Greedy:
    """Puts each variable on the ps that holds the fewest bytes so far; the first of several.

    TensorFlow's own way goes round the ps one variable at a time, and one of them may get all the large ones. What an
    optimizer keeps of a variable lies beside it. All tasks build the same variables in the same order, so all find the
    same places.
    """

    def __init__(self, tasks: int) -> None:
        self.bytes = [0] * tasks

    def __call__(self, operation: Any) -> int:
        """Return the index of the ps for the variable that `operation` makes."""
        lightest = self.bytes.index(min(self.bytes))
        self.bytes[lightest] += _operation_size(operation)
        return lightest


def strategy(placement: str, tasks: int, begun: list[Greedy]) -> Greedy | None:
    """Return the `ps_strategy` of a replica_device_setter; None is TensorFlow's own round robin.

    `begun` holds the greedy one that goes on where a task builds its graph in several blocks. Raises ValueError for a
    placement that is not one of PLACEMENTS.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be {' or '.join(PLACEMENTS)}, not {placement!r}")
    if placement == "greedy" and not begun:
        begun.append(Greedy(tasks))
    return begun[0] if placement == "greedy" else None


def _operation_size(operation: Any) -> int:
    """A table of the graph has no shape; it counts, so that many of them are spread as well."""
    try:
        shape, dtype = operation.get_attr("shape"), operation.get_attr("dtype")
    except ValueError:
        return 1
    return max(_size(graph_api().TensorShape(shape), graph_api().as_dtype(dtype)), 1)


def _size(shape: Any, dtype: Any) -> int:
    return int(shape.num_elements() or 0) * int(dtype.size) if shape.is_fully_defined() else 0


class PlacementFile(Hook):
    """Writes `placement.json` once the model is ready: name, device, shape and bytes of every variable.

    `here` is the device of those that the graph left open, in a training without a ps.
    """

    def __init__(self, directory: str, here: str) -> None:
        self.directory, self.here = directory, here
        self._variables: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Read them off the graph."""
        self._variables = [self._described(variable) for variable in graph_api().global_variables()]

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Write them."""
        if "://" not in self.directory:
            text = json.dumps({"variables": self._variables}, indent=1) + "\n"
            replace(Path(self.directory) / FILE, text.encode())

    def _described(self, variable: Any) -> dict[str, Any]:
        return {
            "name": variable.op.name,
            "device": variable.device or self.here,
            "shape": variable.shape.as_list() if variable.shape.rank is not None else None,
            "bytes": _size(variable.shape, variable.dtype.base_dtype),
        }
