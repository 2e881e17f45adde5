"""Delivers an image of the controller to a host's engine: only the layers that the engine lacks.

The engine pulls it from a read-only registry in this process, through a port of the host's loopback that leads back
through the SSH connection. Where that cannot be, the same layers go as an archive to `docker load`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.machine import Machine
from tfprov.hosts.ssh.errors import ConnectionLost, ForwardingForbidden
from tfprov.images.archive import saved
from tfprov.images.engine_images import heeded, held, layers_held, tag, tagged, untag
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, Image
from tfprov.images.preflight import check_platform, check_room, room_needed
from tfprov.images.registry_server import LOOPBACK, PushRegistry, remove, stages, tidy

PAUSES = (1.0, 3.0, 9.0)
"""Seconds before each new try after the connection was lost."""

_LITTLE = 64 * 1024
"""Bytes that are sent about as fast as an engine answers about one image."""


@dataclass(frozen=True)
class Pushed:
    """How an image came to a host: `sent` bytes, by which way, and why it was not the usual one.

    `image_id` is what the host's engine knows it by.
    """

    sent: int
    way: Literal["there", "pull", "load"]
    reason: str = ""
    image_id: str = field(default="", compare=False)


def push(  # noqa: PLR0913, PLR0917  whom to tell what, beside what goes where
    machine: Machine,
    layout: Layout,
    image: Image,
    reference: str,
    progress: Callable[[int, int], None],
    note: Callable[[str], None] = lambda text: None,
    pauses: Sequence[float] = PAUSES,
) -> Pushed:
    """Bring `image` to the engine of `machine`, where it is called `reference` (`repository:tag`) afterwards.

    `progress` is told the bytes sent and the bytes there are to send, from several threads but one at a time; `note`,
    that a lost connection is made anew, which happens once for each of `pauses`. HostError, before anything is sent,
    when the image is for another kind of machine or there is no room for it.
    """
    delivery = _Delivery(machine, layout, image, reference, progress)
    with layout.in_use():
        layout.use(image)
        for number, pause in enumerate(pauses, 1):
            try:
                return delivery.attempt()
            except Unreachable as error:
                if not (delivery.begun or isinstance(error, ConnectionLost)):
                    raise
            note(f"connection lost; retry {number}/{len(pauses)}")
            time.sleep(pause)
        return delivery.attempt()


def present(engine: Engine, repository: str) -> dict[str, str]:
    """Return the id of every image that `engine` has under `repository`, by its tag."""
    with engine.errors():
        listed = engine.api.images(repository)
    named = ((name.rpartition(":"), it["Id"]) for it in listed for name in it.get("RepoTags") or ())
    return {tag: image_id for (repo, _, tag), image_id in named if repo == repository}


def forget(engine: Engine, repository: str, keep: int) -> None:
    """Take the tags of `repository` away but for the `keep` that were given last, and those a container uses."""
    tags = present(engine, repository)
    if len(tags) <= keep:
        return
    with engine.errors():
        used = {it.get("ImageID") for it in engine.api.containers(all=True)}
    ages = {image_id: tagged(engine, image_id) for image_id in set(tags.values())}
    for name in sorted(tags, key=lambda name: (ages[tags[name]], name), reverse=True)[keep:]:
        if tags[name] not in used:
            untag(engine, f"{repository}:{name}")


class _Delivery:
    """One image on its way to one host, over as many connections as it takes."""

    def __init__(
        self, machine: Machine, layout: Layout, image: Image, reference: str, progress: Callable[[int, int], None]
    ) -> None:
        self._machine, self._engine = machine, machine.engine
        self._layout, self._image, self._reference = layout, image, reference
        self._progress = progress
        self._way: Literal["there", "pull", "load"] = "there"
        self._reason = ""
        self._id = ""
        self._sent = self._total = 0
        self.begun = False

    def attempt(self) -> Pushed:
        """Send what is missing now. Raises ConnectionLost, or Unreachable, when it is worth another attempt."""
        if not self._named():
            self._send()
            if not self._named():
                what = "its engine took the image and does not have it"
                raise HostError(self._machine.host, what, "look at the engine's log there, and run this again")
        return Pushed(self._sent, self._way, self._reason, self._id)

    def _named(self) -> bool:
        """Give the image its name, and no other; False when the engine does not have it."""
        facts = held(self._engine, self._image)
        if facts is None:
            return False
        self._id = str(facts["Id"])
        tag(self._engine, self._id, self._reference)
        tidy(self._engine, self._image)
        return True

    def _send(self) -> None:
        with self._engine.errors():
            info: dict[str, Any] = self._engine.api.info()
        self.begun = True
        check_platform(self._machine.host, info, self._image)
        number = layers_held(self._engine, self._image.diff_ids, _enough(self._image))
        self._expect(self._image.layers[number:])
        parts = stages(self._layout, self._image)
        wanted = [part for part in parts if len(part.layers) > number or part is self._image]
        self._check_room(info, wanted, number)
        self._reason = self._no_pull(wanted, self._image.layers[:number])
        if self._reason:
            self._load(wanted, number)
        for part in parts[:-1]:
            remove(self._engine, part)

    def _check_room(self, info: Mapping[str, Any], wanted: Sequence[Image], number: int) -> None:
        layers = [part.layers[begin:] for begin, part in _each_upon_the_last(wanted, number)]
        if directory := info.get("DockerRootDir"):
            check_room(self._machine.host, str(directory), room_needed(self._layout, layers), self._machine.run)

    def _no_pull(self, wanted: Sequence[Image], lower: Sequence[Descriptor]) -> str:
        """Let the engine pull the image; or return why this is not the way for this host."""
        handing = PushRegistry(self._layout, wanted, lower, self._count)
        try:
            with self._machine.remote_forward(handing.serve) as port:
                for part in wanted:
                    self._pull(f"{LOOPBACK}:{port}", handing, part.manifest.digest)
        except ForwardingForbidden:
            return "its sshd forwards no ports, so the image went as one archive, which is slower"
        except Unreachable:
            raise
        except HostError as error:
            if handing.refused:
                return "it has the lower layers from elsewhere, so that the others went as one archive"
            if not handing.asked:
                return (
                    "its engine does not reach the host's loopback, so the image went as one archive, which is slower"
                )
            if not handing.known:
                return "its engine shows a registry no token, so the image went as one archive, which is slower"
            if "no space" in str(error):
                raise
            # It fetches a layer once for all who pull it, and another delivery may have refused it.
            return "its engine did not pull all of it, so that the rest went as one archive"
        return ""

    def _pull(self, registry: str, handing: PushRegistry, digest: str) -> None:
        self._way = "pull"
        login = {**handing.login, "serveraddress": registry}  # those of this machine are for other registries
        with self._engine.errors():
            lines = self._engine.api.pull(
                f"{registry}/{handing.name}", digest, stream=True, decode=True, auth_config=login
            )
        heeded(self._engine, lines)

    def _load(self, wanted: Sequence[Image], number: int) -> None:
        self._way = "load"
        try:
            for begin, part in _each_upon_the_last(wanted, number):
                self._load_one(part, part.layers[begin:])
        except Unreachable:
            raise
        except HostError as error:
            if (len(wanted) == 1 and not number) or "no space" in str(error):
                raise
            self._expect(self._image.layers)  # not every engine lets a layer be left out that it has
            self._load_one(self._image, self._image.layers)

    def _load_one(self, image: Image, layers: Sequence[Descriptor]) -> None:
        reference = self._reference if image is self._image else None
        with self._engine.errors():
            archive = self._counted(saved(self._layout, image, reference, layers))
            lines = self._engine.api.load_image(archive)  # type: ignore[no-untyped-call]
        heeded(self._engine, lines)

    def _expect(self, layers: Sequence[Descriptor]) -> None:
        """Note that `layers`, and the two documents, are still to be sent."""
        blobs = {it.digest: it.size for it in (*layers, self._image.config, self._image.manifest)}
        self._total = self._sent + sum(blobs.values())

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._count(len(piece))
            yield piece

    def _count(self, size: int) -> None:
        self._sent += size
        self._total = max(self._total, self._sent)
        self._progress(self._sent, self._total)


def _enough(image: Image) -> int:
    """How many lower layers leave so little to send that asking about more images takes longer than sending it."""
    left = 0
    for number, layer in reversed(list(enumerate(image.layers))):
        left += layer.size
        if left > _LITTLE:
            return number + 1
    return 0


def _each_upon_the_last(parts: Sequence[Image], number: int) -> Iterator[tuple[int, Image]]:
    """Yield each stage with the number of its layers that are there before it: at first, `number`."""
    for part in parts:
        yield number, part
        number = len(part.layers)
