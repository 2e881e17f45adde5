"""Judges a host with a Docker engine against the containers planned for it. Pure."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfprov.engine.checks.host_rules import (
    GIB,
    Finding,
    Verdict,
    clock,
    cpu,
    failed,
    free_ports,
    note,
    ok,
    room,
    warning,
)
from tfprov.hosts.docker.labels import container_name
from tfprov.hosts.facts import EVERYWHERE, EngineFacts, HostFacts, System, owner_of, publisher
from tfprov.images.preflight import MARGIN, format_size
from tfprov.model.cluster import Cluster, is_loopback
from tfprov.model.state import Container, DockerOptions, undelivered_image
from tfprov.planning.plan_text import join_names

UNKNOWN_IMAGE = 3 * GIB
"""Space for an image with TensorFlow: about 1.9 GB, and its largest layer once more while it is unpacked."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable that chooses GPUs for a program, among those that its container sees."""
BRING = "`tfprov image deliver` brings it, or `tfprov check --deliver`"


@dataclass(frozen=True)
class HostWork:
    """The part of a cluster on one host: `wanted` are its containers, `needed` the bytes of each image that it lacks.

    `needed` leaves out images of unknown size.
    """

    wanted: tuple[Container, ...]
    needed: Mapping[str, int] = field(default_factory=dict)

    @property
    def docker_options(self) -> list[tuple[str, DockerOptions]]:
        """Return the Docker options of every task, by its name."""
        return [(container.task.name, container.docker) for container in self.wanted if container.docker is not None]

    @property
    def images(self) -> tuple[str, ...]:
        """Return the images that its tasks run."""
        return tuple(dict.fromkeys(options.image for _, options in self.docker_options))

    @property
    def published(self) -> list[tuple[str, int]]:
        """Return the addresses and ports that its tasks take."""
        return [(c.docker.address, c.task.port) for c in self.wanted if c.docker is not None and c.task.serves]


def judge(facts: HostFacts, part: HostWork, cluster: Cluster) -> list[Finding]:
    """Return the findings of one host; `architectures` compares it with the others."""
    system, findings = facts.system, [ok("reach", facts.access)]
    if facts.engine is None:
        what, _, fix = facts.engine_error.partition("; ")
        findings += [failed("engine", what, fix), cpu(system), clock(facts.clock)]
        return [*findings, *_address(part, system)]
    engine = facts.engine
    findings += [_engine(engine), cpu(system), clock(facts.clock), _disk(engine, system, part)]
    findings += [*_memory(engine, part), *_cpus(engine, part), *_gpus(engine, system, part)]
    findings += [*_devices(system, part), *_address(part, system), *_ports(engine, system, part, cluster.name)]
    return [*findings, *_containers(facts.host, engine, cluster), *_images(engine, part)]


def _engine(engine: EngineFacts) -> Finding:
    what = f"Docker {engine.version} (API {engine.api}), {engine.driver}{', rootless' if engine.rootless else ''}"
    if engine.driver == "vfs":
        fix = "set it up with overlay2: vfs copies every layer whole, for every container"
        return warning("engine", what, fix)
    return ok("engine", what)


def _disk(engine: EngineFacts, system: System, part: HostWork) -> Finding:
    lacking = [image for image in part.images if image not in engine.images]
    free, where = system.free, f"free in {engine.disk}"
    fix = "free some there, for example with `docker system prune`"
    if not lacking:
        return room("disk", free, where, GIB, fix)
    if free is None or any(image not in part.needed for image in lacking):
        return room("disk", free, where, UNKNOWN_IMAGE, f"an image with TensorFlow takes 2 to 3 GiB: {fix}")
    needed = sum(part.needed[image] for image in lacking) + MARGIN
    if free < needed:
        return failed("disk", f"only {format_size(free)} {where}, and the image needs {format_size(needed)}", fix)
    return ok("disk", f"{format_size(free)} {where}")


