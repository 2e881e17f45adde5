"""Whom each task needs to reach before the training can begin, and what to say when it cannot. Pure."""

import re
from collections.abc import Iterable, Sequence

from tfprov.engine.context import Context
from tfprov.engine.watching.known_causes import remedy
from tfprov.engine.watching.probes import Probe
from tfprov.model.cluster import Task
from tfprov.model.state import Container, Observation

_JOINING = ("worker", "chief")
"""The jobs that connect to others; a ps waits to be spoken to."""
_WAITS = re.compile(r"CreateSession still waiting for response from worker: /job:(\w+)/replica:\d+/task:(\d+)")
"""What TensorFlow's master prints every ten seconds while a member of the cluster does not answer."""


def needs_port(context: Context, container: Container) -> bool:
    """Whether a task must listen before it counts as up: one that trains alone starts no server."""
    alone = sum(len(addresses) for addresses in context.cluster.spec.values()) == 1
    in_cluster = container.task.job in context.cluster.spec
    return container.ready == "port" and container.task.serves and not (alone and in_cluster)


def peers(context: Context, container: Container, seen: Observation) -> list[Probe]:
    """Return what a worker's host must reach: the ps, and with TF_CONFIG every member of the cluster.

    Only what is expected to listen: what `--limit` leaves out, or has finished, keeps nobody waiting.
    """
    task = container.task
    if task.job not in _JOINING or not needs_port(context, container):
        return []
    all_members = container.spec.get("wiring", {}).get("style") == "tf_config"
    finished = {(observed.task, observed.host) for observed in seen.containers() if observed.finished}
    return [
        Probe(task.host, peer.task)
        for peer in context.wanted
        if peer.task.trains
        and peer.task != task
        and (all_members or peer.task.job == "ps")
        and needs_port(context, peer)
        and context.allows(peer.task.host)
        and (peer.task.name, peer.task.host) not in finished
    ]


def own(container: Container) -> Probe:
    """Return the question whether a task serves at all, asked on its own host."""
    return Probe(container.task.host, container.task)


def awaited(lines: Iterable[str]) -> list[str]:
    """Return the tasks that TensorFlow says it waits for in these lines of a log, each once: `ps/1`."""
    return list(dict.fromkeys(f"{match[1]}/{match[2]}" for line in lines for match in _WAITS.finditer(line)))


def too_slow(task: Task, unjoined: Sequence[Probe], seconds: float, log: Iterable[str]) -> str:
    """Say what a task lacks after `seconds`: peers that serve and cannot be reached from its host, or else its own port."""
    after = f"after {seconds:g} s"
    if unjoined:
        found = ", ".join(f"{probe.task.name} at {probe.task.endpoint}" for probe in unjoined)
        what = f"cannot reach {found} from {task.host} {after}; does a firewall stand between them?"
    else:
        what = f"does not serve on {task.endpoint} {after}"
    if waits := awaited(log):
        return f"{what} (TensorFlow there waits for {', '.join(waits)})"
    return f"{what}; {cure}" if (cure := remedy([what])) else what
