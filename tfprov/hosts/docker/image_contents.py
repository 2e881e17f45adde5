"""Find programs and files in images, try to import TensorFlow, and compare images with the delivered ones.

Also which directory of a host has an engine's images.

Files are looked up in a container that is never started, so the image needs neither a shell nor Python. Containers have
the labels of `check`, so that the next lookup removes those of a killed controller.
"""

import base64
import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.labels import DELIVERED, home_variable
from tfprov.hosts.program_checks import IMPORT_PROGRAM, IMPORT_TIMEOUT, ImportResult, parse_result
from tfprov.model.state import Container, DockerOptions, undelivered_image

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of an image that does not set one."""
_IMPORT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
"""Variables of a task that determine which program starts and what it imports; others may be secret."""
_NO_SOURCE = "bind source path does not exist: "
"""What an engine reports before the path."""
_LINK, _FOLDER = 1 << 27, 1 << 31
"""Bits of Go's os.FileMode."""
_CONTAINERD_DRIVER = "io.containerd.snapshotter"
"""Driver type of an engine that stores images in containerd, which has its own directory: the default from Docker 29 on."""
_CONTAINERD_ROOT = "/var/lib/containerd"
_OWN_CONTAINERD = "docker/containerd/containerd.sock"
"""How the address of a containerd ends that an engine has started itself, as a rootless one does: it is below its root."""


@dataclass(frozen=True)
class ImageLookup:
    """Which programs and files an image has; if one is missing, `entrypoint` is the image's.

    `files` are the paths of those that it has, behind links: `/usr/bin/python3.8` for `python`.
    """

    present: Mapping[str, bool]
    entrypoint: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def stores_in_containerd(info: Mapping[str, Any]) -> bool:
    """Whether the engine with this `info` stores images in containerd, which keeps layers both as received and unpacked."""
    return _CONTAINERD_DRIVER in str(info.get("DriverStatus"))


def image_directory(info: Mapping[str, Any]) -> str:
    """Return the directory that has the images of the engine with this `info`; empty where it does not say.

    From Docker 27 on it names its containerd. Before, one with its default directory is taken to use the system's.
    """
    root = str(info.get("DockerRootDir") or "")
    if not stores_in_containerd(info):
        return root
    address = str((info.get("Containerd") or {}).get("Address") or "")
    is_system = not address.endswith(_OWN_CONTAINERD) if address else root == "/var/lib/docker"
    return _CONTAINERD_ROOT if is_system else root


def import_environment(container: Container) -> dict[str, str]:
    """Return the variables of a task that affect programs and imports."""
    return {name: value for name, value in container.env.items() if name in _IMPORT_VARIABLES}


def find_programs(engine: Engine, container: Container, labels: Mapping[str, str], names: Sequence[str]) -> ImageLookup:
    """Look up programs (names without a slash, in the PATH) and files in the image of `container`. Raises HostError."""
    options = container.docker
    assert options is not None, "a container of the docker runtime has an image"
    with engine.errors(), _temporary_container(engine, container, labels, ["true"], start=False) as created:
        facts: dict[str, Any] = engine.api.inspect_container(created)["Config"]
        variables = dict(line.partition("=")[::2] for line in facts.get("Env") or ())
        folders = [item for item in variables.get("PATH", _DEFAULT_PATH).split(":") if item.startswith("/")]
        working_dir = facts.get("WorkingDir") or "/"
        files = {}
        for name in names:
            paths = [posixpath.join(working_dir, name)] if "/" in name else [f"{folder}/{name}" for folder in folders]
            paths_behind = (_file(engine.api, created, posixpath.normpath(path)) for path in paths)
            files[name] = next(filter(None, paths_behind), "")
        present = {name: bool(path) for name, path in files.items()}
        if all(present.values()):
            return ImageLookup(present, files=files)
        image: dict[str, Any] | None = engine.api.inspect_image(options.image).get("Config")  # type: ignore[no-untyped-call]
        return ImageLookup(present, tuple((image or {}).get("Entrypoint") or ()), files)


def _file(api: "docker.APIClient", container: str, path: str) -> str:
    """Return `path` if it is a file, and where it leads if it is a link to anything; empty otherwise."""
    url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"  # the SDK can only request the whole file
    response = api.head(url, params={"path": path})
    if response.status_code == 404:
        return ""
    response.raise_for_status()
    status: dict[str, Any] = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
    return "" if status["mode"] & _FOLDER else str(status.get("linkTarget") or path)