def _memory(engine: EngineFacts, part: HostWork) -> Iterator[Finding]:
    limits = {task: options.memory for task, options in part.docker_options if options.memory}
    total, there = sum(limits.values()), f"{format_size(engine.memory)} in all"
    if limits and not engine.limits_memory:
        what, fix = "its kernel limits no memory: `memory` has no effect", "boot it with `cgroup_enable=memory`"
        yield warning("memory", what, fix)
    elif total > engine.memory:
        what = f"{there}, and {', '.join(limits)} may use {format_size(total)}"
        yield warning("memory", what, "lower `memory`: without it, the kernel ends tasks before their limit is reached")
    else:
        yield ok("memory", there)


def _cpus(engine: EngineFacts, part: HostWork) -> Iterator[Finding]:
    limits = {task: options.cpus for task, options in part.docker_options if options.cpus}
    total, there = sum(limits.values()), f"{engine.cpus} in all"
    too_many = [f"{task} asks for {limit:g}" for task, limit in limits.items() if limit > engine.cpus]
    if limits and not engine.limits_cpus:
        yield failed("cpus", "its kernel limits no CPUs, and the engine refuses `cpus`", "remove `cpus` for this host")
    elif too_many:
        yield failed("cpus", f"{there}, and {', '.join(too_many)}", "lower `cpus`")
    elif total > engine.cpus:
        yield warning("cpus", f"{there}, and {', '.join(limits)} may use {total:g}", "lower `cpus`, or use fewer tasks")
    else:
        yield ok("cpus", there)


def _gpus(engine: EngineFacts, system: System, part: HostWork) -> Iterator[Finding]:
    wanted = {task: options.gpus for task, options in part.docker_options if options.gpus}
    if not wanted:
        return
    most = max(wanted.values())
    visible = {container.task.name: container.env.get(VISIBLE, "").split(",") for container in part.wanted}
    chosen = [device for task in wanted for device in visible[task]]
    there = math.inf if system.gpus is None else system.gpus
    beyond = [
        f"{VISIBLE}={','.join(visible[task])} of {task}"
        for task in wanted
        if any(device.isdecimal() and int(device) >= there for device in visible[task])
    ]
    if not (engine.gives_gpus or system.gpu_tools):
        what = f"{', '.join(wanted)} asks for GPUs, and its engine can give none"
        yield failed("gpus", what, "install the NVIDIA driver and nvidia-container-toolkit there, or unset `gpus`")
    elif system.gpus is not None and most > system.gpus:
        yield failed("gpus", f"it has {system.gpus}, and a task asks for {most}", "lower `gpus`")
    elif beyond:
        yield failed("gpus", f"it has {system.gpus}, which does not go with {', '.join(beyond)}", "count from 0")
    elif len(wanted) > 1 and ("" in chosen or len(set(chosen)) < len(chosen)):
        what = f"{', '.join(wanted)} get the same GPUs: an engine gives every container the first ones"
        fix = f"set {VISIBLE} in `env` of each, beside `gpus: all`; or TF_FORCE_GPU_ALLOW_GROWTH=true, to share them"
        yield warning("gpus", what, fix)
    else:
        yield ok("gpus", f"{system.gpus} in all" if system.gpus is not None else "its engine can give GPUs")


def _devices(system: System, part: HostWork) -> Iterator[Finding]:
    wanted: dict[str, list[str]] = {}
    for task, options in part.docker_options:
        for device in options.devices:
            wanted.setdefault(device, []).append(task)
    if not wanted or system.devices is None:
        return
    if missing := [device for device in wanted if device not in system.devices]:
        tasks = ", ".join(dict.fromkeys(task for device in missing for task in wanted[device]))
        what = f"it has no {' and no '.join(missing)}, for {tasks}"
        yield failed("devices", what, "load the driver there, or leave it out of `devices`")
    else:
        yield ok("devices", ", ".join(wanted))


