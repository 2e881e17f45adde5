"""Collects the facts of all hosts of a cluster in parallel, and judges them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tfprov.engine.artifacts import Artifact, Later
from tfprov.engine.checks.check import gone, lost
from tfprov.engine.checks.docker_host_rules import Part, architectures, judge, strays
from tfprov.engine.checks.host_rules import Finding
from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.engine.image_artifacts import Layered, Named
from tfprov.errors import DeliveryError, HostError, Unreachable
from tfprov.hosts.docker.image_contents import Deliveries, NoDeliveries
from tfprov.hosts.facts import HostFacts
from tfprov.hosts.machine import Machine, SSHMachine
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.host_keys import UnknownHostKey
from tfprov.hosts.ssh.known_hosts import KeyStatus, add_key
from tfprov.hosts.survey import available_images, survey
from tfprov.images.engine_images import layers_held
from tfprov.images.oci_spec import Image
from tfprov.images.preflight import room_needed
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
        status, _ = add_key(hop.known_hosts[0], hop.host_key_alias, hop.port, unknown.key_type, unknown.data)
    except OSError as error:
        raise HostError(hop.label, f"its key could not be recorded: {error.strerror}: {error.filename}") from error
    if status is not KeyStatus.KNOWN:
        raise HostError(
            hop.label, "another run recorded a different key for it", "check known_hosts, then run this again"
        )


@dataclass(frozen=True)
class Collected:
    """What the hosts of `context` say: `answers` has the facts of each, or why there are none.

    `needed` are, by host, the bytes that each missing image will take there, as far as the controller knows the image.
    """

    context: Context
    answers: Mapping[str, HostFacts | HostError]
    needed: Mapping[str, Mapping[str, int]]

    @property
    def facts(self) -> dict[str, HostFacts]:
        """Return the facts of the hosts that told them."""
        return {host: answer for host, answer in self.answers.items() if isinstance(answer, HostFacts)}

    @property
    def unreachable(self) -> frozenset[str]:
        """Return the hosts of the inventory that cannot be reached."""
        hosts = frozenset(host for host, answer in self.answers.items() if isinstance(answer, Unreachable))
        return hosts - self.context.left

    def part(self, host: str) -> Part:
        """Return what a host has to do."""
        return Part(_wanted(self.context, host), self.needed.get(host, {}))

    def lacking(self, host: str) -> tuple[str, ...]:
        """Return the images that a host's tasks run and it does not have; none of a host without an engine."""
        facts = self.facts.get(host)
        if facts is None or facts.engine is None:
            return ()
        return tuple(image for image in self.part(host).images if image not in facts.engine.images)

    def by_id(self, container: Container) -> Container:
        """Return a container with the id of its image, as its host has told it, in place of the image's name."""
        facts = self.facts[container.task.host]
        assert container.docker is not None, "containers on machines have one"
        assert facts.engine is not None, "asked only of hosts with one"
        image = facts.engine.image_ids.get(container.docker.image, container.docker.image)
        return replace(container, docker=replace(container.docker, image=image))

    def findings(self) -> dict[str, list[Finding]]:
        """Return all that is to be said of each host, as far as it can be said without trying anything."""
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
        elif answer.engine is not None:
            yield from strays(host, answer.engine, self.context.cluster)

    def _compared(self) -> dict[str, Finding]:
        left = self.context.left
        engines = {host: facts.engine for host, facts in self.facts.items() if facts.engine and host not in left}
        artifacts = [_made(self.context.artifacts[name]) for name in _names(self.context)]
        made = [image.platform for artifact in artifacts if (image := _image(artifact)) is not None]
        there = [platform for engine in engines.values() for platform in engine.images.values()]
        pulled = any(isinstance(artifact, Named) for artifact in artifacts)
        return architectures({host: engine.platform for host, engine in engines.items()}, made + there, pulled=pulled)

    def again(self, hosts: Mapping[str, object]) -> "Collected":
        """Ask some hosts anew which of the images they have; one that does not say it now has those of before."""
        answers = dict(self.answers)
        for host, facts in self.facts.items():
            if host in hosts and facts.engine is not None:
                with suppress(HostError):
                    engine, deliveries = self.context.machines[host].engine, _deliveries(self.context, host)
                    there = available_images(engine, self.part(host).images, deliveries)
                    answers[host] = replace(facts, engine=replace(facts.engine, **vars(there)))
        return replace(self, answers=answers)


