"""Delivers an image of the controller to a host's engine: only the layers that the engine lacks.

The engine pulls it from a read-only registry in this process, through a port of the host's loopback that leads back
through the SSH connection. Where that cannot be, the same layers go as an archive to `docker load`.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.machine import Machine
from tfprov.hosts.ssh.errors import ConnectionLost, ForwardingForbidden
from tfprov.images.archive import stream_archive
from tfprov.images.engine_images import count_shared_layers, find_image, last_tag_time, tag, untag, wait_for_stream
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage
from tfprov.images.preflight import check_disk_space, check_platform, disk_space_needed
from tfprov.images.registry_server import LOOPBACK, PushRegistry, remove_stage, split_stages, untag_temporary
from tfprov.images.relays.protocols import Relay, RelayedPull, Relays

PAUSES = (1.0, 3.0, 9.0)
"""Seconds before each new try after the connection was lost."""

_SMALL = 64 * 1024
"""Bytes whose transfer takes about as long as one query to the engine about an image."""


@dataclass(frozen=True)
class PushResult:
    """The result of a delivery: `sent` bytes, the way, and the reason if it was not a pull.

    `from_hosts` are those of the bytes that came from other hosts, by their names. `image_id` is the image's id in the
    host's engine.
    """

    sent: int
    way: Literal["there", "pull", "load"]
    reason: str = ""
    image_id: str = field(default="", compare=False)
    from_hosts: Mapping[str, int] = field(default_factory=dict, compare=False)


def push(  # noqa: PLR0913, PLR0917
    machine: Machine,
    layout: Layout,
    image: OciImage,
    reference: str,
    progress: Callable[[int, int], None],
    note: Callable[[str], None] = lambda text: None,
    pauses: Sequence[float] = PAUSES,
    relays: Relays | None = None,
) -> PushResult:
    """Deliver `image` to the engine of `machine` and tag it there as `reference` (`repository:tag`).

    `progress` is called with the bytes sent and the total, from several threads but one at a time; `note` with a message
    before each retry after a lost connection, at most one for each of `pauses`. With `relays`, layers may come from other
    hosts. HostError, before anything is sent, when the image is for another platform or the disk is too full.
    """
    delivery = _Delivery(machine, layout, image, reference, progress, note, relays)
    with layout.in_use():
        layout.mark_used(image)
        for number, pause in enumerate(pauses, 1):
            try:
                return delivery.attempt()
            except Unreachable as error:
                if not (delivery.has_begun or isinstance(error, ConnectionLost)):
                    raise
            note(f"connection lost; retry {number}/{len(pauses)}")
            time.sleep(pause)
        return delivery.attempt()


def list_tags(engine: Engine, repository: str) -> dict[str, str]:
    """Return the image ids of `repository` in `engine`, by tag."""
    with engine.errors():
        images = engine.api.images(repository)
    names = ((name.rpartition(":"), it["Id"]) for it in images for name in it.get("RepoTags") or ())
    return {tag: image_id for (repo, _, tag), image_id in names if repo == repository}


def remove_old_tags(engine: Engine, repository: str, keep: int) -> None:
    """Remove the tags of `repository` except the `keep` newest and those of images that a container uses."""
    tags = list_tags(engine, repository)
    if len(tags) <= keep:
        return
    with engine.errors():
        used = {it.get("ImageID") for it in engine.api.containers(all=True)}
    ages = {image_id: last_tag_time(engine, image_id) for image_id in set(tags.values())}
    for name in sorted(tags, key=lambda name: (ages[tags[name]], name), reverse=True)[keep:]:
        if tags[name] not in used:
            untag(engine, f"{repository}:{name}")


class _Delivery:
    """The delivery of one image to one host, over one connection or several."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        machine: Machine,
        layout: Layout,
        image: OciImage,
        reference: str,
        progress: Callable[[int, int], None],
        note: Callable[[str], None],
        relays: Relays | None,
    ) -> None:
        self._machine, self._engine = machine, machine.engine
        self._layout, self._image, self._reference = layout, image, reference
        self._progress, self._note, self._relays = progress, note, relays
        self._from_hosts: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._way: Literal["there", "pull", "load"] = "there"
        self._reason = ""
        self._id = ""
        self._sent = self._total = 0
        self.has_begun = False

    def attempt(self) -> PushResult:
        """Send the missing layers. ConnectionLost or Unreachable when another attempt may succeed."""
        if not self._tag_image():
            self._send()
            if not self._tag_image():
                what = "its engine accepted the image and does not have it"
                raise HostError(self._machine.host, what, "check the engine's log there, and run this again")
        return PushResult(self._sent, self._way, self._reason, self._id, dict(self._from_hosts))

    def _tag_image(self) -> bool:
        """Tag the image and remove temporary tags; False when the engine does not have the image."""
        facts = find_image(self._engine, self._image)
        if facts is None:
            return False
        self._id = str(facts["Id"])
        tag(self._engine, self._id, self._reference)
        untag_temporary(self._engine, self._image)
        return True

    def _send(self) -> None:
        with self._engine.errors():
            info: dict[str, Any] = self._engine.api.info()
        self.has_begun = True
        check_platform(self._machine.host, info, self._image)
        number = count_shared_layers(self._engine, self._image.diff_ids, _layers_worth_finding(self._image))
        self._set_total(self._image.layers[number:])
        parts = split_stages(self._layout, self._image)
        wanted = [part for part in parts if len(part.layers) > number or part is self._image]
        self._check_space(info, wanted, number)
        self._reason = self._try_pull(wanted, self._image.layers[:number])
        if self._reason:
            self._load(wanted, number)
        for part in parts[:-1]:
            remove_stage(self._engine, part)

    def _check_space(self, info: Mapping[str, Any], wanted: Sequence[OciImage], number: int) -> None:
        layers = [part.layers[begin:] for begin, part in _with_layer_offsets(wanted, number)]
        directory = info.get("DockerRootDir")
        if not directory:
            return
        needed = disk_space_needed(self._layout, layers)
        check_disk_space(self._machine.host, str(directory), needed, self._machine.run)
        if self._relays is not None:
            extra = sum(layer.size for layer in self._image.layers[number:])  # a relay keeps them until all have them
            try:
                check_disk_space(self._machine.host, str(directory), needed + extra, self._machine.run)
            except Unreachable:
                raise
            except HostError:
                self._relays = None
                self._note("no room for a relay: its layers come from this machine, and it sends none to other hosts")

    def _try_pull(self, wanted: Sequence[OciImage], lower: Sequence[Descriptor]) -> str:
        """Let the engine pull the image; return an empty text, or why this host cannot pull it."""
        registry = PushRegistry(self._layout, wanted, lower, self._count)
        try:
            with self._machine.remote_forward(registry.serve) as port:
                if not self._try_relay(wanted, len(lower), registry, port):
                    self._pull_all(wanted, registry, port)
        except ForwardingForbidden:
            return "its sshd forwards no ports, so the image went as one archive, which is slower"
        except Unreachable:
            raise
        except HostError as error:
            if registry.has_refused:
                return "it has the lower layers from elsewhere, so the others went as one archive"
            if not registry.was_contacted:
                return (
                    "its engine does not reach the host's loopback, so the image went as one archive, which is slower"
                )
            if not registry.is_authenticated:
                return "its engine sent the registry no token, so the image went as one archive, which is slower"
            if "no space" in str(error):
                raise
            # The engine fetches a layer once for all concurrent pulls, and another delivery may have refused it.
            return "its engine did not pull all of it, so the rest went as one archive"
        return ""

    def _try_relay(self, wanted: Sequence[OciImage], number: int, registry: PushRegistry, port: int) -> bool:
        """Let the engine pull through a relay; return False where there is none, or it did not work to the end."""
        if self._relays is None:
            return False
        missing = self._image.layers[number:]
        relay = self._relays.join(RelayedPull(self._machine, self._image, missing, registry, port, self._count_from))
        if relay is None:
            return False
        try:
            self._pull_all(wanted, registry, relay.port, relay)
        except Unreachable:
            raise
        except HostError as error:
            if registry.has_refused or "no space" in str(error):
                raise
            relay.end()  # what it has may be damaged
            self._note("the pull through its relay failed; the rest comes from this machine")
            return False
        return True

    def _pull_all(
        self, wanted: Sequence[OciImage], registry: PushRegistry, port: int, relay: Relay | None = None
    ) -> None:
        for part in wanted:
            self._pull(f"{LOOPBACK}:{port}", registry, part.manifest.digest, relay)

    def _pull(self, address: str, registry: PushRegistry, digest: str, relay: Relay | None) -> None:
        self._way = "pull"
        login = {**registry.login, "serveraddress": address}  # instead of this machine's logins
        with self._engine.errors():
            lines = self._engine.api.pull(
                f"{address}/{registry.name}", digest, stream=True, decode=True, auth_config=login
            )
        wait_for_stream(self._engine, lines if relay is None else self._while_alive(lines, relay))

    def _while_alive(self, lines: Iterator[Mapping[str, Any]], relay: Relay) -> Iterator[Mapping[str, Any]]:
        """Yield the lines of a pull, of which one comes each second: an engine tries for a minute without its relay."""
        for line in lines:
            if not relay.alive:
                raise HostError(self._machine.host, "its relay has ended")
            yield line

    def _load(self, wanted: Sequence[OciImage], number: int) -> None:
        self._way = "load"
        try:
            for begin, part in _with_layer_offsets(wanted, number):
                self._load_archive(part, part.layers[begin:])
        except Unreachable:
            raise
        except HostError as error:
            if (len(wanted) == 1 and not number) or "no space" in str(error):
                raise
            self._set_total(self._image.layers)  # not every engine accepts an archive without the layers it has
            self._load_archive(self._image, self._image.layers)

    def _load_archive(self, image: OciImage, layers: Sequence[Descriptor]) -> None:
        reference = self._reference if image is self._image else None
        with self._engine.errors():
            archive = self._count_chunks(stream_archive(self._layout, image, reference, layers))
            lines = self._engine.api.load_image(archive)  # type: ignore[no-untyped-call]
        wait_for_stream(self._engine, lines)

    def _set_total(self, layers: Sequence[Descriptor]) -> None:
        """Set the total to the bytes sent, and those of `layers` and the two documents."""
        blobs = {it.digest: it.size for it in (*layers, self._image.config, self._image.manifest)}
        self._total = self._sent + sum(blobs.values())

    def _count_chunks(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._count(len(piece))
            yield piece

    def _count(self, size: int) -> None:
        with self._counting:
            self._sent += size
            self._total = max(self._total, self._sent)
            self._progress(self._sent, self._total)

    def _count_from(self, host: str, size: int) -> None:
        with self._counting:
            self._from_hosts[host] += size
        self._count(size)


def _layers_worth_finding(image: OciImage) -> int:
    """Return how many layers are worth finding: the rest is sent faster than the engine answers about another image."""
    size = 0
    for number, layer in reversed(list(enumerate(image.layers))):
        size += layer.size
        if size > _SMALL:
            return number + 1
    return 0


def _with_layer_offsets(parts: Sequence[OciImage], number: int) -> Iterator[tuple[int, OciImage]]:
    """Yield each stage with the number of its layers that the engine has by then: at first, `number`."""
    for part in parts:
        yield number, part
        number = len(part.layers)
