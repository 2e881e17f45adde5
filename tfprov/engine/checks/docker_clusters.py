"""`check` for clusters in Docker: collects facts, then tries the tasks' addresses from the hosts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tfprov.engine.checks.check import CheckReport, in_order, split_error
from tfprov.engine.checks.collect import Collected, collect_facts
from tfprov.engine.checks.connections import connections, every
from tfprov.engine.checks.docker_host_rules import BRING
from tfprov.engine.checks.host_rules import IMPORTING, Finding, Verdict, failed, note, warning
from tfprov.engine.checks.image_programs import of_images
from tfprov.engine.checks.reachability import Cell, Reason
from tfprov.engine.checks.reachability_probes import NO_PYTHON, Aim, ProbeSource, Probing
from tfprov.engine.context import Context
from tfprov.engine.events import Quiet
from tfprov.engine.execute import execute
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.errors import HostError, Locked
from tfprov.model.plan import CONTROLLER, Action, ActionKind, Plan
from tfprov.model.state import Container

REQUIRED_CHECKS = ("engine", "architecture", "disk")
"""The checks that must pass on a host before an image is delivered to it."""
ENGINELESS = "it has no engine that answers"
MISSING = f"the image is not there: {BRING}"

Findings = dict[str, list[Finding]]


def check_machines(context: Context, *, deliver: bool, all_pairs: bool) -> CheckReport:
    """Check every machine; with `deliver`, deliver missing images before addresses are tried.

    Raises Locked if another run holds the cluster and an image has to be delivered.
    """
    collected, more = collect_facts(context), Findings()
    with ExitStack() as held:
        # While all tasks run, no stand-in takes their ports, and a run that follows the training may need the lock.
        is_needed = deliver or any(aim.stands_in for aim in _aims(collected))
        why = _lock(context, held, more, must=deliver) if is_needed else None
        if deliver and why is None:
            collected = _deliver_missing(collected, more)
        context.report.awaiting(IMPORTING)
        programs = of_images(collected)
        context.report.awaiting("")
        for host, of_programs in programs.items():
            more.setdefault(host, []).extend(of_programs)
        cells = _try(collected, more, why, alone=is_needed and why is None, all_pairs=all_pairs)
    findings = {host: [*of_host, *more.get(host, [])] for host, of_host in collected.findings().items()}
    ordered = {host: in_order(of_host) for host, of_host in findings.items() if of_host}
    return CheckReport(context.cluster.name, ordered, tuple(cells), collected.unreachable)


def _lock(context: Context, held: ExitStack, more: Findings, *, must: bool) -> Reason | None:
    """Take the cluster's lock until `held` ends; return why it cannot be taken, or None."""
    lock = ClusterLock(replace(context, report=Quiet()), "check", tolerant=True)
    held.callback(lock.free)
    try:
        lock.take()
    except Locked as error:
        if must:
            raise
        return Reason(str(error))
    except HostError as error:
        _add(more, error.host, failed("lock", *split_error(error)))
        return Reason(error.reason, error.host)
    return None


def _add(more: Findings, host: str, finding: Finding) -> None:
    more.setdefault(host, []).append(finding)


# -- delivery ---------------------------------------------------------------------------------------------------------


def _deliver_missing(collected: Collected, more: Findings) -> Collected:
    """Build the missing images, and deliver them to the hosts that lack them and passed REQUIRED_CHECKS."""
    lacking = {host: images for host in _able(collected) if (images := collected.lacking(host))}
    plan = Plan(collected.context.cluster.name, tuple(_actions(collected.context, lacking)))
    if not plan:
        return collected
    collected.remember(lacking)
    outcome = execute(collected.context, plan)
    for action in plan.actions:
        error = next((outcome.failed[it] for it in (action.id, *action.needs) if it in outcome.failed), None)
        if error is not None and action.host != CONTROLLER:
            _add(more, action.host, failed("image", *split_error(error, action.host)))
    return collected.refresh_images(lacking)


def _able(collected: Collected) -> Iterator[str]:
    for host, findings in collected.findings().items():
        if not any(it.verdict is Verdict.FAILED and it.check in REQUIRED_CHECKS for it in findings):
            yield host


def _actions(context: Context, lacking: Mapping[str, Sequence[str]]) -> Iterator[Action]:
    builds = {}
    for name in dict.fromkeys(image for images in lacking.values() for image in images):
        if not context.artifacts[name].ready:
            builds[name] = Action(ActionKind.BUILD, CONTROLLER, name, ("not built yet",))
    yield from builds.values()
    for host, images in lacking.items():
        for name in images:
            yield Action(ActionKind.DELIVER, host, name, ("not there",), (builds[name].id,) if name in builds else ())


# -- addresses --------------------------------------------------------------------------------------------------------


def _try(collected: Collected, more: Findings, why: Reason | None, *, alone: bool, all_pairs: bool) -> list[Cell]:
    """Try the addresses of the ClusterSpec from the hosts with a task in it; `why` is the reason for no stand-ins."""
    aims = [replace(aim, why=aim.why or why) if aim.stands_in else aim for aim in _aims(collected)]
    sources = {
        host: _source(collected, host)
        for host in dict.fromkeys(aim.task.host for aim in aims)
        if host in collected.facts
    }
    context, names = collected.context, [aim.task.name for aim in aims]
    chief = context.container(context.cluster.chief.name)
    tried = (
        every(list(sources), names)
        if all_pairs
        else connections(context.cluster, list(sources), names, chief.strategy if chief else "")
    )
    probed = Probing(context.cluster.name, sources, aims, tried, context.forks, alone).run()
    for host in probed.from_host:
        _add(more, host, note("network", f"{NO_PYTHON}, so the host itself tried the addresses"))
    for host, left in probed.left.items():
        _add(more, host, warning("network", left))
    return probed.cells


def _aims(collected: Collected) -> list[Aim]:
    # No task connects to a reader of the chief's files.
    containers = [c for c in collected.context.wanted if not c.task.reads and collected.context.allows(c.task.host)]
    aims = [_aim(collected, container) for container in containers]
    service = collected.context.cluster.outside_service
    return [*aims, Aim(service, runs=True)] if service and aims else aims


def _source(collected: Collected, host: str) -> ProbeSource:
    machine, engine = collected.context.machines[host], collected.facts[host].engine
    if engine is None:
        return ProbeSource(machine, why=Reason(ENGINELESS, host))
    image = next((image for image in collected.part(host).images if image in engine.images), None)
    return (
        ProbeSource(machine, engine.image_ids.get(image, image))
        if image
        else ProbeSource(machine, why=Reason(MISSING, host))
    )


def _aim(collected: Collected, container: Container) -> Aim:
    task, options, facts = container.task, container.docker, collected.facts.get(container.task.host)
    assert options is not None, "containers on machines have Docker options"
    if facts is None or facts.engine is None:
        return Aim(task, why=Reason("it did not answer" if facts is None else ENGINELESS, task.host))
    ours = collected.context.cluster.name, task.name
    if any(it.running and (it.cluster, it.task) == ours for it in facts.engine.containers):
        return Aim(task, runs=True)
    why = None if options.image in facts.engine.images else Reason(MISSING, task.host)
    return Aim(task, facts.engine.image_ids.get(options.image, options.image), options.address, why=why)