def ask(context: Context) -> Collected:
    """Ask every machine that may be looked at, with as many at a time as the context says."""
    hosts = [host for host in context.machines if context.allows(host)]
    with pool(context.forks) as asking:
        answers = dict(zip(hosts, asking.map(lambda host: _answer(context, host), hosts), strict=True))
    context.unresponsive.update(
        {host: answer for host, (answer, _) in answers.items() if isinstance(answer, HostError)}
    )
    return Collected(
        context,
        {host: answer for host, (answer, _) in answers.items()},
        {host: needed for host, (_, needed) in answers.items()},
    )


def _answer(context: Context, host: str) -> tuple[HostFacts | HostError, dict[str, int]]:
    if host in context.unresponsive:  # it was tried before, and each try can cost the whole time limit
        return context.unresponsive[host], {}
    try:
        facts = survey(context.machines[host], Part(_wanted(context, host)).images, _deliveries(context, host))
        return facts, dict(_needed(context, facts)) if facts.engine else {}
    except HostError as error:
        return error, {}


def _needed(context: Context, facts: HostFacts) -> Iterator[tuple[str, int]]:
    """Yield the bytes that an engine needs for each image that it lacks and the controller has.

    Images of one cluster differ in their code and share the rest, which counts once.
    """
    assert facts.engine is not None, "asked only of hosts with one"
    counted: set[str] = set()
    for name in Part(_wanted(context, facts.host)).images:
        artifact = _made(context.artifacts[name])
        if name not in facts.engine.images and isinstance(artifact, Layered) and (image := _image(artifact)):
            held = layers_held(context.machines[facts.host].engine, image.diff_ids)
            layers = [layer for layer in image.layers[held:] if layer.digest not in counted]
            counted |= {layer.digest for layer in layers}
            yield name, room_needed(artifact.workshop.layout, [[layer] for layer in layers])


def _deliveries(context: Context, host: str) -> Deliveries:
    """Return what was delivered to a host: every image of a context notes it in the same place."""
    for name in Part(_wanted(context, host)).images:
        artifact = _made(context.artifacts[name])
        if isinstance(artifact, Layered | Named):
            return artifact.workshop.delivered.on(host)
    return NoDeliveries()


def _made(artifact: Artifact) -> Artifact:
    """Return what is behind an artifact that is put together when it is first needed."""
    return artifact.once.get() if isinstance(artifact, Later) else artifact


def _image(artifact: object) -> Image | None:
    """Return the image of an artifact that is made already; nothing is made here."""
    try:
        return artifact.workshop.layout.find(artifact.reference) if isinstance(artifact, Layered) else None
    except DeliveryError:  # whoever needs the layout says so
        return None


def _wanted(context: Context, host: str) -> tuple[Container, ...]:
    return tuple(container for container in context.wanted if container.task.host == host)


def _names(context: Context) -> list[str]:
    return list(dict.fromkeys(container.artifact for container in context.wanted if container.artifact))


Ask = Callable[[UnknownHostKey], bool]
"""Shows a key to a person; whether it is the server's."""


def trust_new(machines: Iterable[Machine], forks: int, ask: Ask) -> dict[str, HostError]:
    """Connect to all of `machines`, asking about every unknown key on the way; return why some cannot be reached.

    One that stands before many hosts, as a gateway, is asked about once. Every yes may lead to the next server behind it.
    """
    answers: dict[tuple[str, int, bytes], bool] = {}
    failed: dict[str, HostError] = {}
    waiting = [machine for machine in machines if isinstance(machine, SSHMachine)]
    with pool(forks) as asking:
        while waiting:
            errors = list(asking.map(lambda machine: connect_error(machine.ssh), waiting))
            by_host = dict(zip((machine.host for machine in waiting), errors, strict=True))
            again = {host for host, error in by_host.items() if _trusted(error, answers, ask)}
            failed |= {host: error for host, error in by_host.items() if error is not None and host not in again}
            waiting = [machine for machine in waiting if machine.host in again]
    return failed


def _trusted(error: HostError | None, answers: dict[tuple[str, int, bytes], bool], ask: Ask) -> bool:
    """Whether it is worth another try: the key that was in the way is trusted now."""
    if not isinstance(error, UnknownHostKey):
        return False
    server = error.hop.host_key_alias, error.hop.port, error.data
    if server not in answers:
        answers[server] = ask(error)
        if answers[server]:
            trust_key(error)
    return answers[server]
