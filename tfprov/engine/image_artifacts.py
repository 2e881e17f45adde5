"""The images of a cluster as artifacts: built once on the controller and delivered to every host.

An image's key is a hash of everything it is built from (the build context and arguments, or the archive, or the name; the
code; tfprov's runtime), so every controller can plan before anything is built. Its name on hosts, and in the controller's
layout, is `tfprov/CLUSTER:KEY`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tfprov.engine.artifacts import Makes
from tfprov.engine.host_registry import DeliveredImages
from tfprov.engine.reporter import Reporter
from tfprov.errors import DeliveryError, HostError, Unreachable
from tfprov.hosts.docker.image_contents import is_delivered
from tfprov.hosts.machine import Machine
from tfprov.images.archive import load
from tfprov.images.build import Recipe, build
from tfprov.images.code import Code, CodeStore
from tfprov.images.code_layer import compose
from tfprov.images.compression.compression import Compression
from tfprov.images.engine_images import Pulled, inspect_image, pull, pulled_image, remove_old_tags, tag
from tfprov.images.exports.export import export
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage
from tfprov.images.push import PushResult, push
from tfprov.images.relays.protocols import RunRelays
from tfprov.planning.plan_text import format_size

KEPT = 4
"""Earlier images of a cluster that stay on a host, for a rollback; each occupies only the layers it does not share."""

_ASKED_AT_ONCE = 32
"""Hosts that are asked for an image at the same time."""

BASE = "tfprov-base"
"""Prefix of the names of images without code in the controller's layout."""


@dataclass
class Workshop:
    """What images are built with: the controller's layout, the hosts they are delivered to, and the reporter."""

    layout: Layout
    machines: Mapping[str, Machine]
    report: Reporter
    names: set[str]
    """The names of the inventory's images on hosts; a delivery removes none of them."""
    delivered: DeliveredImages
    relays: RunRelays | None = None
    """What delivers layers from host to host; None where all come from the controller."""
    compression: Compression | None = None
    """What compresses layers for slow links; None where they are sent as they are."""
    pulled: dict[str, Pulled] = field(default_factory=dict)
    """The image that all hosts pull, by its name on hosts, once one of them has it."""
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the lock of the work `name`: two images from one base must not build it twice."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            yield

    def tidy(self, host: str, reference: str) -> None:
        """Remove old images of the repository of `reference` from a host, and none that the inventory may start next."""
        with suppress(HostError):  # the delivery succeeded; the next one removes them
            repository = reference.rpartition(":")[0]
            remove_old_tags(self.machines[host].engine, repository, KEPT, {*self.names, reference})

    def named(self, name: str, store: CodeStore) -> Makes:
        """Return a factory of artifacts for the image `name` in a registry."""
        return lambda reference, code: Named(reference, name, code, store, self)

    def archived(self, path: Path, digest: str, digest_now: Callable[[], str]) -> Makes:
        """Return a factory of artifacts for the image in the archive at `path`, whose content had `digest` at the plan."""

        def make(layout: Layout, name: str) -> OciImage:
            try:
                with path.open("rb") as stream:
                    if digest_now() != digest:
                        raise DeliveryError(f"{path} has changed since it was planned with", "run this again")
                    return load(layout, stream, name, where=str(path))
            except OSError as error:
                raise DeliveryError(f"{path}: {error.strerror}") from None

        return self._layered(Base(f"{BASE}/archive:{digest}", make))

    def built(self, recipe: Recipe, machine: Callable[[], Machine]) -> Makes:
        """Return a factory of artifacts for the image of `recipe`, built on the engine of `machine()` and exported once."""

        def make(layout: Layout, name: str) -> OciImage:
            on = machine()
            note = lambda text: self.report.note(f"{on.host}: {text}")  # noqa: E731
            self.report.note(f"building {recipe.context.source} on {on.host}")
            image = build(on.engine, recipe, recipe.key, lambda line: self.report.log(on.host, line))
            self.report.note(f"exporting the image from {on.host}")
            self.report.awaiting(f"exporting the image from {on.host}")
            try:
                return export(on, image, layout, name, partial(self.report.transferred, name), note)
            finally:
                self.report.awaiting("")

        return self._layered(Base(f"{BASE}/build:{recipe.key}", make))

    def _layered(self, base: "Base") -> Makes:
        return lambda reference, code: Layered(reference, base, code, self)


@dataclass(frozen=True)
class Base:
    """An image without the code: its `name` in the layout, and the function that adds it."""

    name: str
    make: Callable[[Layout, str], OciImage]

    def get(self, workshop: Workshop) -> OciImage:
        """Return the image, building it if the layout lacks it."""
        with workshop.exclusive(self.name):
            return workshop.layout.find(self.name) or self.make(workshop.layout, self.name)


