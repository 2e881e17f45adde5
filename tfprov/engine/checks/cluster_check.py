"""The verb `check`, for either runtime."""

from typing import TYPE_CHECKING

from tfprov.engine.checks.check import CheckReport, check_processes
from tfprov.engine.context import Context

if TYPE_CHECKING:
    from tfprov.engine.checks.collect import Ask


def check_cluster(
    context: Context,
    *,
    deliver: bool,
    trust: "Ask | None" = None,
    all_pairs: bool = False,
) -> CheckReport:
    """Return the findings of every host. See Cluster.check for the arguments."""
    if not context.machines:
        return check_processes(context)
    from tfprov.engine.checks.collect import trust_new  # noqa: PLC0415  the process runtime needs no SSH library
    from tfprov.engine.checks.docker_clusters import check_machines  # noqa: PLC0415

    if trust is not None:
        machines = [machine for host, machine in context.machines.items() if context.allows(host)]
        context.unresponsive.update(trust_new(machines, context.forks, trust))
    return check_machines(context, deliver=deliver, all_pairs=all_pairs)
