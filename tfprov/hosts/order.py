"""What a supervisor is told to run: a container, as plain data."""

import os
import sys
from pathlib import Path
from typing import Any

from tfprov.model.state import Container

RUN = "TFPROV_RUN"
"""The variable that holds the id of the training; its children inherit it, which tells them from strangers."""


def order(container: Container, run: str) -> dict[str, Any]:
    """Return the order for `container`; `run` is the id of the training it belongs to."""
    return {
        "spec": dict(container.spec),
        "run": run,
        "argv": list(container.argv),
        "env": environment(container) | {RUN: run},
        "restart": container.restart,
        "max_restarts": container.max_restarts,
        "stop_grace": container.stop_grace,
    }


def environment(container: Container) -> dict[str, str]:
    """Return the controller's environment, with this Python first in PATH: it has TensorFlow and `tfprov.runtime`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    without_gpu = {"CUDA_VISIBLE_DEVICES": "-1"} if container.task.job in ("ps", "tensorboard") else {}
    # Several tasks share this machine: none may take the whole memory of a GPU, which is TensorFlow's default.
    ours = {"PATH": path, "PYTHONUNBUFFERED": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true", **without_gpu}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "TFPROV_"))}
    return {**inherited, **ours, **container.env}
