"""Reads the `image:` settings and names the images; nothing is built."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.engine.artifacts import Artifact, Later, Makes, Once, if_needed
from tfprov.engine.host_registry import DeliveredImages
from tfprov.engine.machines import engine_socket
from tfprov.engine.reporter import Reporter
from tfprov.errors import DeliveryError, InvalidInput, Problem
from tfprov.hosts.machine import LocalMachine, Machine
from tfprov.images.blobs import digest_of_file
from tfprov.images.build import Recipe, pack_context, proxies
from tfprov.images.code import Code, CodeStore
from tfprov.images.code_layer import runtime
from tfprov.images.relays.protocols import HostAddresses
from tfprov.model.cluster import is_loopback
from tfprov.model.sections import Image
from tfprov.paths import cache_home
from tfprov.planning.desired import RoleHost
from tfprov.planning.task_program import RoleImage
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import resolve_path

if TYPE_CHECKING:
    from tfprov.engine.image_artifacts import Workshop

CONTROLLER = "this machine"
"""The controller's engine in messages."""
_CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
"""Variables with the CA certificates that programs on the controller trust; a build needs the same."""


def reference(cluster: str, *parts: object) -> str:
    """Return the name, on every host, of the image that is built from `parts`, JSON values that determine its content."""
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return f"tfprov/{cluster}:{key}"


def stored_image_ids(reference: str) -> Collection[str]:
    """Return the ids that engines may give to an image in the controller's layout; empty if it has no such image."""
    from tfprov.images.oci_layout import Layout  # noqa: PLC0415  only where nothing is recorded

    try:
        image = Layout(cache_home() / "images").find(reference)
    except DeliveryError:  # reported by the code that needs the layout
        return ()
    return (image.id, image.manifest.digest) if image else ()


@dataclass(frozen=True)
class RoleImages:
    """The images of a cluster: their artifacts by name, and the image of each role on each host."""

    artifacts: Mapping[str, Artifact]
    by_role: Mapping[RoleHost, RoleImage]


@dataclass(frozen=True)
class Source:
    """What the images of a cluster are built from: `label` in a few words, `parts` in full; `makes` makes their artifacts.

    With `copies_code`, code is copied into each container instead of the image. `names` collects the images' names, and
    `addresses` those of the hosts that may send layers to each other.
    """

    label: str
    parts: tuple[str, ...]
    names: set[str]
    makes: Once[Makes]
    copies_code: bool = False
    addresses: dict[str, HostAddresses] = field(default_factory=dict)

    def images(
        self, roles: Sequence[RoleSettings], codes: Mapping[RoleHost, Code], addresses: Mapping[RoleHost, str]
    ) -> RoleImages:
        """Return the images of `roles`, one for each different code."""
        by_role = {}
        codes_by_name: dict[str, Code | None] = {}
        for role in roles:
            place = role.role, role.host
            code = codes.get(place)
            digest = code.digest if code else None
            name = reference(role.values.cluster, *self.parts, runtime().digest, digest)
            codes_by_name[name] = code
            self.addresses.update(_addresses(role, addresses[place]))
            by_role[place] = RoleImage(name, self.label, addresses[place], digest if self.copies_code else None)
        self.names.update(codes_by_name)
        return RoleImages({name: self._later(name, code) for name, code in codes_by_name.items()}, by_role)

    def _later(self, name: str, code: Code | None) -> Artifact:
        return Later(Once(lambda: self.makes.get()(name, code)))


