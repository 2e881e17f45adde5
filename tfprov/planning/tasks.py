"""Assigns tasks to hosts: every task gets its index, its host and its address."""

from collections.abc import Iterator, Sequence

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task, is_loopback
from tfprov.settings.resolve import RoleSettings
from tfprov.wiring import DRIVEN_BY_CHIEF, READERS, STANDALONE, WEB

_TRAINING = ("chief", "worker")


def has_chief_task(role: RoleSettings) -> bool:
    """Whether the group `chief` runs the task chief/0; otherwise it runs worker/0, which acts as the chief.

    The flags cannot name a chief, and in an all-reduce every task is a worker.
    """
    return role.values.wiring == "tf_config" and role.values.strategy != "multi_worker_mirrored"


def check_strategy(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield the problems that keep `roles` from training with their strategy, each at the line to change."""
    strategy = roles[0].values.strategy
    at = roles[0].at("strategy")
    by_name = {role.role: role for role in reversed(roles)}
    trainers = [role for role in roles if role.role in _TRAINING]
    count = sum(role.values.tasks_per_host for role in trainers)
    if strategy in DRIVEN_BY_CHIEF:
        for name in ("chief", "worker", "ps"):
            if name not in by_name:
                what = f"`strategy: {strategy}` needs a {name}"
                yield Problem(at, what, f"put a host into the group `{name}`")
    elif strategy == "between_graph" and count > 1 and "ps" not in by_name and _is_between_graph(roles[0]):
        yield _without_ps(roles[0], trainers, count)
    elif strategy in ("multi_worker_mirrored", "single") and "ps" in by_name:
        what = f"`strategy: {strategy}` has no ps: variables are where the training is"
        yield Problem(by_name["ps"].group, what, "remove the group `ps`, or choose another strategy")
    elif strategy == STANDALONE:
        yield from _outside_of_servers(roles)
    if strategy == "single" and count > 1:
        last = trainers[-1]
        at = last.at("tasks_per_host") if len(trainers) == 1 else last.group
        yield Problem(at, f"`strategy: single` trains in one task, not in {count}", "keep one host with one task")


def _outside_of_servers(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for each role that needs a chief: with bare servers, the client is one, and it is elsewhere."""
    for role in roles:
        if role.role in ("chief", *READERS):
            what = f"`strategy: {STANDALONE}` has no chief, and the group `{role.role}` " + (
                "is one" if role.role == "chief" else "reads the files of one"
            )
            yield Problem(role.group, what, f"remove the group `{role.role}`: the client saves where it runs")


def _is_between_graph(role: RoleSettings) -> bool:
    """Whether the program surely trains between graphs: with only a wiring set, it may need no ps."""
    return "strategy" in role.node or role.values.wiring == "flags"


def _without_ps(role: RoleSettings, trainers: Sequence[RoleSettings], count: int) -> Problem:
    is_set = "strategy" in role.node
    strategy = "`strategy: between_graph`" if is_set else "the default `strategy: between_graph`"
    what = f"{strategy} with {count} tasks that train needs a ps for their variables"
    fix = "put a host into the group `ps`, or set another `strategy:`, such as `multi_worker_mirrored`"
    return Problem(role.at("strategy") if is_set else trainers[-1].group, what, fix)


def check_gpus(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every ps with a GPU: TensorFlow would take all of its memory, and compute nothing there."""
    for role in roles:
        if role.role == "ps" and role.values.gpus:
            yield Problem(role.at("gpus"), "a ps does not use a GPU", "give it to workers; remove it here")


def check_data_service(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem if only one of the two roles of tf.data's service is present, or a second service."""
    by_name = {role.role: role for role in roles}
    if roles[0].values.data_service:
        if "dispatcher" in by_name:
            what = "`data_service` is a service outside of the cluster, and the group `dispatcher` one of its own"
            yield Problem(roles[0].at("data_service"), what, "remove one of them")
        return
    for name, other in (("dispatcher", "data_worker"), ("data_worker", "dispatcher")):
        if name in by_name and other not in by_name:
            yield Problem(by_name[name].group, f"`{name}` without a {other}", f"put a host into the group `{other}`")


def check_data_paths(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every relative data path on a remote host."""
    for role in roles:
        path = role.values.data.directory if role.values.data and role.reads_data else None
        if path is not None and not role.local and not path.startswith("/"):
            what = f"`data.path` must be an absolute path: it is one of {role.host}"
            yield Problem(role.at("data", "path"), what, "for example `path: /data/mnist`")


DEFAULT_PORT = 2222
"""The port of TensorFlow's own distributed examples."""
_WEB_PORTS = {"tensorboard": 6006, "serving": 8501, "notebook": 8888}
"""The default ports of TensorBoard, of TensorFlow Serving's REST API and of Jupyter."""

_AT_MOST_ONE = ("chief", *READERS, "dispatcher")


def default_port(role: str) -> int:
    """Return the port number of a role's first task on a host without the setting `port`."""
    return _WEB_PORTS.get(role, DEFAULT_PORT)


def assign_tasks(roles: Sequence[RoleSettings]) -> Cluster:
    """Return the cluster of `roles`; InvalidInput if TensorFlow could not run it."""
    problems = list(_problems(roles))
    if problems:
        raise InvalidInput(problems)
    ports = _Ports()
    counts: dict[str, int] = {}
    tasks = []
    for role in roles:
        job = "worker" if role.role == "chief" and not has_chief_task(role) else role.role
        for _ in range(role.values.tasks_per_host):
            index = counts.get(job, 0)
            counts[job] = index + 1
            # No other task connects to it, so its address is the one it is published on.
            address = (role.bind_address or role.address) if role.role in WEB else role.address
            tasks.append(Task(job, index, role.role, role.host, address, ports.take(role)))
    service = roles[0].values.data_service
    return Cluster(roles[0].values.cluster, tuple(tasks), service.endpoint if service else None)


def _problems(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    present = {role.role for role in roles}
    first = roles[0]
    if not present & {"worker", "chief"}:
        what = f"`{first.role}` without a worker" if first.role == "ps" else "no worker and no chief"
        yield Problem(first.group, what, "put a host into the group `worker`")
    for name in _AT_MOST_ONE:
        of_role = [role for role in roles if role.role == name]
        if sum(role.values.tasks_per_host for role in of_role) > 1:
            last = of_role[-1]
            at = last.at("tasks_per_host") if len(of_role) == 1 else last.group
            yield Problem(at, f"more than one {name} task", f"keep one host with one task in the group `{name}`")
    yield from check_strategy(roles)
    yield from check_data_service(roles)
    yield from check_data_paths(roles)
    yield from check_gpus(roles)
    yield from _away_from_chief(roles)
    yield from _unreachable_addresses(roles)


def _unreachable_addresses(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every loopback address in a cluster of several hosts."""
    hosts = {role.host: role for role in roles}
    if len(hosts) < 2 or all(role.local for role in roles):
        return
    for role in hosts.values():
        if is_loopback(role.address):
            what = f"the other hosts cannot reach {role.host} at {role.address}"
            at = role.at("address") if role.values.address else role.where
            yield Problem(at, what, "set `address` to the one it has on the network")


def _away_from_chief(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for each reader of the chief's files that is not on its host."""
    chief = next((role for role in roles if role.role == "chief"), None) or next(
        (role for role in roles if role.role == "worker"), None
    )
    for role in roles:
        if role.role in READERS and chief is not None and role.host != chief.host:
            what = (
                f"the {role.role} is on {role.host}, and cannot read the chief's checkpoints, which are on {chief.host}"
            )
            fix = f"put {chief.host} into the group `{role.role}` instead: hosts do not share a checkpoint directory"
            yield Problem(role.group, what, fix)


class _Ports:
    """Assigns ports: the first free one of an address, from the `port` setting on."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, int]] = set()

    def take(self, role: RoleSettings) -> int:
        port = role.values.port or default_port(role.role)
        # A TensorFlow server listens on all addresses of its machine, so two names of this machine share its ports.
        address = "(this machine)" if role.local else role.address
        while (address, port) in self.taken:
            port += 1
        if port > 65535:
            what = f"{role.host} has more {role.role} tasks than ports above `port`"
            raise InvalidInput([Problem(role.at("port"), what, "choose a lower `port`")])
        self.taken.add((address, port))
        return port
