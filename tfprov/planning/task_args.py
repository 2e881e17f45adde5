"""The wiring of a task: on its command line, in its environment, and in its spec."""

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from tfprov.filesystems.urls import scheme_of
from tfprov.model.cluster import Cluster, Task
from tfprov.model.setting_types import Strategy
from tfprov.settings.resolve import RoleSettings
from tfprov.wiring import FLAGS_VARIABLE, STRATEGY_VARIABLE, to_flags, to_names, to_tf_config

_DEFAULT_STRATEGY: Strategy = "between_graph"

_PYTHON = re.compile(r"python[0-9.]*")

_DATA_CLIENTS = ("chief", "worker", "data_worker")
"""Jobs that get the address of tf.data's service."""

_COMMANDS: dict[str, Sequence[str]] = {
    "tensorboard": ("tensorboard", "--logdir={dir}", "--host={listen_on}", "--port={port}"),
    "serving": (
        *("python", "-m", "tfprov.runtime.serving", "--host={listen_on}", "--rest_api_port={port}"),
        *("--model_name={model_name}", "--model_base_path={model_base_path}"),
    ),
    "notebook": ("python", "-m", "tfprov.runtime.notebook", "--ip={listen_on}", "--port={port}"),
    "dispatcher": (
        *("python", "-m", "tfprov.runtime.data_service", "dispatcher"),
        *("--port={port}", "--work_dir={dir}"),
    ),
    "data_worker": (
        *("python", "-m", "tfprov.runtime.data_service", "worker"),
        *("--port={port}", "--address={endpoint}", "--dispatcher={service}"),
    ),
}


_BARE_SERVER = ("python", "-m", "tfprov.runtime.server")
_TENSORFLOW_SERVING = (
    *("tensorflow_model_server", "--port=0", "--rest_api_port={port}"),
    *("--model_name={model_name}", "--model_base_path={model_base_path}"),
)
"""TensorFlow Serving without its gRPC port."""


def default_command(cluster: Cluster, task: Task, role: RoleSettings, directory: str, listen_on: str) -> list[str]:
    """Return the default command of a role in DEFAULT_COMMANDS; it serves on the address `listen_on`."""
    service = (cluster.data_service or "").removeprefix("grpc://")
    models = role.values.serving.model_base_path
    values = {
        "dir": directory,
        "listen_on": listen_on,
        "port": task.port,
        "endpoint": task.endpoint,
        "service": service,
        "model_name": role.values.serving.model_name,
        "model_base_path": models if scheme_of(models) else posixpath.join(directory, models),
    }
    return [word.format(**values) for word in _default_words(task, role)]


def _default_words(task: Task, role: RoleSettings) -> Sequence[str]:
    if task.trains:  # with `strategy: standalone`
        return _BARE_SERVER
    if task.role == "serving" and role.values.serving.server == "tensorflow_serving":
        return _TENSORFLOW_SERVING
    return _COMMANDS[task.role]


CHECKPOINT_URL = "TFPROV_CHECKPOINT_URL"
"""The variable with the remote directory of a task whose checkpoints are copied there."""


def gate_command(command: Sequence[str], only: Sequence[int], never: Sequence[int]) -> list[str]:
    """Return what goes before the command of a container that is restarted by exit code: its engine cannot do that."""
    if not (only or never):
        return []
    options = [("--only", only), ("--never", never)]
    words = [word for name, codes in options if codes for word in (name, ",".join(map(str, codes)))]
    return [_python_of(command), "-m", "tfprov.runtime.restart_gate", *words, "--"]


def mirror_command(command: Sequence[str], *, in_container: bool) -> list[str]:
    """Return what goes before the command of a task whose checkpoints are copied to a remote directory.

    It runs in the Python of the program where that is one. Under the process runtime, signals are for the whole group.
    """
    return [_python_of(command), "-m", "tfprov.runtime.mirror.task", *(() if in_container else ("--group",)), "--"]


def _python_of(command: Sequence[str]) -> str:
    return command[0] if _PYTHON.fullmatch(posixpath.basename(command[0])) else "python3"


def cluster_variables(cluster: Cluster, task: Task) -> dict[str, str | int]:
    """Return the values of CLUSTER_VARIABLES for `command`, `flags` and `env`.

    Tasks that train have a rank, the chief 0; a ps and tasks outside of the ClusterSpec have none.
    """
    return {
        "ps_hosts": ",".join(cluster.spec.get("ps", ())),
        "worker_hosts": ",".join(cluster.spec.get("worker", ())),
        "chief_address": cluster.chief.endpoint,
        "world_size": len(cluster.ranks),
        **({"rank": cluster.ranks[task.name]} if task.name in cluster.ranks else {}),
    }


def wiring_flags(cluster: Cluster, task: Task, role: RoleSettings) -> list[str]:
    """Return the wiring flags of a task."""
    by_flags = role.values.by_flags and _needs_wiring(task)
    return to_flags(cluster.wiring(task), role.values.flag_names) if by_flags else []


def _needs_wiring(task: Task) -> bool:
    """Whether a task gets the wiring; those that people reach over HTTP, and tasks of tf.data's service, do not."""
    return not (task.feeds or task.is_web)


def _gets_tf_config(task: Task, role: RoleSettings) -> bool:
    """Whether a task gets TF_CONFIG. With `strategy: single` an evaluator does: else its program would train, too."""
    return _needs_wiring(task) and (role.values.strategy != "single" or task.job == "evaluator")


def environment(cluster: Cluster, task: Task, role: RoleSettings, data: str | None) -> dict[str, str]:
    """Return the environment variables of a task's wiring, strategy and `data` directory."""
    values = role.values
    names = values.flag_names if values.by_flags and _needs_wiring(task) else {}
    variables: dict[str, str | None] = {
        "TFPROV_CLUSTER": cluster.name,
        "TFPROV_TASK": task.name,
        STRATEGY_VARIABLE: values.strategy,
        "TFPROV_DATA_SERVICE": cluster.data_service if task.job in _DATA_CLIENTS else None,
        "TFPROV_DATA_DIR": data if role.reads_data else None,
        "TF_CONFIG": to_tf_config(cluster.wiring(task)) if _gets_tf_config(task, role) else None,
        FLAGS_VARIABLE: to_names(names) if names else None,
    }
    return {name: value for name, value in variables.items() if value}


def wiring_spec(cluster: Cluster, task: Task, role: RoleSettings) -> dict[str, Any]:
    """Return the wiring's part of a task's spec. Defaults are left out, so that a new field restarts nothing.

    Tasks that people reach over HTTP have none, and a data worker only the address of its dispatcher: another worker must
    not restart them.
    """
    values = role.values
    if not _needs_wiring(task):
        service = {"data_service": cluster.data_service}
        return service if task.role == "data_worker" else {}
    hosts = {f"{job}_hosts": list(addresses) for job, addresses in cluster.spec.items()}
    is_wired = _gets_tf_config(task, role)
    style = {"style": "flags" if values.by_flags else "tf_config"} if is_wired else {}
    names = values.flag_names if values.by_flags else {}
    return {
        **style,
        **({"strategy": values.strategy} if values.strategy != _DEFAULT_STRATEGY else {}),
        **({"names": dict(names)} if names else {}),
        "job_name": task.job,
        "task_index": task.index,
        **(hosts if is_wired else {}),
        **({"data_service": cluster.data_service} if cluster.data_service and task.job in _DATA_CLIENTS else {}),
    }
