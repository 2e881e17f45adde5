"""What is in an image, asked of an engine that has it: programs and files, and whether TensorFlow can be imported.

Files are looked up in a container that is created and never started, which needs neither a shell nor a Python in the
image. Everything made here has `check`'s labels, so that what a killed controller leaves is swept by the next look.
"""

import base64
import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import docker

from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.labels import DELIVERED, home
from tfprov.hosts.program_checks import LIFE, TRY, Imported, read
from tfprov.model.state import Box, Container, undelivered_image

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for in an image that does not say it."""
_KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
"""What of a task's environment decides which program starts, and what it can import; the rest may be secret."""
_LINK, _FOLDER = 1 << 27, 1 << 31
"""Bits of Go's os.FileMode."""


@dataclass(frozen=True)
class Looked:
    """Which of the programs and files that were asked for are there; where one is not, `entrypoint` is the image's own."""

    there: Mapping[str, bool]
    entrypoint: tuple[str, ...] = ()


def environment(container: Container) -> dict[str, str]:
    """Return what of a task's environment a look needs."""
    return {name: value for name, value in container.env.items() if name in _KEPT}


def look(engine: Engine, container: Container, labels: Mapping[str, str], names: Sequence[str]) -> Looked:
    """Look for programs (without a slash, in the PATH) and files in the image of `container`. Raises HostError."""
    box = container.box
    assert box is not None, "a container of the docker runtime has an image"
    with engine.errors(), _made(engine, container, labels, ["true"], started=False) as made:
        facts: dict[str, Any] = engine.api.inspect_container(made)["Config"]
        stated = dict(line.partition("=")[::2] for line in facts.get("Env") or ())
        folders = [it for it in stated.get("PATH", _PATH).split(":") if it.startswith("/")]
        start = facts.get("WorkingDir") or "/"
        there = {}
        for name in names:
            paths = [posixpath.join(start, name)] if "/" in name else [f"{folder}/{name}" for folder in folders]
            there[name] = any(_is_there(engine.api, made, posixpath.normpath(path)) for path in paths)
        if all(there.values()):
            return Looked(there)
        image: dict[str, Any] = engine.api.inspect_image(box.image)["Config"]  # type: ignore[no-untyped-call]
        return Looked(there, tuple((image or {}).get("Entrypoint") or ()))


def _is_there(api: docker.APIClient, container: str, path: str) -> bool:
    """Whether there is a file at `path`, or a link, whatever it leads to."""
    url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"  # the SDK only asks for the whole file
    answer = api.head(url, params={"path": path})
    if answer.status_code == 404:
        return False
    answer.raise_for_status()
    mode: int = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))["mode"]
    return not mode & _FOLDER


def image_user(engine: Engine, image: str) -> str:
    """Return the user that `image` names; empty for root. Raises HostError."""
    with engine.errors():
        facts: dict[str, Any] = engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
    return str((facts.get("Config") or {}).get("User") or "")


def try_import(engine: Engine, container: Container, labels: Mapping[str, str], python: str) -> Imported:
    """Import TensorFlow with `python` in a throw-away container like `container`. Raises HostError."""
    with engine.errors(), _made(engine, container, labels, [python, "-c", TRY, str(LIFE)], started=True) as made:
        code = int(engine.api.wait(made)["StatusCode"])
        output: bytes = engine.api.logs(made)
    return read(code, output.decode("utf-8", errors="replace"))


@contextmanager
def _made(
    engine: Engine, container: Container, labels: Mapping[str, str], argv: Sequence[str], *, started: bool
) -> Iterator[str]:
    box, api = container.box, engine.api
    assert box is not None, "a container of the docker runtime has an image"
    made: str = api.create_container(
        box.image,
        entrypoint=[],
        command=list(argv),
        environment={**home(box), **environment(container)},
        user=box.user,
        labels=dict(labels),
        host_config=_host_config(api, box),
    )["Id"]
    try:
        if started:
            api.start(made)
        yield made
    finally:
        api.remove_container(made, force=True, v=True)


def _host_config(api: docker.APIClient, box: Box) -> dict[str, Any]:
    made: dict[str, Any] = api.create_host_config(
        mounts=[docker.types.Mount(it.target, it.source, type="bind", read_only=True) for it in box.mounts],
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=box.pids,
        device_requests=[docker.types.DeviceRequest(count=box.gpus, capabilities=[["gpu"]])] if box.gpus else None,
    )
    return made


class Deliveries(Protocol):
    """What the controller delivered to one host."""

    def known(self, reference: str) -> Collection[str]:
        """Return the ids that the image `reference` may have there; none where the controller does not know."""

    def note(self, reference: str, image_id: str) -> None:
        """Keep the id that the host's engine gives to the image `reference`."""


class Unrecorded:
    """Accepts every image: for engines that nothing was delivered to."""

    def known(self, reference: str) -> Collection[str]:
        """See Deliveries."""
        del reference
        return ()

    def note(self, reference: str, image_id: str) -> None:
        """See Deliveries."""


def is_delivered(deliveries: Deliveries, reference: str, image_id: str) -> bool:
    """Whether the image with `image_id` may run under the name `reference`."""
    ids = deliveries.known(reference)
    return not ids or image_id in ids


def sorted_out(deliveries: Deliveries, images: Iterable[Mapping[str, Any]]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of `images`, an engine's list, that stand for what was delivered, and those that do not."""
    names = {(name, str(image["Id"])) for image in images for name in image.get("RepoTags") or ()}
    delivered = frozenset(name for name, image_id in names if is_delivered(deliveries, name, image_id))
    return delivered, frozenset(name for name, _ in names) - delivered


def other_image(deliveries: Deliveries, facts: Mapping[str, Any]) -> str:
    """Return why the image of a container, as an inspect describes it, is not the one that was delivered; or nothing.

    Containers of earlier versions have no label, and are made from the name itself.
    """
    made_from, image_id = str(facts["Config"].get("Image") or ""), str(facts.get("Image") or "")
    label = str((facts["Config"].get("Labels") or {}).get(DELIVERED) or "")
    reference, _, delivered = label.rpartition("@")
    if reference:  # engines differ in whether they show the id of a manifest or of an index; both name this image
        return "" if delivered in (image_id, made_from) else undelivered_image(reference)
    return "" if is_delivered(deliveries, made_from, image_id) else undelivered_image(made_from)
