"""A container as the order.json that a supervisor runs."""

import os
import sys
from pathlib import Path
from typing import Any

from tfprov.model.state import Container
from tfprov.wiring import WEB

RUN = "TFPROV_RUN"
"""The variable with the run's id; inherited by child processes, it identifies them as the task's."""

PYTHON = ("python", "python3")
"""Program names in a command that stand for the task's Python."""

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The environment of tfprov's own programs: the working directory is the user's, and may have a `json.py`."""


def task_order(container: Container, run: str, runtime: Path | None = None) -> dict[str, Any]:
    """Return the order for `container` in the training `run`.

    `runtime` is the directory from which the task's own Python imports `tfprov.runtime`.
    """
    program, *arguments = container.argv
    if container.python is not None and program in PYTHON:
        program = container.python
    return {
        "spec": dict(container.spec),
        "run": run,
        "argv": [program, *arguments],
        "env": environment(container, runtime) | {RUN: run},
        "restart": container.restart,
        "max_restarts": container.max_restarts,
        "restart_on": list(container.restart_on),
        "no_restart_on": list(container.no_restart_on),
        "stop_grace": container.stop_grace,
        # The mirror of its checkpoints passes signals on to the group, and goes on itself until all are copied.
        "passes_signals": container.remote is not None,
    }


def environment(container: Container, runtime: Path | None = None) -> dict[str, str]:
    """Return the environment of a task: the controller's, with the task's Python first in PATH.

    By default that is this Python, which has TensorFlow and `tfprov.runtime`; a task's own imports it from `runtime`.
    """
    python = container.python or sys.executable
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    without_gpu = {"CUDA_VISIBLE_DEVICES": "-1"} if container.task.job in ("ps", *WEB) else {}
    # Several tasks share this machine: by default TensorFlow would take all memory of a GPU.
    own = {"PATH": path, "PYTHONUNBUFFERED": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true", **without_gpu}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "TFPROV_"))}
    variables = {**inherited, **own, **container.env}
    if container.python is not None:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(runtime or ""), variables.get("PYTHONPATH", "")]))
        variables.pop("VIRTUAL_ENV", None)
    return variables
