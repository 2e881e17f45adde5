"""What a strategy needs of the cluster, told before TensorFlow trips over it."""

from collections.abc import Iterator, Sequence

from tfprov.config.settings.resolve import RoleSettings
from tfprov.errors import Problem

_TRAINING = ("chief", "worker")
_NEEDS_ALL = ("in_graph", "parameter_server")
"""Strategies in which a chief tells workers what to do, with variables on the ps."""


def names_chief(role: RoleSettings) -> bool:
    """Whether the group `chief` runs the task chief/0; else it runs worker/0, which is the chief.

    The flags know no chief, and in an all-reduce every task is a worker.
    """
    return role.values.wiring == "tf_config" and role.values.strategy != "multi_worker_mirrored"


def against_strategy(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield what keeps `roles` from training as their strategy does, each at the line that is to be changed."""
    strategy = roles[0].values.strategy
    at = roles[0].at("strategy")
    found = {role.role: role for role in reversed(roles)}
    trainers = [role for role in roles if role.role in _TRAINING]
    count = sum(role.values.tasks_per_host for role in trainers)
    if strategy in _NEEDS_ALL:
        for name in ("chief", "worker", "ps"):
            if name not in found:
                what = f"`strategy: {strategy}` needs a {name}"
                yield Problem(at, what, f"put a host into the group `{name}`")
    elif strategy == "between_graph" and count > 1 and "ps" not in found and _is_meant(roles[0]):
        yield _without_ps(roles[0], trainers, count)
    elif strategy in ("multi_worker_mirrored", "single") and "ps" in found:
        what = f"`strategy: {strategy}` has no ps: variables are where the training is"
        yield Problem(found["ps"].group, what, "remove the group `ps`, or choose another strategy")
    if strategy == "single" and count > 1:
        last = trainers[-1]
        at = last.at("tasks_per_host") if len(trainers) == 1 else last.group
        yield Problem(at, f"`strategy: single` trains in one task, not in {count}", "keep one host with one task")


def _is_meant(role: RoleSettings) -> bool:
    """Whether the program trains between graphs: with a wiring of its own alone, it may be one that needs no ps."""
    return "strategy" in role.node or role.values.wiring == "flags"


def _without_ps(role: RoleSettings, trainers: Sequence[RoleSettings], count: int) -> Problem:
    stated = "strategy" in role.node
    strategy = "`strategy: between_graph`" if stated else "the default `strategy: between_graph`"
    what = f"{strategy} with {count} tasks that train needs a ps for their variables"
    fix = "put a host into the group `ps`, or set another `strategy:`, such as `multi_worker_mirrored`"
    return Problem(role.at("strategy") if stated else trainers[-1].group, what, fix)


def idle_gpus(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every ps with a GPU: TensorFlow would take all of its memory, and compute nothing there."""
    for role in roles:
        if role.role == "ps" and role.values.gpus:
            yield Problem(role.at("gpus"), "a ps does not use a GPU", "give it to workers; remove it here")


def incomplete_service(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield what tf.data's service lacks: neither of its two roles does anything without the other."""
    found = {role.role: role for role in roles}
    for name, other in (("dispatcher", "data_worker"), ("data_worker", "dispatcher")):
        if name in found and other not in found:
            yield Problem(found[name].group, f"`{name}` without a {other}", f"put a host into the group `{other}`")


def far_data(roles: Sequence[RoleSettings]) -> Iterator[Problem]:
    """Yield a problem for every relative path of data that is to be on another machine."""
    for role in roles:
        path = role.values.data.path if role.values.data and role.reads_data else None
        if path is not None and not role.local and not path.startswith("/"):
            what = f"`data.path` must be an absolute path: it is one of {role.host}"
            yield Problem(role.at("data", "path"), what, "for example `path: /data/mnist`")
