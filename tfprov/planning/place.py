"""Roles to tasks: every task gets its index, its host and its address."""

from collections.abc import Iterator, Sequence

from tfprov.config.settings.resolve import RoleSettings
from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.planning.strategies import against_strategy, far_data, idle_gpus, incomplete_service, names_chief

DEFAULT_PORT = 2222
"""The port of TensorFlow's own distributed examples."""
TENSORBOARD_PORT = 6006

_AT_MOST_ONE = ("chief", "evaluator", "tensorboard", "dispatcher")


def place(roles: Sequence[RoleSettings]) -> Cluster:
    """Return the cluster that `roles` describe; InvalidInput when they describe none that TensorFlow could run."""
    problems = list(_impossible(roles))
    if problems:
        raise InvalidInput(problems)
    ports = _Ports()
    counts: dict[str, int] = {}
    tasks = []
    for role in roles:
        job = "worker" if role.role == "chief" and not names_chief(role) else role.role
        for _ in range(role.values.tasks_per_host):
            index = counts.get(job, 0)
            counts[job] = index + 1
            # Nobody in the cluster speaks to a tensorboard, so its address is where it serves.
            address = (role.serves_at or role.address) if role.role == "tensorboard" else role.address
            tasks.append(Task(job, index, role.role, role.host, address, ports.take(role)))
    return Cluster(roles[0].values.cluster, tuple(tasks))


def _impossible(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    present = {role.role for role in roles}
    first = roles[0]
    if not present & {"worker", "chief"}:
        what = f"`{first.role}` without a worker" if first.role == "ps" else "no worker and no chief"
        yield Problem(first.group, what, "put a host into the group `worker`")
    for name in _AT_MOST_ONE:
        of_role = [role for role in roles if role.role == name]
        if sum(role.values.tasks_per_host for role in of_role) > 1:
            at = of_role[-1].at("tasks_per_host") if len(of_role) == 1 else of_role[-1].group
            yield Problem(at, f"more than one {name} task", f"keep one host with one task in the group `{name}`")
    yield from against_strategy(roles)
    yield from incomplete_service(roles)
    yield from far_data(roles)
    yield from idle_gpus(roles)
    yield from _away_from_chief(roles)
    yield from _out_of_reach(roles)


def _out_of_reach(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """A loopback address means another machine on every machine, so it is good for a cluster on one of them only."""
    hosts = {role.host: role for role in roles}
    if len(hosts) < 2 or all(role.local for role in roles):
        return
    for role in hosts.values():
        if role.address == "localhost" or role.address.startswith("127."):
            what = f"the other hosts cannot reach {role.host} at {role.address}"
            at = role.at("address") if role.values.address else role.where
            yield Problem(at, what, "set `address` to the one it has on the network")


def _away_from_chief(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """An evaluator and a tensorboard read the chief's files, so they must be where those are."""
    chief = next((role for role in roles if role.role == "chief"), None) or next(
        (role for role in roles if role.role == "worker"), None
    )
    for role in roles:
        if role.role in ("evaluator", "tensorboard") and chief is not None and role.host != chief.host:
            what = (
                f"the {role.role} is on {role.host}, and cannot read the chief's checkpoints, which are on {chief.host}"
            )
            fix = f"put {chief.host} into the group `{role.role}` instead: hosts do not share a checkpoint directory"
            yield Problem(role.group, what, fix)


class _Ports:
    """Hands out ports: the first free one of an address, from the port its settings name."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, int]] = set()

    def take(self, role: RoleSettings) -> int:
        port = role.values.port or (TENSORBOARD_PORT if role.role == "tensorboard" else DEFAULT_PORT)
        # A TensorFlow server listens on all addresses of its machine, so two names of this machine share its ports.
        address = "(this machine)" if role.local else role.address
        while (address, port) in self.taken:
            port += 1
        if port > 65535:
            what = f"{role.host} has more {role.role} tasks than ports above `port`"
            raise InvalidInput([Problem(role.at("port"), what, "choose a lower `port`")])
        self.taken.add((address, port))
        return port
