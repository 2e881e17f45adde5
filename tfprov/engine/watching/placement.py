"""Which ps holds which variable: the `placement.json` that the chief writes once its model is ready."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfprov.engine.context import Context
from tfprov.engine.observe import locate
from tfprov.errors import HostError, TaskFailed

FILE = "placement.json"
_MOST = 16 * 1024 * 1024
"""Bytes of the file that are read: some hundred for each variable."""
_DEVICE = re.compile(r"/job:(\w+)(?:/.*)?/task:(\d+)")


@dataclass(frozen=True)
class Variable:
    """A variable of the model; `task` is who holds it, such as `ps/0`, and empty where its device names nobody."""

    name: str
    task: str
    device: str
    shape: tuple[int | None, ...]
    bytes: int


@dataclass(frozen=True)
class Share:
    """What one task holds."""

    variables: int
    bytes: int


@dataclass(frozen=True)
class Placement:
    """All variables of a model, in the order in which its program made them."""

    variables: tuple[Variable, ...]

    @property
    def shares(self) -> Mapping[str, Share]:
        """Return what each task holds, by its name."""
        found: dict[str, Share] = {}
        for variable in self.variables:
            before = found.get(variable.task, Share(0, 0))
            found[variable.task] = Share(before.variables + 1, before.bytes + variable.bytes)
        return dict(sorted(found.items(), key=lambda item: (item[0].partition("/")[0], _index(item[0]))))

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `status --placement --json`."""
        shares = {task: asdict(share) for task, share in self.shares.items()}
        return {"variables": [asdict(variable) for variable in self.variables], "tasks": shares}


def _index(task: str) -> int:
    index = task.partition("/")[2]
    return int(index) if index.isdigit() else 0


def placement(context: Context) -> Placement:
    """Return where the variables are; raises TaskFailed while the chief has not said so."""
    chief = context.cluster.chief.name
    runtime, _ = locate(context, chief)
    fix = "its program says where the variables are once its model is ready, if it uses tfprov.runtime"
    if FILE not in runtime.files(chief):
        raise TaskFailed(chief, f"has not written {FILE} yet; {fix}")
    try:
        return parse(runtime.tail(chief, FILE, _MOST))
    except (ValueError, TypeError, LookupError) as error:
        raise HostError(runtime.host, f"the {FILE} of {chief} is not one of tfprov's runtime: {error}") from None


def parse(data: bytes) -> Placement:
    """Return what a chief wrote; raises ValueError, TypeError or LookupError for anything else."""
    return Placement(tuple(_variable(entry) for entry in json.loads(data)["variables"]))


def _variable(entry: Mapping[str, Any]) -> Variable:
    device, shape = str(entry["device"]), _shape(entry["shape"])
    found = _DEVICE.search(device)
    task = f"{found[1]}/{int(found[2])}" if found else ""
    return Variable(str(entry["name"]), task, device, shape, int(entry["bytes"]))


def _shape(entry: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(None if size is None else int(size) for size in entry)