@dataclass(frozen=True)
class ImageSources:
    """Reads the `image:` settings. Methods raise InvalidInput."""

    machines: Mapping[str, Machine]
    report: Reporter
    environ: Mapping[str, str]
    store: CodeStore
    delivered: DeliveredImages

    def source(self, role: RoleSettings, *, needed: bool = True) -> Source:
        """Read the `image:` settings of `role`, which are the same for all roles, and the files they name.

        Unless they are `needed`, files that cannot be read are left out: no image can be made from that source.
        """
        image = role.values.image
        assert image is not None, "checked with the settings: the docker runtime has an image"
        source: Source = if_needed(partial(self._source, role, image), _unread(image.kind), needed=needed)
        return source

    def _source(self, role: RoleSettings, image: Image) -> Source:
        names: set[str] = set()
        addresses: dict[str, HostAddresses] = {}
        if image.kind == "name":
            name = str(image.name)
            makes = Once(lambda: self._workshop(role, names, {}).named(name, self.store))
            return Source(name, (image.kind, name), names, makes, copies_code=True)
        if image.kind == "archive":
            path = resolve_path(role, "image", "archive")
            key = self._archive(role, path)
            makes = Once(
                lambda: self._workshop(role, names, addresses).archived(path, key, lambda: self._archive(role, path))
            )
        else:
            recipe = self._recipe(role, image)
            key = recipe.key
            makes = Once(lambda: self._workshop(role, names, addresses).built(recipe, lambda: self._builder(image)))
        return Source(f"{image.kind} {key[:12]}", (image.kind, key), names, makes, addresses=addresses)

    def _workshop(self, role: RoleSettings, names: set[str], addresses: Mapping[str, HostAddresses]) -> "Workshop":
        # Imported here for start-up time: a run with nothing to do builds and delivers no image.
        from tfprov.engine.image_artifacts import Workshop  # noqa: PLC0415
        from tfprov.images.compression.compression import Compression  # noqa: PLC0415
        from tfprov.images.oci_layout import Layout  # noqa: PLC0415

        layout = Layout(cache_home() / "images")
        relays = None
        if role.values.deliver.from_hosts == "auto":
            from tfprov.images.relays.relays import Relays  # noqa: PLC0415  cryptography takes a while to import

            relays = Relays(role.values.cluster, layout, addresses, self.report.note)
        compression = Compression(layout, role.values.deliver.compress)
        return Workshop(layout, self.machines, self.report, names, self.delivered, relays, compression)

    def _archive(self, role: RoleSettings, path: Path) -> str:
        if not path.is_file():
            reason = "is not a file" if path.exists() else "does not exist"
            fix = "make it with `docker save -o FILE IMAGE`"
            raise InvalidInput([Problem(role.at("image", "archive"), f"`image.archive`: {path} {reason}", fix)])
        try:
            return digest_of_file(path, cache_home() / "archives.json").removeprefix("sha256:")
        except OSError as error:
            what = f"`image.archive`: {error.strerror}: {error.filename}"
            raise InvalidInput([Problem(role.at("image", "archive"), what, "make it readable")]) from None

    def _recipe(self, role: RoleSettings, image: Image) -> Recipe:
        context = pack_context(resolve_path(role, "image", "build"), role.at("image", "build"), image.dockerfile)
        bundle = next((self.environ[name] for name in _CERTIFICATES if self.environ.get(name)), None)
        certificates = _read(role, "ca_bundle") if image.ca_bundle else _optional(bundle)
        arguments = {name: _text(value) for name, value in image.build_args.items()}
        settings = _read(role, "pip_conf") if image.pip_conf else None
        return Recipe(context, arguments, certificates, settings, proxies(self.environ), image.build_on or "")

    def _builder(self, image: Image) -> Machine:
        if image.build_on is not None:
            return self.machines[image.build_on]
        return LocalMachine(CONTROLLER, engine_socket(self.environ))


def _unread(kind: str) -> Source:
    def make() -> Makes:
        raise DeliveryError(f"the files of `image.{kind}` cannot be read")

    return Source(kind, (kind,), set(), Once(make))


def _addresses(role: RoleSettings, published: str) -> Mapping[str, HostAddresses]:
    """Return the addresses of a role's host; none where other hosts do not reach it, as at a loopback address."""
    if is_loopback(role.address):
        return {}
    return {role.host: HostAddresses(role.address if is_loopback(published) else published, role.address)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(role: RoleSettings, name: str) -> bytes:
    path = resolve_path(role, "image", name)
    try:
        return path.read_bytes()
    except OSError as error:
        what = f"`image.{name}`: {error.strerror}: {path}"
        raise InvalidInput([Problem(role.at("image", name), what, "correct the path")]) from None


def _optional(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path and Path(path).is_file() else None