@dataclass(frozen=True)
class Layered:
    """An image that the controller builds from a base, tfprov's runtime and the code, and delivers layer by layer."""

    reference: str
    base: Base
    code: Code | None
    workshop: Workshop

    @property
    def ready(self) -> bool:
        """See Artifact."""
        return self.workshop.layout.find(self.reference) is not None

    def build(self) -> None:
        """See Artifact."""
        self.image()

    def image(self) -> OciImage:
        """Return the image, building it if the layout lacks it, for example after a prune."""
        layout = self.workshop.layout
        with self.workshop.exclusive(self.reference), layout.in_use():
            stored = layout.find(self.reference)
            return stored or compose(layout, self.base.get(self.workshop), self.code, self.reference)

    def deliver(self, host: str) -> None:
        """See Artifact."""
        try:
            self._deliver(host)
        finally:
            if self.workshop.relays is not None:
                self.workshop.relays.settle()

    @contextmanager
    def delivering(self, hosts: int) -> Iterator[None]:
        """See Artifact. The relays of several images are the same, and so is what compresses."""
        relays, compression = self.workshop.relays, self.workshop.compression
        if relays is not None:
            relays.expect(hosts)
        try:
            yield
        finally:
            if relays is not None:
                relays.close()
            if compression is not None:
                compression.close()

    def _deliver(self, host: str) -> None:
        workshop, report = self.workshop, self.workshop.report
        machine, image = workshop.machines[host], self.image()
        with workshop.exclusive(f"to {host}"):  # the second of two images that share layers needs only the others
            pushed = push(
                machine,
                workshop.layout,
                image,
                self.reference,
                lambda sent, total: report.transferred(host, sent, total),
                lambda text: report.note(f"{host}: {text}"),
                relays=workshop.relays,
                compression=workshop.compression,
            )
        workshop.delivered.record(host, self.reference, pushed.image_id)
        if pushed.reason:
            report.note(f"{host}: {pushed.reason}")
        if pushed.saved:
            report.note(f"{host}: {describe_compression(pushed)}")
        if pushed.from_hosts:
            report.note(f"{host}: {describe_sources(pushed.from_hosts, pushed.sent)}")
        workshop.tidy(host, self.reference)


@dataclass(frozen=True)
class Named:
    """An image that every host pulls from a registry; the code is copied into each container."""

    reference: str
    name: str
    code: Code | None
    store: CodeStore
    workshop: Workshop

    @property
    def ready(self) -> bool:
        """See Artifact."""
        return self.code is None or self.code.digest in self.store.digests()

    def build(self) -> None:
        """See Artifact."""
        if self.code is not None:
            self.store.put(self.code)

    def deliver(self, host: str) -> None:
        """See Artifact. A tag can move at any time: the digest that the first host pulled is used for all."""
        if not self._restore_name(host):
            self._pull_on(host)
        self.workshop.tidy(host, self.reference)

    def _pull_on(self, host: str) -> None:
        pulled = self.workshop.pulled
        with self.workshop.exclusive(self.reference):
            if self.reference not in pulled:
                present = self._present()
                pulled[self.reference] = present or self._pull(host)
                if present is None:
                    return
        self._pull(host, pulled[self.reference])

    def _restore_name(self, host: str) -> bool:
        """Tag the delivered image again if only its name was moved; return whether `host` has it."""
        engine = self.workshop.machines[host].engine
        for image_id in self.workshop.delivered.image_ids(host, self.reference):
            if inspect_image(engine, image_id) is not None:
                tag(engine, image_id, self.reference)
                return True
        return False

    def delivering(self, hosts: int) -> AbstractContextManager[None]:
        """See Artifact."""
        return nullcontext()

    def _pull(self, host: str, first: Pulled | None = None) -> Pulled:
        """Pull the image, by the digest under which the `first` host has it."""
        engine, say = self.workshop.machines[host].engine, lambda text: self.workshop.report.note(f"{host}: {text}")
        try:
            pulled = pull(engine, (first and first.digest) or self.name, self.reference, say)
        except HostError as error:  # of an image from no registry each host has its own
            may_be_own = first is not None and not first.is_certain and not isinstance(error, Unreachable)
            if not may_be_own or inspect_image(engine, self.name) is None:
                raise
            pulled = pull(engine, self.name, self.reference, say)
        self.workshop.delivered.record(host, self.reference, pulled.image_id)
        return pulled

    def _present(self) -> Pulled | None:
        """Return the image as the first host with a digest of it has it; None if no host has one."""
        executor = ThreadPoolExecutor(_ASKED_AT_ONCE)
        try:
            return next(filter(None, executor.map(self._present_on, self.workshop.machines)), None)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)  # of those behind it, one may be lost

    def _present_on(self, host: str) -> Pulled | None:
        with suppress(HostError):
            deliveries, engine = self.workshop.delivered.on(host), self.workshop.machines[host].engine
            with engine.errors():
                if not engine.api.images(name=self.reference):
                    return None
                facts: dict[str, Any] = engine.api.inspect_image(self.reference)  # type: ignore[no-untyped-call]
            present = pulled_image(facts, self.name)
            if present.digest and is_delivered(deliveries, self.reference, present.image_id):
                return present
        return None


def describe_compression(pushed: PushResult) -> str:
    """Return what compressed layers saved, with the rate of the link where it was measured."""
    link = "" if pushed.rate is None else f"{format_size(pushed.rate)}/s link: " if pushed.rate else "very slow link: "
    whole = format_size(pushed.sent + pushed.saved)
    return f"{link}layers compressed, {format_size(pushed.sent)} instead of {whole}"


def describe_sources(from_hosts: Mapping[str, int], sent: int) -> str:
    """Return which of the `sent` bytes came from which hosts."""
    parts = [f"{format_size(size)} from {host}" for host, size in sorted(from_hosts.items())]
    return ", ".join([*parts, f"{format_size(max(0, sent - sum(from_hosts.values())))} from this machine"])
