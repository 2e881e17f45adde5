"""The description of a run for run.json: settings without secrets, versions, code, images, hosts and tasks."""

import os
import platform
import socket
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tfprov.engine.context import Context
from tfprov.engine.host_registry import DeliveredImages
from tfprov.engine.monitoring.chief_progress import steps_of
from tfprov.engine.public_settings import masked, public_roles
from tfprov.history.code_version import code_version
from tfprov.model.state import Container

_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")
"""Distributions that bring the module `tensorflow`."""


def describe(context: Context, *, with_code: bool = True) -> dict[str, Any]:
    """Return the description of the run that `context` starts or follows; `with_code` asks git, which takes a moment."""
    chief = context.container(context.cluster.chief.name)
    data = {
        "cluster": context.cluster.name,
        "chief": context.cluster.chief.name,
        "strategy": chief.strategy if chief else "",
        "steps": steps_of(context),
        "versions": {
            "tfprov": _installed("tfprov"),
            "python": platform.python_version(),
            "tensorflow": tensorflow_version(chief) if chief else None,
        },
        "controller": {"host": socket.gethostname(), "directory": str(Path.cwd())},
        "runtime": "process" if chief is None or chief.docker is None else "docker",
        "images": list(_images(context)),
        "code": [_code(digest, code.source, with_git=with_code) for digest, code in sorted(context.codes.items())],
        "hosts": sorted({task.host for task in context.cluster.tasks}),
        "tasks": [_task(container) for container in context.wanted],
        "settings": public_roles(context.roles),
        "checkpoints": str(context.target),
    }
    plain: dict[str, Any] = masked(data)
    return plain


def with_image_ids(context: Context, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's `description` with the ids of its images, which are known once these were delivered."""
    known = {image["name"]: image["id"] for image in _images(context)}
    images = [{**image, "id": image["id"] or known.get(image["name"])} for image in description["images"]]
    return {**description, "images": images}


def _task(container: Container) -> dict[str, Any]:
    task = container.task
    return {"task": task.name, "host": task.host, "role": task.role, "address": task.endpoint if task.serves else None}


def _code(digest: str, source: str, *, with_git: bool) -> dict[str, Any]:
    version = code_version(Path(source)) if with_git else None
    return {"digest": digest, "directory": str(Path.cwd() / source), "git": version.to_dict() if version else None}


def _images(context: Context) -> Iterator[dict[str, Any]]:
    """Yield the images of all tasks; `id` is the one that the host's engine has, None before the delivery."""
    delivered = DeliveredImages(context.home / "images.json")
    names = {(c.docker.image, c.task.host): c for c in context.wanted if c.docker is not None}
    by_name: dict[str, dict[str, Any]] = {}
    for (name, host), container in names.items():
        image_id = next(iter(delivered.image_ids(host, name)), None)
        entry = by_name.setdefault(name, {"name": name, "made_from": container.spec.get("image"), "id": image_id})
        entry["id"] = entry["id"] or image_id
    yield from by_name.values()


def tensorflow_version(chief: Container) -> str | None:
    """Return the version of TensorFlow that a process uses; None if it is unknown, as in an image."""
    if chief.docker is not None:
        return None
    if chief.python is None:
        return next(filter(None, map(_installed, _PACKAGES)), None)
    lib = Path(os.path.abspath(chief.python)).parent.parent / "lib"  # noqa: PTH100  a link leads out of the environment
    pattern = "python*/site-packages/{}-*.dist-info"
    installed = (path for name in _PACKAGES for path in lib.glob(pattern.format(name.replace("-", "_"))))
    return next((path.name.removesuffix(".dist-info").rpartition("-")[2] for path in installed), None)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
