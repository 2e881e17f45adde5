"""The relays of one run: started on hosts that lack many bytes of an image, and all ended together.

Layers that have left the controller once go from host to host, as far as these reach each other.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tfprov.errors import DeliveryError, HostError, Unreachable
from tfprov.hosts.docker.reachability_probe import sweep_created
from tfprov.hosts.machine import Machine
from tfprov.images.engine_images import untag, untag_others
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage
from tfprov.images.push import push
from tfprov.images.relays.container import is_running, remove_relay, start_relay
from tfprov.images.relays.line import Answers, Line
from tfprov.images.relays.program.main import CERTIFICATE, CONFIG
from tfprov.images.relays.protocols import HostAddresses, Received, RelayedPull
from tfprov.images.relays.relay_image import DIRECTORY, REPOSITORY, USER, relay_image
from tfprov.images.relays.sources import MIN_MISSING, Peer, Sources, worth_it

START = 30.0
"""Seconds for a relay to start on a busy host; it takes one."""
_POLL = 0.5
"""Seconds between two looks at a container that has not come forward yet."""
_SMALL = 256 * 1024
"""Layers below this size come from the controller's registry: to ask for a source takes as long."""
_FORKS = 32
_BEGIN, _END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""When certificates are valid: clocks of hosts may be wrong, and a certificate ends with the relays that know it."""


@dataclass
class _HostRelay:
    """A relay that was started, and what ends it."""

    machine: Machine
    line: Line
    received: Received
    ending: ExitStack = field(default_factory=ExitStack)

    @property
    def port(self) -> int:
        """The port of the host's loopback from which its engine pulls."""
        return self.line.port

    @property
    def alive(self) -> bool:
        """Whether the relay runs, as far as is known here."""
        return not self.line.has_ended.is_set()

    def end(self) -> None:
        """End the relay: it sends nothing more."""
        self.line.end()


