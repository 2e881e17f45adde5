"""What a supervisor is told to run: a container, as plain data."""

import os
import sys
from pathlib import Path
from typing import Any

from tfprov.model.state import Container

RUN = "TFPROV_RUN"
"""The variable that holds the id of the training; its children inherit it, which tells them from strangers."""

PYTHON = ("python", "python3")
"""Words of a command that mean the Python of a task, whatever the programs beside it are called."""


def order(container: Container, run: str, runtime: Path | None = None) -> dict[str, Any]:
    """Return the order for `container`; `run` is the id of the training it belongs to.

    `runtime` is a directory in which a Python of the task's own finds `tfprov.runtime`.
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
        "stop_grace": container.stop_grace,
    }


def environment(container: Container, runtime: Path | None = None) -> dict[str, str]:
    """Return the controller's environment, with the Python of the task first in PATH: by default this one.

    It has TensorFlow and `tfprov.runtime`; one of the task's own finds that in `runtime`.
    """
    first = container.python or sys.executable
    path = os.pathsep.join([str(Path(first).parent), os.environ.get("PATH", os.defpath)])
    without_gpu = {"CUDA_VISIBLE_DEVICES": "-1"} if container.task.job in ("ps", "tensorboard") else {}
    # Several tasks share this machine: none may take the whole memory of a GPU, which is TensorFlow's default.
    ours = {"PATH": path, "PYTHONUNBUFFERED": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true", **without_gpu}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "TFPROV_"))}
    found = {**inherited, **ours, **container.env}
    if container.python is not None:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(runtime or ""), found.get("PYTHONPATH", "")]))
        found.pop("VIRTUAL_ENV", None)
    return found