def missing_mount(engine: Engine, container: Container, labels: Mapping[str, str]) -> str | None:
    """Return the source of a mount of `container` that the engine does not find, or None."""
    try:
        with engine.errors(), _temporary_container(engine, container, labels, ["true"], start=False):
            return None
    except HostError as error:
        _, is_missing, source = error.reason.partition(_NO_SOURCE)
        if not is_missing:
            raise
        return source


def image_user(engine: Engine, image: str) -> str:
    """Return the USER of `image`; empty for root. Raises HostError."""
    with engine.errors():
        facts: dict[str, Any] = engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
    return str((facts.get("Config") or {}).get("User") or "")


def try_import(engine: Engine, container: Container, labels: Mapping[str, str], python: str) -> ImportResult:
    """Import TensorFlow with `python` in a temporary container like `container`. Raises HostError."""
    with (
        engine.errors(),
        _temporary_container(
            engine, container, labels, [python, "-c", IMPORT_PROGRAM, str(IMPORT_TIMEOUT)], start=True
        ) as created,
    ):
        code = int(engine.api.wait(created)["StatusCode"])
        output: bytes = engine.api.logs(created)
    return parse_result(code, output.decode("utf-8", errors="replace"))


def run_in_image(engine: Engine, container: Container, labels: Mapping[str, str], argv: Sequence[str]) -> int:
    """Run `argv` in a temporary container like `container`, and return its exit code. Raises HostError."""
    with engine.errors(), _temporary_container(engine, container, labels, argv, start=True) as created:
        return int(engine.api.wait(created)["StatusCode"])


@contextmanager
def _temporary_container(
    engine: Engine, container: Container, labels: Mapping[str, str], argv: Sequence[str], *, start: bool
) -> Iterator[str]:
    options, api = container.docker, engine.api
    assert options is not None, "a container of the docker runtime has an image"
    created: str = api.create_container(
        options.image,
        entrypoint=[],
        command=list(argv),
        environment={**home_variable(options), **import_environment(container)},
        user=options.user,
        labels=dict(labels),
        host_config=_host_config(api, options),
    )["Id"]
    try:
        if start:
            api.start(created)
        yield created
    finally:
        api.remove_container(created, force=True, v=True)


def _host_config(api: "docker.APIClient", options: DockerOptions) -> dict[str, Any]:
    created: dict[str, Any] = api.create_host_config(
        mounts=[
            docker.types.Mount(item.target, item.source, type="bind", read_only=True)
            for item in options.mounts
            if not item.volume_options
        ],
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=options.pids,
        device_requests=[docker.types.DeviceRequest(count=options.gpus, capabilities=[["gpu"]])]
        if options.gpus
        else None,
    )
    return created


class Deliveries(Protocol):
    """The images that the controller delivered to one host."""

    def image_ids(self, reference: str) -> Collection[str]:
        """Return the ids that `reference` may have on the host; empty if the controller has no record."""

    def record(self, reference: str, image_id: str) -> None:
        """Record the id that the host's engine assigns to `reference`."""


class NoDeliveries:
    """Accepts every image: for engines without deliveries."""

    def image_ids(self, reference: str) -> Collection[str]:
        """See Deliveries."""
        del reference
        return ()

    def record(self, reference: str, image_id: str) -> None:
        """See Deliveries."""


def is_delivered(deliveries: Deliveries, reference: str, image_id: str) -> bool:
    """Whether the image `image_id` may run under the name `reference`."""
    ids = deliveries.image_ids(reference)
    return not ids or image_id in ids


def split_by_delivery(
    deliveries: Deliveries, images: Iterable[Mapping[str, Any]]
) -> tuple[frozenset[str], frozenset[str]]:
    """Split the names of an engine's `images` into those of delivered images and those moved to other images."""
    names = {(name, str(image["Id"])) for image in images for name in image.get("RepoTags") or ()}
    delivered = frozenset(name for name, image_id in names if is_delivered(deliveries, name, image_id))
    return delivered, frozenset(name for name, _ in names) - delivered


def wrong_image_reason(deliveries: Deliveries, facts: Mapping[str, Any]) -> str:
    """Return why the image of an inspected container is not the delivered one; "" if it is.

    Containers of earlier versions have no label; they were created from the name.
    """
    created_from, image_id = str(facts["Config"].get("Image") or ""), str(facts.get("Image") or "")
    label = str((facts["Config"].get("Labels") or {}).get(DELIVERED) or "")
    reference, _, delivered = label.rpartition("@")
    if reference:  # engines show the id of the manifest or of the index
        return "" if delivered in (image_id, created_from) else undelivered_image(reference)
    return "" if is_delivered(deliveries, created_from, image_id) else undelivered_image(created_from)