class Relays:
    """Thread-safe. `addresses` are those of the cluster's hosts; `note` gets lines for the user.

    A host joins for one delivery. All relays run until `close`, or until all deliveries of `expect` are settled.
    """

    def __init__(
        self,
        cluster: str,
        layout: Layout,
        addresses: Mapping[str, HostAddresses],
        note: Callable[[str], None],
        least: int = MIN_MISSING,
    ) -> None:
        self._cluster, self._layout, self._addresses, self._note, self._least = cluster, layout, addresses, note, least
        self._lock, self._image_lock = threading.Lock(), threading.Lock()
        self._expected = self._settled = 0
        self._relays: dict[int, _HostRelay] = {}
        self._number = 0
        self._sources = Sources()
        self._certificate = b""
        self._notes: set[str] = set()

    def expect(self, number: int) -> None:
        """So many deliveries are about to begin; each is settled once."""
        with self._lock:
            self._expected += number

    def settle(self) -> None:
        """A delivery is over. After the last one, the relays end."""
        with self._lock:
            self._settled += 1
            is_last = self._settled == self._expected
        if is_last:
            self.close()

    def join(self, pull: RelayedPull) -> _HostRelay | None:
        """Start a relay for a pull. Return None where none would pay, or none runs; the reason is a note.

        Raises Unreachable.
        """
        host = pull.machine.host
        sizes = {layer.digest: layer.size for layer in pull.layers if layer.size >= _SMALL}
        if host not in self._addresses or not worth_it(sum(sizes.values()), self._expected, self._least):
            return None
        try:
            relay = self._start(pull)
            config = {
                "layers": sizes,
                "registry_port": pull.port,
                "name": pull.registry.name,
                "credentials": pull.registry.credentials,
            }
            self._launch(relay, pull.image, config)
        except Unreachable:
            raise
        except (HostError, DeliveryError) as error:
            reason = error.reason if isinstance(error, HostError) else str(error)
            self._say_once(f"{host}: layers come from this machine, not from other hosts: {reason}", reason)
            return None
        return relay

    def _start(self, pull: RelayedPull) -> _HostRelay:
        with self._lock:
            self._number += 1
            line = Line(self._number, Answers(self._ready, self._want, self._received, self._ended))
            relay = self._relays[line.number] = _HostRelay(pull.machine, line, pull.received)
            self._certificate = self._certificate or make_certificate()
        return relay

    def _launch(self, relay: _HostRelay, image: OciImage, config: Mapping[str, object]) -> None:
        machine, line, ending = relay.machine, relay.line, relay.ending
        try:
            sweep_created(machine.engine, self._cluster)
            reference = self._deliver_image(machine, image)
            ending.callback(untag, machine.engine, reference)
            untag_others(machine.engine, reference)  # of a killed controller
            control = ending.enter_context(machine.remote_forward(line.serve))
            address = self._addresses[machine.host].bind
            settings = {**config, "control_port": control, "token": line.token, "address": address}
            files = {CONFIG: json.dumps(settings).encode(), CERTIFICATE: self._certificate}
            container = start_relay(machine.engine, reference, self._cluster, DIRECTORY, files, USER)
            ending.callback(remove_relay, machine.engine, container)
            ending.callback(line.end)
            self._await(machine, line, container)
        except BaseException:
            self._end(relay)
            raise

    def _deliver_image(self, machine: Machine, image: OciImage) -> str:
        with self._image_lock:
            made = relay_image(self._layout, image)
        reference = f"{REPOSITORY}/{self._cluster}:{made.id[7:23]}"
        push(machine, self._layout, made, reference, lambda sent, total: None)
        return reference

    @staticmethod
    def _await(machine: Machine, line: Line, container: str) -> None:
        deadline = time.monotonic() + START
        while not line.is_ready.wait(_POLL):
            if not is_running(machine.engine, container):
                raise HostError(machine.host, "the image's Python does not run the relay")
            if time.monotonic() > deadline:
                raise HostError(machine.host, f"the relay did not start within {START:g} s")
        if line.has_ended.is_set():
            raise HostError(machine.host, "the relay ended at once")

    # --- what the lines call ---

    def _ready(self, number: int, port: int) -> None:
        relay = self._relays.get(number)
        if relay is None:
            return
        addresses = self._addresses[relay.machine.host]
        if port:
            with self._lock:
                self._sources.add(Peer(number, relay.machine.host, addresses.address, port))
        else:
            what = f"does not listen at {addresses.bind}: {relay.line.reason}"
            self._note(f"{relay.machine.host}: {what}; it sends no layers to others")

    def _want(self, number: int, digest: str, failed: list[tuple[int, str]]) -> Peer | None:
        relay = self._relays.get(number)
        if relay is None:
            return None
        for source, reason in failed:
            if (other := self._relays.get(source)) is not None:
                ours, its = relay.machine.host, other.machine.host
                self._say_once(f"{ours}: cannot get layers from {its} ({reason}); trying another way", f"{ours} {its}")
        with self._lock:
            for source, _ in failed:
                self._sources.failed(number, source)
            return self._sources.assign(number, digest)

    def _received(self, number: int, source: int, size: int) -> None:
        relay, sender = self._relays.get(number), self._relays.get(source)
        if relay is not None and sender is not None:
            relay.received(sender.machine.host, size)

    def _ended(self, number: int) -> None:
        with self._lock:
            self._sources.remove(number)

    def _say_once(self, text: str, key: str) -> None:
        with self._lock:
            is_new = key not in self._notes
            self._notes.add(key)
        if is_new:
            self._note(text)

    # --- the end ---

    def close(self) -> None:
        """End all relays and remove them with their image. Idempotent; a host that is lost keeps nothing that runs."""
        with self._lock:
            relays, self._relays = list(self._relays.values()), {}
            self._expected, self._settled = 0, 0
            self._sources, self._certificate = Sources(), b""
        if relays:
            with ThreadPoolExecutor(_FORKS) as pool:
                list(pool.map(self._end, relays))

    @staticmethod
    def _end(relay: _HostRelay) -> None:
        with suppress(HostError):
            relay.ending.close()


def make_certificate() -> bytes:
    """Return a new key and its self-signed certificate, as PEM: every relay of a run shows it, and accepts no other."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tfprov relay")])
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
