"""What a task is told of the cluster: on its command line, in its environment, and in its spec, which is compared."""

from collections.abc import Sequence
from typing import Any

from tfprov.model.cluster import Cluster, Task
from tfprov.model.settings import Strategy
from tfprov.settings.resolve import RoleSettings
from tfprov.wiring import FLAGS_VARIABLE, STRATEGY_VARIABLE, to_flags, to_names, to_tf_config

_DEFAULT_STRATEGY: Strategy = "between_graph"

_ASKING = ("chief", "worker", "data_worker")
"""Jobs that are told where tf.data's service is."""

_COMMANDS: dict[str, Sequence[str]] = {
    "tensorboard": ("tensorboard", "--logdir={dir}", "--host={listens}", "--port={port}"),
    "dispatcher": (
        *("python", "-m", "tfprov.runtime.data_service", "dispatcher"),
        *("--port={port}", "--work_dir={dir}"),
    ),
    "data_worker": (
        *("python", "-m", "tfprov.runtime.data_service", "worker"),
        *("--port={port}", "--address={endpoint}", "--dispatcher={service}"),
    ),
}


def default_command(cluster: Cluster, task: Task, directory: str, listens: str) -> list[str]:
    """Return the command of a role that needs none of the user's; `listens` is the address on which it is to serve."""
    service = (cluster.data_service or "").removeprefix("grpc://")
    values = {"dir": directory, "listens": listens, "port": task.port, "endpoint": task.endpoint, "service": service}
    return [word.format(**values) for word in _COMMANDS[task.role]]


def cluster_variables(cluster: Cluster, task: Task) -> dict[str, str | int]:
    """Return what `command`, `flags` and `env` may say of the cluster, by the names in OF_CLUSTER.

    Ranks are those of the tasks that train: the chief's is 0, and neither a ps nor a task beside the cluster has one.
    """
    order = [one.name for one in cluster.tasks if one.trains and one.job != "ps"]
    order.sort(key=lambda name: name != cluster.chief.name)  # stable: the others stay in the order of their index
    rank = {"rank": order.index(task.name)} if task.name in order else {}
    return {
        "ps_hosts": ",".join(cluster.spec.get("ps", ())),
        "worker_hosts": ",".join(cluster.spec.get("worker", ())),
        "chief_address": cluster.chief.endpoint,
        "world_size": len(order),
        **rank,
    }


def wiring_flags(cluster: Cluster, task: Task, role: RoleSettings) -> list[str]:
    """Return the flags that tell a task who it is."""
    told = role.values.by_flags and _is_told(task)
    return to_flags(cluster.wiring(task), role.values.flag_names) if told else []


def _is_told(task: Task) -> bool:
    """Whether a task needs to know the cluster: neither a tensorboard nor a task of tf.data's service does."""
    return not (task.feeds or task.role == "tensorboard")


def environment(cluster: Cluster, task: Task, role: RoleSettings, data: str | None) -> dict[str, str]:
    """Return the variables that tell a task who it is, how all train, and where it finds its `data`."""
    values = role.values
    names = values.flag_names if values.by_flags and _is_told(task) else {}
    found = {
        "TFPROV_CLUSTER": cluster.name,
        "TFPROV_TASK": task.name,
        STRATEGY_VARIABLE: values.strategy,
        "TFPROV_DATA_SERVICE": (cluster.data_service or "") if task.job in _ASKING else "",
        "TFPROV_DATA_DIR": (data or "") if role.reads_data else "",
        "TF_CONFIG": to_tf_config(cluster.wiring(task)) if values.strategy != "single" and _is_told(task) else "",
        FLAGS_VARIABLE: to_names(names) if names else "",
    }
    return {name: value for name, value in found.items() if value}


def wiring_spec(cluster: Cluster, task: Task, role: RoleSettings) -> dict[str, Any]:
    """Return what of this counts as a change. What is as it always was is left out, so that nobody restarts for it.

    A tensorboard is told nothing about the cluster, and a task of tf.data's service only where its dispatcher is: a
    worker more or less is no reason to restart them.
    """
    values = role.values
    if not _is_told(task):
        service = {"data_service": cluster.data_service}
        return service if task.role == "data_worker" else {}
    hosts = {f"{job}_hosts": list(addresses) for job, addresses in cluster.spec.items()}
    style = {"style": "flags" if values.by_flags else "tf_config"} if values.strategy != "single" else {}
    names = values.flag_names if values.by_flags else {}
    return {
        **style,
        **({"strategy": values.strategy} if values.strategy != _DEFAULT_STRATEGY else {}),
        **({"names": dict(names)} if names else {}),
        "job_name": task.job,
        "task_index": task.index,
        **(hosts if values.strategy != "single" else {}),
        **({"data_service": cluster.data_service} if cluster.data_service and task.job in _ASKING else {}),
    }
