"""Delivers an image of the controller to a host's engine: only the layers that the engine lacks.

The engine pulls it from a read-only registry in this process, through a port of the host's loopback that leads back
through the SSH connection. Where that cannot be, the same layers go as an archive to `docker load`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.image_contents import image_directory, stores_in_containerd
from tfprov.hosts.machine import Machine
from tfprov.hosts.ssh.errors import ConnectionLost, ForwardingForbidden
from tfprov.images.archive import stream_archive
from tfprov.images.compression.compression import Choice, Compression
from tfprov.images.compression.stage_forms import StageForms
from tfprov.images.engine_images import count_shared_layers, find_image, tag, wait_for_stream
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage
from tfprov.images.preflight import check_disk_space, check_platform, disk_space_needed
from tfprov.images.registry_server import LOOPBACK, PushRegistry
from tfprov.images.relays.protocols import Relay, RelayedPull, Relays
from tfprov.images.sent_bytes import SentBytes
from tfprov.images.stages import layers_worth_finding, remove_stage, split_stages, untag_temporary, with_layer_offsets

PAUSES = (1.0, 3.0, 9.0)
"""Seconds before each new try after the connection was lost."""


@dataclass(frozen=True)
class PushResult:
    """The result of a delivery: `sent` bytes, the way, and the reason if it was not a pull.

    `from_hosts` are those of the bytes that came from other hosts, by their names. `image_id` is the image's id in the
    host's engine. `saved` bytes were not sent because layers were compressed; `rate` is the link's in bytes a second, None
    where it was not measured.
    """

    sent: int
    way: Literal["there", "pull", "load"]
    reason: str = ""
    image_id: str = field(default="", compare=False)
    from_hosts: Mapping[str, int] = field(default_factory=dict, compare=False)
    saved: int = field(default=0, compare=False)
    rate: float | None = field(default=None, compare=False)


def push(  # noqa: PLR0913, PLR0917
    machine: Machine,
    layout: Layout,
    image: OciImage,
    reference: str,
    progress: Callable[[int, int], None],
    note: Callable[[str], None] = lambda text: None,
    pauses: Sequence[float] = PAUSES,
    relays: Relays | None = None,
    compression: Compression | None = None,
) -> PushResult:
    """Deliver `image` to the engine of `machine` and tag it there as `reference` (`repository:tag`).

    `progress` is called with the bytes sent and the total, from several threads but one at a time; `note` with a message
    before each retry after a lost connection, at most one for each of `pauses`. With `relays`, layers may come from other
    hosts; without `compression` they are sent as they are. HostError, before anything is sent, when the image is for
    another platform or the disk is too full.
    """
    compression = compression or Compression(layout, "never")
    delivery = _Delivery(machine, layout, image, reference, SentBytes(progress), note, relays, compression)
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


class _Delivery:
    """The delivery of one image to one host, over one connection or several."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        machine: Machine,
        layout: Layout,
        image: OciImage,
        reference: str,
        counted: SentBytes,
        note: Callable[[str], None],
        relays: Relays | None,
        compression: Compression,
    ) -> None:
        self._machine, self._engine = machine, machine.engine
        self._layout, self._image, self._reference = layout, image, reference
        self._counted, self._note, self._relays, self._compression = counted, note, relays, compression
        self._way: Literal["there", "pull", "load"] = "there"
        self._reason = self._id = self._engine_id = ""
        self._choice: Choice | None = None
        self._forms = StageForms(layout, image, 0)
        self._saved: dict[str, int] = {}
        self.has_begun = False

    def attempt(self) -> PushResult:
        """Send the missing layers. ConnectionLost or Unreachable when another attempt may succeed."""
        if not self._tag_image():
            self._send()
            if not self._tag_image():
                what = "its engine accepted the image and does not have it"
                raise HostError(self._machine.host, what, "check the engine's log there, and run this again")
        sent, from_hosts = self._counted.sent, dict(self._counted.from_hosts)
        rate = self._choice.rate if self._choice else None
        return PushResult(sent, self._way, self._reason, self._id, from_hosts, sum(self._saved.values()), rate)

    def _tag_image(self) -> bool:
        """Tag the image and remove temporary tags; False when the engine does not have the image."""
        form = self._forms.last(self._image)
        facts = find_image(self._engine, form)
        if facts is None:
            return False
        self._id = str(facts["Id"])
        tag(self._engine, self._id, self._reference)
        untag_temporary(self._engine, form)
        return True

    def _send(self) -> None:
        with self._engine.errors():
            info: dict[str, Any] = self._engine.api.info()
        self.has_begun = True
        check_platform(self._machine.host, info, self._image)
        number = count_shared_layers(self._engine, self._image.diff_ids, layers_worth_finding(self._image))
        self._expect(self._image.layers[number:])
        parts = split_stages(self._layout, self._image)
        wanted = [part for part in parts if len(part.layers) > number or part is self._image]
        self._check_space(info, wanted, number)
        self._engine_id = str(info.get("ID") or "")
        self._choose_forms(number)
        self._reason = self._try_pull(wanted, number)
        if self._reason:
            try:
                self._load(wanted, number)
            except HostError as error:
                raise self._layout.explain(self._image, error) from error
        for part in parts[:-1]:
            remove_stage(self._engine, self._forms.last(part))

    def _choose_forms(self, number: int) -> None:
        """Decide once for all attempts whether layers are compressed, and begin with it."""
        missing = self._image.layers[number:]
        if self._choice is None and self._relays is not None:
            self._choice = self._compression.choose_for_all(self._machine, self._image, missing)
        elif self._choice is None:
            self._choice = self._compression.choose(self._machine, missing)
        self._forms = self._compression.forms(self._image, number, self._engine_id, self._choice, self._note)
        self._forms.begin()

    def _form(self, part: OciImage, *, all_layers: bool = False) -> OciImage:
        """Return a stage as it is sent, once its layers are compressed."""
        before = self._forms.saved
        form = self._forms.of(part, all_layers=all_layers)
        self._counted.expect_less(self._forms.saved - before)
        self._saved |= self._forms.saved_by_layer  # by layer: another attempt sends some again
        return form

    def _check_space(self, info: Mapping[str, Any], wanted: Sequence[OciImage], number: int) -> None:
        layers = [part.layers[begin:] for begin, part in with_layer_offsets(wanted, number)]
        directory = image_directory(info)
        if not directory:
            return
        needed = disk_space_needed(self._layout, layers, keeps_received=stores_in_containerd(info))
        check_disk_space(self._machine.host, directory, needed, self._machine.run)
        if self._relays is not None:
            extra = sum(layer.size for layer in self._image.layers[number:])  # a relay keeps them until all have them
            try:
                check_disk_space(self._machine.host, directory, needed + extra, self._machine.run)
            except Unreachable:
                raise
            except HostError:
                self._relays = None
                self._note("no room for a relay: its layers come from this machine, and it sends none to other hosts")

    def _try_pull(self, wanted: Sequence[OciImage], number: int) -> str:
        """Let the engine pull the image; return an empty text, or why this host cannot pull it."""
        registry = PushRegistry(self._layout, (), (), self._counted.add)
        try:
            with self._machine.remote_forward(registry.serve) as port:
                if not self._try_relay(wanted, number, registry, port):
                    self._pull_all(wanted, registry, port)
        except ForwardingForbidden:
            return "its sshd forwards no ports, so the image went as one archive, which is slower"
        except Unreachable:
            raise
        except HostError as error:
            if registry.refused:
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
            self._forms.drop_damaged()
            return "its engine did not pull all of it, so the rest went as one archive"
        return ""

    def _try_relay(self, wanted: Sequence[OciImage], number: int, registry: PushRegistry, port: int) -> bool:
        """Let the engine pull through a relay; return False where there is none, or it did not work to the end."""
        if self._relays is None:
            return False
        missing = self._form(self._image).layers[number:]  # a relay knows beforehand what it may be asked for
        pull = RelayedPull(self._machine, self._image, missing, registry, port, self._counted.add_from)
        relay = self._relays.join(pull)
        if relay is None:
            return False
        try:
            self._pull_all(wanted, registry, relay.port, relay)
        except Unreachable:
            raise
        except HostError as error:
            if registry.refused or "no space" in str(error):
                raise
            relay.end()  # what it has may be damaged
            self._note("the pull through its relay failed; the rest comes from this machine")
            return False
        return True

    def _pull_all(
        self, wanted: Sequence[OciImage], registry: PushRegistry, port: int, relay: Relay | None = None
    ) -> None:
        for part in wanted:
            self._pull_form(part, registry, port, relay)
            self._compression.record(self._engine_id, self._forms, part)

    def _pull_form(self, part: OciImage, registry: PushRegistry, port: int, relay: Relay | None) -> None:
        """Pull a stage, in which layers that the engine has are named by the digests under which it knows them."""
        while True:
            form = self._form(part)
            registry.refused.clear()
            registry.offer(form, self._forms.held)
            try:
                return self._pull(f"{LOOPBACK}:{port}", registry, form.manifest.digest, relay)
            except Unreachable:
                raise
            except HostError:
                if not (registry.refused and self._forms.switch()):
                    raise

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
            for begin, part in with_layer_offsets(wanted, number):
                form = self._form(part)
                self._load_archive(form, form.layers[begin:])
        except Unreachable:
            raise
        except HostError as error:
            if (len(wanted) == 1 and not number) or "no space" in str(error):
                raise
            self._expect(self._image.layers)  # not every engine accepts an archive without the layers it has
            form = self._form(self._image, all_layers=True)
            self._load_archive(form, form.layers)

    def _load_archive(self, image: OciImage, layers: Sequence[Descriptor]) -> None:
        reference = self._reference if image.id == self._image.id else None
        with self._engine.errors():
            archive = self._counted.through(stream_archive(self._layout, image, reference, layers))
            lines = self._engine.api.load_image(archive)  # type: ignore[no-untyped-call]
        wait_for_stream(self._engine, lines)

    def _expect(self, layers: Sequence[Descriptor]) -> None:
        """Announce `layers` and the two documents."""
        self._counted.expect((*layers, self._image.config, self._image.manifest))
