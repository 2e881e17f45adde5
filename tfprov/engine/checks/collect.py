"""Collects the facts of all hosts of a cluster in parallel, and judges them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tfprov.engine.artifacts import Artifact, Later
from tfprov.engine.checks.check import gone, lost
from tfprov.engine.checks.docker_host_rules import HostWork, architectures, judge, strays
from tfprov.engine.checks.host_rules import Finding
from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.engine.image_artifacts import Layered, Named
from tfprov.errors import DeliveryError, HostError, Unreachable
from tfprov.hosts.collect_facts import available_images, survey
from tfprov.hosts.docker.image_contents import Deliveries, NoDeliveries
from tfprov.hosts.facts import EngineFacts, HostFacts
from tfprov.hosts.machine import Machine, SSHMachine
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.host_keys import UnknownHostKey
from tfprov.hosts.ssh.known_hosts import KeyStatus, add_key
from tfprov.images.engine_images import count_shared_layers
from tfprov.images.oci_spec import OciImage
from tfprov.images.preflight import disk_space_needed
from tfprov.model.state import Container


def connect_error(ssh: SSHHost) -> HostError | None:
    """Connect and return the error, or None: UnknownHostKey if the host or a gateway is in no known_hosts file."""
    try:
        ssh.open()
    except HostError as error:
        return error
    return None


def trust_key(unknown: UnknownHostKey) -> None:
    """Add the key to the file that `ssh` would use. Raises HostError if that fails or another key was added meanwhile."""
    hop = unknown.hop
    try:
        status, _ = add_key(hop.known_hosts[0], hop.host_key_alias, hop.host_key_port, unknown.key_type, unknown.data)
    except OSError as error:
        raise HostError(hop.label, f"its key could not be recorded: {error.strerror}: {error.filename}") from error
    if status is not KeyStatus.KNOWN:
        raise HostError(
            hop.label, "another run recorded a different key for it", "check known_hosts, then run this again"
        )


@dataclass(frozen=True)
class Collected:
    """The facts of every host of `context`, or its error, in `answers`.

    `needed` are, by host, the bytes that each missing image will occupy, if the controller has the image.
    """

    context: Context
    answers: Mapping[str, HostFacts | HostError]
    needed: Mapping[str, Mapping[str, int]]

    @property
    def facts(self) -> dict[str, HostFacts]:
        """Return the facts of the hosts that answered."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, HostFacts)}

    @property
    def unreachable(self) -> frozenset[str]:
        """Return the hosts of the inventory that cannot be reached."""
        hosts = frozenset(host for host, answer in self.answers.items() if isinstance(answer, Unreachable))
        return hosts - self.context.left

    def remember(self, hosts: Iterable[str]) -> None:
        """Record `hosts`, which are about to receive something. See Context.remember."""
        silent = {host: answer for host, answer in self.answers.items() if isinstance(answer, HostError)}
        replace(self.context.limited(hosts), unresponsive=silent).remember()

    def part(self, host: str) -> HostWork:
        """Return the part of the cluster that is planned for a host."""
        return HostWork(_wanted(self.context, host), self.needed.get(host, {}))

    def lacking(self, host: str) -> tuple[str, ...]:
        """Return the images of a host's tasks that it lacks; empty for a host without an engine."""
        facts = self.facts.get(host)
        if facts is None or facts.engine is None:
            return ()
        return tuple(image for image in self.part(host).images if image not in facts.engine.images)

    def by_id(self, container: Container) -> Container:
        """Return a container with its image's id, as the host reported it, instead of the image's name."""
        facts = self.facts[container.task.host]
        assert container.docker is not None, "containers on machines have Docker options"
        assert facts.engine is not None, "called only for hosts with an engine"
        image = facts.engine.image_ids.get(container.docker.image, container.docker.image)
        return replace(container, docker=replace(container.docker, image=image))

    def findings(self) -> dict[str, list[Finding]]:
        """Return the findings of each host from its facts, without probes."""
        compared = self._compared()
        return {
            host: [*self._of(host, answer), *([compared[host]] if host in compared else [])]
            for host, answer in self.answers.items()
        }

    def _of(self, host: str, answer: HostFacts | HostError) -> Iterator[Finding]:
        has_left = host in self.context.left
        if isinstance(answer, HostError):
            yield gone(host, answer) if has_left else lost(host, answer)
        elif not has_left:
            yield from judge(answer, self.part(host), self.context.cluster)
        elif answer.engine is not None and not self._is_alias(answer.engine):
            yield from strays(host, answer.engine, self.context.cluster)

    def _is_alias(self, left: EngineFacts) -> bool:
        """Whether the engine of a host that left has a container of a host of the inventory: it is that host."""
        present = [facts.engine for host, facts in self.facts.items() if facts.engine and host not in self.context.left]
        return any(container in engine.containers for engine in present for container in left.containers)

    def _compared(self) -> dict[str, Finding]:
        left = self.context.left
        engines = {host: facts.engine for host, facts in self.facts.items() if facts.engine and host not in left}
        artifacts = [_resolve_later(self.context.artifacts[name]) for name in _names(self.context)]
        built = [image.platform for artifact in artifacts if (image := _image(artifact)) is not None]
        available = [platform for engine in engines.values() for platform in engine.images.values()]
        pulled = any(isinstance(artifact, Named) for artifact in artifacts)
        return architectures(
            {host: engine.platform for host, engine in engines.items()}, built + available, pulled=pulled
        )

    def refresh_images(self, hosts: Mapping[str, object]) -> "Collected":
        """Return this with the images of `hosts` listed again; a host that does not answer keeps the earlier list."""
        answers = dict(self.answers)
        for host, facts in self.facts.items():
            if host in hosts and facts.engine is not None:
                with suppress(HostError):
                    engine, deliveries = self.context.machines[host].engine, _deliveries(self.context, host)
                    available = available_images(engine, self.part(host).images, deliveries)
                    answers[host] = replace(facts, engine=replace(facts.engine, **vars(available)))
        return replace(self, answers=answers)