def _address(part: HostWork, system: System) -> Iterator[Finding]:
    for address in dict.fromkeys(address for address, _ in part.published if not is_loopback(address)):
        if system.addresses is None:
            yield note("address", "not checked: neither `ip` nor /proc says which addresses it has")
        elif address == EVERYWHERE or address in system.addresses:
            yield ok("address", "all of its networks" if address == EVERYWHERE else address)
        else:
            others = ", ".join(it for it in system.addresses if not it.startswith("127."))
            what = f"it has no address {address}, only {others or 'the loopback'}"
            yield failed("address", what, "set `bind` to the one that leads to it, or correct `address`")


def _ports(engine: EngineFacts, system: System, part: HostWork, cluster: str) -> Iterator[Finding]:
    theirs = [it for it in engine.containers if it.running and cluster not in (it.cluster, it.check)]
    ours = [it for it in engine.containers if it.running and it.cluster == cluster]
    listeners = system.listeners or ()

    def taken_by(address: str, port: int) -> str | None:
        container = publisher(theirs, address, port)
        if container is not None:
            return f"the container {container.name}"
        if publisher([it for it in engine.containers if it.check == cluster], address, port):
            return None  # what an earlier check left, and this one removes
        return owner_of(listeners, address, port)

    def own(address: str, port: int) -> str | None:
        container = publisher(ours, address, port)
        return container.task if container is not None else None

    yield from free_ports(taken_by, own, part.published)
    if part.published and system.listeners is None:
        yield note("ports", "only checked against containers: neither `ss` nor /proc says who else listens")


def _containers(host: str, engine: EngineFacts, cluster: Cluster) -> Iterator[Finding]:
    names = {container_name(cluster.name, task.name): task for task in cluster.tasks if task.host == host}
    for it in engine.containers:
        if it.name in names and it.cluster != cluster.name:
            what = f"the container {it.name} ({it.id[:12]}) is not ours, and {names[it.name].name} will be called so"
            yield failed("containers", what, "rename it, or choose another `cluster`")
    yield from strays(host, engine, cluster)


def strays(host: str, engine: EngineFacts, cluster: Cluster) -> Iterator[Finding]:
    """Yield a note for each container of the cluster that is not planned for this host: `up` and `down` remove it."""
    here = {task.name for task in cluster.tasks if task.host == host}
    for it in engine.containers:
        if it.cluster == cluster.name and it.task not in here:
            state = "runs" if it.running else "is"
            yield note("containers", f"{it.task} {state} here and is not wanted here: `tfprov up` removes it")


def _images(engine: EngineFacts, part: HostWork) -> Iterator[Finding]:
    if not part.images:
        return
    lacking = [image for image in part.images if image not in engine.images]
    moved = [image for image in lacking if image in engine.moved]
    if moved:
        yield warning("image", undelivered_image(moved[0]), BRING)
    elif lacking:
        yield note("image", "not there yet", BRING)
    else:
        yield ok("image", "there")


def architectures(platforms: Mapping[str, str], images: Sequence[str], *, pulled: bool) -> dict[str, Finding]:
    """Judge the hosts' `platforms` against each other and against those of the cluster's `images` that are known.

    An image that every host pulls may be for several platforms, which only the registry knows.
    """
    if not platforms:
        return {}
    common, _ = Counter(platforms.values()).most_common(1)[0]
    expected = images[0] if images and not pulled else common
    alike = [host for host, platform in platforms.items() if platform == expected]
    others = "the image is" if images and not pulled else f"{join_names(alike, 3)} {'is' if len(alike) == 1 else 'are'}"
    findings = {}
    for host, platform in platforms.items():
        if platform == expected:
            findings[host] = ok("architecture", platform)
            continue
        what, fix = f"{platform}, and {others} {expected}", "take the host out of the cluster, or use others like it"
        verdict, fix = (Verdict.WARNING, "the image must be for both") if pulled else (Verdict.FAILED, fix)
        findings[host] = Finding("architecture", verdict, what, fix)
    return findings
