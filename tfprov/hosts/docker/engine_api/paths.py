"""The paths of questions to an engine, without the API version."""

import json
import os
from collections.abc import Sequence
from urllib.parse import quote, urlencode

VOLUME_USAGE = "/system/df?type=volume"
"""The path for the sizes of volumes; up to API 1.41 also of images, containers and the build cache."""


def containers_path(**filters: Sequence[str]) -> str:
    """Return the path for a list of containers, running or not, that pass every filter, such as `label`."""
    return _with_filters("/containers/json", filters, all="1")


def container_path(container: str) -> str:
    """Return the path for the details of a container."""
    return f"/containers/{quote(container, safe='')}/json"


def archive_path(container: str, path: str) -> str:
    """Return the path for an archive of a file or directory of a container, whose name need not be UTF-8."""
    return f"/containers/{quote(container, safe='')}/archive?{urlencode({'path': os.fsencode(path)})}"


def programs_path(container: str) -> str:
    """Return the path for creating a program in a container."""
    return f"/containers/{quote(container, safe='')}/exec"


def program_path(program: str, action: str) -> str:
    """Return the path for an `action` on a program: `json` for its details, `start`, `resize`."""
    return f"/exec/{quote(program, safe='')}/{action}"


def images_path(reference: str) -> str:
    """Return the path for a list of the images named `reference`, with any tag."""
    return _with_filters("/images/json", {"reference": [reference]})


def image_path(image: str, question: str = "json") -> str:
    """Return the path for the details of an image, or for its `history`."""
    return f"/images/{quote(image, safe='')}/{question}"


def volumes_path(**filters: Sequence[str]) -> str:
    """Return the path for a list of volumes that pass every filter."""
    return _with_filters("/volumes", filters)


def _with_filters(path: str, filters: dict[str, Sequence[str]], **parameters: str) -> str:
    if filters:
        parameters["filters"] = json.dumps({name: list(values) for name, values in filters.items()})
    return f"{path}?{urlencode(parameters)}" if parameters else path