def collect_facts(context: Context) -> Collected:
    """Collect the facts of every machine within `--limit`, `forks` at a time."""
    hosts = [host for host in context.machines if context.allows(host)]
    with pool(context.forks) as executor:
        answers = dict(zip(hosts, executor.map(lambda host: _answer(context, host), hosts), strict=True))
    context.unresponsive.update(
        {host: answer for host, (answer, _) in answers.items() if isinstance(answer, HostError)}
    )
    return Collected(
        context,
        {host: answer for host, (answer, _) in answers.items()},
        {host: needed for host, (_, needed) in answers.items()},
    )


def _answer(context: Context, host: str) -> tuple[HostFacts | HostError, dict[str, int]]:
    if host in context.unresponsive:  # each try can take the whole connect timeout
        return context.unresponsive[host], {}
    try:
        facts = survey(context.machines[host], HostWork(_wanted(context, host)).images, _deliveries(context, host))
        return facts, dict(_needed(context, facts)) if facts.engine else {}
    except HostError as error:
        return error, {}


def _needed(context: Context, facts: HostFacts) -> Iterator[tuple[str, int]]:
    """Yield the bytes that an engine needs for each image that it lacks and the controller has.

    Images of one cluster differ in their code and share the rest, which counts once.
    """
    assert facts.engine is not None, "called only for hosts with an engine"
    counted: set[str] = set()
    for name in HostWork(_wanted(context, facts.host)).images:
        artifact = _resolve_later(context.artifacts[name])
        if name not in facts.engine.images and isinstance(artifact, Layered) and (image := _image(artifact)):
            held = count_shared_layers(context.machines[facts.host].engine, image.diff_ids)
            layers = [layer for layer in image.layers[held:] if layer.digest not in counted]
            counted |= {layer.digest for layer in layers}
            yield name, disk_space_needed(artifact.workshop.layout, [[layer] for layer in layers])


def _deliveries(context: Context, host: str) -> Deliveries:
    """Return the deliveries to a host, which all images of a context share."""
    for name in HostWork(_wanted(context, host)).images:
        artifact = _resolve_later(context.artifacts[name])
        if isinstance(artifact, Layered | Named):
            return artifact.workshop.delivered.on(host)
    return NoDeliveries()


def _resolve_later(artifact: Artifact) -> Artifact:
    """Return the artifact behind a Later."""
    return artifact.once.get() if isinstance(artifact, Later) else artifact


def _image(artifact: object) -> OciImage | None:
    """Return the image of an artifact if it is built already, else None."""
    try:
        return artifact.workshop.layout.find(artifact.reference) if isinstance(artifact, Layered) else None
    except DeliveryError:  # reported by the code that needs the layout
        return None


def _wanted(context: Context, host: str) -> tuple[Container, ...]:
    return tuple(container for container in context.wanted if container.task.host == host)


def _names(context: Context) -> list[str]:
    return list(dict.fromkeys(container.artifact for container in context.wanted if container.artifact))


Ask = Callable[[UnknownHostKey], bool]
"""Shows a key to the user; returns whether it is the server's."""


def trust_new(machines: Iterable[Machine], forks: int, ask: Ask) -> dict[str, HostError]:
    """Connect to all of `machines`, and ask about every unknown host key; return the errors of unreachable hosts.

    A gateway of several hosts is asked about once. A trusted gateway can lead to the next server with an unknown key.
    """
    answers: dict[tuple[str, int, bytes], bool] = {}
    failed: dict[str, HostError] = {}
    waiting = [machine for machine in machines if isinstance(machine, SSHMachine)]
    with pool(forks) as executor:
        while waiting:
            errors = list(executor.map(lambda machine: connect_error(machine.ssh), waiting))
            by_host = dict(zip((machine.host for machine in waiting), errors, strict=True))
            again = {host for host, error in by_host.items() if _trust(error, answers, ask)}
            failed |= {host: error for host, error in by_host.items() if error is not None and host not in again}
            waiting = [machine for machine in waiting if machine.host in again]
    return failed


def _trust(error: HostError | None, answers: dict[tuple[str, int, bytes], bool], ask: Ask) -> bool:
    """Ask about the key of an UnknownHostKey, and record it; return whether to connect again."""
    if not isinstance(error, UnknownHostKey):
        return False
    server = error.hop.host_key_alias, error.hop.host_key_port, error.data
    if server not in answers:
        answers[server] = ask(error)
        if answers[server]:
            trust_key(error)
    return answers[server]
