"""The verb `check`, for either runtime."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfprov.engine.checks.check import CheckReport, check_processes
from tfprov.engine.context import Context

if TYPE_CHECKING:
    from tfprov.hosts.ssh.host_keys import UnknownHostKey


def check_cluster(
    context: Context, *, deliver: bool, trust: "Callable[[UnknownHostKey], bool] | None" = None
) -> CheckReport:
    """Return what was found on every host. `trust` decides on host keys that known_hosts lacks; see Cluster.check."""
    if not context.machines:
        return check_processes(context)
    from tfprov.engine.checks.collect import trust_new  # noqa: PLC0415  the process runtime needs no SSH library
    from tfprov.engine.checks.docker_clusters import check_machines  # noqa: PLC0415

    if trust is not None:
        machines = [machine for host, machine in context.machines.items() if context.allows(host)]
        context.unresponsive.update(trust_new(machines, context.forks, trust))
    return check_machines(context, deliver=deliver)
