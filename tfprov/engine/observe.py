"""What the hosts say now."""

from concurrent.futures import ThreadPoolExecutor

from tfprov.engine.context import Context
from tfprov.model.plan import CONTROLLER, Plan
from tfprov.model.state import Observation
from tfprov.planning.reconcile import reconcile


def observe(context: Context) -> Observation:
    """Ask every host for its state; raises the first HostError."""
    runtimes = list(context.runtimes.values())
    with ThreadPoolExecutor(max_workers=max(1, min(context.forks, len(runtimes)))) as pool:
        states = list(pool.map(lambda runtime: runtime.observe(), runtimes))
    return Observation({state.host: state for state in states}, context.store.digests())


def plan(context: Context, seen: Observation) -> Plan:
    """Return what `up` would do now, on the hosts that may be changed."""
    whole = reconcile(context.cluster.name, context.wanted, seen)
    return whole.only(lambda action: action.host == CONTROLLER or context.allows(action.host))
